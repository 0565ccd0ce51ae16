//! Programs of others: in other languages, built where their compilers are, and such as Debian has.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::result::bench_folder;

/// Why a system can't be measured here.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

/// Where they are built.
pub fn folder() -> PathBuf {
    // Absolute, since compilers run in folders of their own.
    std::path::absolute(bench_folder().join("tools")).unwrap_or_else(|_| bench_folder())
}

/// Installs a package where that can be done: on Debian and its like, by root.
///
/// # Errors
/// When it can't be, with what to do.
pub fn install(package: &str) -> Result<(), Missing> {
    let remedy = format!("to install it: apt-get install {package}");
    if !rustix::process::getuid().is_root() {
        return Err(Missing(format!("only root can install {package}; {remedy}")));
    }
    for words in [&["update"][..], &["install", "--yes", "--no-install-recommends", package]] {
        let mut apt = Command::new("apt-get");
        // With this run level a package doesn't start a service of its own.
        apt.args(words).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        let output = apt.stdin(Stdio::null()).output();
        let output = output.map_err(|error| Missing(format!("`apt-get` can't be run ({error}); {remedy}")))?;
        if !output.status.success() {
            return Err(Missing(format!("`apt-get {}` failed; {remedy}", words.join(" "))));
        }
    }
    Ok(())
}

/// Runs a compiler. `remedy` is what to do where there is none.
///
/// # Errors
/// When there is no such compiler, or it fails.
pub fn build(compiler: &mut Command, remedy: &str) -> Result<(), Missing> {
    let program = compiler.get_program().display().to_string();
    let missing = |error: std::io::Error| Missing(format!("`{program}` can't be run ({error}); {remedy}"));
    fs::create_dir_all(folder()).map_err(missing)?;
    let output = compiler.stdin(Stdio::null()).output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it doesn't say why");
    Err(Missing(format!("`{program}` failed: {last}; {remedy}")))
}
