//! All systems in turns.
//!
//! What disturbs a machine changes from minute to minute, so the systems of a case are measured one right after another,
//! each round begins with another one, and ratios are taken within rounds. The unit of load is what the server does first
//! come, first served in a closed loop. It is measured before each block of cases, and once again at the end of a mix, so
//! that drift shows.

use anyhow::Context;
use greenwave_bench::capacity::median;
use greenwave_bench::claims;
use greenwave_bench::disturbance::{QUIET, Watch};
use greenwave_bench::probes;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::calls;
use crate::case::{Case, Mix};
use crate::cell::{Figures, Testbed};
use crate::plan::{Plan, Wanted};
use crate::ratios::{self, Round};
use crate::system::System;

/// Measures what is wanted with servers on this core, prints it and writes it.
pub(crate) fn bench(core: usize, wanted: &Wanted) -> anyhow::Result<()> {
    let plan = Plan::new(wanted)?;
    calls::learn_units(&probes::of_this_program()?, core)?;
    eprintln!("takes about {:.0?}", plan.length());
    let watch = Watch::start();
    let mut results = Results::new("served");
    let mut progress = Progress::new(plan.steps());
    let testbed = Testbed { core, times: plan.times, progress: &mut progress };
    let mut bench = Bench { plan: &plan, testbed, results: &mut results, seed: 0, failures: Vec::new() };
    for mix in plan.mixes() {
        bench.mix(mix)?;
    }
    let failures = bench.failures;
    drop(progress);
    println!("{}", results.table(&["saturated_per_s", "saturated_over_fcfs", "head_share", "capacity_per_s"]));
    println!("{}", results.table(&OPEN));
    let claims = crate::claims::of(&plan);
    println!("{}", claims::table(&claims, &results));
    if let Some(others) = watch.others() {
        results.push("machine", "others", "busy_cores", others);
        if others > QUIET {
            println!("Others kept {others:.2} cores busy meanwhile: times are too long, and ratios uncertain.");
        }
    }
    println!("wrote {}", results.write()?.display());
    anyhow::ensure!(failures.is_empty(), "not all could be measured: {}", failures.join("; "));
    let missed = claims.iter().filter(|claim| claim.is_reached(&results) != Some(true)).count();
    anyhow::ensure!(!plan.is_full || missed == 0, "{missed} of {} claims don't hold", claims.len());
    Ok(())
}

/// What the table of open loops shows; the file has all.
const OPEN: [&str; 11] = [
    "p50_us",
    "p99_us",
    "short/p99_us",
    "long/p99_us",
    "long/p999_us",
    "get/p99_us",
    "scan/p99_us",
    "scan/p999_us",
    "missed_share",
    "goodput_over_capacity",
    "calm_share",
];

struct Bench<'a> {
    plan: &'a Plan,
    testbed: Testbed<'a>,
    results: &'a mut Results,
    /// Raised for each set of cells that are compared.
    seed: u64,
    failures: Vec<String>,
}

impl Bench<'_> {
    fn mix(&mut self, mix: Mix) -> anyhow::Result<()> {
        let plan = self.plan;
        let rounds = (0..plan.rounds_saturated()).map(|round| {
            let step = format!("{}: saturated, round {}", mix.name(), round + 1);
            self.round(round, None, &step, |bench, system| bench.testbed.saturated(system, mix))
        });
        let rounds: Vec<Round> = rounds.collect();
        self.push(mix.name(), &rounds);
        let mut first = None;
        for cases in plan.blocks().filter(|cases| cases[0].mix == mix) {
            let capacity = self.capacity(mix)?;
            first = first.or(Some(capacity));
            let block = format!("{}/{}", mix.name(), cases[0].deadlines.name());
            self.results.push(&block, System::Fcfs.name(), "capacity_per_s", capacity);
            for &case in cases {
                self.case(case, capacity);
            }
        }
        if let Some(first) = first {
            let last = self.capacity(mix)?;
            self.results.push(mix.name(), System::Fcfs.name(), "capacity_last_over_first", last / first);
        }
        Ok(())
    }

    fn case(&mut self, case: Case, capacity: f64) {
        let rounds = (0..self.plan.rounds(case)).map(|round| {
            self.seed += 1;
            let seed = self.seed;
            let step = format!("{case}: round {}", round + 1);
            self.round(round, Some(case), &step, |bench, system| bench.testbed.open(system, case, capacity, seed))
        });
        let rounds: Vec<Round> = rounds.collect();
        self.push(&case.to_string(), &rounds);
    }

    /// One measurement of each system. Should one fail, the others may well work.
    fn round(
        &mut self,
        round: usize,
        case: Option<Case>,
        step: &str,
        measure: impl Fn(&mut Self, System) -> anyhow::Result<Figures>,
    ) -> Round {
        let systems = self.plan.systems.len();
        let mut figures = Round::new();
        for index in (0..systems).map(|turn| (turn + round) % systems) {
            let system = self.plan.systems[index];
            self.testbed.progress.step(format!("{step}, {system}"));
            match measure(self, system) {
                Ok(found) => _ = figures.insert(system.name(), found),
                Err(error) => self.failures.push(format!("{step}: {error:#}")),
            }
        }
        ratios::add(&mut figures, case);
        figures
    }

    fn capacity(&mut self, mix: Mix) -> anyhow::Result<f64> {
        self.testbed.progress.step(format!("{}: capacity", mix.name()));
        let figures = self.testbed.saturated(System::Fcfs, mix)?;
        figures.get("saturated_per_s").copied().context("a closed loop has a rate")
    }

    /// Medians of the rounds, and of what tells most the least and the most of them as well.
    fn push(&mut self, case: &str, rounds: &[Round]) {
        for system in &self.plan.systems {
            let of_system: Vec<&Figures> = rounds.iter().filter_map(|round| round.get(system.name())).collect();
            let Some(first) = of_system.first() else { continue };
            for metric in first.keys() {
                let values: Vec<f64> = of_system.iter().filter_map(|figures| figures.get(metric)).copied().collect();
                // A quantile that there isn't in one of the rounds is infinite there.
                if values.len() < of_system.len() {
                    continue;
                }
                self.results.push(case, system.name(), metric, median(&values));
                let tells = ["p99_us", "p999_us", "per_s", "missed_share"].iter().any(|end| metric.ends_with(end));
                if values.len() > 1 && (tells || metric.contains("_over_")) {
                    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                    self.results.push(case, system.name(), format!("{metric}_min"), least);
                    self.results.push(case, system.name(), format!("{metric}_max"), most);
                }
            }
        }
    }
}
