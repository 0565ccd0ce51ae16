//! Deadline scheduling against the usual: a chain and a parallel unit at 0.7, 0.9 and 1.3 of what they can do.
//!
//! Every system gets the same requests at the same times: open loop, Poisson, three classes. A machine that others use
//! too changes its speed by the second, so each load is put on in rounds, the systems in another order each time, and
//! capacity is measured with the usual system at first and after each run: a load is a share of the median of
//! the capacities measured so far, the figures of a system are those of all its requests in all rounds, and its goodput
//! is compared with the capacities around its runs.

use crate::service::Service;
use crate::system::{ALL, FIFO, LEAST_LAXITY, System};
use crate::{fleet, hops, named};
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::capacity::{self, Trial};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::Measured;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::range;
use std::path::PathBuf;
use std::time::Duration;

/// Loads as shares of capacity.
pub(crate) const LOADS: [f64; 3] = [0.7, 0.9, 1.3];

/// How often each load is put on each system.
const ROUNDS: usize = 3;

/// Compare deadline scheduling with first come, first served on a chain and on a parallel unit
#[derive(Args, Debug)]
pub(crate) struct PathArgs {
    /// Less of everything, within 45 seconds.
    #[arg(long)]
    quick: bool,
    /// The text that is searched and the crates that are recommended [default: the local Cargo registry].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seconds of load per run; a system has three runs at each load.
    #[arg(long, value_name = "S", value_parser = crate::seconds)]
    seconds: Option<Duration>,
    /// Processes that a search is split over, 1 to 60: receipts have to hold them all.
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u16).range(1..=60))]
    shards: u16,
    /// Only one of the cases: chain, parallel-unit, five-hops or four-servers.
    #[arg(long, value_parser = ["chain", "parallel-unit", "five-hops", "four-servers"], hide_possible_values = true)]
    case: Option<String>,
    /// Only these systems: fifo, fifo-admission, edf, least-laxity, oldest-first, stage-laxity.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = PossibleValuesParser::new(ALL.map(|it| it.name)), hide_possible_values = true)]
    systems: Vec<String>,
    /// Loads as shares of capacity.
    #[arg(long, value_delimiter = ',', value_name = "SHARES", default_values_t = LOADS, value_parser = crate::share)]
    loads: Vec<f64>,
    /// A further option of `greenwave serve` for the systems that know deadlines. May be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<String>,
    /// Decides arrivals, classes and requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How long things run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) load: Duration,
    pub(crate) drain: Duration,
    pub(crate) capacity: Duration,
}

impl PathArgs {
    /// Runs the benchmark, prints the table and writes `path.json`.
    pub(crate) fn run(self) -> Result<()> {
        let wanted = |case: &str| self.case.as_ref().is_none_or(|prefix| case.starts_with(prefix.as_str()));
        let times = Times::new(self.seconds, self.quick);
        let mut services = Vec::new();
        if wanted("chain") {
            services.push((Service::chain(self.dir.as_ref(), self.seed)?, ALL.to_vec()));
        }
        if wanted("parallel-unit") {
            let systems = if self.quick { vec![FIFO, LEAST_LAXITY] } else { ALL.to_vec() };
            services.push((Service::unit(self.dir.as_ref(), self.shards, self.seed)?, systems));
        }
        for (service, systems) in &mut services {
            service.further.clone_from(&self.with);
            systems.retain(|system| self.systems.is_empty() || self.systems.iter().any(|name| name == system.name));
        }
        let runs: usize = services.iter().map(|(_, systems)| times.runs(systems.len()) * self.loads.len()).sum();
        let named = if wanted("four-servers") { named::SYSTEMS.len() * named::MORE_ROUNDS * times.rounds } else { 0 };
        let mut progress = Progress::new(runs + named + usize::from(wanted("five-hops")));
        let mut results = Results::new("path");
        if wanted("five-hops") {
            progress.step("five-hops");
            hops::measure(if self.quick { 2_000 } else { 20_000 }, &mut results)?;
        }
        if wanted("four-servers") {
            named::measure(&times, self.seed, &mut results, &mut progress)?;
        }
        fleet::pin(1);
        for (service, systems) in &mut services {
            let plan = Comparison { systems, loads: &self.loads, times: &times, seed: self.seed };
            plan.run(service, &mut results, &mut progress)?;
        }
        drop(progress);
        print(&results);
        println!("\n{}", results.write()?.display());
        Ok(())
    }
}

impl Times {
    fn new(seconds: Option<Duration>, quick: bool) -> Self {
        let ms = Duration::from_millis;
        let (rounds, warm_up, load, drain, capacity) = if quick {
            (1, ms(150), ms(700), ms(250), ms(200))
        } else {
            (ROUNDS, ms(1000), ms(4000), ms(3000), ms(1000))
        };
        Self { rounds, warm_up, load: seconds.unwrap_or(load), drain, capacity }
    }

    /// How many runs and measurements of capacity a load takes.
    fn runs(&self, systems: usize) -> usize {
        1 + self.rounds * systems * if self.probe().is_some() { 2 } else { 1 }
    }

    /// How capacity is measured.
    pub(crate) fn trial(&self) -> Trial {
        Trial { in_flight: 16, warm_up: self.warm_up, windows: 5, window: self.capacity, seed: 1 }
    }

    /// How it is measured between runs, on fresh processes that are as warm as those of a run; not at all where there
    /// is no time for it.
    fn probe(&self) -> Option<Trial> {
        (self.rounds > 1).then(|| Trial { windows: 3, ..self.trial() })
    }
}

/// What is compared on a service.
struct Comparison<'a> {
    systems: &'a [System],
    loads: &'a [f64],
    times: &'a Times,
    seed: u64,
}

impl Comparison<'_> {
    fn run(&self, service: &mut Service, results: &mut Results, progress: &mut Progress) -> Result<()> {
        let Self { systems, loads, times, seed } = *self;
        let mut capacities = Vec::new();
        for (turn, &load) in loads.iter().enumerate() {
            let mut sums: Vec<Option<Sum>> = systems.iter().map(|_| None).collect();
            let mut before = measure_capacity(service, &times.trial(), progress)?;
            capacities.push(before);
            for round in 0..times.rounds {
                let rate = capacity::median(&capacities) * load;
                // In another order each time: none has the machine at its best or worst for being the first or the last.
                for place in 0..systems.len() {
                    let index = (place + turn + round) % systems.len();
                    let system = &systems[index];
                    progress.step(format!("{} {} at {load}", service.case, system.name));
                    let measured = run(service, system, rate, times, seed + round as u64, progress)?;
                    let after = match times.probe() {
                        Some(trial) => measure_capacity(service, &trial, progress)?,
                        None => before,
                    };
                    capacities.push(after);
                    Sum::add(&mut sums[index], measured, f64::midpoint(before, after));
                    before = after;
                }
            }
            let case = format!("{}/load-{load}", service.case);
            for (system, sum) in systems.iter().zip(sums) {
                sum.into_iter().for_each(|sum| sum.push(results, &case, system.name));
            }
        }
        let (least, most) = range(&capacities);
        let case = format!("{}/capacity", service.case);
        results.push(&case, FIFO.name, "capacity_per_s", capacity::median(&capacities));
        results.push(&case, FIFO.name, "least_capacity_per_s", least);
        results.push(&case, FIFO.name, "most_capacity_per_s", most);
        Ok(())
    }
}

/// The rounds of a system at a load.
struct Sum {
    measured: Measured,
    /// The capacities around its runs.
    near: Vec<f64>,
    /// The goodput of each run as a share of that.
    of_capacity: Vec<f64>,
}

impl Sum {
    fn add(sum: &mut Option<Self>, measured: Measured, near: f64) {
        let share = measured.goodput_per_s() / near;
        match sum {
            None => *sum = Some(Self { measured, near: vec![near], of_capacity: vec![share] }),
            Some(sum) => {
                sum.measured.append(measured);
                sum.near.push(near);
                sum.of_capacity.push(share);
            }
        }
    }

    fn push(&self, results: &mut Results, case: &str, system: &str) {
        results.push_load(case, system, &self.measured);
        let near = self.near.iter().sum::<f64>() / self.near.len() as f64;
        let (least, most) = range(&self.of_capacity);
        results.push(case, system, "capacity_meanwhile_per_s", near);
        results.push(case, system, "goodput_of_capacity", self.measured.goodput_per_s() / near);
        results.push(case, system, "least_goodput_of_capacity", least);
        results.push(case, system, "most_goodput_of_capacity", most);
    }
}

/// What the service can do, first come, first served.
pub(crate) fn measure_capacity(service: &mut Service, trial: &Trial, progress: &mut Progress) -> Result<f64> {
    progress.step(format!("{} capacity", service.case));
    let serving = service.start(&FIFO)?;
    let mut target = service.connect(&serving.address)?;
    let measured = capacity::measure(trial, &service.classes, &mut target, &mut *service.requests, progress)?;
    Ok(measured.per_second)
}

/// One run of load on fresh processes.
pub(crate) fn run(
    service: &mut Service,
    system: &System,
    rate: f64,
    times: &Times,
    seed: u64,
    progress: &mut Progress,
) -> Result<Measured> {
    let serving = service.start(system)?;
    let mut target = service.connect(&serving.address)?;
    let plan = Plan {
        warm_up: times.warm_up,
        drain: times.drain,
        seed,
        ..Plan::new(Arrivals::Poisson { per_second: rate }, service.classes.clone(), times.load)
    };
    Ok(load::run(&plan, &mut target, &mut *service.requests, progress))
}

fn print(results: &Results) {
    let metrics = [
        "capacity_per_s",
        "least_capacity_per_s",
        "most_capacity_per_s",
        "p50_ms",
        "p99_ms",
        "p999_ms",
        "missed_share",
        "tight/missed_share",
        "normal/missed_share",
        "loose/missed_share",
        "tight/p99_ms",
        "normal/p99_ms",
        "loose/p99_ms",
        "goodput_per_s",
        "capacity_meanwhile_per_s",
        "goodput_of_capacity",
        "least_goodput_of_capacity",
        "most_goodput_of_capacity",
        "wasted_work_share",
        "p99_of_three_good",
        "least_p99_of_three_good",
        "most_p99_of_three_good",
        "share_of_slow",
        "budget_error_p99_us",
        "last_hop_budget_error_p99_us",
    ];
    println!("{}", results.table(&metrics));
    for line in worse(results) {
        println!("worse: {line}");
    }
}

/// Where a class's p99 got worse than 1.25 times what it is first come, first served, or more of it is missed: said, not
/// left to be found. The p99 is that of the answers, so one without the other would be half of it.
fn worse(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for case in results.distinct(|row| &row.case) {
        for system in ALL.iter().filter(|system| system.deadlines) {
            for class in ["tight", "normal", "loose"] {
                let missed = format!("{class}/missed_share");
                let usual = results.value(case, FIFO.name, &missed);
                let here = results.value(case, system.name, &missed);
                if let Some((usual, here)) = usual.zip(here).filter(|(usual, here)| *here > usual + 0.01) {
                    let (name, usual, here) = (system.name, 100.0 * usual, 100.0 * here);
                    lines.push(format!(
                        "{case}: {here:.1} % of the {class} requests are missed under {name}, {usual:.1} % under fifo"
                    ));
                }
                let metric = format!("{class}/p99_ms");
                let usual = results.value(case, FIFO.name, &metric);
                let here = results.value(case, system.name, &metric);
                if let Some((usual, here)) = usual.zip(here).filter(|(usual, here)| *here > 1.25 * usual) {
                    let name = system.name;
                    lines.push(format!(
                        "{case}: {class} requests have a p99 of {here:.1} ms under {name}, {usual:.1} ms under fifo"
                    ));
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_got_worse_is_named() {
        let mut results = Results::new("path");
        results.push("chain/load-0.7", "fifo", "loose/p99_ms", 10.0);
        results.push("chain/load-0.7", "edf", "loose/p99_ms", 12.4);
        assert!(worse(&results).is_empty());
        results.push("chain/load-0.7", "least-laxity", "loose/p99_ms", 12.6);
        assert_eq!(worse(&results).len(), 1);
        assert!(worse(&results)[0].contains("loose requests have a p99 of 12.6 ms under least-laxity"));
        results.push("chain/load-0.7", "fifo", "tight/missed_share", 0.1);
        results.push("chain/load-0.7", "edf", "tight/missed_share", 0.2);
        assert!(worse(&results)[0].contains("20.0 % of the tight requests are missed under edf, 10.0 % under fifo"));
    }
}
