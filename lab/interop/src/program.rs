//! Programs that are run to their end, or to the end of patience.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    /// Its exit code; `None` if it was ended by a signal, could not be run, or took too long.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) out: String,
    /// What it printed on standard error.
    pub(crate) err: String,
    /// Why there is no code.
    how: String,
}

impl Ended {
    /// How it ended, and the last that it said.
    pub(crate) fn why(&self) -> String {
        let how = self.code.map_or_else(|| self.how.clone(), |code| format!("exit code {code}"));
        let said = if self.err.trim().is_empty() { &self.out } else { &self.err };
        let last: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match last.last() {
            Some(line) => format!("{how}: {}", shortened(line)),
            None => how,
        }
    }
}

/// Runs a program with nothing to read; ends it when it takes longer than `limit`.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let how = format!("`{}` can't be run ({error})", command.get_program().display());
            return Ended { how, ..Ended::default() };
        }
    };
    let out = child.stdout.take().map(|stream| thread::spawn(|| all_of(stream)));
    let err = child.stderr.take().map(|stream| thread::spawn(|| all_of(stream)));
    let begun = Instant::now();
    let (code, how) = loop {
        match child.try_wait() {
            Ok(Some(status)) => break (status.code(), status.to_string()),
            Ok(None) if begun.elapsed() > limit => {
                // It may have ended meanwhile, which is as well.
                let _ = child.kill();
                let _ = child.wait();
                break (None, format!("took longer than {limit:?}"));
            }
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Err(error) => break (None, error.to_string()),
        }
    };
    let text = |reader: Option<thread::JoinHandle<String>>| reader.and_then(|it| it.join().ok()).unwrap_or_default();
    Ended { code, out: text(out), err: text(err), how }
}

/// A line for a table.
pub(crate) fn shortened(line: &str) -> String {
    const MOST: usize = 240;
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    if line.len() <= MOST { line } else { format!("{}…", &line[..line.floor_char_boundary(MOST)]) }
}

fn all_of(mut stream: impl Read) -> String {
    let mut all = Vec::new();
    // What was read before an error is what there is.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        run(Command::new("sh").args(["-c", script]), limit)
    }

    #[test]
    fn a_program_says_how_it_ended_and_why() {
        let ended = shell("echo begun; echo 'no such thing' >&2; exit 3", Duration::from_secs(60));
        assert_eq!((ended.code, ended.why().as_str()), (Some(3), "exit code 3: no such thing"));
        assert_eq!(ended.out, "begun\n");
    }

    #[test]
    fn a_program_that_goes_on_is_ended() {
        let ended = shell("exec cat /dev/zero >/dev/null", Duration::from_millis(10));
        assert_eq!(ended.code, None);
        assert!(ended.why().starts_with("took longer than"), "{}", ended.why());
    }

    #[test]
    fn what_is_not_there_is_said() {
        let ended = run(&mut Command::new("/no/such/program"), Duration::from_secs(60));
        assert!(ended.why().contains("can't be run"), "{}", ended.why());
    }
}
