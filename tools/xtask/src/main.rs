//! The project's own commands, `cargo xtask NAME`: everything that takes more than one call of Cargo.
//!
//! Each command is a list of steps, announced with their number and the command line that they run, so that each can
//! be repeated by hand. The first step that fails ends the command.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod bare;
mod bench;
mod chaos;
mod claims;
#[cfg(test)]
mod crates;
mod demo;
mod ebpf;
mod fuzz;
mod interop;
mod older;
mod preempt;
mod results;
mod sanitize;
mod step;
mod tally;
mod test;
mod unsafety;

use std::process::ExitCode;

const HELP: &str = "\
Greenwave's project commands.

Usage: cargo xtask COMMAND [OPTIONS]

Commands:
  test [--quick | --fuzz]               formatting, lints, documentation, dependencies, fuzz, tests
  demo [ARGS]                           shows three services under load, in a table and a page
  bench abuse|boost|flows|grpc|grpc-served|path|predict|preempt|replica|rpc|served|sim|verbs [--quick] [--check] [ARGS]
                                        builds and runs a benchmark; all but verbs write target/bench/NAME.json
  results [document] [--verify]         runs all benchmarks, keeps their results, writes the documents' figures from them
  chaos [--seed N] [--minutes M]        runs real replicas under load and faults, and checks what clients saw
  interop [--client NAME]               runs clients of gRPC against our server, and ours against others'
  ebpf [--check]                        builds the agent's eBPF object, or checks the one that is kept
  unsafe [--write]                      counts `unsafe` in each crate, for docs/unsafe.md
  fuzz [TARGET...] [--minutes N]        runs the fuzz targets, or some of them
  sanitize [--package NAME]             runs the tests of verbs, quanta and rpc under sanitizers and Miri

`cargo xtask COMMAND --help` says more.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match words.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("--help", &[][..]),
    };
    let done = match command {
        "test" => test::run(rest),
        "demo" => demo::run(rest),
        "ebpf" => ebpf::run(rest),
        "bench" => bench::run(rest),
        "results" => results::run(rest),
        "chaos" => chaos::run(rest),
        "fuzz" => fuzz::run(rest),
        "sanitize" => sanitize::run(rest),
        "unsafe" => unsafety::run(rest),
        "interop" => interop::run(rest),
        "help" | "--help" | "-h" => step::say(HELP),
        other => Err(step::wrong_use(format!("no command is called `{other}`"), "cargo xtask --help")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<step::WrongUse>() { 2 } else { 1 })
        }
    }
}
