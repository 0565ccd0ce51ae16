//! What preemption is good for: short jobs among long ones, on one core, in process.
//!
//! Two threads, each pinned to a core of its own. The *dispatcher* gives jobs to the *worker* through a ring, at times
//! that were fixed beforehand (open loop, Poisson); the worker runs them. A job's latency counts from its scheduled time
//! to its own end, so that a job which waits anywhere, also in a dispatcher that is behind, is slow. Nothing is
//! dropped: what isn't finished when the drain time is over counts as infinitely late.
//!
//! - [`workload`](greenwave_bench::workload): the mixes, which are those of TQ (ASPLOS'24): shares and service times.
//! - [`task`]: the work itself: a loop of arithmetic, calibrated once, which is instrumented as any code is; and real
//!   calls of a store (`greenwave-kv`).
//! - [`system`]: who runs the jobs: the worker of `greenwave-quanta` in several orders and quanta, and tokio.
//! - [`plan`]: the jobs of a window and their times, the same for all systems.
//! - [`window`]: one run of a plan. [`figures`]: what it showed.
//! - [`interruptions`]: whether the kernel let others run meanwhile.
//! - [`rounds`]: all systems in turns; [`search`]: the load up to which a system serves well; [`claims`].
//!
//! The program has to be built by `cargo quanta`: without probes nothing is preempted, and all systems are the same one.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod claims;
mod figures;
mod interruptions;
mod plan;
mod rounds;
mod search;
mod system;
mod task;
mod tokio_worker;
mod window;

use std::time::Duration;

use anyhow::ensure;
use clap::{Parser, Subcommand};
use greenwave_bench::benchmark::{Benchmark, Named as _};
use greenwave_bench::pin::Cores;
use greenwave_bench::workload::Workload;

use claims::CLAIMS;
use plan::Plan;
use rounds::Scope;
use system::System;

/// Short jobs among long ones on one core: who waits for whom
#[derive(Parser)]
#[command(
    name = "greenwave-mix",
    after_help = "\
Examples:
  cargo quanta run --release -p greenwave-mix -- bench --quick
  cargo quanta run --release -p greenwave-mix -- run --workload extreme-bimodal --system ps-1us --load 0.7"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One workload, run by one system, at one load
    Run(Run),
    /// All of them in turns; writes target/bench/mix.json
    Bench(Bench),
}

#[derive(clap::Args)]
struct Run {
    /// The mix: extreme-bimodal, high-bimodal, tpcc, exponential, kv-0.5-scan, kv-50-scan
    #[arg(long)]
    workload: Workload,
    /// Who runs it: fcfs, ps-0.5us, ps-1us, ps-2us, ps-5us, ps-100us, laxity-1us, tokio
    #[arg(long)]
    system: System,
    /// The load, as a share of what fcfs can do, which is measured first; all jobs at once if it isn't stated
    #[arg(long)]
    load: Option<f64>,
    /// How long, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500)]
    window: u64,
    /// Decides times and tasks
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
struct Bench {
    /// Ends within 45 s, with rougher numbers
    #[arg(long)]
    quick: bool,
    /// These workloads alone
    #[arg(long, value_name = "WORKLOAD")]
    only: Vec<Workload>,
    /// These systems alone
    #[arg(long, value_name = "SYSTEM")]
    system: Vec<System>,
    /// At these loads alone, as shares of what fcfs can do
    #[arg(long, value_name = "SHARE")]
    load: Vec<f64>,
    /// How many times the search for the highest load halves
    #[arg(long, value_name = "N")]
    halvings: Option<usize>,
    /// So many rounds
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

fn main() -> anyhow::Result<()> {
    ensure!(
        greenwave_quanta::is_instrumented(),
        "nothing is preempted in this program; build it by `cargo quanta build --release -p greenwave-mix`"
    );
    let done = match Cli::parse().command {
        Command::Run(run) => run.run(),
        Command::Bench(bench) => bench.run(),
    };
    task::remove_store();
    done
}

impl Run {
    fn run(self) -> anyhow::Result<()> {
        let Self { workload, system, load, window, seed } = self;
        let cores = Cores::two()?;
        let scope = Scope { window: Duration::from_millis(window), ..Scope::full() };
        let capacity = rounds::capacity(&scope, workload, cores)?;
        println!("{}: fcfs can do {capacity:.0} jobs a second", workload.name());
        let length = scope.window_of(workload)?;
        let plan = match load {
            Some(load) => {
                ensure!(load > 0.0 && load.is_finite(), "--load is {load}; allowed: more than 0");
                Plan::open(workload, load * capacity, length, seed)?
            }
            None => Plan::at_once(workload, (capacity * length.as_secs_f64()) as usize, seed)?,
        };
        let outcome = window::run(&plan, system, cores)?;
        println!("{}: {:.0} jobs a second", system.name(), outcome.per_second());
        for (metric, value) in figures::of(workload, &plan, &outcome) {
            println!("{metric} {value:.1}");
        }
        Ok(())
    }
}

impl Bench {
    fn run(self) -> anyhow::Result<()> {
        let mut scope = if self.quick { Scope::quick() } else { Scope::full() };
        if !self.only.is_empty() {
            scope.workloads = self.only;
        }
        if !self.system.is_empty() {
            scope.systems = self.system;
        }
        if !self.load.is_empty() {
            scope.loads = self.load;
        }
        scope.halvings = self.halvings.unwrap_or(scope.halvings);
        scope.rounds = self.rounds.unwrap_or(scope.rounds);
        let possible = scope.loads.iter().all(|load| *load > 0.0 && load.is_finite());
        ensure!(possible, "--load is {:?}; allowed: more than 0", scope.loads);
        ensure!(scope.rounds > 0, "--rounds is 0; allowed: more than 0");
        let mut bench = Benchmark::new("mix", 0);
        let done = rounds::measure(&scope, Cores::two()?, &mut bench);
        bench.settle("mix", done);
        bench.finish(&CLAIMS, &[], |results| println!("{}", results.table(&COLUMNS)))?;
        Ok(())
    }
}

/// What the table shows; the file has all.
const COLUMNS: [&str; 9] = [
    "p50_latency_us",
    "p999_latency_us",
    "p999_slowdown",
    "short/p999_latency_us",
    "get/p999_latency_us",
    "interruptions",
    "saturated_per_s",
    "max_load",
    "max_load_short_50us",
];
