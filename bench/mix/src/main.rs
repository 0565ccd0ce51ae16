//! `greenwave-mix`: the mix benchmark as a program of its own.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::{Parser, Subcommand};
use greenwave_bench::disturbance::{QUIET, Watch};
use greenwave_bench::result::Results;
use greenwave_bench::workload::Workload;
use greenwave_mix::cores::Cores;
use greenwave_mix::figures::{Figures, Tally};
use greenwave_mix::plan::Plan;
use greenwave_mix::rounds::{self, Scope};
use greenwave_mix::system::System;
use greenwave_mix::{claims, task, window};

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

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let done = instrumented().and_then(|()| match command {
        Command::Run(run) => run.run(),
        Command::Bench(bench) => bench.run(),
    });
    task::remove_store();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn instrumented() -> anyhow::Result<()> {
    if !greenwave_quanta::is_instrumented() {
        bail!("nothing is preempted in this program; build it by `cargo quanta build --release -p greenwave-mix`");
    }
    Ok(())
}

impl Run {
    fn run(self) -> anyhow::Result<()> {
        let Self { workload, system, load, window, seed } = self;
        let cores = Cores::first_two()?;
        let scope = Scope { window: Duration::from_millis(window), ..Scope::full() };
        let capacity = rounds::capacity(&scope, workload, cores)?;
        println!("{workload}: fcfs can do {capacity:.0} jobs a second");
        let length = scope.window_of(workload)?;
        let plan = match load {
            Some(load) => {
                ensure!(load > 0.0 && load.is_finite(), "--load is {load}; allowed: more than 0");
                Plan::open(workload, load * capacity, length, seed)?
            }
            None => Plan::at_once(workload, (capacity * length.as_secs_f64()) as usize, seed)?,
        };
        let figures = Figures::of(workload, &plan, &window::run(&plan, system, cores)?);
        println!("{system}: {:.0} jobs a second", figures.per_second);
        for Tally { class, jobs, completed, latency_us, slowdown } in [&figures.all].into_iter().chain(&figures.classes)
        {
            let class = if class.is_empty() { "all" } else { class };
            let [p50, p99, p999] = latency_us;
            println!(
                "{class}: {completed} of {jobs}, p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us, slowdown {:.1} {:.1} {:.1}",
                slowdown[0], slowdown[1], slowdown[2]
            );
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
        let mut results = Results::new("mix");
        let watch = Watch::start();
        rounds::measure(&scope, Cores::first_two()?, &mut results)?;
        let others = watch.others();
        println!("{}", results.table(&COLUMNS));
        println!("{}", claims::table(&results));
        if let Some(others) = others {
            results.push("machine", "others", "busy_cores", others);
            if others > QUIET {
                println!(
                    "Others kept {others:.2} cores busy meanwhile: where they took the worker's, tails are theirs."
                );
            }
        }
        println!("wrote {}", results.write()?.display());
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
