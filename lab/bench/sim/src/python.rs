//! Packages of Python's, in a folder of their own below the target folder.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use greenwave_bench::tools;

/// The interpreter of that folder.
pub(crate) fn interpreter() -> PathBuf {
    folder().join("bin").join("python3")
}

/// Installs a package there, without those that it says it needs, if it isn't there yet. A registry is asked for this one alone.
pub(crate) fn install(package: &str) -> anyhow::Result<()> {
    if !interpreter().is_file() {
        std::fs::create_dir_all(tools::folder())?;
        said(Command::new("python3").args(["-m", "venv"]).arg(folder()))
            .context("there is no Python with venv; to install it: apt-get install python3-venv")?;
    }
    let name = package.split("==").next().unwrap_or(package);
    if version(name).is_ok_and(|version| package.ends_with(&format!("=={version}"))) {
        return Ok(());
    }
    let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", package];
    said(Command::new(interpreter()).args(words)).with_context(|| format!("pip can't install {package}"))?;
    Ok(())
}

/// Which version of a package is there.
pub(crate) fn version(package: &str) -> anyhow::Result<String> {
    let script = format!("import importlib.metadata as m; print(m.version({package:?}))");
    said(Command::new(interpreter()).args(["-c", &script])).with_context(|| {
        format!("there is no {package} for Python; to install it: cargo xtask bench sim, with a network")
    })
}

/// What a command says; an error with the last line of its complaints if it fails.
pub(crate) fn said(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{program}` can't be run"))?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`{program}` failed: {}",
        complaints.lines().last().unwrap_or("it doesn't say why")
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn folder() -> PathBuf {
    tools::folder().join("python")
}
