//! A process of the testbed, as its starter has it.
//!
//! The protocol is that of [`crate::load`]. Nothing is waited for without end: a process that says nothing in time is an
//! error, and ends with this value.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::testbed::{Place, Testbed};

/// What a run showed: figures by the names of their metrics, which say the unit.
pub type Figures = BTreeMap<String, f64>;

/// How long a process may take to start and to answer.
const SOON: Duration = Duration::from_secs(15);
/// How long it may take to clear up after itself.
const END: Duration = Duration::from_secs(3);

/// A running process.
#[derive(Debug)]
pub struct Role {
    what: String,
    child: Child,
    lines: Receiver<String>,
    /// Whether it has something to clear up and wants a signal to do so.
    clears_up: bool,
}

impl Role {
    /// Starts a command at a place and waits until it prints a line that begins with `word`.
    ///
    /// # Errors
    /// When it can't be started, or ends or says nothing of the kind in time.
    pub fn start(
        testbed: &Testbed,
        place: Place,
        core: Option<usize>,
        mut command: Command,
        word: &str,
    ) -> anyhow::Result<Self> {
        let what = format!("{} at {place}", shown(&command));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = testbed.spawn(place, core, &mut command)?;
        let (sender, lines) = channel();
        for stream in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)].into_iter().flatten() {
            pass_on(stream, sender.clone());
        }
        let mut role = Self { what, child, lines, clears_up: false };
        role.line(|line| line.starts_with(word), SOON)?;
        Ok(role)
    }

    /// Ends it by SIGTERM, so that it clears up, and not at once.
    #[must_use]
    pub fn clearing_up(mut self) -> Self {
        self.clears_up = true;
        self
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has measured, when it has done so: in `time` at the latest, and some more to be sure.
    ///
    /// # Errors
    /// When it ends or takes longer.
    pub fn figures(&mut self, time: Duration) -> anyhow::Result<Figures> {
        // At its head only: an error's backtrace has braces too.
        let line = self.line(|line| line.starts_with('{'), time + SOON)?;
        let what = &self.what;
        serde_json::from_str(&line).with_context(|| format!("{what} printed something else than figures: {line}"))
    }

    /// How much it has done so far, and the time of that in seconds of its clock.
    ///
    /// # Errors
    /// When it has ended or doesn't answer.
    pub fn count(&mut self) -> anyhow::Result<(f64, f64)> {
        self.answer("count")
    }

    /// Lets it do its work again, to the end; how much that was, and how many seconds it took.
    ///
    /// # Errors
    /// As for [`Self::count`].
    pub fn again(&mut self) -> anyhow::Result<(f64, f64)> {
        self.answer("again")
    }

    fn answer(&mut self, question: &str) -> anyhow::Result<(f64, f64)> {
        if let Some(stdin) = &mut self.child.stdin {
            writeln!(stdin, "{question}").with_context(|| format!("{} has ended", self.what))?;
        }
        let line = self.line(|_| true, SOON)?;
        let both = line.split_once(' ').and_then(|(count, nanos)| Some((count.parse().ok()?, nanos.parse().ok()?)));
        let (count, nanos): (f64, f64) = both.with_context(|| format!("{} counts `{line}`", self.what))?;
        Ok((count, nanos / 1e9))
    }

    fn line(&mut self, is_it: impl Fn(&str) -> bool, time: Duration) -> anyhow::Result<String> {
        let mut said = Vec::new();
        let over = loop {
            match self.lines.recv_timeout(time) {
                Ok(line) if is_it(&line) => return Ok(line),
                Ok(line) => said.push(line),
                Err(over) => break over,
            }
        };
        let how = match over {
            RecvTimeoutError::Timeout => format!("took longer than {time:?}"),
            RecvTimeoutError::Disconnected => format!("ended ({})", self.child.wait()?),
        };
        bail!("{} {how}; it said: {}", self.what, said.join("; "))
    }

    /// How it is and what it said lately, for the message when something that needs it failed.
    pub fn state(&mut self) -> String {
        let said: Vec<_> = self.lines.try_iter().collect();
        let how = match self.child.try_wait() {
            Ok(Some(status)) => format!("has ended ({status})"),
            Ok(None) => "runs".to_owned(),
            Err(error) => error.to_string(),
        };
        format!("{} {how}; it said: {}", self.what, said.join("; "))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        if self.clears_up
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && kill_process(pid, Signal::TERM).is_ok()
        {
            // Its streams end when it does.
            while self.lines.recv_timeout(END).is_ok() {}
        }
        // It may have ended already; should it not, it has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn boxed(stream: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(stream)
}

fn pass_on(stream: Box<dyn Read + Send>, to: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
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
