//! ns-3: the same fat tree. Its package for Python has its headers and libraries, against which the model is compiled.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use greenwave_bench::tools;

use crate::python;

const PACKAGE: &str = "ns3==3.44.post0";
const MODEL: &str = include_str!("ns3/fat_tree.cc");

/// What is linked, beside what these need themselves.
const LIBRARIES: [&str; 4] = ["core", "network", "internet", "point-to-point"];

/// Installs it, and compiles the model.
pub(crate) fn prepare() -> anyhow::Result<()> {
    python::install(PACKAGE)?;
    let source = tools::folder().join("fat_tree.cc");
    if program().is_file() && fs::read_to_string(&source).is_ok_and(|text| text == MODEL) {
        return Ok(());
    }
    fs::write(&source, MODEL)?;
    let folder = folder()?;
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++20", "-O3", "-DNDEBUG", "-o"]).arg(program()).arg(&source);
    compiler.arg("-isystem").arg(folder.join("include")).arg("-L").arg(folder.join("lib64"));
    compiler.arg(format!("-Wl,-rpath,{}", folder.join("lib64").display())).arg("-Wl,--allow-shlib-undefined");
    compiler.args(LIBRARIES.map(|name| format!("-lns3.44-{name}")));
    tools::build(&mut compiler, "to install one: apt-get install g++")?;
    Ok(())
}

/// Which version there is.
pub(crate) fn version() -> anyhow::Result<String> {
    let version = python::version("ns3")?;
    ensure!(program().is_file(), "its model isn't compiled; to do so: cargo xtask bench sim");
    Ok(version)
}

/// Runs the model: prints a line of JSON.
pub(crate) fn command(flows: u64, seed: u64) -> Command {
    let mut command = Command::new(program());
    command.args([flows.to_string(), seed.to_string()]);
    command
}

fn program() -> PathBuf {
    tools::folder().join("ns3-fat-tree")
}

/// Where the package lies.
fn folder() -> anyhow::Result<PathBuf> {
    let script = "import importlib.metadata as m; print(m.distribution('ns3').locate_file('ns3'))";
    let said = python::said(Command::new(python::interpreter()).args(["-c", script]));
    Ok(said.context("there is no ns-3")?.into())
}
