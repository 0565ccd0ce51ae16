//! libfabric's shared memory without anything above it: the C program `lab/bench/peers/fabric/ping_pong.c`.
//!
//! It pins and measures both sides itself and prints a line of JSON. It measures a number of round trips, not a time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::Context;
use serde::Deserialize;

use crate::run::Run;
use greenwave_bench::rounds::{Figures, figures};
use greenwave_bench::tools::{self, Missing};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fabric/ping_pong.c");

/// Builds it once; why it's not there, if it isn't.
pub(crate) fn binary() -> Result<&'static Path, &'static Missing> {
    static BINARY: LazyLock<Result<PathBuf, Missing>> = LazyLock::new(|| {
        if !Path::new(SOURCE).exists() {
            return Err(Missing("there is no lab/bench/peers/fabric/ping_pong.c".to_owned()));
        }
        let binary = tools::folder().join("fabric-ping-pong");
        let mut build = Command::new("cc");
        build.args(["-O2", "-pthread", "-o"]).arg(&binary).args([SOURCE, "-lfabric"]);
        tools::build(&mut build, "install a C compiler and libfabric's headers (libfabric-dev)")?;
        Ok(binary)
    });
    BINARY.as_deref()
}

/// What it prints; times in nanoseconds.
#[derive(Deserialize)]
struct Printed {
    p50: f64,
    p99: f64,
    p999: f64,
    rate: f64,
}

pub(crate) fn drive(run: &Run) -> anyhow::Result<Figures> {
    // A round trip takes about a microsecond.
    let trips = run.time.as_micros().max(1000);
    let mut both = Command::new(binary()?);
    both.args(["shm", &run.case.bytes.to_string()]);
    both.args([run.cores.server, run.cores.client].map(|core| core.to_string())).arg(trips.to_string());
    let output = both.output()?;
    let wrong = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "fabric-ping-pong ended with {}: {wrong}", output.status);
    let Printed { p50, p99, p999, rate } =
        serde_json::from_slice(&output.stdout).context("fabric-ping-pong printed no figures")?;
    Ok(figures([("p50_us", p50 / 1e3), ("p99_us", p99 / 1e3), ("p999_us", p999 / 1e3), ("rate_per_s", rate)]))
}
