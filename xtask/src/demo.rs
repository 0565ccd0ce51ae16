//! `cargo xtask demo`: the main job, from a fresh checkout to a table and a page.

use anyhow::Result;

use crate::step::{Steps, cargo_quanta};

const PACKAGE: [&str; 3] = ["--release", "--package", "greenwave-cli"];

/// Builds the command with probes and hands all words over to it; `--help` is answered by the demo itself.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut steps = Steps::new(2);
    steps.run("build with probes", cargo_quanta("build").args(PACKAGE))?;
    steps.run("demo", cargo_quanta("run").arg("--quiet").args(PACKAGE).args(["--", "demo"]).args(words))
}
