//! `model/<environment>`: what ways of choosing batches and windows are worth, from a rack to two continents.
//!
//! The cores are the real ones, links, processors and disks are simulated ([`greenwave_sim::replica::measure`]): no
//! machine has all these networks, and none has them twice the same. What can be had at most is found by trying all
//! settings of a grid.

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Cell, Figures, Rounds, figures};
use greenwave_bench::table::{MISSING, Table};
use greenwave_policy::replication::Setting;
use greenwave_sim::Seed;
use greenwave_sim::replica::environments::{Case, cases};
use greenwave_sim::replica::measure::{Measured, System, grid, measure as simulate};

use crate::parallel;
use crate::run::Scope;

/// What the names of these cases begin with.
pub(crate) const KIND: &str = "model/";

/// Whose throughput counts as 1.
pub(crate) const BEST: &str = "best-of-grid";

/// What chooses, beside the grid.
const CHOOSERS: [(&str, System); 7] = [
    ("model", System::Model),
    ("controller", System::Controller),
    ("static-1", System::Static(1)),
    ("static-2", System::Static(2)),
    ("static-64", System::Static(64)),
    ("static-256", System::Static(256)),
    ("aimd", System::Aimd),
];

/// What a quick run has time for: a rack and a long way, a core, a disk and a network that are busy.
const QUICK: [&str; 3] = ["lan-1g-50us-1k-fast-3", "wan-100m-25ms-1k-slow-3", "wan-10m-50ms-8k-disk-5"];

/// Runs of all, each with a seed of its own.
const SEEDS: u64 = 3;

/// The names of all systems.
pub(crate) fn systems() -> Vec<&'static str> {
    [BEST].into_iter().chain(CHOOSERS.map(|(name, _)| name)).collect()
}

/// The names of all cases.
pub(crate) fn names() -> anyhow::Result<Vec<String>> {
    Ok(cases()?.iter().map(name).collect())
}

/// Whether a quick run has time for a case.
pub(crate) fn is_quick(name: &str) -> bool {
    name.strip_prefix(KIND).is_some_and(|name| QUICK.contains(&name))
}

fn name(case: &Case) -> String {
    format!("{KIND}{}", case.name)
}

/// A run of one system in one case with one seed.
struct Run<'a> {
    case: &'a Case,
    seed: u64,
    system: &'static str,
    how: System,
}

impl Run<'_> {
    fn name(&self) -> String {
        format!("{KIND}{}: seed {}, {}", self.case.name, self.seed, self.system)
    }

    fn run(&self) -> anyhow::Result<Measured> {
        Ok(simulate(&self.case.environment, self.how, self.case.load, Seed::new(self.seed))?)
    }
}

/// Measures the systems that are wanted, and the best of the grid.
pub(crate) fn measure(scope: &Scope<'_>, bench: &mut Benchmark) -> anyhow::Result<()> {
    let systems = scope.wanted.choose_among(&systems());
    if systems.is_empty() { Ok(()) } else { run(&scope.cases, &systems, scope.wanted.quick, &mut bench.results) }
}

fn run(named: &[String], systems: &[&str], quick: bool, results: &mut Results) -> anyhow::Result<()> {
    let mut cases = cases()?;
    cases.retain(|case| named.contains(&name(case)));
    let seeds = if quick { 1 } else { SEEDS };
    let mut runs = Vec::new();
    for case in &cases {
        for seed in 1..=seeds {
            let choosers = CHOOSERS.iter().filter(|(name, _)| systems.contains(name));
            let fixed = settings(case, quick).into_iter().map(|setting| (BEST, System::Fixed(setting)));
            runs.extend(choosers.copied().chain(fixed).map(|(system, how)| Run { case, seed, system, how }));
        }
    }
    // The longest first, so that none of them is left alone at the end.
    runs.sort_by_key(|run| run.system == BEST);
    let measured = parallel::run(&runs, Run::name, Run::run)?;
    for case in &cases {
        let mut rounds = Rounds::new(Cell::of_case(&name(case), &self::systems()));
        let mut add = |seed: u64, system: &str, measured, best| {
            let cell = rounds.cells().iter().position(|cell| cell.system == system);
            cell.into_iter().for_each(|cell| rounds.add(seed as usize - 1, cell, shown(measured, best)));
        };
        for seed in 1..=seeds {
            let all = runs.iter().zip(&measured).filter(|(run, _)| run.case.name == case.name && run.seed == seed);
            let (tried, chosen): (Vec<_>, Vec<_>) = all.partition(|(run, _)| run.system == BEST);
            let best = tried.into_iter().max_by(|(_, one), (_, other)| one.ops_per_s.total_cmp(&other.ops_per_s));
            let Some((_, best)) = best else { continue };
            add(seed, BEST, best, best);
            chosen.into_iter().for_each(|(run, measured)| add(seed, run.system, measured, best));
        }
        rounds.push(results, |_| true);
    }
    Ok(())
}

/// The grid; in a quick run every fourth point of it.
fn settings(case: &Case, quick: bool) -> Vec<Setting> {
    let mut settings = grid(&case.environment);
    let smallest = settings.first().map_or(1, Setting::batch_bytes);
    let is_even = |power_of_two: u64| power_of_two.trailing_zeros().is_multiple_of(2);
    settings.retain(|setting| !quick || is_even(setting.batch_bytes() / smallest) && is_even(setting.window()));
    settings
}

fn shown(measured: &Measured, best: &Measured) -> Figures {
    figures([
        ("ops_per_s", measured.ops_per_s),
        ("ops_over_best", measured.ops_per_s / best.ops_per_s),
        ("p50_ms", measured.p50.as_secs_f64() * 1e3),
        ("p99_ms", measured.p99.as_secs_f64() * 1e3),
        ("batch_bytes", measured.setting.batch_bytes() as f64),
        ("window_batches", measured.setting.window() as f64),
    ])
}

/// A line for each case: throughput beside the best of the grid, and what was chosen, in bytes and batches, each the
/// median of the seeds. The rest is in the file.
pub(crate) fn table(results: &Results) -> Table {
    let columns = CHOOSERS.map(|(system, _)| system);
    let settings = ["best's setting", "model's", "controller's"];
    let mut table = Table::new(["ops_over_best", "best, ops/s"].into_iter().chain(columns).chain(settings));
    for case in results.distinct(|row| &row.case).into_iter().filter(|case| case.starts_with(KIND)) {
        let value = |system, metric| results.value(case, system, metric);
        let ratios = columns.map(|system| results.shown(case, system, "ops_over_best"));
        let setting = |system| {
            let (batch, window) = (value(system, "batch_bytes"), value(system, "window_batches"));
            batch.zip(window).map_or_else(|| MISSING.to_owned(), |(batch, window)| format!("{batch:.0} x {window:.0}"))
        };
        let settings = [BEST, "model", "controller"].map(setting);
        table.row([case.to_owned(), results.shown(case, BEST, "ops_per_s")].into_iter().chain(ratios).chain(settings));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_bench::table::significant;

    #[test]
    fn there_are_sixteen_environments_or_more_and_a_quick_run_takes_some() {
        let names = names().expect("none is out of range");
        assert!(names.len() >= 16, "{names:?}");
        assert_eq!(names.iter().filter(|name| is_quick(name)).count(), QUICK.len());
    }

    #[test]
    fn a_quick_grid_is_a_part_of_the_grid_up_to_its_ends() {
        for case in cases().expect("none is out of range") {
            let (all, some) = (settings(&case, false), settings(&case, true));
            assert!(some.iter().all(|setting| all.contains(setting)) && some.len() * 3 < all.len(), "{}", case.name);
            assert!([1, 256].iter().all(|window| some.iter().any(|setting| setting.window() == *window)));
        }
    }

    #[test]
    fn the_best_of_a_seed_counts_as_one_and_the_others_beside_it() {
        let mut results = Results::new("replica");
        let case = &names().expect("none is out of range")[0];
        run(std::slice::from_ref(case), &["static-1"], true, &mut results).expect("it runs");
        assert_eq!(results.value(case, BEST, "ops_over_best"), Some(1.0));
        let value = |system, metric| results.value(case, system, metric).expect("it was measured");
        let ratio = value("static-1", "ops_per_s") / value(BEST, "ops_per_s");
        assert!((value("static-1", "ops_over_best") - ratio).abs() < 1e-9 && ratio < 1.05, "{ratio}");
        assert_eq!((value("static-1", "batch_bytes"), value("static-1", "window_batches")), (1048576.0, 1.0));
        assert_eq!(results.value(case, "aimd", "ops_per_s"), None);
        let table = table(&results).to_string();
        let row: Vec<&str> = table.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(row[..2], [case.as_str(), significant(value(BEST, "ops_per_s")).as_str()], "{table}");
    }
}
