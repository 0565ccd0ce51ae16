//! Processes that serve, ended with this one.

use anyhow::{Context as _, Result};
use greenwave::Address;
use greenwave_bench::pin;
use greenwave_bench::process::{Ending, Process, ServerProcess};
use std::process::Command;
use std::time::Duration;

use crate::rival::stage::StageArgs;

/// How long a service may take to listen: the first time it makes an index of what it serves.
const FIRST_TIME: Duration = Duration::from_secs(900);

/// The processes of a service, and where it listens.
pub(crate) struct Serving {
    _processes: Processes,
    pub(crate) address: Address,
}

/// They end with this.
enum Processes {
    /// A `greenwave serve`, which ends its own processes before it ends.
    One { _process: Process },
    /// One for each stage.
    Each { _stages: Vec<ServerProcess> },
}

impl Serving {
    /// Starts `greenwave` with these arguments and waits until it says where it listens.
    ///
    /// # Errors
    /// When it can't be started, or ends before it listens.
    pub(crate) fn start(arguments: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("this program's own path")?.with_file_name("greenwave");
        let mut command = Command::new(program);
        command.args(arguments);
        let mut process = Process::start(command, &[])?.ended_by(Ending::Term);
        // Where its stages listen it tells on its standard error.
        let line = process.wait_for_output(|line| ready(line).is_some(), FIRST_TIME)?;
        let address = ready(&line).context("where it listens")?;
        Ok(Self { _processes: Processes::One { _process: process }, address })
    }

    /// Starts a chain of stages, the first of which is called: from the last to the first, as each has to know the next.
    ///
    /// # Errors
    /// When one can't be started, or ends before it listens.
    pub(crate) fn chain(stages: Vec<StageArgs>) -> Result<Self> {
        let mut started = Vec::new();
        let mut behind = Vec::new();
        for stage in stages.into_iter().rev() {
            let (process, address) = start(&StageArgs { behind, ..stage })?;
            started.push(process);
            behind = vec![address];
        }
        Self::each(started, behind.pop())
    }

    /// Starts shards, and an aggregator in front of them, which is called.
    ///
    /// # Errors
    /// When one can't be started, or ends before it listens.
    pub(crate) fn unit(aggregator: StageArgs, shards: impl Iterator<Item = StageArgs>) -> Result<Self> {
        let shards = shards.map(|shard| start(&shard)).collect::<Result<Vec<_>>>()?;
        let (mut started, behind): (Vec<_>, Vec<_>) = shards.into_iter().unzip();
        let (process, address) = start(&StageArgs { behind, ..aggregator })?;
        started.push(process);
        Self::each(started, Some(address))
    }

    fn each(stages: Vec<ServerProcess>, address: Option<Address>) -> Result<Self> {
        Ok(Self { _processes: Processes::Each { _stages: stages }, address: address.context("there are no stages")? })
    }
}

/// Starts a stage, and waits until it listens.
fn start(stage: &StageArgs) -> Result<(ServerProcess, Address)> {
    let mut command = Command::new(std::env::current_exe().context("this program's own path")?);
    command.arg("stage").args(stage.words());
    let process = ServerProcess::start(command, stage.core)?;
    let address = process.address.parse().with_context(|| format!("{} is no address", process.address))?;
    Ok((process, address))
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
