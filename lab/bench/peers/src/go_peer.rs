//! gRPC for Go: a server and a client of our own in `lab/bench/peers/go`, built with `go build` when they are needed.
//!
//! The client has a harness of its own that measures as ours does and prints the same figures.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::Context;

use crate::harness::Figures;
use crate::run::Run;
use greenwave_bench::pin;
use greenwave_bench::process::ServerProcess;
use greenwave_bench::tools::{self, Missing};

/// Builds it once; why it's not there, if it isn't.
pub(crate) fn binary() -> Result<&'static Path, &'static Missing> {
    static BINARY: LazyLock<Result<PathBuf, Missing>> = LazyLock::new(|| {
        let binary = tools::folder().join("grpc-go");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&binary).arg(".");
        build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go"));
        tools::build(&mut build, "install Go 1.26 or newer (https://go.dev/dl)")?;
        Ok(binary)
    });
    BINARY.as_deref()
}

pub(crate) fn server(run: &Run) -> anyhow::Result<Command> {
    let mut command = Command::new(binary()?);
    command.arg("serve");
    if run.variant.starts_with("workers") {
        command.arg("-workers");
    }
    Ok(command)
}

/// Runs the client on its core.
pub(crate) fn drive(server: &ServerProcess, run: &Run) -> anyhow::Result<Figures> {
    let connections = if run.variant.ends_with("4-connections") { 4 } else { 1 };
    let mut client = Command::new(binary()?);
    client.args(["drive", "-address", &server.address]);
    client.args(["-bytes", &run.case.bytes.to_string()]);
    client.args(["-in-flight", &run.case.in_flight.to_string()]);
    client.args(["-connections", &connections.to_string()]);
    client.args(["-warm-up", &format!("{}us", run.warm_up().as_micros())]);
    client.args(["-time", &format!("{}us", run.time.as_micros())]);
    let client = pin::spawn(client.stdout(Stdio::piped()), &[run.cores.client])?;
    let output = client.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "the client of gRPC for Go ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("the client of gRPC for Go printed no figures")
}
