//! Deadline scheduling against what others do: a chain and a parallel unit at 0.7, 0.9, 1.3 and 1.5 of what they sustain.
//!
//! Every system gets the same requests at the same times: open loop, Poisson, three classes. [`comparison`](crate::comparison)
//! puts the load on, in rounds, the systems in another order each time; the figures of a system are those of all its requests
//! in all rounds, and its goodput is compared with the capacities around its runs. [`claims`] says what should
//! come out.

use crate::claims::{self, CLAIMS};
use crate::comparison::{Comparison, Times};
use crate::service::Service;
use crate::system::{ALL, FIFO, QUICK, QUICKEST, System};
use crate::{fleet, hops, named};
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::Results;
use std::path::PathBuf;
use std::time::Duration;

/// Loads as shares of capacity; in a quick run, the second and third of them.
const LOADS: [f64; 4] = [0.7, 0.9, 1.3, 1.5];

/// Compare deadline scheduling with first come, first served on a chain and on a parallel unit
/// Processes that a search is split over, unless something else is said.
pub(crate) const SHARDS: u16 = 18;

#[derive(Args, Debug)]
pub(crate) struct PathArgs {
    /// Less of everything, within 45 seconds.
    #[arg(long)]
    quick: bool,
    /// The text that is searched and the crates that are recommended [default: the local Cargo registry].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seconds of load per run.
    #[arg(long, value_name = "S", value_parser = crate::seconds)]
    seconds: Option<Duration>,
    /// How many runs a system has at each load [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    rounds: Option<u8>,
    /// Processes that a search is split over, 1 to 60: receipts have to hold them all.
    #[arg(long, default_value_t = SHARDS, value_parser = clap::value_parser!(u16).range(1..=60))]
    shards: u16,
    /// Only one of the cases: chain, parallel-unit, five-hops or four-servers.
    #[arg(long, value_parser = ["chain", "parallel-unit", "five-hops", "four-servers"], hide_possible_values = true)]
    case: Option<String>,
    /// Only these systems: fifo, fifo-expiry, fifo-admission, codel-lifo, gradient, edf, least-laxity, default,
    /// oldest-first, stage-laxity.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = PossibleValuesParser::new(ALL.map(|it| it.name)), hide_possible_values = true)]
    systems: Vec<String>,
    /// Loads as shares of capacity [default: 0.7,0.9,1.3,1.5].
    #[arg(long, value_delimiter = ',', value_name = "SHARES", value_parser = crate::share)]
    loads: Vec<f64>,
    /// A further option of `greenwave serve` for the systems that know deadlines. May be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<String>,
    /// Decides arrivals, classes and requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl PathArgs {
    /// Runs the benchmark, prints the table and writes `path.json`.
    pub(crate) fn run(self) -> Result<()> {
        let wanted = |case: &str| self.case.as_ref().is_none_or(|prefix| case.starts_with(prefix.as_str()));
        let times = Times::new(self.seconds, self.rounds.map(usize::from), self.quick);
        let loads = match (self.loads.as_slice(), self.quick) {
            ([], true) => LOADS[1..3].to_vec(),
            ([], false) => LOADS.to_vec(),
            (loads, _) => loads.to_vec(),
        };
        let mut services = Vec::new();
        if wanted("chain") {
            services.push((Service::chain(self.dir.as_ref(), self.seed)?, self.systems(&QUICK)));
        }
        if wanted("parallel-unit") {
            services.push((Service::unit(self.dir.as_ref(), self.shards, self.seed)?, self.systems(&QUICKEST)));
        }
        for (service, _) in &mut services {
            service.further.clone_from(&self.with);
        }
        let runs: usize = services.iter().map(|(_, systems)| times.steps(systems.len()) * loads.len()).sum();
        let named = if wanted("four-servers") { named::SYSTEMS.len() * named::MORE_ROUNDS * times.rounds } else { 0 };
        let mut bench = Benchmark::new("path", runs + named + usize::from(wanted("five-hops")));
        let Benchmark { results, progress, .. } = &mut bench;
        if wanted("five-hops") {
            progress.step("five-hops");
            hops::measure(if self.quick { 2_000 } else { 20_000 }, results)?;
        }
        if wanted("four-servers") {
            named::measure(&times, self.seed, results, progress)?;
        }
        fleet::pin(1);
        for (service, systems) in &mut services {
            let plan = Comparison { systems, loads: &loads, times: &times, seed: self.seed };
            plan.run(service, results, progress)?;
            // Each service takes many minutes, and what comes later may fail or be ended.
            results.write()?;
        }
        claims::compare(results);
        let cases: Vec<String> = results.distinct(|row| &row.case).into_iter().map(str::to_owned).collect();
        bench.finish(&CLAIMS, &cases, print)?;
        Ok(())
    }

    /// Those that are wanted of all systems; if none is named, `quick` ones in a quick run.
    fn systems(&self, quick: &[&str]) -> Vec<System> {
        let is_wanted = |system: &System| match self.systems.as_slice() {
            [] => !self.quick || quick.contains(&system.name),
            named => named.iter().any(|name| name == system.name),
        };
        ALL.into_iter().filter(is_wanted).collect()
    }
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
        "offered_of_capacity",
        "offered_off_share",
        "measured_again",
        "tight/missed_over_rivals",
        "goodput_over_rivals",
        "sustained_over_closed_loop",
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
        for system in ALL.iter().filter(|system| system.is_ours()) {
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
