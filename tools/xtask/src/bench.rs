//! `cargo xtask bench`: what the README's numbers come from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::claims::Which;
use crate::older;
use crate::preempt;
use crate::step::{Steps, asks_for_help, cargo, has_libfabric, root, say, target, wrong_use};

const HELP: &str = "\
Builds and runs a benchmark and prints a table. What is measured for others to read goes to target/bench/NAME.json.

Usage: cargo xtask bench NAME [--quick] [ARGS]

Benchmarks:
  abuse    clients that behave while others attack: goodput with and without, the server's memory against its bound,
           beside tonic
  boost    how long a service waits for a core that neighbours use, with a short slice and without, and what that costs the
           neighbours; as root, on two cores
  flows    small responses beside bulk, over a testbed of network namespaces; root alone can make them
  grpc     calls by gRPC, from 64 bytes to 64 KB, on 1 to 1000 connections, beside tonic, volo and gRPC for Go, all under
           the same client
  grpc-served
           rare long calls among short ones, by gRPC, beside tonic: as it is, with its own limits, with our layers and pool
  path     the services under several orders, and as others serve; its loads are shares of what is sustained, chosen by
           --loads, its cases by --case, its systems by --systems
  predict  a server of one head under load beside what `greenwave sim compare` predicts of it, in one to three stages
  preempt  programs with probes and without: what they cost, and how exactly quanta end
  replica  three replicas that put values, beside etcd; time without a leader after kills; batches and windows in
           simulated networks, such with which nothing was tuned and such that change among them; makes or installs etcd
           where it can
  rpc      calls of 64 bytes to 1 MB, typed calls, batches, many connections, against raw sockets, tonic, tarpc, volo and gRPC for Go
  served   a whole server over TCP: mixes of calls, deadlines and loads in several orders and quanta, beside tonic
  sim      the simulation itself: events a second of cores and of a fat tree, its memory, runs on several cores, what it gives
           beside closed forms; beside SimPy and ns-3, which it installs below target/ where pip and a C++ compiler are
  verbs    ping-pong over each backend against raw sockets; prints alone

Options:
  --quick                  ends within 45 s once built, with rougher numbers
  --check[=steady]         ends with 1 if a claim is missed that was measured; of all but verbs. With =steady only claims
                           count that come out alike on every machine, as counts do, and what was found in virtual time
  --only overhead|gap|mix  of preempt: one part of it
  --older REVISION         of rpc: our own calls in pairs with the same program of an older commit, which is built below
                           target/older; a case is slower if more than 2 % is certain
  --program NAME           of preempt: one program
  --case NAME              of abuse, boost, flows, grpc, predict, replica, rpc, served and sim: this case; repeatable
  --system NAME            of abuse, boost, flows, grpc, grpc-served, replica, rpc, served and sim: this system; repeatable

Further ARGS go to the benchmark: --rounds N and --window MS of abuse and served, for example.

Examples:
  cargo xtask bench rpc --quick
  cargo xtask bench rpc --older HEAD~5 --check
  cargo xtask bench abuse --quick
  cargo xtask bench replica --case source --check=steady
  cargo xtask bench sim --case forms --case tcp --check=steady
  cargo xtask bench abuse --case hog --case poisoner --system greenwave --rounds 3";

/// What a benchmark is made of.
struct Bench {
    /// Packages, each with what is built of it. The first is run, the others lie beside it, where it looks for them.
    ///
    /// All are built by one call of Cargo: which features a dependency has depends on all that is built with it, so two
    /// calls would build the same dependencies in turns.
    targets: &'static [Target],
    /// Before it is measured, so that a quick run is quick: a step's name and its word.
    before: Option<(&'static str, &'static str)>,
    /// Its words.
    words: &'static [&'static str],
}

/// A package, `--bin` or `--example`, and its name.
pub(crate) type Target = [&'static str; 3];

/// The command, which some have do what it does for its users.
const COMMAND: Target = ["greenwave-cli", "--bin", "greenwave"];

fn bench(name: &str, quick: bool) -> Option<Bench> {
    let (targets, before, words): (&[Target], _, &[&str]) = match name {
        "abuse" => (&[["greenwave-bench-abuse", "--bin", "greenwave-bench-abuse"]], None, &["bench"]),
        "boost" => (&[["greenwave-flows", "--bin", "greenwave-flows"]], None, &["wakeups"]),
        "flows" => (&[["greenwave-flows", "--bin", "greenwave-flows"], COMMAND], None, &["bench"]),
        "grpc" => {
            let own = &[["greenwave-bench-grpc", "--bin", "greenwave-bench-grpc"]];
            (own, Some(("a client of others", "prepare")), &["bench"])
        }
        "path" => (&[["greenwave-path", "--bin", "greenwave-path"], COMMAND], None, &["bench"]),
        "predict" => (&[["greenwave-bench-sim", "--bin", "greenwave-bench-sim"], COMMAND], None, &["predict"]),
        "replica" => {
            let own = &[["greenwave-bench-replica", "--bin", "greenwave-bench-replica"]];
            (own, Some(("etcd", "prepare")), &["bench"])
        }
        "rpc" => (&[["greenwave-peers", "--bin", "greenwave-peers"]], Some(("other languages", "build")), &["bench"]),
        "sim" => {
            let own = &[["greenwave-bench-sim", "--bin", "greenwave-bench-sim"]];
            (own, Some(("simulators of others", "prepare")), &["bench"])
        }
        "verbs" if quick => (&[["greenwave-verbs", "--example", "ping_pong"]], None, &["3"]),
        "verbs" => (&[["greenwave-verbs", "--example", "ping_pong"]], None, &[]),
        _ => return None,
    };
    Some(Bench { targets, before, words })
}

impl Bench {
    /// The first, as it was built.
    fn program(&self, profile: &str) -> Command {
        let folder = target().join(profile);
        let path = match self.targets[0] {
            [_, "--example", name] => folder.join("examples").join(name),
            [_, _, name] => folder.join(name),
        };
        let mut command = Command::new(path);
        command.current_dir(root());
        command
    }
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut words = words.to_vec();
    let check = Which::take(&mut words)?;
    let Some((name, rest)) = words.split_first().filter(|_| !asks_for_help(&words)) else { return say(HELP) };
    let Some(which) = check else { return measure(name, rest) };
    if name == "verbs" {
        return Err(wrong_use("nothing is claimed of verbs".to_owned(), "cargo xtask bench --help"));
    }
    measure(name, rest)?;
    let written = written(if older::is_wanted(rest) { older::RESULTS } else { name });
    println!("{}", which.check(&written)?);
    Ok(())
}

/// Where a benchmark writes what it has measured.
pub(crate) fn written(name: &str) -> PathBuf {
    written_in(&target(), name)
}

/// The same, with another target folder.
pub(crate) fn written_in(target: &Path, name: &str) -> PathBuf {
    target.join("bench").join(format!("{name}.json"))
}

/// Builds and runs a benchmark.
pub(crate) fn measure(name: &str, rest: &[String]) -> Result<()> {
    match name {
        "preempt" => return preempt::run(rest),
        "served" => return preempt::served("bench", rest),
        "grpc-served" => return preempt::served("grpc", rest),
        _ => {}
    }
    let quick = rest.iter().any(|word| word == "--quick");
    let Some(bench) = bench(name, quick) else {
        return Err(wrong_use(format!("no benchmark is called `{name}`"), "cargo xtask bench --help"));
    };
    let mut rest = rest.to_vec();
    rest.retain(|word| name != "verbs" || word != "--quick");
    let older = if name == "rpc" { older::take(&mut rest)? } else { None };
    let builds = if older.is_some() { 2 } else { 0 };
    let mut steps = Steps::new(builds + if bench.before.is_some() { 3 } else { 2 });
    // A call takes less than a microsecond, half of it in small functions of several crates.
    let profile = if ["grpc", "rpc"].contains(&name) { "whole" } else { "release" };
    let features: &[&str] = match name {
        "grpc" => &["--features", "greenwave-bench-grpc/volo"],
        "rpc" if has_libfabric() => &["--features", "fabric"],
        _ => &[],
    };
    let mut build = cargo(["build", "--profile", profile]);
    for [package, kind, target] in bench.targets {
        build.args(["--package", package, kind, target]);
    }
    steps.run("build", build.args(features))?;
    if let Some((what, word)) = bench.before {
        steps.run(what, bench.program(profile).arg(word))?;
    }
    if let Some(older) = older {
        let program = older.build(&mut steps, profile, bench.targets[0], features)?;
        rest.extend([older::OPTION.to_owned(), program.display().to_string()]);
    }
    steps.run(name, bench.program(profile).args(bench.words).args(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_that_help_names_is_made_of_packages_that_there_are() {
        let listed = HELP.split("Benchmarks:\n").nth(1).and_then(|text| text.split("\n\n").next()).unwrap_or_default();
        // A line that goes on with what the one before says begins further to the right.
        let named = listed.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
        let names: Vec<&str> = named.filter_map(|line| line.split(' ').next()).collect();
        assert!(names.contains(&"replica"), "{names:?}");
        let metadata = cargo(["metadata", "--no-deps", "--format-version", "1"]).output().unwrap();
        let packages = String::from_utf8(metadata.stdout).unwrap();
        for name in names.into_iter().filter(|name| !["preempt", "served", "grpc-served"].contains(name)) {
            for [package, _, target] in bench(name, false).unwrap().targets {
                let is_there = |name: &str| packages.contains(&format!("\"name\":\"{name}\""));
                assert!(is_there(package) && is_there(target), "{name}: {package}, {target}");
            }
        }
        assert!(bench("nothing", false).is_none());
    }
}
