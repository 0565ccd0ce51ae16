//! What `cargo test` says while it runs, shown as it comes, and counted.
//!
//! Tests that can't run where they are say so (`passed over: WHY`) and pass. What tests print is seen only if they fail,
//! or if all of them are to show it; so all are, and of those that pass nothing but such lines is kept. A test that passes
//! over a part counts as skipped.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, ExitStatus};

/// How a test that can't run begins to say why.
const PASSED_OVER: &str = "passed over: ";

/// How tests came out.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Why tests were passed over, and how many.
    reasons: BTreeMap<String, usize>,
    /// Whether what tests that passed have printed is being told.
    of_passed: bool,
    /// Whether the test that has printed this has said yet that it was passed over.
    told: bool,
}

impl Tally {
    /// Runs `cargo test` and shows what it prints.
    ///
    /// # Errors
    /// When it can't be started or heard.
    pub(crate) fn run(&mut self, command: &mut Command) -> io::Result<ExitStatus> {
        // One pipe, so that lines stay in their order.
        let (reader, writer) = io::pipe()?;
        let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
        // The command keeps the pipe's other end open.
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        for line in BufReader::new(reader).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            if self.hears(&line) {
                println!("{line}");
            }
        }
        child.wait()
    }

    /// Counts what a line says. Returns whether it is to be shown.
    fn hears(&mut self, line: &str) -> bool {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.of_passed = false;
            for part in counts.split(['.', ';']) {
                let mut words = part.split_whitespace();
                let (number, what) = (words.next().and_then(|number| number.parse::<usize>().ok()), words.next());
                match (number, what) {
                    (Some(number), Some("passed")) => self.passed += number,
                    (Some(number), Some("failed")) => self.failed += number,
                    (Some(number), Some("ignored")) => self.ignored += number,
                    _ => (),
                }
            }
        } else if line == "successes:" {
            self.of_passed = true;
        } else if line == "failures:" {
            self.of_passed = false;
        } else if self.of_passed && line.starts_with("---- ") {
            self.told = false;
        } else if let Some(why) = line.strip_prefix(PASSED_OVER).filter(|_| self.of_passed && !self.told) {
            self.told = true;
            *self.reasons.entry(why.to_owned()).or_default() += 1;
        }
        !self.of_passed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (why, count) in &self.reasons {
            writeln!(f, "{PASSED_OVER}{why} ({count})")?;
        }
        let passed_over: usize = self.reasons.values().sum();
        let (passed, skipped) = (self.passed - passed_over.min(self.passed), self.ignored + passed_over);
        write!(f, "tests: {passed} passed, {} failed, {skipped} skipped", self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As libtest prints it.
    const SAID: &str = "\
     Running unittests src/lib.rs (target/debug/deps/one-0)

running 4 tests
test one ... ok
test two ... ok
test three ... FAILED
test four ... ignored, for a reason

successes:

---- one stdout ----
what nobody needs
passed over: it takes root
passed over: it takes root, as was said

successes:
    one
    two

failures:

---- three stdout ----
passed over: this one has failed all the same

failures:
    three

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

   Doc-tests one

test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
error: 1 target failed:
    `-p one --lib`";

    #[test]
    fn tests_are_counted_and_what_those_that_passed_have_printed_is_not_shown() {
        let mut tally = Tally::default();
        let shown: Vec<&str> = SAID.lines().filter(|line| tally.hears(line)).collect();
        assert_eq!(tally.to_string(), "passed over: it takes root (1)\ntests: 6 passed, 1 failed, 2 skipped");
        assert!(!shown.contains(&"what nobody needs"), "{shown:?}");
        let kept = ["test one ... ok", "---- three stdout ----", "error: 1 target failed:", "    `-p one --lib`"];
        assert!(kept.iter().all(|line| shown.contains(line)), "{shown:?}");
        assert_eq!(shown.iter().filter(|line| line.starts_with("test result: ")).count(), 2);
    }
}
