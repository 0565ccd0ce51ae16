//! SimPy: the same models of cores, written as its manual writes them.

use std::process::Command;

use crate::python;
use crate::speed::Peer;

const PACKAGE: &str = "simpy==4.1.2";
const MODEL: &str = include_str!("simpy/model.py");

/// Installs it.
pub(crate) fn prepare() -> anyhow::Result<()> {
    python::install(PACKAGE)
}

/// Which version there is.
pub(crate) fn version() -> anyhow::Result<String> {
    python::version("simpy")
}

/// Runs a model: prints a line of JSON.
pub(crate) fn command(peer: &Peer, jobs: u64, seed: u64) -> Command {
    let mut command = Command::new(python::interpreter());
    command.args(["-c", MODEL, peer.model, &peer.workers.to_string(), &jobs.to_string(), &seed.to_string()]);
    command
}
