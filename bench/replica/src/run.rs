//! All cases, and what is made of them.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use greenwave_bench::claims;
use greenwave_bench::disturbance::{QUIET, Watch};
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::figures::Rounds;
use crate::put::{PUTS, Put};
use crate::system::System;
use crate::{failover, lone, model, source};

/// What is to be measured.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// End within 45 seconds, with some of the environments, and fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Measure this case, or with `model` or `source` all of the kind; repeatable; all if not stated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Measure this system; repeatable; all if not stated. The best of a grid is found in any case
    #[arg(long = "system", value_name = "NAME")]
    systems: Vec<String>,
}

/// What is shown of each case, of what it has.
const SHOWN: [&str; 14] = [
    "ops_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_send_lag_us",
    "ops_over_etcd",
    "p50_over_etcd",
    "p99_over_etcd",
    "p50_over_static_1",
    "kills",
    "leaderless_p50_ms",
    "leaderless_p99_ms",
    "acknowledged",
    "lost",
];

/// All cases' names.
pub(crate) fn names() -> anyhow::Result<Vec<String>> {
    let real = PUTS.iter().map(|put| put.name).chain([lone::NAME, failover::NAME]).map(str::to_owned);
    Ok(real.chain(source::names()).chain(model::names()?).collect())
}

/// All systems' names.
fn systems() -> Vec<&'static str> {
    let real = System::ALL.map(System::name);
    real.into_iter().chain(model::systems()).chain([source::SIMULATED]).collect()
}

impl Wanted {
    /// The cases that are wanted, and those that a quick run leaves out.
    fn cases(&self) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let mut names = names()?;
        // A kind of cases can be named as a whole.
        let is_meant =
            |word: &str, name: &str| name == word || name.split_once('/').is_some_and(|(kind, _)| kind == word);
        for word in &self.cases {
            let is_known = names.iter().any(|name| is_meant(word, name));
            ensure!(is_known, "no case is called `{word}`; `greenwave-bench-replica list` shows all");
        }
        names.retain(|name| self.cases.is_empty() || self.cases.iter().any(|word| is_meant(word, name)));
        let has_time = |name: &String| !self.quick || !name.starts_with(model::KIND) || model::is_quick(name);
        let is_named = |name: &String| self.cases.contains(name);
        Ok(names.into_iter().partition(|name| has_time(name) || is_named(name)))
    }

    fn wants_system(&self, name: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|wanted| wanted == name)
    }

    /// Stores that take part; a note on each that can't.
    fn stores(&self, notes: &mut Vec<String>) -> anyhow::Result<Vec<System>> {
        for name in &self.systems {
            ensure!(
                systems().contains(&name.as_str()),
                "no system is called `{name}`; there are {}",
                systems().join(", ")
            );
        }
        let mut stores = System::ALL.to_vec();
        stores.retain(|store| self.wants_system(store.name()));
        stores.retain(|store| match store.missing() {
            None => true,
            Some(why) => {
                notes.push(format!("Passed over: {}, {why}", store.name()));
                false
            }
        });
        Ok(stores)
    }
}

/// Measures what is wanted, prints it and writes it.
pub(crate) fn run(wanted: &Wanted) -> anyhow::Result<()> {
    let (mut notes, mut failures) = (Vec::new(), Vec::new());
    let (cases, left_out) = wanted.cases()?;
    let stores = wanted.stores(&mut notes)?;
    let watch = Watch::start();
    let mut results = Results::new("replica");
    // One after the other, and the others although one fails.
    type Part = fn(&Wanted, &[String], &[System], &mut Results) -> anyhow::Result<()>;
    let parts: [(&str, Part); 5] = [
        ("put-256B", measure_puts),
        (lone::NAME, measure_lone),
        (failover::NAME, measure_failover),
        ("source", measure_source),
        ("model", measure_models),
    ];
    for (name, part) in parts {
        if let Err(error) = part(wanted, &cases, &stores, &mut results) {
            failures.push(format!("{name}: {error:#}"));
        }
    }
    print(&results);
    println!("{}", claims::table(&crate::claims::of(&cases), &results));
    if wanted.quick && cases.iter().any(|case| case.starts_with(model::KIND)) {
        println!(
            "Since it was to be quick, the best setting is that of every fourth point of the grid, with one seed."
        );
    }
    if !left_out.is_empty() {
        println!("Left out, since it was to be quick: {}", left_out.join(", "));
    }
    notes.iter().for_each(|note| println!("{note}"));
    if let Some(others) = watch.others() {
        results.push("machine", "others", "busy_cores", others);
        if others > QUIET {
            println!("Others kept {others:.2} cores busy meanwhile: times are too long, and ratios uncertain.");
        }
    }
    println!("wrote {}", results.write()?.display());
    ensure!(failures.is_empty(), "not all could be measured: {}", failures.join("; "));
    Ok(())
}

/// A table for each case of real processes, and one for each kind of the others.
fn print(results: &Results) {
    let is_simulated = |case: &&str| case.starts_with(model::KIND) || case.starts_with(source::KIND);
    for case in results.distinct(|row| &row.case).into_iter().filter(|case| !is_simulated(case)) {
        let mut own = results.clone();
        own.rows.retain(|row| row.case == case);
        let metrics = own.distinct(|row| &row.metric);
        let shown: Vec<&str> = SHOWN.iter().copied().filter(|metric| metrics.contains(metric)).collect();
        println!("{}", own.table(&shown));
    }
    for table in [source::table(results), model::table(results)] {
        if !table.is_empty() {
            println!("{table}");
        }
    }
}

fn measure_source(wanted: &Wanted, cases: &[String], _: &[System], results: &mut Results) -> anyhow::Result<()> {
    let is_wanted = wanted.wants_system(source::MODEL) || wanted.wants_system(source::SIMULATED);
    if is_wanted { source::run(cases, wanted.quick, results) } else { Ok(()) }
}

fn measure_models(wanted: &Wanted, cases: &[String], _: &[System], results: &mut Results) -> anyhow::Result<()> {
    let mut systems = model::systems();
    systems.retain(|system| wanted.wants_system(system));
    if systems.is_empty() { Ok(()) } else { model::run(cases, &systems, wanted.quick, results) }
}

fn measure_lone(wanted: &Wanted, cases: &[String], stores: &[System], results: &mut Results) -> anyhow::Result<()> {
    let is_wanted = cases.iter().any(|case| case == lone::NAME) && stores.contains(&System::Greenwave);
    if is_wanted { lone::measure(wanted.quick, results) } else { Ok(()) }
}

/// All systems in turns, each in a cluster that is new in every round.
fn measure_puts(wanted: &Wanted, cases: &[String], systems: &[System], results: &mut Results) -> anyhow::Result<()> {
    let puts: Vec<Put> = PUTS.into_iter().filter(|put| cases.iter().any(|case| case == put.name)).collect();
    if puts.is_empty() || systems.is_empty() {
        return Ok(());
    }
    let (rounds, time) = if wanted.quick { (1, Duration::from_millis(1500)) } else { (5, Duration::from_secs(6)) };
    let mut progress = Progress::new(rounds * systems.len() * puts.len());
    let mut found: Vec<Rounds> = vec![Rounds::default(); puts.len()];
    for round in 0..rounds {
        for turn in 0..systems.len() {
            let system = systems[(turn + round) % systems.len()];
            let cluster = system.start()?;
            for (put, found) in puts.iter().zip(&mut found) {
                progress.step(format!("{}: round {}, {}", put.name, round + 1, system.name()));
                found.add(system.name(), put.run(&*cluster, time, round as u64, &mut progress)?);
            }
        }
    }
    puts.iter().zip(found).for_each(|(put, found)| found.push(put.name, Some(System::Etcd.name()), results));
    Ok(())
}

fn measure_failover(
    wanted: &Wanted,
    cases: &[String],
    systems: &[System],
    results: &mut Results,
) -> anyhow::Result<()> {
    if !cases.iter().any(|case| case == failover::NAME) {
        return Ok(());
    }
    let mut progress = Progress::new(systems.len());
    for &system in systems {
        // A quick run has no time for peers, whose elections take seconds; nor is the comparison what this is about.
        if wanted.quick && wanted.systems.is_empty() && system == System::Etcd {
            continue;
        }
        let kills = match (wanted.quick, system) {
            (true, _) => 4,
            (false, System::Greenwave) => 100,
            (false, System::Etcd) => 20,
        };
        progress.step(format!("{}: {}", failover::NAME, system.name()));
        let figures = failover::run(&mut *system.start()?, kills, &mut progress)?;
        figures.into_iter().for_each(|(metric, value)| results.push(failover::NAME, system.name(), metric, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(quick: bool, cases: &[&str]) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        Wanted { quick, cases: cases.iter().map(|&case| case.to_owned()).collect(), systems: Vec::new() }.cases()
    }

    #[test]
    fn a_quick_run_leaves_environments_out_and_says_which() {
        let (all, none) = cases(false, &[]).expect("there are cases");
        assert_eq!((&all, none.len()), (&names().expect("there are cases"), 0));
        let (measured, left_out) = cases(true, &[]).expect("there are cases");
        assert!(left_out.iter().all(|case| case.starts_with(model::KIND)), "{left_out:?}");
        assert_eq!(measured.len() + left_out.len(), all.len());
        for kind in ["put-256B", lone::NAME, failover::NAME, source::KIND, model::KIND] {
            assert!(measured.iter().any(|case| case.starts_with(kind)), "{kind}");
        }
    }

    #[test]
    fn a_case_is_named_by_itself_or_by_its_kind() {
        let one = "model/lan-10g-20us-128-fast-3";
        assert_eq!(cases(true, &[one]).expect("it is one"), (vec![one.to_owned()], Vec::new()));
        let (sources, _) = cases(true, &["source"]).expect("it is a kind");
        assert_eq!(sources, source::names());
        let (models, _) = cases(false, &["model", failover::NAME]).expect("both are there");
        assert_eq!(models.len(), model::names().expect("there are cases").len() + 1);
        assert!(cases(false, &["put"]).is_err_and(|error| error.to_string().contains("`put`")));
    }

    #[test]
    fn systems_of_all_kinds_can_be_named() {
        let wanted = |system: &str| Wanted { systems: vec![system.to_owned()], ..Wanted::default() };
        for system in systems() {
            assert!(wanted(system).stores(&mut Vec::new()).is_ok(), "{system}");
        }
        assert!(wanted("nobody").stores(&mut Vec::new()).is_err_and(|error| error.to_string().contains("aimd")));
        assert_eq!(wanted("controller").stores(&mut Vec::new()).expect("it is one"), []);
    }
}
