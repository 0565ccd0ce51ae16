//! A run in a process of its own: nothing else is in its memory, and nothing else on its core.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use greenwave_bench::process::{self, Process};
use greenwave_bench::rounds::Figures;
use serde::{Deserialize, Serialize};

use crate::{seeds, speed};

/// No run takes as long.
const LIMIT: Duration = Duration::from_secs(600);

/// What is simulated.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    /// Which case
    #[arg(long)]
    pub(crate) case: String,
    /// What all chance comes from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many jobs or flows
    #[arg(long)]
    pub(crate) jobs: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) figures: Figures,
    /// Of all events, if they are hashed.
    #[serde(default)]
    pub(crate) hash: Option<String>,
}

impl Run {
    /// Simulates, in this process.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut outcome = match seeds::named(&self.case) {
            Some(case) => seeds::run(&case, self.jobs, self.seed)?,
            None => speed::named(&self.case).context("there is no such case")?.run(self.jobs, self.seed)?,
        };
        outcome.figures.insert("peak_mib".to_owned(), peak_mib()?);
        process::say(serde_json::to_string(&outcome)?);
        Ok(())
    }

    /// The command that does.
    pub(crate) fn command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--case", &self.case]);
        command.args(["--seed", &self.seed.to_string(), "--jobs", &self.jobs.to_string()]);
        Ok(command)
    }
}

/// What a command's line of JSON says, which runs on these cores, on any if there are none.
pub(crate) fn outcome(command: Command, cores: &[usize]) -> anyhow::Result<Outcome> {
    let line = Process::start(command, cores)?.wait_for(|line| line.starts_with('{'), LIMIT)?;
    serde_json::from_str(&line).with_context(|| format!("it said `{line}`"))
}

/// The most memory that this process had.
fn peak_mib() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Ok(peak.context("the kernel doesn't tell how much memory this had")?.parse::<f64>()? / 1024.0)
}
