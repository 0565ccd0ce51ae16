//! A process of the testbed, as its starter has it: one of [`crate::load`], or the agent.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use greenwave_bench::process::{Ending, Process, SOON};
pub use greenwave_bench::rounds::Figures;

use crate::testbed::{Node, Testbed};

/// A running process. It ends with this value.
#[derive(Debug)]
pub struct Role(Process);

impl Role {
    /// Starts a command at a node, pinned to a core if one is given, and waits until it prints a line that begins with
    /// `word`.
    ///
    /// # Errors
    /// When it can't be started, or ends or says nothing of the kind in time.
    pub fn start(
        testbed: &Testbed,
        node: Node,
        core: Option<usize>,
        command: Command,
        word: &str,
    ) -> anyhow::Result<Self> {
        let spawn = |command: &mut Command| Ok(testbed.spawn(node, core, command)?);
        let mut process = Process::start_by(command, spawn).with_context(|| format!("at {node}"))?;
        process.wait_for(|line| line.starts_with(word), SOON).with_context(|| format!("at {node}"))?;
        Ok(Self(process))
    }

    /// Ends it by SIGTERM, so that it clears up.
    #[must_use]
    pub fn clearing_up(self) -> Self {
        Self(self.0.ended_by(Ending::Term))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// What it has measured, when it has done so: in `time` at the latest, and some more to be sure.
    ///
    /// # Errors
    /// When it ends or takes longer.
    pub fn figures(&mut self, time: Duration) -> anyhow::Result<Figures> {
        // At its head only: an error's backtrace has braces too.
        let line = self.0.wait_for(|line| line.starts_with('{'), time + SOON)?;
        serde_json::from_str(&line).with_context(|| format!("something else than figures was printed: {line}"))
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

    /// How it is and what it said lately, for the message when something that needs it failed.
    pub fn state(&mut self) -> String {
        self.0.state()
    }

    fn answer(&mut self, question: &str) -> anyhow::Result<(f64, f64)> {
        let line = self.0.ask(question, |line| line.starts_with(|c: char| c.is_ascii_digit()), SOON)?;
        let both = line.split_once(' ').and_then(|(count, nanos)| Some((count.parse().ok()?, nanos.parse().ok()?)));
        let (count, nanos): (f64, f64) = both.with_context(|| format!("`{line}` is no count"))?;
        Ok((count, nanos / 1e9))
    }
}
