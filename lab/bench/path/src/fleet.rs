//! Processes that serve, ended with this one.

use anyhow::{Context as _, Result};
use greenwave::Address;
use greenwave_bench::pin;
use greenwave_bench::process::{Ending, Process};
use std::process::Command;
use std::time::Duration;

/// How long a service may take to listen: the first time it makes an index of what it serves.
const FIRST_TIME: Duration = Duration::from_secs(900);

/// A `greenwave serve`, and where it listens. It ends its own processes before it ends.
pub(crate) struct Serving {
    _process: Process,
    pub(crate) address: Address,
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
        let line = process.wait_for(|line| ready(line).is_some(), FIRST_TIME)?;
        Ok(Self { _process: process, address: ready(&line).context("where it listens")? })
    }
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
