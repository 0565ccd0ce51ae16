//! The processes of a benchmark, and what they and their starter say to each other.
//!
//! Protocol: a process says in a line when it is ready, and answers each line of its standard input with one. It ends
//! when its standard input does, and so never outlives its starter. Nothing is waited for without end: what isn't said
//! in time is an error.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::Path;
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::pin;

/// How long a process may take to start, and to answer a question that takes no time.
pub const SOON: Duration = Duration::from_secs(60);
/// How long it may take to clear up after itself.
const CLEARING_UP: Duration = Duration::from_secs(3);
/// What a server says when it listens.
const LISTENS: &str = "listens on ";

/// How a process is ended when its handle is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By SIGKILL.
    Kill,
    /// By the end of its input, after which it is waited for.
    Input,
    /// By SIGTERM, and by SIGKILL if it goes on.
    Term,
}

/// A running process. It ends with this handle.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Line>,
    ending: Ending,
}

/// What a process said.
#[derive(Debug)]
struct Line {
    text: String,
    /// On its standard output.
    is_output: bool,
}

impl Process {
    /// Starts a process on these cores, on any if there are none.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(command: Command, cores: &[usize]) -> anyhow::Result<Self> {
        Self::start_by(command, |command| pin::spawn(command, cores))
    }

    /// Starts a process by `spawn`, which decides where.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start_by(
        mut command: Command,
        spawn: impl FnOnce(&mut Command) -> anyhow::Result<Child>,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(&mut command)?;
        let (sender, lines) = channel();
        child.stdout.take().into_iter().for_each(|stream| pass_on(stream, true, sender.clone()));
        child.stderr.take().into_iter().for_each(|stream| pass_on(stream, false, sender.clone()));
        Ok(Self { what: shown(&command), input: child.stdin.take(), child, lines, ending: Ending::Kill })
    }

    /// The same process, to be ended in another way than by SIGKILL.
    #[must_use]
    pub fn ended_by(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Waits for the next line that `is_it`, and returns it.
    ///
    /// # Errors
    /// When the process ends before, or takes longer than `limit`; with what it said instead.
    pub fn wait_for(&mut self, is_it: impl Fn(&str) -> bool, limit: Duration) -> anyhow::Result<String> {
        self.wait(|line| is_it(&line.text), limit)
    }

    /// The same of lines of its standard output: those of its standard error may look alike, such as when it tells where
    /// processes of its own listen.
    ///
    /// # Errors
    /// Those of [`wait_for`](Self::wait_for).
    pub fn wait_for_output(&mut self, is_it: impl Fn(&str) -> bool, limit: Duration) -> anyhow::Result<String> {
        self.wait(|line| line.is_output && is_it(&line.text), limit)
    }

    fn wait(&mut self, is_it: impl Fn(&Line) -> bool, limit: Duration) -> anyhow::Result<String> {
        let mut said = Vec::new();
        let over = loop {
            match self.lines.recv_timeout(limit) {
                Ok(line) if is_it(&line) => return Ok(line.text),
                Ok(line) => said.push(line.text),
                Err(over) => break over,
            }
        };
        let how = match over {
            RecvTimeoutError::Timeout => format!("took longer than {limit:?}"),
            RecvTimeoutError::Disconnected => format!("ended before its time ({})", self.child.wait()?),
        };
        bail!("{} {how}; it said: {}", self.what, said.join("; "))
    }

    /// Asks a question, and returns the next line that looks like an answer to it.
    ///
    /// # Errors
    /// Those of [`wait_for`](Self::wait_for).
    pub fn ask(&mut self, question: &str, is_answer: impl Fn(&str) -> bool, limit: Duration) -> anyhow::Result<String> {
        // If it is gone, waiting says so, and says more.
        let _ = self.input.as_mut().map(|input| writeln!(input, "{question}"));
        self.wait_for(is_answer, limit)
    }

    /// The last line of its standard output that hasn't been looked at; `None` if it has said nothing since. What was said
    /// before is forgotten.
    pub fn latest(&mut self) -> Option<String> {
        self.lines.try_iter().filter(|line| line.is_output).last().map(|line| line.text)
    }

    /// The process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it runs, and what it said lately: for the message when something that needs it failed.
    pub fn state(&mut self) -> String {
        let how = match self.child.try_wait() {
            Ok(Some(status)) => format!("has ended ({status})"),
            Ok(None) => "runs".to_owned(),
            Err(error) => error.to_string(),
        };
        format!(
            "{} {how}; it said: {}",
            self.what,
            self.lines.try_iter().map(|line| line.text).collect::<Vec<_>>().join("; ")
        )
    }

    /// # Errors
    /// When it has ended by itself; with what it said.
    pub fn check(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.try_wait()?.is_none(), self.state());
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        match self.ending {
            Ending::Kill => {}
            Ending::Input => {
                self.input = None;
                let _ = self.child.wait();
            }
            Ending::Term => {
                let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
                // Its streams end when it does.
                while self.lines.recv_timeout(CLEARING_UP).is_ok() {}
            }
        }
        // It may have ended already; should it not, it has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server in a process of its own. It ends with this handle.
#[derive(Debug)]
pub struct ServerProcess {
    process: Process,
    /// Where it listens, as it said.
    pub address: String,
    /// The authority of its certificate, in the PEM format, if it has one.
    pub authority: Option<String>,
}

impl ServerProcess {
    /// Starts `command` on a core and waits until it listens.
    ///
    /// # Errors
    /// When it can't be started, or doesn't say in time that it listens.
    pub fn start(command: Command, core: usize) -> anyhow::Result<Self> {
        let mut process = Process::start(command, &[core])?;
        let line = process.wait_for(|line| line.starts_with(LISTENS), SOON)?;
        let (address, authority) = match line[LISTENS.len()..].split_once(' ') {
            Some((address, authority)) => (address.to_owned(), Some(authority.replace('|', "\n"))),
            None => (line[LISTENS.len()..].to_owned(), None),
        };
        Ok(Self { process, address, authority })
    }

    /// Where it listens, if that is a socket.
    ///
    /// # Errors
    /// When it isn't.
    pub fn socket(&self) -> anyhow::Result<SocketAddr> {
        self.address.parse().with_context(|| format!("the server says that it listens on {}", self.address))
    }

    /// The process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// [`Process::state`].
    pub fn state(&mut self) -> String {
        self.process.state()
    }

    /// [`Process::ask`], with [`SOON`] as the limit.
    ///
    /// # Errors
    /// Those of [`Process::wait_for`].
    pub fn ask(&mut self, question: &str, is_answer: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        self.process.ask(question, is_answer, SOON)
    }
}

/// Ends this process if it isn't dropped in time: a server that stops answering would otherwise be waited for for ever.
pub struct TimeLimit {
    _alive: Sender<()>,
}

impl TimeLimit {
    /// Watches something that is called `what` and should take no longer than `limit`.
    #[must_use]
    pub fn start(what: String, limit: Duration) -> Self {
        let (alive, ended) = channel();
        thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{what} didn't end within {limit:?}; run it alone to see why");
                process::exit(2);
            }
        });
        Self { _alive: alive }
    }
}

/// Says a line to who started this process, which ends if nobody listens.
pub fn say(line: impl Display) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        process::exit(0);
    }
}

/// Says where this process listens.
pub fn say_listening(address: impl Display) {
    say(format_args!("{LISTENS}{address}"));
}

/// [`say_listening`], with the authority of this process's certificate, in the PEM format.
pub fn say_listening_with(address: impl Display, authority: &str) {
    say(format_args!("{LISTENS}{address} {}", authority.replace('\n', "|")));
}

/// Whether there is no process of this number any more.
pub fn is_gone(id: u32) -> bool {
    !Path::new("/proc").join(id.to_string()).exists()
}

/// Answers each line of standard input, until it ends.
///
/// # Errors
/// Those of `answer`.
pub fn answer_all(mut answer: impl FnMut(&str) -> anyhow::Result<Option<String>>) -> anyhow::Result<()> {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        answer(&line)?.into_iter().for_each(say);
    }
    Ok(())
}

/// Ends this process when its standard input does.
pub fn end_with_starter() {
    thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        process::exit(0);
    });
}

/// Runs another program in place of this one. It is sent a signal when its starter ends, since that outlives the exec.
///
/// # Errors
/// When it can't be run, or the starter has ended.
pub fn become_program(words: &[OsString], signal: Signal) -> anyhow::Result<()> {
    let starter = parent_id();
    set_parent_process_death_signal(Some(signal))?;
    ensure!(parent_id() == starter, "who started this has ended");
    let (program, arguments) = words.split_first().context("no program is named")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("can't run {}", program.display()))
}

fn pass_on(stream: impl Read + Send + 'static, is_output: bool, to: Sender<Line>) {
    thread::spawn(move || {
        for text in BufReader::new(stream).lines().map_while(Result::ok) {
            if to.send(Line { text, is_output }).is_err() {
                break;
            }
        }
    });
}

fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    [program].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, ending: Ending) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, &[]).expect("there is a shell").ended_by(ending)
    }

    #[test]
    fn a_process_is_waited_for_and_asked() {
        let mut echo =
            shell("echo warning >&2; echo ready; while read line; do echo \"got $line\"; done", Ending::Input);
        assert_eq!(echo.wait_for(|line| line == "ready", SOON).unwrap(), "ready");
        assert_eq!(echo.ask("this", |line| line.starts_with("got"), SOON).unwrap(), "got this");
        assert!(echo.check().is_ok() && echo.state().contains("runs"));
    }

    #[test]
    fn what_others_than_the_process_say_is_not_its_output() {
        let mut server = shell("echo 'listening 1' >&2; echo 'listening 2'; read line", Ending::Kill);
        assert_eq!(server.wait_for_output(|line| line.starts_with("listening"), SOON).unwrap(), "listening 2");
    }

    #[test]
    fn of_what_was_said_meanwhile_the_last_line_counts() {
        let mut counting = shell("echo 1; echo 2; echo 3 >&2; read line; echo 4", Ending::Kill);
        counting.wait_for(|line| line == "1", SOON).unwrap();
        let begun = std::time::Instant::now();
        let mut last = None;
        while begun.elapsed() < SOON && last.as_deref() != Some("2") {
            last = counting.latest().or(last);
        }
        assert_eq!((last.as_deref(), counting.latest()), (Some("2"), None));
    }

    #[test]
    fn a_process_that_ends_is_an_error_with_what_it_said() {
        let mut ended = shell("echo this is why; exit 3", Ending::Kill);
        let error = ended.wait_for(|line| line == "ready", SOON).unwrap_err().to_string();
        assert!(error.contains("this is why") && error.contains("exit status: 3"), "{error}");
        assert!(ended.check().is_err());
    }

    #[test]
    fn a_process_that_says_nothing_in_time_is_an_error() {
        let mut silent = shell("read line", Ending::Kill);
        let error = silent.wait_for(|_| true, Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("took longer than 1ms"), "{error}");
    }

    #[test]
    fn a_server_says_where_it_listens_and_who_vouches_for_it() {
        let server = |said: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo '{said}'; read line")]);
            ServerProcess::start(command, pin::last().unwrap()).unwrap()
        };
        let plain = server("listens on 127.0.0.1:7");
        assert_eq!((plain.socket().unwrap(), plain.authority.as_deref()), ("127.0.0.1:7".parse().unwrap(), None));
        assert_eq!(server("listens on shm://x a|b").authority.as_deref(), Some("a\nb"));
    }

    #[test]
    fn sigterm_lets_a_process_clear_up() {
        let file = std::env::temp_dir().join(format!("greenwave-bench-term-{}", process::id()));
        let script = format!("trap ': >{}; exit' TERM; echo ready; read line", file.display());
        let mut process = shell(&script, Ending::Term);
        process.wait_for(|line| line == "ready", SOON).unwrap();
        drop(process);
        std::fs::remove_file(&file).expect("it was made at the end");
    }
}
