//! `cargo xtask sanitize`: the tests of the crates with `unsafe` in their hot paths, watched while they run.
//!
//! The sanitizers' runtimes come with every toolchain of x86-64 Linux; to ask rustc for them is still unstable, which
//! `RUSTC_BOOTSTRAP` allows for this build alone. ThreadSanitizer knows of no lock or channel but those that it has seen being
//! taken, so it needs a standard library that was built for it, from its sources. Miri comes with a nightly toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::step::{Steps, asks_for_help, cargo, root, say, target, works, wrong_use};

const HELP: &str = "\
Runs the tests of greenwave-verbs, greenwave-quanta and greenwave-rpc, or of those of them that are named, under

  address  AddressSanitizer: reads and writes beyond what was allocated or after it was freed, and what is freed twice
  thread   ThreadSanitizer: memory that two threads use without an order between them. It takes the standard library's
           sources: rustup component add rust-src
  miri     Miri, an interpreter: undefined behaviour of any kind, in the lock-free code of greenwave-quanta; it knows neither
           io_uring nor assembly. It takes a nightly toolchain that has it: rustup toolchain install nightly --component miri,rust-src

What can't be run is passed over, and its step says what is lacking.

Usage: cargo xtask sanitize [--tool NAME]... [--package NAME]... [-- ARGS]

Options:
  --tool NAME     this one alone; repeatable
  --package NAME  tests of this package alone; repeatable
  -- ARGS         for the tests, such as part of a name

Examples:
  cargo xtask sanitize --package greenwave-verbs -- framing
  cargo xtask sanitize --tool thread

It takes a stable toolchain on Linux on x86-64. What is built lies in target/sanitize and takes some minutes for each.";

/// The platform that they are built for. It is named, so that programs of the build itself are not instrumented.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What is tested of a package.
struct Suite {
    package: &'static str,
    /// Which of its tests, and with what.
    arguments: &'static [&'static str],
    /// Which are left out, by parts of their names.
    without: &'static [&'static str],
    /// Which Miri runs, by parts of their names.
    interpreted: &'static [&'static str],
    /// Whether its tests run coroutines.
    switches: bool,
}

/// What is tested if nothing is said: the crates whose `unsafe` sees bytes from outside, stacks or rings. Of greenwave-quanta's tests
/// those are left out that build other programs, by flags of their own; and those that look at how much memory a process has, as
/// AddressSanitizer keeps what was freed.
const SUITES: [Suite; 3] = [
    Suite {
        package: "greenwave-verbs",
        arguments: &["--lib", "--tests", "--features", "tls"],
        without: &[],
        interpreted: &[],
        switches: false,
    },
    Suite {
        package: "greenwave-quanta",
        arguments: &["--lib"],
        without: &[],
        interpreted: &["ring::", "published::"],
        switches: true,
    },
    Suite {
        package: "greenwave-rpc",
        arguments: &["--lib", "--tests", "--features", "tls,compression,resolver"],
        without: &["leaves_nothing_behind"],
        interpreted: &[],
        switches: true,
    },
];

/// What watches the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Address,
    Thread,
    Miri,
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let asked = Asked::parse(words)?;
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("sanitizers are run on Linux on x86-64 alone");
    }
    let runs = asked.runs();
    if runs.is_empty() {
        bail!("Miri runs tests of greenwave-quanta alone");
    }
    let mut steps = Steps::new(runs.len());
    for (tool, suite) in runs {
        let name = format!("{}: {}", tool.name(), suite.package);
        match tool.lacks() {
            Some(lack) => steps.pass_over(&name, lack),
            None => steps.run(&name, &mut tool.tests(suite, &asked.arguments))?,
        }
    }
    steps.finish();
    Ok(())
}

impl Tool {
    const ALL: [Self; 3] = [Self::Address, Self::Thread, Self::Miri];

    /// What the sanitizers are told of faults: they are for the handlers of greenwave-quanta, whose tests bring some about.
    const FAULTS: &str = "handle_segv=0:handle_sigbus=0:abort_on_error=1";

    /// ThreadSanitizer notes for each thread which functions it is in. A coroutine leaves them in another order than it came, so where
    /// there are some it is to note none: a report then says where memory was used, and not who called. All else holds, as a coroutine
    /// stays on its thread.
    const NO_CALLERS: &str = "-Cllvm-args=-tsan-instrument-func-entry-exit=0";

    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
            Self::Miri => "miri",
        }
    }

    /// What keeps it from being run here, and what to do about it.
    fn lacks(self) -> Option<&'static str> {
        match self {
            Self::Thread if !has_sources() => Some(
                "passed over: there are no sources of the standard library; to install them: rustup component add rust-src",
            ),
            Self::Miri if !works(Command::new("rustup").args(INTERPRETER).arg("--version")) => Some(
                "passed over: no nightly toolchain has Miri; to install it: rustup toolchain install nightly --component miri,rust-src",
            ),
            Self::Address | Self::Thread | Self::Miri => None,
        }
    }

    /// The tests of a package, watched by it.
    fn tests(self, suite: &Suite, arguments: &[String]) -> Command {
        let mut command = if self == Self::Miri { Command::new("rustup") } else { cargo(["test", "--no-fail-fast"]) };
        match self {
            Self::Address => {
                // A coroutine's stack is memory that it doesn't know as a stack: what only such stacks point to would pass for lost.
                let options = format!("detect_leaks=0:detect_stack_use_after_return=0:{}", Self::FAULTS);
                command.env("RUSTFLAGS", "-Zsanitizer=address").env("ASAN_OPTIONS", options);
            }
            Self::Thread => {
                let no_callers = if suite.switches { Self::NO_CALLERS } else { "" };
                command.arg("-Zbuild-std").env("RUSTFLAGS", format!("-Zsanitizer=thread {no_callers}"));
                let suppressions = root().join("tools/xtask/thread-sanitizer.txt");
                command.env("TSAN_OPTIONS", format!("suppressions='{}':{}", suppressions.display(), Self::FAULTS));
            }
            Self::Miri => {
                // Futexes' calls and the clock are the machine's.
                command.args(INTERPRETER).arg("test").env("MIRIFLAGS", "-Zmiri-disable-isolation");
                command.current_dir(root());
            }
        }
        command
            .args(["--target", PLATFORM, "--package", suite.package])
            .args(suite.arguments)
            .arg("--")
            .args(arguments);
        command.args(suite.without.iter().flat_map(|name| ["--skip", name]));
        if self == Self::Miri {
            command.args(suite.interpreted);
        } else {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        // What else is in these is for other builds.
        command.env_remove("CARGO_ENCODED_RUSTFLAGS").env("CARGO_TARGET_DIR", self.folder());
        command
    }

    /// Folders of their own keep the flags from building everything else again.
    fn folder(self) -> PathBuf {
        target().join("sanitize").join(self.name())
    }
}

/// How `cargo miri` is called, of whatever nightly toolchain there is.
const INTERPRETER: [&str; 4] = ["run", "nightly", "cargo", "miri"];

/// Whether the toolchain has the standard library's sources.
fn has_sources() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).args(["--print", "sysroot"]).output();
    said.is_ok_and(|said| {
        let sysroot = String::from_utf8_lossy(&said.stdout);
        Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock").exists()
    })
}

/// What was asked for.
struct Asked {
    tools: Vec<Tool>,
    suites: Vec<&'static Suite>,
    arguments: Vec<String>,
}

impl Asked {
    fn parse(words: &[String]) -> Result<Self> {
        let mut asked = Self { tools: Vec::new(), suites: Vec::new(), arguments: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--tool" => asked.tools.push(tool(words.next().map_or("", String::as_str))?),
                "--package" | "-p" => asked.suites.push(suite(words.next().map_or("", String::as_str))?),
                "--" => asked.arguments.extend(words.by_ref().cloned()),
                other => return Err(wrong(format!("`{other}` is not understood"))),
            }
        }
        if asked.tools.is_empty() {
            asked.tools.extend(Tool::ALL);
        }
        if asked.suites.is_empty() {
            asked.suites.extend(&SUITES);
        }
        Ok(asked)
    }

    /// What is run by what, in this order.
    fn runs(&self) -> Vec<(Tool, &'static Suite)> {
        let all = self.tools.iter().flat_map(|&tool| self.suites.iter().map(move |&suite| (tool, suite)));
        all.filter(|(tool, suite)| *tool != Tool::Miri || !suite.interpreted.is_empty()).collect()
    }
}

fn tool(name: &str) -> Result<Tool> {
    Tool::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(|| {
        let names = Tool::ALL.map(Tool::name).join(", ");
        wrong(format!("`--tool {name}` is none of {names}"))
    })
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
        assert!(refused("--tool").contains("none of address, thread, miri"));
        assert!(refused("--thread").contains("`--thread`"));
    }

    #[test]
    fn each_tool_runs_what_it_can() {
        let runs = |line: &str| {
            let runs = asked(line).unwrap().runs();
            runs.into_iter().map(|(tool, suite)| format!("{} {}", tool.name(), suite.package)).collect::<Vec<_>>()
        };
        assert_eq!(runs("").len(), 7, "{:?}", runs(""));
        assert_eq!(runs("--tool miri"), ["miri greenwave-quanta"]);
        assert_eq!(runs("--tool miri --tool thread -p greenwave-verbs"), ["thread greenwave-verbs"]);
    }

    #[test]
    fn callers_are_noted_where_there_are_no_coroutines() {
        let flags = |package| {
            let command = Tool::Thread.tests(suite(package).unwrap(), &[]);
            let flags = command.get_envs().find(|(name, _)| *name == "RUSTFLAGS").and_then(|(_, value)| value);
            flags.unwrap().to_str().unwrap().to_owned()
        };
        assert!(!flags("greenwave-verbs").contains("llvm"));
        assert!(flags("greenwave-quanta").contains("func-entry-exit=0"));
    }
}
