//! `cargo xtask bench`: what the README's numbers come from.

use anyhow::Result;

use crate::preempt;
use crate::step::{Steps, asks_for_help, cargo, has_libfabric, say, wrong_use};

const HELP: &str = "\
Builds and runs a benchmark and prints a table. What is measured for others to read goes to target/bench/NAME.json.

Usage: cargo xtask bench NAME [--quick] [ARGS]

Benchmarks:
  flows    small responses beside bulk, over a testbed of network namespaces; root alone can make them
  path     the services under five orders of service, with load as a share of their capacity
  preempt  thirty programs with probes and without: what they cost, and how exactly quanta end
  replica  three replicas that put values, beside etcd; time without a leader after kills; needs etcd-server
  rpc      calls of 64 bytes to 1 MB, batches, many connections, against raw sockets, tonic, tarpc, volo and gRPC for Go
  verbs    ping-pong over each backend against raw sockets; prints alone

Options:
  --quick                  ends within 45 s once built, with rougher numbers
  --only overhead|gap|mix  of preempt: one part of it
  --program NAME           of preempt: one program
  --case NAME              of flows, replica and rpc: this case; repeatable
  --system NAME            of flows, replica and rpc: this system; repeatable

Further ARGS go to the benchmark.";

pub(crate) fn run(words: &[String]) -> Result<()> {
    let Some((name, rest)) = words.split_first().filter(|_| !asks_for_help(words)) else { return say(HELP) };
    if name == "preempt" {
        return preempt::run(rest);
    }
    let quick = rest.iter().any(|word| word == "--quick");
    let (target, words): (_, &[&str]) = match name.as_str() {
        "flows" => (["--package", "greenwave-flows", "--bin", "greenwave-flows"], &["bench"]),
        "path" => (["--package", "greenwave-cli", "--bin", "greenwave"], &["reproduce", "path"]),
        "replica" => (["--package", "greenwave-bench-replica", "--bin", "greenwave-bench-replica"], &["bench"]),
        "rpc" => (["--package", "greenwave-peers", "--bin", "greenwave-peers"], &["bench"]),
        "verbs" if quick => (["--package", "greenwave-verbs", "--example", "ping_pong"], &["3"]),
        "verbs" => (["--package", "greenwave-verbs", "--example", "ping_pong"], &[]),
        _ => return Err(wrong_use(format!("no benchmark is called `{name}`"), "cargo xtask bench --help")),
    };
    let rest = rest.iter().filter(|word| name != "verbs" || *word != "--quick");
    let mut steps = Steps::new(if matches!(name.as_str(), "flows" | "replica" | "rpc") { 3 } else { 2 });
    // A call takes less than a microsecond, half of it in small functions of several crates.
    let profile = if name == "rpc" { "--profile=whole" } else { "--profile=release" };
    let features: &[&str] = if name == "rpc" && has_libfabric() { &["--features", "fabric"] } else { &[] };
    let run = || {
        let mut run = cargo(["run", "--quiet", profile]);
        run.args(target).args(features).arg("--");
        run
    };
    steps.run("build", cargo(["build", profile]).args(target).args(features))?;
    if name == "flows" {
        // It lies beside the benchmark, where that looks for it.
        let agent = ["--package", "greenwave-cli", "--bin", "greenwave"];
        steps.run("build the agent", cargo(["build", profile]).args(agent))?;
    }
    if name == "replica" {
        steps.run("etcd", run().arg("prepare"))?;
    }
    if name == "rpc" {
        // Apart, so that a quick run is quick.
        steps.run("other languages", run().arg("build"))?;
    }
    steps.run(name, run().args(words).args(rest))
}
