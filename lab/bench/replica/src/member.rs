//! A replica's process.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use greenwave_bench::pin;
use greenwave_bench::process::Process;

/// A process that can be killed and started again. It is killed when this is dropped, and when this program ends in
/// whatever way.
pub(crate) struct Member {
    words: Vec<OsString>,
    variables: Vec<(&'static str, String)>,
    cores: Vec<usize>,
    process: Option<Process>,
}

impl Member {
    /// Starts a program on the servers' cores.
    pub(crate) fn start(
        program: &Path,
        words: Vec<OsString>,
        variables: &[(&'static str, String)],
    ) -> anyhow::Result<Self> {
        let words = [OsString::from("guard"), "--".into(), program.into()].into_iter().chain(words).collect();
        let (cores, _) = pin::several_servers()?;
        let mut member = Self { words, variables: variables.to_vec(), cores, process: None };
        member.restart()?;
        Ok(member)
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        let mut command = Command::new(env::current_exe().context("can't tell where this program is")?);
        command.args(&self.words).envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(command, &self.cores)?);
        Ok(())
    }

    /// Ends it by SIGKILL, if it runs, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// The id of its process, if it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// An error with what it said, if it has ended although nobody killed it.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::check)
    }
}
