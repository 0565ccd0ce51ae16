//! How many instructions a program executes: unlike times, the same on a quiet machine and on a busy one.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use greenwave_programs::{Program, Scale};

/// Valgrind's callgrind. It runs programs some fifty times slower, so they get little to do.
pub(super) struct Counter(());

impl Counter {
    /// `None` where it isn't installed.
    pub(super) fn find() -> Option<Self> {
        let mut command = Command::new("valgrind");
        let found = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.is_ok_and(|status| status.success()).then_some(Self(()))
    }

    /// Of one run, without what goes before it.
    pub(super) fn count(&self, build: &Path, program: &Program) -> anyhow::Result<f64> {
        let output = Command::new("valgrind")
            // Or else a thread that spins may keep the others from running, which valgrind does one at a time.
            .arg("--fair-sched=try")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*run_alone*"])
            .arg(build)
            .args(["once", program.name, "--scale", &Scale::TINY.share().to_string()])
            .output()
            .context("can't run valgrind")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed in valgrind: {said}", program.name);
        collected(&said).with_context(|| format!("valgrind counted nothing for {}: {said}", program.name))
    }
}

/// From a line such as `==12== Collected : 345`.
fn collected(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok().filter(|count| *count > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_what_valgrind_says() {
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 1224\n==7== \n"), Some(1224.0));
        assert_eq!(collected("==7== Collected : 0\n"), None);
        assert_eq!(collected("==7== Command: x\n"), None);
    }
}
