//! libfabric's shared memory without anything above it: the C program `bench/peers/fabric/ping_pong.c`.
//!
//! It's called with the core of each side, the bytes of a message and the seconds to measure; it pins and measures
//! both sides itself and prints figures as a line of JSON.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::Context;

use crate::harness::Figures;
use crate::run::Run;
use crate::tools::{self, Missing};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fabric/ping_pong.c");

/// Builds it once; why it's not there, if it isn't.
pub(crate) fn binary() -> Result<&'static Path, &'static Missing> {
    static BINARY: LazyLock<Result<PathBuf, Missing>> = LazyLock::new(|| {
        if !Path::new(SOURCE).exists() {
            return Err(Missing("there is no bench/peers/fabric/ping_pong.c".to_owned()));
        }
        let binary = tools::folder().join("fabric-ping-pong");
        let mut build = Command::new("cc");
        build.args(["-O2", "-pthread", "-o"]).arg(&binary).args([SOURCE, "-lfabric"]);
        tools::build(&mut build, "install a C compiler and libfabric's headers (libfabric-dev)")?;
        Ok(binary)
    });
    BINARY.as_deref()
}

pub(crate) fn drive(run: &Run) -> anyhow::Result<Figures> {
    let mut both = Command::new(binary()?);
    both.args([run.cores.server, run.cores.client, run.case.bytes()].map(|number| number.to_string()));
    let output = both.arg(run.time.as_secs_f64().to_string()).output()?;
    let wrong = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "fabric-ping-pong ended with {}: {wrong}", output.status);
    serde_json::from_slice(&output.stdout).context("fabric-ping-pong printed no figures")
}
