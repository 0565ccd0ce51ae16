//! `cargo xtask sanitize`: the tests of the crates with `unsafe` in their hot paths, under a sanitizer.
//!
//! The sanitizers' runtimes come with every toolchain of x86-64 Linux; to ask rustc for them is still unstable, which
//! `RUSTC_BOOTSTRAP` allows for this build alone.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::step::{Steps, asks_for_help, cargo, say, target, wrong_use};

const HELP: &str = "\
Runs the tests of greenwave-verbs, greenwave-quanta and greenwave-rpc, or of the packages that are named, under
AddressSanitizer: reads and writes beyond what was allocated, after it was freed, freed twice.

Usage: cargo xtask sanitize [--package NAME]... [-- ARGS]

Options:
  --package NAME  tests of this package alone; repeatable
  -- ARGS         for the tests, such as part of a name

Example:
  cargo xtask sanitize --package greenwave-verbs -- framing

It takes a stable toolchain on Linux on x86-64. What is built lies in target/sanitize and takes some minutes.";

/// The platform that they are built for. It is named, so that programs of the build itself are not instrumented.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What is tested if nothing is said: the crates whose `unsafe` sees bytes from outside, stacks or rings.
const PACKAGES: [&str; 3] = ["greenwave-verbs", "greenwave-quanta", "greenwave-rpc"];

/// What the sanitizer is told. A coroutine's stack is memory that the sanitizer doesn't know as one: what only such stacks point
/// to would pass for lost.
const OPTIONS: &str = "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1";

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let asked = Asked::parse(words)?;
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("sanitizers are run on Linux on x86-64 alone");
    }
    let mut steps = Steps::new(asked.packages.len());
    for package in &asked.packages {
        steps.run(package, &mut tests(package, &asked.arguments))?;
    }
    steps.finish();
    Ok(())
}

/// The tests of a package, instrumented.
fn tests(package: &str, arguments: &[String]) -> Command {
    let mut command = cargo(["test", "--no-fail-fast", "--target", PLATFORM, "--lib", "--tests", "--package", package]);
    command.arg("--").args(arguments);
    // What else is in these is for other builds.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "-Zsanitizer=address").env("RUSTC_BOOTSTRAP", "1");
    command.env("ASAN_OPTIONS", OPTIONS).env("CARGO_TARGET_DIR", folder());
    command
}

/// A folder of their own keeps the flags from building everything else again.
fn folder() -> PathBuf {
    target().join("sanitize")
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    packages: Vec<String>,
    arguments: Vec<String>,
}

impl Asked {
    fn parse(words: &[String]) -> Result<Self> {
        let mut asked = Self { packages: Vec::new(), arguments: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--package" | "-p" => match words.next() {
                    Some(package) => asked.packages.push(package.clone()),
                    None => return Err(wrong("`--package` needs a name".to_owned())),
                },
                "--" => asked.arguments.extend(words.by_ref().cloned()),
                other => return Err(wrong(format!("`{other}` is not understood"))),
            }
        }
        if asked.packages.is_empty() {
            asked.packages.extend(PACKAGES.map(str::to_owned));
        }
        Ok(asked)
    }
}

fn wrong(what: String) -> anyhow::Error {
    wrong_use(what, "cargo xtask sanitize --help")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked> {
        Asked::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn packages_and_what_is_for_their_tests_are_told_apart() {
        assert_eq!(asked("").unwrap().packages, PACKAGES);
        let some = asked("--package a -p b -- framing --nocapture").unwrap();
        assert_eq!((some.packages, some.arguments.len()), (vec!["a".to_owned(), "b".to_owned()], 2));
        assert!(asked("--package").unwrap_err().to_string().contains("needs a name"));
        assert!(asked("--thread").unwrap_err().to_string().contains("--thread"));
    }
}
