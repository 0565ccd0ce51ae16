//! How the fuzz targets are built.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use super::target::Target;
use crate::step::{cargo, target, works};

/// The platform that they are built for. It is named, so that programs of the build itself are not instrumented.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What cargo-fuzz asks a nightly rustc for by `-Zsanitizer`, and every rustc's LLVM can do: counters of edges, the table of
/// what they stand for, and what is compared with what.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg fuzzing",
];

/// Why they can't be built here, and what to do about it.
pub(super) fn lacks() -> Option<&'static str> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("the fuzz targets run on Linux on x86-64 alone");
    }
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let compile = ["-fsyntax-only", "-include", "vector", "-x", "c++", "/dev/null"];
    let has = works(Command::new(compiler).args(compile));
    (!has).then_some("there is no C++ compiler, which libFuzzer takes; to install it: apt-get install g++")
}

/// Builds some of them.
pub(super) fn command(targets: &[Target]) -> Command {
    let mut command =
        cargo(["build", "--manifest-path", "lab/fuzz/Cargo.toml", "--profile", "fuzz", "--target", PLATFORM]);
    for target in targets {
        command.args(["--bin", target.name()]);
    }
    // What else is in these is for other builds.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_PROFILE_DEV_DEBUG");
    command.env("RUSTFLAGS", FLAGS.join(" ")).env("CARGO_INCREMENTAL", "0").env("CARGO_TARGET_DIR", folder());
    command
}

/// Builds them to run for seconds, without a step of its own: what the optimizer would need is more than what it would save.
pub(super) fn run(targets: &[Target]) -> Result<()> {
    let mut command = command(targets);
    command.env("CARGO_PROFILE_FUZZ_OPT_LEVEL", "1").env("CARGO_PROFILE_FUZZ_CODEGEN_UNITS", "16");
    if !command.status()?.success() {
        bail!("the fuzz targets can't be built; to repeat it: cargo xtask fuzz --seconds 1");
    }
    Ok(())
}

/// A target, built.
pub(super) fn program(target: &Target) -> PathBuf {
    folder().join(PLATFORM).join("fuzz").join(target.name())
}

/// A folder of their own keeps the flags from building everything else again.
fn folder() -> PathBuf {
    target().join("fuzz")
}
