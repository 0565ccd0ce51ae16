//! Processes that serve, ended with this one.

use anyhow::{Context as _, Result, bail};
use greenwave::Address;
use greenwave_bench::pin;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// A `greenwave serve`, and where it listens.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: Address,
}

impl Serving {
    /// Starts `greenwave` with these arguments and waits until it says where it listens.
    ///
    /// # Errors
    /// When it can't be started, or ends before it listens.
    pub(crate) fn start(arguments: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("this program's own path")?.with_file_name("greenwave");
        let called = || format!("{} {}", program.display(), arguments.join(" "));
        let mut command = Command::new(&program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("can't start {}", called()))?;
        let said = child.stderr.take().map(keep_last);
        let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let address = lines.map_while(Result::ok).find_map(|line| ready(&line));
        let Some(address) = address else {
            let status = child.wait().context("waiting for a process")?;
            let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
            bail!("{} ended before it listened: {status}\n{said}", called());
        };
        Ok(Self { child, address })
    }
}

impl Drop for Serving {
    /// It ends its own processes before it ends, and bounds the time that this takes.
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself, which is what is wanted.
            let _gone = kill_process(pid, Signal::TERM);
        }
        let _reaped = self.child.wait();
    }
}

/// Reads what a process says, so that it never waits for a reader, and keeps the end of it.
fn keep_last(stderr: impl Read + Send + 'static) -> JoinHandle<String> {
    const LINES: usize = 12;
    std::thread::spawn(move || {
        let mut last: Vec<String> = Vec::new();
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if last.len() == LINES {
                last.remove(0);
            }
            last.push(line);
        }
        last.join("\n")
    })
}

/// The address in the line that a server prints when it listens: `listening tcp://127.0.0.1:7000 name=...`.
fn ready(line: &str) -> Option<Address> {
    line.strip_prefix("listening ")?.split_whitespace().next()?.parse().ok()
}

/// Keeps the calling thread on one core. Where that is forbidden it goes on unpinned.
pub(crate) fn pin(core: usize) {
    if let Err(error) = pin::this_thread(core) {
        eprintln!("note: not pinned: {error:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_says_where_a_server_listens() {
        let address = "tcp://127.0.0.1:7100".parse().ok();
        assert_eq!(ready("listening tcp://127.0.0.1:7100 name=profile"), address);
        assert_eq!(ready("indexing"), None);
    }
}
