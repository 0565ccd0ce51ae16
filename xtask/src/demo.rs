//! `cargo xtask demo`: the main job, from a fresh checkout to a table and a page.

use anyhow::Result;

use crate::step::{Steps, cargo};

const PACKAGE: [&str; 3] = ["--release", "--package", "greenwave-cli"];

/// Builds the command and hands all words over to it; `--help` is answered by the demo itself.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut steps = Steps::new(2);
    steps.run("build", cargo(["build"]).args(PACKAGE))?;
    steps.run("demo", cargo(["run", "--quiet"]).args(PACKAGE).args(["--", "demo"]).args(words))
}
