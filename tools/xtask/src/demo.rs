//! `cargo xtask demo`: the main job, from a fresh checkout to a table and a page.

use anyhow::Result;

use crate::step::{Steps, cargo_quanta};

/// The benchmark that it is a part of, and the command, whose services it puts load on.
const PACKAGES: [&str; 5] = ["--release", "--package", "greenwave-path", "--package", "greenwave-cli"];

/// Builds both with probes and hands all words over; `--help` is answered by the demo itself.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut steps = Steps::new(2);
    steps.run("build with probes", cargo_quanta("build").args(PACKAGES))?;
    steps.run("demo", cargo_quanta("run").arg("--quiet").args(&PACKAGES[..3]).args(["--", "demo"]).args(words))
}
