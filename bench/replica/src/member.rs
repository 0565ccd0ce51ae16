//! A replica's process.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::cores::Cores;

/// A process that can be killed and started again. It is killed when this is dropped, and when this program ends in
/// whatever way.
pub(crate) struct Member {
    program: PathBuf,
    words: Vec<OsString>,
    variables: Vec<(&'static str, String)>,
    cores: String,
    said: PathBuf,
    child: Option<Child>,
}

impl Member {
    /// Starts a program on the servers' cores. What it says goes to the file `said`.
    pub(crate) fn start(
        program: PathBuf,
        words: Vec<OsString>,
        variables: Vec<(&'static str, String)>,
        said: PathBuf,
    ) -> anyhow::Result<Self> {
        let cores: Vec<String> = Cores::of_this_machine()?.servers.iter().map(usize::to_string).collect();
        let mut member = Self { program, words, variables, cores: cores.join(","), said, child: None };
        member.restart()?;
        Ok(member)
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        let said = File::options().create(true).append(true).open(&self.said);
        let said = said.with_context(|| format!("can't write {}", self.said.display()))?;
        let own = env::current_exe().context("can't tell where this program is")?;
        let mut command = Command::new(own);
        command.args(["guard", "--cores", &self.cores, "--"]).arg(&self.program).args(&self.words);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        self.child = Some(command.spawn().with_context(|| format!("can't start {}", self.program.display()))?);
        Ok(())
    }

    /// Ends it by SIGKILL, if it runs, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// An error with the last that it said, if it has ended although nobody killed it.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let Some(status) = child.try_wait()? else { return Ok(()) };
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        bail!("{} ended ({status}); it said: {}", self.program.display(), last.join(" | "))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs another program in place of this one, on these cores. It is killed when its starter ends.
pub(crate) fn guard(cores: &[usize], words: &[OsString]) -> anyhow::Result<()> {
    let starter = parent_id();
    set_parent_process_death_signal(Some(Signal::KILL))?;
    ensure!(parent_id() == starter, "who started this has ended");
    let mut set = CpuSet::new();
    for &core in cores {
        ensure!(core < CpuSet::MAX_CPU, "there is no core {core}; choose one below {}", CpuSet::MAX_CPU);
        set.set(core);
    }
    sched_setaffinity(None, &set).context("can't run on the cores named; see `nproc`")?;
    let (program, arguments) = words.split_first().context("no program is named")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("can't run {}", program.display()))
}
