//! All systems in turns.
//!
//! The unit of load is what the server does first come, first served in a closed loop, or another system. It is measured
//! before and after each round: a load is a share of what the machine could do then. Where the two differ by more than
//! [a tenth](STEADY) the round is measured again, and the one counts in which they differed least.

use anyhow::{Context, ensure};
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::probes;
use greenwave_bench::rounds::{Cell, Rounds, calmest, median};

use crate::calls;
use crate::case::{Case, Mix};
use crate::cell::Testbed;
use crate::claims::CLAIMS;
use crate::plan::{Options, Plan};
use crate::ratios;

/// Measures what is wanted with servers on this core, prints it and writes it.
pub(crate) fn bench(core: usize, wanted: &Options) -> anyhow::Result<()> {
    let plan = Plan::new(wanted)?;
    calls::learn_units(&probes::of_this_program()?, core)?;
    eprintln!("takes about {:.0?}", plan.length());
    let (testbed, bench) = (Testbed { core, times: plan.times }, Benchmark::new("served", plan.steps()));
    let mut run = Run { plan: &plan, testbed, bench, seed: 0, unsteady: 0 };
    for mix in plan.mixes() {
        let done = run.mix(mix);
        run.bench.settle(mix.name, done);
    }
    let names = plan.cases.iter().map(Case::to_string).chain(plan.mixes().map(|mix| mix.name.to_owned()));
    run.bench.note_left_out(&plan.left_out);
    run.note_unsteady();
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

/// How much the unit of load may differ before and after a round, over the one before.
const STEADY: f64 = 0.1;
/// How often a round is measured at most, until it differs by no more.
const TRIES: usize = 3;

struct Run<'a> {
    plan: &'a Plan,
    testbed: Testbed,
    bench: Benchmark,
    /// Raised for each round.
    seed: u64,
    /// Rounds that were never measured while the machine's speed was steady.
    unsteady: usize,
}

impl Run<'_> {
    fn mix(&mut self, mix: Mix) -> anyhow::Result<()> {
        let (plan, testbed) = (self.plan, self.testbed);
        let count = plan.rounds_saturated();
        let saturated = |_, at: usize, progress: &mut _| testbed.saturated(plan.systems[at], mix, progress);
        let rounds = self.bench.rounds(self.cells(mix.name), count, saturated);
        self.push(rounds, None);
        let mut capacity = self.capacity(mix)?;
        for &case in plan.cases.iter().filter(|case| case.mix == mix) {
            let mut rounds = Rounds::new(self.cells(&case.to_string()));
            let mut drifts = Vec::new();
            for round in 0..plan.rounds(case) {
                self.seed += 1;
                let tried = calmest(
                    TRIES,
                    STEADY,
                    |tried: &Tried| tried.drift(),
                    || {
                        let tried = self.open(&rounds, round, case, capacity)?;
                        capacity = tried.after;
                        Ok(tried)
                    },
                )?;
                self.unsteady += usize::from(tried.drift() > STEADY);
                drifts.push((tried.before, tried.drift()));
                rounds = tried.rounds;
            }
            for (metric, value) in
                [("capacity_per_s", median_of(&drifts, |it| it.0)), ("capacity_drift", median_of(&drifts, |it| it.1))]
            {
                self.bench.results.push(&case.to_string(), plan.unit.name, metric, value);
            }
            self.push(rounds, Some(case));
        }
        Ok(())
    }

    /// Says what was never measured while the machine's speed was steady.
    fn note_unsteady(&mut self) {
        if self.unsteady > 0 {
            self.bench.notes.push(format!(
                "The machine's speed differed by more than a tenth during {} of the rounds, however often they were measured: \
                 their loads are not what their names say.",
                self.unsteady
            ));
        }
        self.bench.results.push("machine", self.plan.unit.name, "unsteady_rounds", self.unsteady as f64);
    }

    /// One more round of a case, where `before` is what could be done before it.
    fn open(&mut self, rounds: &Rounds, round: usize, case: Case, before: f64) -> anyhow::Result<Tried> {
        let (plan, testbed, seed) = (self.plan, self.testbed, self.seed);
        let mut rounds = rounds.clone();
        self.bench.round(&mut rounds, round, 0..plan.systems.len(), |_, at, progress| {
            testbed.open(plan.systems[at], case, before, seed, progress)
        });
        Ok(Tried { rounds, before, after: self.capacity(case.mix)? })
    }

    fn cells(&self, case: &str) -> Vec<Cell> {
        let names: Vec<&str> = self.plan.systems.iter().map(|system| system.name).collect();
        Cell::of_case(case, &names)
    }

    fn push(&mut self, mut rounds: Rounds, case: Option<Case>) {
        ratios::add(&mut rounds, case);
        rounds.push(&mut self.bench.results, has_range);
    }

    fn capacity(&mut self, mix: Mix) -> anyhow::Result<f64> {
        self.bench.progress.step(format!("{}: capacity", mix.name));
        let figures = self.testbed.saturated(self.plan.unit, mix, &mut self.bench.progress)?;
        figures.get("saturated_per_s").copied().context("a closed loop has a rate")
    }
}

/// The rounds of a case with one more, and what could be done in a closed loop before it and after.
struct Tried {
    rounds: Rounds,
    before: f64,
    after: f64,
}

impl Tried {
    /// By how much the two differ, over the one before.
    fn drift(&self) -> f64 {
        (self.after / self.before - 1.0).abs()
    }
}

fn median_of(all: &[(f64, f64)], of: impl Fn(&(f64, f64)) -> f64) -> f64 {
    median(&all.iter().map(of).collect::<Vec<_>>())
}
