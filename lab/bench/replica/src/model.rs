//! `model/<environment>` and `held-out/<environment>`: what ways of choosing batches and windows are worth, from a rack to two
//! continents.
//!
//! The cores are the real ones, links, processors and disks are simulated ([`greenwave_sim::replica::measure`]): no
//! machine has all these networks, and none has them twice the same. The first environments were there while model and
//! controller were made. The others are drawn by a seed, and nothing was ever tuned with them: they say what to expect. What
//! can be had at most is what a [search](crate::best) finds, which chooses by other seeds than those that score.

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Cell, Figures, Rounds, figures};
use greenwave_bench::table::{MISSING, Table};
use greenwave_sim::Seed;
use greenwave_sim::replica::StartError;
use greenwave_sim::replica::environments::{self, Case};
use greenwave_sim::replica::measure::{Measured, Scene, System, measure_in};

use crate::run::Scope;
use crate::{best, parallel};

/// What the names of these cases begin with.
pub(crate) const KIND: &str = "model/";
pub(crate) const HELD_OUT: &str = "held-out/";

/// The case of what all that are held out come to.
pub(crate) const ALL_HELD_OUT: &str = "held-out";

/// How near to the best is near, for whom.
pub(crate) const NEAR: [(&str, f64); 2] = [("model", 0.90), ("controller", 0.95)];

/// Whose throughput counts as 1.
pub(crate) const BEST: &str = "best-fixed";

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

/// Runs of all, each with a seed of its own: these score, and choose nothing.
pub(crate) const SEEDS: u64 = 3;

/// The names of all systems.
pub(crate) fn systems() -> Vec<&'static str> {
    [BEST].into_iter().chain(CHOOSERS.map(|(name, _)| name)).collect()
}

/// The names of all cases.
pub(crate) fn names() -> anyhow::Result<Vec<String>> {
    Ok(cases()?.into_iter().map(|(name, _)| name).chain([ALL_HELD_OUT.to_owned()]).collect())
}

/// All cases by their names.
fn cases() -> anyhow::Result<Vec<(String, Case)>> {
    let named = |kind: &str, cases: Vec<Case>| {
        let named = |case: Case| (format!("{kind}{}", case.name), case);
        cases.into_iter().map(named).collect::<Vec<_>>()
    };
    Ok([named(KIND, environments::cases()?), named(HELD_OUT, environments::held_out()?)].concat())
}

/// Whether a case is simulated.
pub(crate) fn is_one(name: &str) -> bool {
    name.starts_with(KIND) || name.starts_with(ALL_HELD_OUT)
}

/// Whether a quick run has time for a case.
pub(crate) fn is_quick(name: &str) -> bool {
    name.strip_prefix(KIND).is_some_and(|name| QUICK.contains(&name))
}

/// A run of one system in one case with one seed.
struct Run<'a> {
    name: &'a str,
    case: &'a Case,
    seed: u64,
    system: &'static str,
    how: System,
}

impl Run<'_> {
    fn name(&self) -> String {
        format!("{}: seed {}, {}", self.name, self.seed, self.system)
    }

    fn run(&self) -> anyhow::Result<Measured> {
        Ok(simulate(self.case, self.how, self.seed)?)
    }
}

fn simulate(case: &Case, how: System, seed: u64) -> Result<Measured, StartError> {
    let Case { environment, load, distances, .. } = case;
    measure_in(&Scene { environment, load: *load, distances, change: None }, how, Seed::new(seed))
}

/// Measures the systems that are wanted, and the best fixed setting.
pub(crate) fn measure(scope: &Scope<'_>, bench: &mut Benchmark) -> anyhow::Result<()> {
    let systems = scope.wanted.choose_among(&systems());
    if systems.is_empty() {
        return Ok(());
    }
    run(&scope.cases, &systems, scope.wanted.quick, &mut bench.results)?;
    if scope.cases.iter().any(|case| case == ALL_HELD_OUT) {
        sum_up(&mut bench.results)?;
    }
    Ok(())
}

fn run(named: &[String], systems: &[&str], quick: bool, results: &mut Results) -> anyhow::Result<()> {
    let mut cases = cases()?;
    cases.retain(|(name, _)| named.contains(name));
    let environments: Vec<_> = cases.iter().map(|(_, case)| &case.environment).collect();
    let best = best::settings(&environments, quick, |at, setting, seed| {
        Ok(simulate(&cases[at].1, System::Fixed(setting), seed)?.ops_per_s)
    })?;
    let seeds = if quick { 1 } else { SEEDS };
    let mut runs = Vec::new();
    for ((name, case), best) in cases.iter().zip(best) {
        let choosers = CHOOSERS.iter().copied().filter(|(name, _)| systems.contains(name));
        let all: Vec<_> = choosers.chain([(BEST, System::Fixed(best))]).collect();
        let of_seed = |seed| all.iter().map(move |&(system, how)| Run { name, case, seed, system, how });
        runs.extend((1..=seeds).flat_map(of_seed));
    }
    let measured = parallel::run(&runs, Run::name, Run::run)?;
    for (name, _) in &cases {
        let mut rounds = Rounds::new(Cell::of_case(name, &self::systems()));
        for seed in 1..=seeds {
            let of_seed = || runs.iter().zip(&measured).filter(|(run, _)| run.name == name && run.seed == seed);
            let Some((_, best)) = of_seed().find(|(run, _)| run.system == BEST) else { continue };
            for (run, measured) in of_seed() {
                let cell = rounds.cells().iter().position(|cell| cell.system == run.system);
                cell.into_iter().for_each(|cell| rounds.add(seed as usize - 1, cell, shown(measured, best)));
            }
        }
        rounds.push(results, |_| true);
    }
    Ok(())
}

/// Adds in how many of the environments that are held out a chooser is near the best, and the least that it reaches.
fn sum_up(results: &mut Results) -> anyhow::Result<()> {
    let names: Vec<String> = names()?.into_iter().filter(|name| name.starts_with(HELD_OUT)).collect();
    for (system, near) in NEAR {
        let ratios: Option<Vec<f64>> = names.iter().map(|name| results.value(name, system, "ops_over_best")).collect();
        let Some(ratios) = ratios else { continue };
        let count = ratios.iter().filter(|ratio| **ratio >= near).count();
        results.push(ALL_HELD_OUT, system, "environments", ratios.len() as f64);
        results.push(ALL_HELD_OUT, system, "environments_near_best", count as f64);
        results.push(ALL_HELD_OUT, system, "least_ops_over_best", ratios.into_iter().fold(f64::INFINITY, f64::min));
    }
    Ok(())
}

fn shown(measured: &Measured, best: &Measured) -> Figures {
    figures([
        ("ops_per_s", measured.ops_per_s),
        ("ops_over_best", measured.ops_per_s / best.ops_per_s),
        ("p50_ms", measured.p50.as_secs_f64() * 1e3),
        ("p99_ms", measured.p99.as_secs_f64() * 1e3),
        ("batch_bytes", measured.setting.batch_bytes() as f64),
        ("window_batches", measured.setting.window() as f64),
        ("settled_ms", measured.settled.as_secs_f64() * 1e3),
    ])
}

/// A line for each case: throughput beside the best fixed setting, and what was chosen, in bytes and batches, each the
/// median of the seeds. The rest is in the file.
pub(crate) fn table(results: &Results) -> Table {
    let columns = CHOOSERS.map(|(system, _)| system);
    let settings = ["best's setting", "model's", "controller's", "settled, ms"];
    let mut table = Table::new(["ops_over_best", "best, ops/s"].into_iter().chain(columns).chain(settings));
    for case in results.distinct(|row| &row.case).into_iter().filter(|case| is_one(case) && *case != ALL_HELD_OUT) {
        let value = |system, metric| results.value(case, system, metric);
        let ratios = columns.map(|system| results.shown(case, system, "ops_over_best"));
        let setting = |system| {
            let (batch, window) = (value(system, "batch_bytes"), value(system, "window_batches"));
            batch.zip(window).map_or_else(|| MISSING.to_owned(), |(batch, window)| format!("{batch:.0} x {window:.0}"))
        };
        let settings = [BEST, "model", "controller"].map(setting);
        let settled = [results.shown(case, "controller", "settled_ms")];
        let first = [case.to_owned(), results.shown(case, BEST, "ops_per_s")];
        table.row(first.into_iter().chain(ratios).chain(settings).chain(settled));
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
        let count = |kind| names.iter().filter(|name| name.starts_with(kind)).count();
        assert!(count(KIND) >= 16, "{names:?}");
        assert_eq!(count(HELD_OUT), 40);
        let documented = include_str!("../../../../docs/replica.md");
        for said in [
            format!("`--case model`, {} environments", count(KIND)),
            format!("with {} environments that", count(HELD_OUT)),
        ] {
            assert!(documented.contains(&said), "docs/replica.md doesn't say `{said}`");
        }
        assert_eq!(names.iter().filter(|name| is_quick(name)).count(), QUICK.len());
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

    #[test]
    fn what_is_held_out_is_summed_up_once_all_of_it_is_there() {
        let mut results = Results::new("replica");
        let names: Vec<String> = names().expect("none is out of range");
        let held_out: Vec<&String> = names.iter().filter(|name| name.starts_with(HELD_OUT)).collect();
        let value = |results: &Results, metric| results.value(ALL_HELD_OUT, "model", metric);
        for (at, name) in held_out.iter().enumerate() {
            sum_up(&mut results).expect("there are names");
            assert_eq!(value(&results, "environments"), None);
            results.push(name, "model", "ops_over_best", if at < 2 { 0.8 + at as f64 / 100.0 } else { 0.95 });
        }
        sum_up(&mut results).expect("there are names");
        assert_eq!(
            (value(&results, "environments"), value(&results, "environments_near_best")),
            (Some(40.0), Some(38.0))
        );
        assert_eq!(value(&results, "least_ops_over_best"), Some(0.8));
    }
}
