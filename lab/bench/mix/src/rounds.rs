//! All workloads and systems in turns.
//!
//! Windows are short. One in which the kernel let others run on one of the two cores is run again a
//! few times, and the least disturbed one counts: a tail of microseconds can't be seen behind another program's
//! milliseconds. How often it happened in those that count is in the results (`interruptions`). Loads are shares of what the worker can do first come, first served, which is
//! measured before each workload.

use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum as _;
use greenwave_bench::benchmark::{Benchmark, Named as _};
use greenwave_bench::pin::Cores;
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{Cell, Figures, Rounds, calmest, median};
use greenwave_bench::workload::Workload;

use crate::figures::{self, INTERRUPTIONS, SLOWDOWN, short_us};
use crate::plan::Plan;
use crate::search;
use crate::system::System;
use crate::window;

/// The bounds on the 99.9th percentiles of the slowdown of all jobs and of the shortest class's latency in microseconds,
/// in TQ as well.
const MOST_SLOWDOWN: f64 = 10.0;
const MOST_SHORT_US: f64 = 50.0;

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Which mixes.
    pub(crate) workloads: Vec<Workload>,
    /// Who runs them.
    pub(crate) systems: Vec<System>,
    /// At which loads.
    pub(crate) loads: Vec<f64>,
    /// How many times each.
    pub(crate) rounds: usize,
    /// How long each time; mixes of few jobs a second take longer.
    pub(crate) window: Duration,
    /// How many times a window that others disturb is run at most.
    pub(crate) tries: usize,
    /// How many times the search for the highest load halves.
    pub(crate) halvings: usize,
}

impl Scope {
    /// Everything: about four minutes a workload.
    pub(crate) fn full() -> Self {
        Self {
            workloads: Workload::value_variants().to_vec(),
            systems: System::ALL.to_vec(),
            loads: vec![0.3, 0.5, 0.7, 0.8, 0.9],
            rounds: 5,
            window: Duration::from_millis(150),
            tries: 4,
            halvings: 3,
        }
    }

    /// Within 45 s, with rougher numbers.
    pub(crate) fn quick() -> Self {
        Self {
            loads: vec![0.7, 0.9],
            rounds: 2,
            window: Duration::from_millis(60),
            tries: 2,
            halvings: 0,
            ..Self::full()
        }
    }

    /// Jobs of a mix that a window has at least, at full load.
    const JOBS: f64 = 1500.0;

    /// How long a window of this mix is.
    pub(crate) fn window_of(&self, workload: Workload) -> anyhow::Result<Duration> {
        let least = Plan::mean_service(workload)?.mul_f64(Self::JOBS);
        Ok(self.window.max(least.min(2 * self.window)))
    }
}

/// Measures everything in the scope.
pub(crate) fn measure(scope: &Scope, cores: Cores, bench: &mut Benchmark) -> anyhow::Result<()> {
    let searches = 2 * scope.halvings * scope.systems.len();
    let per_workload = 1 + scope.rounds * scope.systems.len() * (1 + scope.loads.len()) + searches;
    bench.progress = Progress::new(scope.workloads.len() * per_workload);
    for &workload in &scope.workloads {
        bench.progress.step(format!("{}: capacity", workload.name()));
        let capacity = capacity(scope, workload, cores)?;
        Setting { scope, workload, cores, capacity }.measure(bench)?;
    }
    Ok(())
}

/// How many jobs a second the worker can do, first come, first served: the median of three runs.
pub(crate) fn capacity(scope: &Scope, workload: Workload, cores: Cores) -> anyhow::Result<f64> {
    let capacity = 1.0 / Plan::mean_service(workload)?.as_secs_f64();
    let guess = Setting { scope, workload, cores, capacity };
    let runs = (0..3).map(|seed| guess.saturated(System::Fcfs, seed));
    Ok(median(&runs.collect::<anyhow::Result<Vec<_>>>()?))
}

/// A workload, with what loads are shares of.
#[derive(Clone, Copy)]
struct Setting<'a> {
    scope: &'a Scope,
    workload: Workload,
    cores: Cores,
    capacity: f64,
}

impl Setting<'_> {
    /// How many jobs a second a system does, when all are there from the beginning: about a window of work, to its end, so
    /// that none is left out.
    fn saturated(self, system: System, seed: u64) -> anyhow::Result<f64> {
        let Self { scope, workload, cores, capacity } = self;
        let jobs = (capacity * scope.window_of(workload)?.as_secs_f64()) as usize;
        let plan = Plan::at_once(workload, jobs.max(1), seed)?;
        let interruptions = |outcome: &window::Outcome| outcome.interruptions as f64;
        let outcome = calmest(scope.tries, 0.0, interruptions, || window::run(&plan, system, cores))?;
        let is_whole = outcome.latencies.iter().all(Option::is_some);
        ensure!(is_whole, "{} didn't finish {}; is the machine busy?", system.name(), workload.name());
        Ok(outcome.per_second())
    }

    /// What a system shows at a load.
    fn window(self, system: System, load: f64, seed: u64) -> anyhow::Result<Figures> {
        let Self { scope, workload, cores, capacity } = self;
        let plan = Plan::open(workload, load * capacity, scope.window_of(workload)?, seed)?;
        let interruptions = |figures: &Figures| figures[INTERRUPTIONS];
        calmest(scope.tries, 0.0, interruptions, || {
            Ok(figures::of(workload, &plan, &window::run(&plan, system, cores)?))
        })
    }

    fn measure(self, bench: &mut Benchmark) -> anyhow::Result<()> {
        let Self { scope, workload, .. } = self;
        let (case, systems) = (format!("mix/{}", workload.name()), &scope.systems);
        let names: Vec<String> = systems.iter().map(|system| system.name()).collect();
        // All jobs at once, and then the loads.
        let loads: Vec<Option<f64>> = [None].into_iter().chain(scope.loads.iter().copied().map(Some)).collect();
        let case_at = |load: &Option<f64>| load.map_or_else(|| case.clone(), |load| format!("{case}/load-{load}"));
        let cells = loads.iter().flat_map(|load| Cell::of_case(&case_at(load), &names)).collect();
        let (mut rounds, mut seed) = (Rounds::new(cells), 0);
        for round in 0..scope.rounds {
            for (nth, load) in loads.iter().enumerate() {
                // The same jobs for all that are compared.
                seed += 1;
                let cells = nth * systems.len()..(nth + 1) * systems.len();
                bench.round(&mut rounds, round, cells, |_, at, _| {
                    let system = systems[at % systems.len()];
                    match load {
                        None => Ok(Figures::from([(SATURATED.to_owned(), self.saturated(system, seed)?)])),
                        Some(load) => self.window(system, *load, seed),
                    }
                });
            }
        }
        self.add_ratios(&mut rounds);
        bench.results.push(&case, &System::Fcfs.name(), "capacity_per_s", self.capacity);
        rounds.push(&mut bench.results, |_| false);
        self.search(&rounds, &case, seed, bench)
    }

    fn add_ratios(self, rounds: &mut Rounds) {
        let (fcfs, short) = (System::Fcfs.name(), short_us(self.workload));
        for (at, Cell { case, system }) in rounds.cells().to_vec().iter().enumerate() {
            rounds.ratio(at, SATURATED, &Cell::new(case, &fcfs), "saturated_over_fcfs");
            rounds.derive(at, "short_p999_fcfs_over_this", |round| {
                Some(round.value(case, &fcfs, &short)? / round.value(case, system, &short)?)
            });
        }
    }

    /// Looks for the highest loads at which systems stay within bounds.
    fn search(self, rounds: &Rounds, case: &str, mut seed: u64, bench: &mut Benchmark) -> anyhow::Result<()> {
        let Self { scope, workload, .. } = self;
        let bounds = [
            ("max_load", SLOWDOWN.to_owned(), MOST_SLOWDOWN),
            ("max_load_short_50us", short_us(workload), MOST_SHORT_US),
        ];
        for (index, &system) in scope.systems.iter().enumerate() {
            for (metric, figure, limit) in &bounds {
                let of_load = |(nth, load): (usize, &f64)| {
                    (*load, median(&rounds.values((nth + 1) * scope.systems.len() + index, figure)))
                };
                let measured: Vec<_> = scope.loads.iter().enumerate().map(of_load).collect();
                let found = search::highest(&measured, *limit, scope.halvings, |load| {
                    bench.progress.step(format!("{}: {metric} of {}", workload.name(), system.name()));
                    let windows = (0..scope.rounds.min(3)).map(|_| {
                        seed += 1;
                        self.window(system, load, seed).map(|figures| figures[figure])
                    });
                    windows.collect::<anyhow::Result<Vec<_>>>().map(|values| median(&values))
                })?;
                bench.results.push(case, &system.name(), *metric, found);
            }
        }
        Ok(())
    }
}

const SATURATED: &str = "saturated_per_s";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_of_long_jobs_are_watched_for_longer() {
        let scope = Scope::quick();
        assert_eq!(scope.window_of(Workload::Exponential).unwrap(), scope.window);
        assert_eq!(scope.window_of(Workload::HighBimodal).unwrap(), Duration::from_micros(75_750).max(scope.window));
    }

    #[test]
    fn the_loads_of_the_claims_are_measured_in_both_scopes() {
        assert!([Scope::full(), Scope::quick()].iter().all(|scope| scope.loads.contains(&0.7)));
    }
}
