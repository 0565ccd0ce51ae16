//! `cargo xtask test`: everything that has to hold before a change goes in.
//!
//! The tests come last, so that what they say stands at the end. Lints and documentation share one set of checked
//! dependencies, the tests need them built: each dependency is compiled twice, once of them without code. Which features it has
//! depends on which packages are named, and on whether tests are among what is built. So every step that builds names the whole
//! workspace and a test, and finds what another step has built.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::claims::Which;
use crate::step::{Steps, asks_for_help, build_programs, cargo, has_libfabric, root, say, target, works, wrong_use};
use crate::tally::Tally;
use crate::{bare, bench, chaos, ebpf, fuzz};

const HELP: &str = "\
Checks formatting, lints, documentation, dependencies, fuzz targets, the eBPF object, what is claimed of figures that
are the same on every machine, and runs all tests, the models of lock-free code among them.

Usage: cargo xtask test [--quick | --fuzz]

Options:
  --quick  formatting, lints and tests alone
  --fuzz   builds the fuzz targets, too, which takes some minutes

The fuzz targets run for two seconds each, with --fuzz or where `cargo xtask fuzz` has built them before, and their seeds are
replayed by the tests in any case; dependencies are checked by deny.toml where cargo-deny is, with advisories if those can be had;
signed tokens and AWS-LC's cryptography, which are off by default, are tested by themselves; C code is put to the test
where clang is, the harness in Go where Go is, the backend over libfabric where libfabric-dev is, and replicas under
faults for some seconds where root runs it. The tests find no programs but those that README.md names. What is passed
over is said, with what to install, and counted.";

/// How long each fuzz target runs.
const FUZZ_TIME: Duration = Duration::from_secs(2);

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let (quick, fuzz) = match words {
        [] => (false, false),
        [word] if word == "--quick" => (true, false),
        [word] if word == "--fuzz" => (false, true),
        _ => return Err(wrong_use(format!("`{}` is not understood", words.join(" ")), "cargo xtask test --help")),
    };
    let mut steps = Steps::new(if quick { 3 } else { 20 });
    steps.run("formatting", &mut cargo(["fmt", "--all", "--check"]))?;
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    steps.run("lints", &mut cargo(lints))?;
    if !quick {
        let lints = ["clippy", "--workspace", "--features", &all_options()];
        steps.run("lints of options", cargo(lints).args(option_tests()).args(["--", "-D", "warnings"]))?;
        let documentation = ["doc", "--workspace", "--no-deps", "--document-private-items"];
        steps.run("documentation", cargo(documentation).env("RUSTDOCFLAGS", "-D warnings"))?;
        dependencies(&mut steps)?;
        fuzz::smoke(&mut steps, FUZZ_TIME, fuzz)?;
        c_code(&mut steps)?;
        go(&mut steps)?;
        ebpf::check(&mut steps)?;
        options(&mut steps)?;
        chaos::smoke(&mut steps)?;
        steady_claims(&mut steps)?;
    }
    tests(&mut steps)?;
    steps.finish();
    Ok(())
}

/// All tests, with nothing on the path but what the README names.
fn tests(steps: &mut Steps) -> Result<()> {
    let path = bare::make(bare::folder(&target()), &std::env::var_os("PATH").unwrap_or_default())?;
    let mut command = cargo(["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    let mut tally = Tally::default();
    let tested = steps.run_by("tests", command.env("PATH", path), |command| tally.run(command));
    println!("{tally}");
    tested
}

/// A run of a benchmark that finds figures in virtual time.
struct Steady {
    /// What of it is shown, and called.
    name: &'static str,
    bench: &'static str,
    program: &'static str,
    words: &'static [&'static str],
}

/// What is claimed of figures that were found in virtual time: the replica's model against its source's own figures, the
/// simulation against theory, and against itself, of cores, stages and a network. What takes minutes isn't here, nor what a
/// machine takes part in: claims of times and rates are not for one that does other things meanwhile.
const STEADY: [Steady; 3] = [
    Steady { name: "replica", bench: "replica", program: "greenwave-bench-replica", words: &["--case", "source"] },
    Steady { name: "sim", bench: "sim", program: "greenwave-bench-sim", words: &["--case", "forms", "--case", "tcp"] },
    // Twice each, by the same seed.
    Steady {
        name: "sim-again",
        bench: "sim",
        program: "greenwave-bench-sim",
        words: &[
            "--quick",
            "--system",
            "greenwave",
            "--case",
            "cores/heads-16",
            "--case",
            "graph/chain-3",
            "--case",
            "fabric/fat-tree-128",
        ],
    },
];

fn steady_claims(steps: &mut Steps) -> Result<()> {
    let programs: BTreeSet<&str> = STEADY.iter().map(|run| run.program).collect();
    steps.run("claims: build", &mut build_programs(programs))?;
    // What was measured before isn't written over, nor what another run finds.
    let folder = |run: &Steady| target().join("steady").join(run.name);
    for run in &STEADY {
        let mut bench = Command::new(target().join("debug").join(run.program));
        bench.arg("bench").args(run.words).current_dir(root()).env("CARGO_TARGET_DIR", folder(run));
        steps.run(&format!("claims: {}", run.name), &mut bench)?;
    }
    let check = || {
        let said = STEADY.iter().map(|run| Which::Steady.check(&bench::written_in(&folder(run), run.bench)));
        said.collect::<Result<Vec<_>>>().map(|said| said.join("; "))
    };
    println!("{}", steps.work("claims: check", "those that come out alike on every machine", check)?);
    Ok(())
}

/// Licences, sources and advisories of what is depended on, where cargo-deny is. What is let through is in deny.toml.
fn dependencies(steps: &mut Steps) -> Result<()> {
    if !works(&mut cargo(["deny", "--version"])) {
        let why = "passed over: there is no cargo-deny; to install it: cargo install cargo-deny --locked";
        steps.pass_over("dependencies", why);
        steps.pass_over("advisories", why);
        return Ok(());
    }
    let check = ["--workspace", "check", "--hide-inclusion-graph"];
    steps.run("dependencies", cargo(["deny"]).args(check).args(["licenses", "bans", "sources"]))?;
    // The list is fetched before, so that to be without a network is no finding.
    if !works(&mut cargo(["deny", "fetch", "db"])) {
        steps.pass_over("advisories", "passed over: the list can't be fetched; to see why: cargo deny fetch db");
        return Ok(());
    }
    steps.run("advisories", cargo(["deny", "--offline"]).args(check).arg("advisories"))
}

/// The harness in Go and its part in the benchmark, where there is a Go toolchain.
fn go(steps: &mut Steps) -> Result<()> {
    if !works(Command::new("go").arg("version")) {
        steps.pass_over("Go", "passed over: there is no Go; to install it: https://go.dev/dl");
        return Ok(());
    }
    steps.run("Go", &mut cargo(["test", "--workspace", "--test", "run", "--", "--include-ignored"]))
}

/// C code in an instrumented program, where there is a compiler that makes bitcode of it.
fn c_code(steps: &mut Steps) -> Result<()> {
    let is_there = |clang: &&str| works(Command::new(clang).arg("--version"));
    let Some(clang) = ["clang", "clang-19", "clang-16", "clang-14"].into_iter().find(is_there) else {
        steps.pass_over("C code", "passed over: there is no clang; to install it: apt-get install clang");
        return Ok(());
    };
    let mut test = cargo(["test", "--workspace", "--test", "clang", "--", "--ignored"]);
    steps.run("C code", test.env("CLANG", clang))
}

/// What is off by default and built by nothing else in the workspace.
fn all_options() -> String {
    let fabric = if has_libfabric() { ",greenwave-rpc/fabric" } else { "" };
    format!("{OPTIONS}{fabric}")
}

/// Signed tokens, and TLS with AWS-LC's cryptography.
const OPTIONS: &str = "greenwave-rpc/aws-lc-rs,greenwave-rpc/jwt";

/// The tests of what those change, and of all that goes over every carrier.
const OPTION_TESTS: [&str; 14] = [
    "jwt",
    "authorize",
    "identity",
    "renewal",
    "tls",
    "fabric",
    "ahead",
    "conformance",
    "descriptors",
    "disorder",
    "handshaker",
    "memory",
    "pressure",
    "streams",
];

fn option_tests() -> impl Iterator<Item = &'static str> {
    OPTION_TESTS.into_iter().flat_map(|test| ["--test", test])
}

/// What is off by default, with the backend over libfabric, in shared memory and over TCP, where libfabric's headers are.
fn options(steps: &mut Steps) -> Result<()> {
    let mut tests = cargo(["test", "--workspace", "--features", &all_options()]);
    steps.run("options", tests.args(option_tests()))?;
    if !has_libfabric() {
        steps.pass_over("fabric", "passed over: there is no libfabric; to install it: apt-get install libfabric-dev");
        return Ok(());
    }
    steps.run("fabric", &mut cargo(["test", "--package", "greenwave-verbs", "--features", "fabric", "--lib"]))
}
