//! All workloads and systems in turns.
//!
//! What disturbs a machine changes from minute to minute. So windows are short, each round begins with another system,
//! and the median of the rounds counts. A window in which the kernel let others run on one of the two cores is run again a
//! few times, and the least disturbed one counts: a tail of microseconds can't be seen behind another program's
//! milliseconds. How often it happened in those that count is in the results (`interruptions`). Loads are shares of what the worker can do first come, first served, which is
//! measured before each workload.

use std::time::Duration;

use anyhow::ensure;
use greenwave_bench::capacity::median;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::cores::Cores;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::search;
use crate::system::System;
use crate::window;
use greenwave_bench::workload::Workload;

/// The bound on the 99.9th percentile of the slowdown of all jobs, in TQ as well.
pub const SLOWDOWN: f64 = 10.0;

/// The bound on the 99.9th percentile of the shortest class's latency, in microseconds, in TQ as well.
pub const SHORT_US: f64 = 50.0;

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Which mixes.
    pub workloads: Vec<Workload>,
    /// Who runs them.
    pub systems: Vec<System>,
    /// At which loads.
    pub loads: Vec<f64>,
    /// How many times each.
    pub rounds: usize,
    /// How long each time; mixes of few jobs a second take longer.
    pub window: Duration,
    /// How many times a window that others disturb is run at most.
    pub tries: usize,
    /// How many times the search for the highest load halves.
    pub halvings: usize,
}

impl Scope {
    /// Everything: about four minutes a workload.
    #[must_use]
    pub fn full() -> Self {
        Self {
            workloads: Workload::ALL.to_vec(),
            systems: System::ALL.to_vec(),
            loads: vec![0.3, 0.5, 0.7, 0.8, 0.9],
            rounds: 5,
            window: Duration::from_millis(150),
            tries: 4,
            halvings: 3,
        }
    }

    /// Within 45 s, with rougher numbers.
    #[must_use]
    pub fn quick() -> Self {
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
    ///
    /// # Errors
    /// When the store that the jobs need can't be opened.
    pub fn window_of(&self, workload: Workload) -> anyhow::Result<Duration> {
        let least = Plan::mean_service(workload)?.mul_f64(Self::JOBS);
        Ok(self.window.max(least.min(2 * self.window)))
    }
}

/// Measures everything in the scope.
///
/// # Errors
/// Those of [`window::run`].
pub fn measure(scope: &Scope, cores: Cores, results: &mut Results) -> anyhow::Result<()> {
    let searches = 2 * scope.halvings * scope.systems.len();
    let per_workload = 1 + scope.rounds * (1 + scope.loads.len()) + searches;
    let mut progress = Progress::new(scope.workloads.len() * per_workload);
    for &workload in &scope.workloads {
        progress.step(format!("{workload}: capacity"));
        let capacity = capacity(scope, workload, cores)?;
        let mut bench = Bench { scope, workload, cores, capacity, progress: &mut progress, seed: 0 };
        let rounds = (0..scope.rounds).map(|round| bench.round(round)).collect::<anyhow::Result<Vec<_>>>()?;
        push(scope, workload, capacity, &rounds, results);
        bench.search(&rounds, results)?;
    }
    Ok(())
}

/// How many jobs a second the worker can do, first come, first served: the median of three runs.
///
/// # Errors
/// Those of [`window::run`].
pub fn capacity(scope: &Scope, workload: Workload, cores: Cores) -> anyhow::Result<f64> {
    let guess = 1.0 / Plan::mean_service(workload)?.as_secs_f64();
    let runs = (0..3).map(|seed| saturated(scope, workload, System::Fcfs, cores, guess, seed));
    Ok(median(&runs.collect::<anyhow::Result<Vec<_>>>()?))
}

/// How many jobs a second a system does, when all are there from the beginning: about a window of work, to its end, so
/// that none is left out.
fn saturated(
    scope: &Scope,
    workload: Workload,
    system: System,
    cores: Cores,
    per_second: f64,
    seed: u64,
) -> anyhow::Result<f64> {
    let jobs = (per_second * scope.window_of(workload)?.as_secs_f64()) as usize;
    let plan = Plan::at_once(workload, jobs.max(1), seed)?;
    let figures = calmest(scope.tries, || Ok(Figures::of(workload, &plan, &window::run(&plan, system, cores)?)))?;
    ensure!(figures.all.completed == plan.arrivals.len(), "{system} didn't finish {workload}; is the machine busy?");
    Ok(figures.per_second)
}

/// Runs a window until it isn't disturbed, so many times at most; the least disturbed counts.
fn calmest(tries: usize, mut run: impl FnMut() -> anyhow::Result<Figures>) -> anyhow::Result<Figures> {
    let mut best = run()?;
    for _ in 1..tries {
        if best.interruptions == 0 {
            break;
        }
        let next = run()?;
        if next.interruptions < best.interruptions {
            best = next;
        }
    }
    Ok(best)
}

/// One round: for each system the saturated rate, and the figures at each load.
type Round = Vec<(f64, Vec<Figures>)>;

struct Bench<'a> {
    scope: &'a Scope,
    workload: Workload,
    cores: Cores,
    capacity: f64,
    progress: &'a mut Progress,
    /// Raised for each set of windows that are compared.
    seed: u64,
}

impl Bench<'_> {
    fn round(&mut self, round: usize) -> anyhow::Result<Round> {
        let Self { scope, workload, cores, capacity, .. } = *self;
        let systems = scope.systems.len();
        let mut figures: Round = vec![(f64::NAN, Vec::new()); systems];
        self.seed += 1;
        self.progress.step(format!("{workload}: round {}, saturated", round + 1));
        for index in (0..systems).map(|turn| (turn + round) % systems) {
            figures[index].0 = saturated(scope, workload, scope.systems[index], cores, capacity, self.seed)?;
        }
        for &load in &scope.loads {
            self.seed += 1;
            self.progress.step(format!("{workload}: round {}, load {load}", round + 1));
            for index in (0..systems).map(|turn| (turn + round) % systems) {
                let window = self.window(scope.systems[index], load)?;
                figures[index].1.push(window);
            }
        }
        Ok(figures)
    }

    fn window(&self, system: System, load: f64) -> anyhow::Result<Figures> {
        let Self { scope, workload, cores, capacity, seed, .. } = *self;
        let plan = Plan::open(workload, load * capacity, scope.window_of(workload)?, seed)?;
        calmest(scope.tries, || Ok(Figures::of(workload, &plan, &window::run(&plan, system, cores)?)))
    }

    fn search(&mut self, rounds: &[Round], results: &mut Results) -> anyhow::Result<()> {
        let scope = self.scope;
        for (index, &system) in scope.systems.iter().enumerate() {
            for Bound { metric, limit, figure } in BOUNDS {
                let at = |(place, load): (usize, &f64)| {
                    let values: Vec<f64> = rounds.iter().map(|round| figure(&round[index].1[place])).collect();
                    (*load, median(&values))
                };
                let measured: Vec<_> = scope.loads.iter().enumerate().map(at).collect();
                let found = search::highest(&measured, limit, scope.halvings, |load| {
                    self.progress.step(format!("{}: {metric} of {system}", self.workload));
                    let windows = (0..scope.rounds.min(3)).map(|_| {
                        self.seed += 1;
                        self.window(system, load).map(|figures| figure(&figures))
                    });
                    windows.collect::<anyhow::Result<Vec<_>>>().map(|values| median(&values))
                })?;
                results.push(&format!("mix/{}", self.workload), &system.name(), metric, found);
            }
        }
        Ok(())
    }
}

/// What a system has to stay within, and how the highest load at which it does is called.
struct Bound {
    metric: &'static str,
    limit: f64,
    figure: fn(&Figures) -> f64,
}

const BOUNDS: [Bound; 2] = [
    Bound { metric: "max_load", limit: SLOWDOWN, figure: Figures::slowdown },
    Bound { metric: "max_load_short_50us", limit: SHORT_US, figure: Figures::short_us },
];

fn push(scope: &Scope, workload: Workload, capacity: f64, rounds: &[Round], results: &mut Results) {
    let case = format!("mix/{workload}");
    results.push(&case, &System::Fcfs.name(), "capacity_per_s", capacity);
    let of = |system: System| scope.systems.iter().position(|it| *it == system);
    for (index, system) in scope.systems.iter().enumerate() {
        let name = system.name();
        let rates: Vec<f64> = rounds.iter().map(|round| round[index].0).collect();
        results.push(&case, &name, "saturated_per_s", median(&rates));
        if let Some(fcfs) = of(System::Fcfs) {
            let ratios: Vec<f64> = rounds.iter().map(|round| round[index].0 / round[fcfs].0).collect();
            results.push(&case, &name, "saturated_over_fcfs", median(&ratios));
        }
        for (place, load) in scope.loads.iter().enumerate() {
            let case = format!("{case}/load-{load}");
            let windows: Vec<Vec<(String, f64)>> = rounds.iter().map(|round| round[index].1[place].rows()).collect();
            for (row, (metric, _)) in windows[0].iter().enumerate() {
                let values: Vec<f64> = windows.iter().map(|window| window[row].1).collect();
                results.push(&case, &name, metric, median(&values));
            }
            if let Some(fcfs) = of(System::Fcfs) {
                let short = |index: usize| rounds.iter().map(move |round| round[index].1[place].short_us());
                let ratios: Vec<f64> = short(fcfs).zip(short(index)).map(|(fcfs, own)| fcfs / own).collect();
                results.push(&case, &name, "short_p999_fcfs_over_this", median(&ratios));
            }
        }
    }
}

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
        assert!([Scope::full(), Scope::quick()].iter().all(|scope| scope.loads.contains(&crate::claims::LOAD)));
    }
}
