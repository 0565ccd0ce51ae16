//! How fast the simulation of cores is: `cargo xtask bench sim [--quick]`.
//!
//! Events a second on one core for servers of several kinds, on all cores for as many seeds, and what it takes of memory.

use greenwave_policy::{DispatchRule, Order, StealRule};
use greenwave_sim::Seed;
use greenwave_sim::cores::{Cores, Costs, Load, Plan, PlanError, Report, Scheme, Steal, Work, run};
use greenwave_sim::graph::{self, Graph, Stage};
use std::time::{Duration, Instant};

const US: Duration = Duration::from_micros(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quick = std::env::args().any(|word| word == "--quick");
    let jobs = if quick { 2_000_000 } else { 20_000_000 };
    let two_level = |order, dispatch, quantum, steal| Scheme::TwoLevel { dispatch, order, quantum, steal };
    let shortest = DispatchRule::JoinShortestQueue;
    let given = Steal::Given(StealRule::default());
    let cases = [
        ("M/M/1", 1, Scheme::Central { order: Order::Fcfs, quantum: None }, Load::exponential(US)),
        ("16 workers, one queue", 16, Scheme::Central { order: Order::Fcfs, quantum: None }, Load::exponential(US)),
        (
            "16 workers, two levels, 1 us",
            16,
            two_level(Order::ProcessorSharing, shortest, Some(US), Steal::Never),
            extreme(),
        ),
        ("16 workers, stealing", 16, two_level(Order::Fcfs, DispatchRule::Random, None, Steal::WhenIdle), extreme()),
        (
            "16 heads, default order, 1 us",
            16,
            two_level(Order::Guarded, DispatchRule::Random, Some(US), given),
            extreme(),
        ),
        (
            "64 heads, default order, 1 us",
            64,
            two_level(Order::Guarded, DispatchRule::Random, Some(US), given),
            extreme(),
        ),
    ];
    println!("one core; millions of events a second, jobs, most that were unfinished, hash");
    for (name, workers, scheme, load) in &cases {
        let (report, took) = timed(*workers, *scheme, load, jobs, 1)?;
        let per_second = report.events as f64 / took.as_secs_f64() / 1e6;
        println!("{name:30} {per_second:7.1} {:9} {:6} {:016x}", report.done, report.most_unfinished, report.hash);
    }
    let begun = Instant::now();
    let stage = Stage::new(4, Work::Exponential(20 * US));
    let chain = graph::run(&Graph::new(vec![stage; 3], Order::EarliestDeadline), 140_000.0, jobs / 10, Seed::new(1))?;
    let per_second = chain.events as f64 / begun.elapsed().as_secs_f64() / 1e6;
    println!("{:30} {per_second:7.1} {:9} {:>6} {:016x}", "a chain of three stages", jobs / 10, "-", chain.hash);

    let cores = std::thread::available_parallelism()?.get();
    println!("as many seeds as threads, 16 workers, two levels; millions of events a second");
    let (_, workers, scheme, load) = &cases[2];
    for threads in [1, cores] {
        let begun = Instant::now();
        let events: u64 = std::thread::scope(|scope| {
            let runs: Vec<_> = (1..=threads as u64)
                .map(|seed| {
                    scope.spawn(move || timed(*workers, *scheme, load, jobs / 2, seed).map(|(report, _)| report.events))
                })
                .collect();
            runs.into_iter().filter_map(|run| run.join().ok()?.ok()).sum()
        });
        println!("{threads:3} threads {:7.1}", events as f64 / begun.elapsed().as_secs_f64() / 1e6);
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("memory at most: {}", peak.unwrap_or("unknown").trim());
    Ok(())
}

fn extreme() -> Load {
    Load::named("extreme").unwrap_or_else(|| Load::exponential(US))
}

fn timed(workers: usize, scheme: Scheme, load: &Load, jobs: u64, seed: u64) -> Result<(Report, Duration), PlanError> {
    let cores = Cores::new(workers, scheme).with_costs(Costs { switch: Duration::from_nanos(40), ..Costs::default() });
    let begun = Instant::now();
    let report = run(&cores, load, &Plan::new(jobs).with_share(0.7), Seed::new(seed))?;
    Ok((report, begun.elapsed()))
}
