//! `cargo xtask sanitize`: the tests of the crates with `unsafe` in their hot paths, under a sanitizer.
//!
//! The sanitizers' runtimes come with every toolchain of x86-64 Linux; to ask rustc for them is still unstable, which
//! `RUSTC_BOOTSTRAP` allows for this build alone.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::step::{Steps, asks_for_help, cargo, say, target, wrong_use};

const HELP: &str = "\
Runs the tests of greenwave-verbs, greenwave-quanta and greenwave-rpc, or of those of them that are named, under
AddressSanitizer: it finds reads and writes beyond what was allocated or after it was freed, and what is freed twice.

Usage: cargo xtask sanitize [--package NAME]... [-- ARGS]

Options:
  --package NAME  tests of this package alone; repeatable
  -- ARGS         for the tests, such as part of a name

Example:
  cargo xtask sanitize --package greenwave-verbs -- framing

It takes a stable toolchain on Linux on x86-64. What is built lies in target/sanitize and takes some minutes.";

/// The platform that they are built for. It is named, so that programs of the build itself are not instrumented.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What is tested of a package.
struct Suite {
    package: &'static str,
    /// Which of its tests, and with what.
    arguments: &'static [&'static str],
    /// Which are left out, by parts of their names.
    without: &'static [&'static str],
}

/// What is tested if nothing is said: the crates whose `unsafe` sees bytes from outside, stacks or rings. Of greenwave-quanta's tests
/// those are left out that build other programs, by flags of their own; and those that look at how much memory a process has, as the
/// sanitizer keeps what was freed.
const SUITES: [Suite; 3] = [
    Suite { package: "greenwave-verbs", arguments: &["--lib", "--tests", "--features", "tls"], without: &[] },
    Suite { package: "greenwave-quanta", arguments: &["--lib"], without: &[] },
    Suite {
        package: "greenwave-rpc",
        arguments: &["--lib", "--tests", "--features", "tls,compression,resolver"],
        without: &["leaves_nothing_behind"],
    },
];

/// What the sanitizer is told. A coroutine's stack is memory that the sanitizer doesn't know as one: what only such stacks point
/// to would pass for lost. Faults are for the handlers of greenwave-quanta, whose tests bring some about.
const OPTIONS: &str = "detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0:handle_sigbus=0:abort_on_error=1";

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let asked = Asked::parse(words)?;
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("sanitizers are run on Linux on x86-64 alone");
    }
    let mut steps = Steps::new(asked.suites.len());
    for suite in asked.suites {
        steps.run(suite.package, &mut tests(suite, &asked.arguments))?;
    }
    steps.finish();
    Ok(())
}

/// The tests of a package, instrumented.
fn tests(suite: &Suite, arguments: &[String]) -> Command {
    let mut command = cargo(["test", "--no-fail-fast", "--target", PLATFORM, "--package", suite.package]);
    command.args(suite.arguments).arg("--").args(arguments);
    command.args(suite.without.iter().flat_map(|name| ["--skip", name]));
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
struct Asked {
    suites: Vec<&'static Suite>,
    arguments: Vec<String>,
}

impl Asked {
    fn parse(words: &[String]) -> Result<Self> {
        let mut asked = Self { suites: Vec::new(), arguments: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--package" | "-p" => asked.suites.push(suite(words.next().map_or("", String::as_str))?),
                "--" => asked.arguments.extend(words.by_ref().cloned()),
                other => return Err(wrong(format!("`{other}` is not understood"))),
            }
        }
        if asked.suites.is_empty() {
            asked.suites.extend(&SUITES);
        }
        Ok(asked)
    }
}

fn suite(package: &str) -> Result<&'static Suite> {
    let found = SUITES.iter().find(|suite| suite.package == package);
    found.ok_or_else(|| {
        let names = SUITES.map(|suite| suite.package).join(", ");
        wrong(format!("`--package {package}` is none of {names}"))
    })
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
        let packages = |line: &str| asked(line).map(|asked| asked.suites.iter().map(|suite| suite.package).collect());
        let all: Vec<_> = packages("").unwrap();
        assert_eq!(all, ["greenwave-verbs", "greenwave-quanta", "greenwave-rpc"]);
        let some: Vec<_> = packages("--package greenwave-rpc -p greenwave-verbs -- framing").unwrap();
        assert_eq!(some, ["greenwave-rpc", "greenwave-verbs"]);
        assert_eq!(asked("-- framing --nocapture").unwrap().arguments, ["framing", "--nocapture"]);
        let refused = |line: &str| asked(line).err().unwrap().to_string();
        assert!(refused("--package").contains("none of greenwave-verbs"));
        assert!(refused("--thread").contains("`--thread`"));
    }
}
