//! `cargo xtask demo`: the main job, from a fresh checkout to a table and a page.

use std::process::Command;

use anyhow::Result;

use crate::step::{Steps, cargo, cargo_quanta, root, target};

/// The benchmark that it is a part of, and the command, whose services it puts load on.
const PACKAGES: [&str; 5] = ["--release", "--package", "greenwave-path", "--package", "greenwave-cli"];

/// Builds both with probes and hands all words over; `--help` is answered by the demo itself.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut steps = Steps::new(2);
    steps.run("build with probes", cargo_quanta("build").args(PACKAGES))?;
    steps.run("demo", cargo_quanta("run").arg("--quiet").args(&PACKAGES[..3]).args(["--", "demo"]).args(words))
}

/// The same in short, without probes, of this workspace's own crates, so that it is known to work: most of it is the
/// services, as processes of their own, and the load on them.
pub(crate) fn smoke(steps: &mut Steps) -> Result<()> {
    let programs =
        ["--package", "greenwave-path", "--bin", "greenwave-path", "--package", "greenwave-cli", "--bin", "greenwave"];
    steps.run("demo: build", cargo(["build"]).args(programs))?;
    // What was measured before isn't written over.
    let folder = target().join("demo");
    let mut demo = Command::new(target().join("debug").join("greenwave-path"));
    demo.args(["demo", "--shards", "2", "--seconds", "0.2", "--dir"]).arg(root().join("framework"));
    steps.run("demo", demo.arg("--out").arg(folder.join("demo.html")).env("CARGO_TARGET_DIR", folder))
}
