//! All systems in turns.
//!
//! The unit of load is what the server does first come, first served in a closed loop, or another system. It is measured before each block of
//! cases, and once again at the end of a mix, so that drift shows.

use anyhow::{Context, ensure};
use greenwave_bench::benchmark::{Benchmark, Named as _};
use greenwave_bench::probes;
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{Cell, Figures};

use crate::calls;
use crate::case::{Case, Mix};
use crate::cell::Testbed;
use crate::claims::CLAIMS;
use crate::plan::{Options, Plan};
use crate::ratios;
use crate::system::System;

/// Measures what is wanted with servers on this core, prints it and writes it.
pub(crate) fn bench(core: usize, wanted: &Options) -> anyhow::Result<()> {
    let plan = Plan::new(wanted)?;
    calls::learn_units(&probes::of_this_program()?, core)?;
    eprintln!("takes about {:.0?}", plan.length());
    let (testbed, bench) = (Testbed { core, times: plan.times }, Benchmark::new("served", plan.steps()));
    let mut run = Run { plan: &plan, testbed, bench, seed: 0 };
    for mix in plan.mixes() {
        let done = run.mix(mix);
        run.bench.settle(mix.name, done);
    }
    let names = plan.cases.iter().map(Case::to_string).chain(plan.mixes().map(|mix| mix.name.to_owned()));
    run.bench.note_left_out(&plan.left_out);
    let counts = run.bench.finish(&CLAIMS, &names.collect::<Vec<_>>(), |results| {
        println!("{}", results.table(&["saturated_per_s", "saturated_over_fcfs", "head_share", "capacity_per_s"]));
        println!("{}", results.table(&OPEN));
    })?;
    let missed = counts.fail + counts.not_measured;
    ensure!(!plan.is_full || missed == 0, "{missed} of {} claims don't hold", missed + counts.hold);
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

/// Whether the least and the most of a metric tell more than its median.
fn has_range(metric: &str) -> bool {
    ["p99_us", "p999_us", "per_s", "missed_share"].iter().any(|end| metric.ends_with(end)) || metric.contains("_over_")
}

struct Run<'a> {
    plan: &'a Plan,
    testbed: Testbed,
    bench: Benchmark,
    /// Raised for each set of cells that are compared.
    seed: u64,
}

impl Run<'_> {
    fn mix(&mut self, mix: Mix) -> anyhow::Result<()> {
        let (plan, testbed) = (self.plan, self.testbed);
        self.measure(mix.name, plan.rounds_saturated(), None, |_, system, progress| {
            testbed.saturated(system, mix, progress)
        });
        let mut first = None;
        for cases in plan.blocks().filter(|cases| cases[0].mix == mix) {
            let capacity = self.capacity(mix)?;
            first = first.or(Some(capacity));
            let block = format!("{}/{}", mix.name, cases[0].deadlines.name());
            self.bench.results.push(&block, plan.unit.name, "capacity_per_s", capacity);
            for &case in cases {
                let seed = self.seed + 1;
                self.measure(&case.to_string(), plan.rounds(case), Some(case), |round, system, progress| {
                    testbed.open(system, case, capacity, seed + round as u64, progress)
                });
                self.seed += plan.rounds(case) as u64;
            }
        }
        if let Some(first) = first {
            let last = self.capacity(mix)?;
            self.bench.results.push(mix.name, plan.unit.name, "capacity_last_over_first", last / first);
        }
        Ok(())
    }

    fn measure(
        &mut self,
        name: &str,
        count: usize,
        case: Option<Case>,
        measure: impl Fn(usize, System, &mut Progress) -> anyhow::Result<Figures>,
    ) {
        let systems = &self.plan.systems;
        let names: Vec<&str> = systems.iter().map(|system| system.name).collect();
        let measure = |round, at: usize, progress: &mut _| measure(round, systems[at], progress);
        let mut rounds = self.bench.rounds(Cell::of_case(name, &names), count, measure);
        ratios::add(&mut rounds, case);
        rounds.push(&mut self.bench.results, has_range);
    }

    fn capacity(&mut self, mix: Mix) -> anyhow::Result<f64> {
        self.bench.progress.step(format!("{}: capacity", mix.name));
        let figures = self.testbed.saturated(self.plan.unit, mix, &mut self.bench.progress)?;
        figures.get("saturated_per_s").copied().context("a closed loop has a rate")
    }
}
