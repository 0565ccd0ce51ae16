//! `cargo xtask demo`: the main job, from a fresh checkout to a table and a page.

use anyhow::Result;

use crate::step::{Steps, cargo};

const PACKAGE: [&str; 3] = ["--release", "--package", "greenwave-cli"];

/// Builds the command with probes and hands all words over to it; `--help` is answered by the demo itself.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut steps = Steps::new(2);
    let quanta = ["run", "--quiet", "--release", "--package", "cargo-quanta", "--bin", "cargo-quanta", "--", "quanta"];
    steps.run("build with probes", cargo(quanta).arg("build").args(PACKAGE))?;
    steps.run("demo", cargo(quanta).args(["run", "--quiet"]).args(PACKAGE).args(["--", "demo"]).args(words))
}
