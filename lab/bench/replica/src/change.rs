//! `change/<what>/<environment>`: what the controller is worth where load and path change, beside the best setting that
//! stays.
//!
//! What is answered counts from before the change to long after it, so a controller that takes its time pays for it. The best
//! fixed setting is [searched](crate::best) for with the change in it: nobody could know it beforehand.

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Cell, Rounds, figures};
use greenwave_bench::table::Table;
use greenwave_sim::Seed;
use greenwave_sim::replica::environments::{self, Case};
use greenwave_sim::replica::measure::{Change, Measured, Scene, System, measure_in};

use crate::model::{BEST, SEEDS};
use crate::run::Scope;
use crate::{best, parallel};

/// What the names of these cases begin with.
pub(crate) const KIND: &str = "change/";

/// What changes: sixteen times as many clients, a path that is four times as long and slow, a follower that dies.
const CHANGES: [(&str, Change); 3] = [
    ("more-clients", Change::MoreClients(16)),
    ("slower-path", Change::SlowerPath(4)),
    ("dead-follower", Change::DeadFollower),
];

/// Where: a rack, a region, and far away.
const WHERE: [&str; 3] = ["lan-1g-50us-1k-fast-3", "region-1g-1ms-1k-fast-3", "wan-100m-25ms-1k-slow-3"];

const CHOOSERS: [(&str, System); 3] =
    [("controller", System::Controller), ("model", System::Model), ("aimd", System::Aimd)];

struct Changing {
    name: String,
    case: Case,
    change: Change,
}

/// The names of all cases.
pub(crate) fn names() -> Vec<String> {
    let of = |(change, _): &(&str, Change)| WHERE.map(|place| format!("{KIND}{change}/{place}"));
    CHANGES.iter().flat_map(of).collect()
}

fn all() -> anyhow::Result<Vec<Changing>> {
    let cases = environments::cases()?;
    let mut all = Vec::new();
    for (what, change) in CHANGES {
        for case in cases.iter().filter(|case| WHERE.contains(&case.name.as_str())) {
            all.push(Changing { name: format!("{KIND}{what}/{}", case.name), case: case.clone(), change });
        }
    }
    Ok(all)
}

impl Changing {
    fn simulate(&self, how: System, seed: u64) -> anyhow::Result<Measured> {
        let Case { environment, load, distances, .. } = &self.case;
        let scene = Scene { environment, load: *load, distances, change: Some(self.change) };
        Ok(measure_in(&scene, how, Seed::new(seed))?)
    }
}

/// Measures the systems that are wanted, and the best setting that stays.
pub(crate) fn measure(scope: &Scope<'_>, bench: &mut Benchmark) -> anyhow::Result<()> {
    let names: Vec<&str> = [BEST].into_iter().chain(CHOOSERS.map(|(name, _)| name)).collect();
    let systems = scope.wanted.choose_among(&names);
    if systems.is_empty() { Ok(()) } else { run(&scope.cases, &systems, scope.wanted.quick, &mut bench.results) }
}

fn run(named: &[String], systems: &[&str], quick: bool, results: &mut Results) -> anyhow::Result<()> {
    let mut cases = all()?;
    cases.retain(|case| named.contains(&case.name));
    let environments: Vec<_> = cases.iter().map(|case| &case.case.environment).collect();
    let best = best::settings(&environments, quick, |at, setting, seed| {
        Ok(cases[at].simulate(System::Fixed(setting), seed)?.ops_per_s)
    })?;
    let seeds = if quick { 1 } else { SEEDS };
    let mut runs = Vec::new();
    for (case, best) in cases.iter().zip(best) {
        let choosers = CHOOSERS.iter().copied().filter(|(name, _)| systems.contains(name));
        let all: Vec<_> = choosers.chain([(BEST, System::Fixed(best))]).collect();
        runs.extend((1..=seeds).flat_map(|seed| all.iter().map(move |&(system, how)| (case, seed, system, how))));
    }
    let name =
        |(case, seed, system, _): &(&Changing, u64, &str, System)| format!("{}: seed {seed}, {system}", case.name);
    let measured = parallel::run(&runs, name, |(case, seed, _, how)| case.simulate(*how, *seed))?;
    for case in &cases {
        let names: Vec<&str> = [BEST].into_iter().chain(CHOOSERS.map(|(name, _)| name)).collect();
        let mut rounds = Rounds::new(Cell::of_case(&case.name, &names));
        for ((_, seed, system, _), measured) in runs.iter().zip(&measured).filter(|((of, ..), _)| of.name == case.name)
        {
            let cell = rounds.cells().iter().position(|cell| cell.system == *system);
            let found = figures([("ops_per_s", measured.ops_per_s), ("p99_ms", measured.p99.as_secs_f64() * 1e3)]);
            cell.into_iter().for_each(|cell| rounds.add(*seed as usize - 1, cell, found.clone()));
        }
        for at in 0..rounds.cells().len() {
            rounds.ratio(at, "ops_per_s", &Cell::new(&case.name, BEST), "ops_over_best");
        }
        rounds.push(results, |_| true);
    }
    Ok(())
}

/// A line for each case.
pub(crate) fn table(results: &Results) -> Table {
    let columns = CHOOSERS.map(|(system, _)| system);
    let mut table = Table::new(["ops_over_best", "best that stays, ops/s"].into_iter().chain(columns));
    for case in results.distinct(|row| &row.case).into_iter().filter(|case| case.starts_with(KIND)) {
        let ratios = columns.map(|system| results.shown(case, system, "ops_over_best"));
        table.row([case.to_owned(), results.shown(case, BEST, "ops_per_s")].into_iter().chain(ratios));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_has_each_place() {
        let all: Vec<String> = all().expect("none is out of range").into_iter().map(|case| case.name).collect();
        let mut names = names();
        names.sort();
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!((sorted, all.len()), (names, 9));
    }
}
