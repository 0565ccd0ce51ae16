//! All cases, and what is made of them.

use std::time::Duration;

use greenwave_bench::benchmark::{Benchmark, Wanted};
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{Cell, Rounds, order};

use crate::claims::CLAIMS;
use crate::put::{PUTS, Put};
use crate::system::System;
use crate::{change, etcd, failover, lone, model, source};

/// What is shown of each case, of what it has.
const SHOWN: [&str; 16] = [
    "ops_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_send_lag_us",
    "server_busy_cores",
    "generator_busy_cores",
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
    Ok(real.chain(source::names()).chain(model::names()?).chain(change::names()).collect())
}

/// All systems' names.
pub(crate) fn systems() -> Vec<&'static str> {
    System::ALL.map(System::name).into_iter().chain(model::systems()).chain([source::SIMULATED]).collect()
}

/// Whether a quick run has time for a case.
fn is_quick(name: &str) -> bool {
    model::is_quick(name) || !(model::is_one(name) || name.starts_with(change::KIND))
}

/// What is measured of it.
pub(crate) struct Scope<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) cases: Vec<String>,
    stores: Vec<System>,
}

/// Measures what is wanted, prints it and writes it.
pub(crate) fn run(wanted: &Wanted) -> anyhow::Result<()> {
    let (cases, left_out) = wanted.choose_cases(&names()?, is_quick)?;
    wanted.choose_systems(&systems())?;
    let mut bench = Benchmark::new("replica", 0);
    if wanted.quick && cases.iter().any(|case| model::is_one(case) || case.starts_with(change::KIND)) {
        let note =
            "Since it was to be quick, the best setting is that of every fourth point of the grid, with one seed.";
        bench.notes.push(note.to_owned());
    }
    bench.note_left_out(&left_out);
    let mut stores = System::ALL.to_vec();
    stores.retain(|store| wanted.wants_system(store.name()));
    stores.retain(|store| {
        let missing = store.missing();
        bench.notes.extend(missing.as_ref().map(|why| format!("Passed over: {}, {why}", store.name())));
        missing.is_none()
    });
    if stores.contains(&System::Etcd)
        && let Some(version) = etcd::version()
    {
        bench.results.versions.insert(System::Etcd.name().to_owned(), version);
    }
    let scope = Scope { wanted, cases, stores };
    // One after the other, and the others although one fails.
    type Part = fn(&Scope, &mut Benchmark) -> anyhow::Result<()>;
    let parts: [(&str, Part); 6] = [
        ("put-256B", measure_puts),
        (lone::NAME, measure_lone),
        (failover::NAME, measure_failover),
        ("source", source::measure),
        ("model", model::measure),
        ("change", change::measure),
    ];
    for (name, part) in parts {
        let done = part(&scope, &mut bench);
        bench.settle(name, done);
    }
    bench.finish(&CLAIMS, &scope.cases, |results| {
        let is_simulated = |case: &str| {
            model::is_one(case) && case != model::ALL_HELD_OUT
                || [source::KIND, change::KIND].iter().any(|kind| case.starts_with(kind))
        };
        let real = results.table_of_each(&SHOWN, |case| !is_simulated(case));
        let all = real.into_iter().chain([source::table(results), model::table(results), change::table(results)]);
        all.filter(|table| !table.is_empty()).for_each(|table| println!("{table}"));
    })?;
    Ok(())
}

impl Scope<'_> {
    fn has(&self, case: &str) -> bool {
        self.cases.iter().any(|name| name == case)
    }
}

fn measure_lone(scope: &Scope, bench: &mut Benchmark) -> anyhow::Result<()> {
    let is_wanted = scope.has(lone::NAME) && scope.stores.contains(&System::Greenwave);
    if is_wanted { lone::measure(scope.wanted.quick, bench) } else { Ok(()) }
}

/// All systems in turns, each in a cluster that is new in every round.
fn measure_puts(scope: &Scope, bench: &mut Benchmark) -> anyhow::Result<()> {
    let puts: Vec<Put> = PUTS.into_iter().filter(|put| scope.has(put.name)).collect();
    let systems = &scope.stores;
    let (count, time) = if scope.wanted.quick { (1, Duration::from_millis(1500)) } else { (5, Duration::from_secs(6)) };
    let names: Vec<&str> = systems.iter().map(|system| system.name()).collect();
    let mut rounds = Rounds::new(puts.iter().flat_map(|put| Cell::of_case(put.name, &names)).collect());
    bench.progress = Progress::new(count * rounds.cells().len());
    for round in 0..count {
        for nth in order(round, systems.len()).filter(|_| !puts.is_empty()) {
            let cluster = systems[nth].start()?;
            for (at, put) in puts.iter().enumerate() {
                let cell = at * systems.len() + nth;
                bench.round(&mut rounds, round, cell..cell + 1, |_, _, progress| {
                    put.run(&*cluster, time, round as u64, progress)
                });
            }
        }
    }
    push(rounds, System::Etcd.name(), bench);
    Ok(())
}

/// Adds what rounds showed, and all of it over that of a system, to the results.
pub(crate) fn push(mut rounds: Rounds, over: &str, bench: &mut Benchmark) {
    rounds.all_ratios(over);
    rounds.push(&mut bench.results, |metric| !metric.contains("_over_"));
}

fn measure_failover(scope: &Scope, bench: &mut Benchmark) -> anyhow::Result<()> {
    let quick = scope.wanted.quick;
    // A quick run has no time for peers, whose elections take seconds; nor is the comparison what this is about.
    let has_time = |system: &System| !quick || !scope.wanted.systems.is_empty() || *system != System::Etcd;
    let systems: Vec<System> = scope.stores.iter().copied().filter(has_time).collect();
    let systems = if scope.has(failover::NAME) { &systems[..] } else { &[] };
    let names: Vec<&str> = systems.iter().map(|system| system.name()).collect();
    bench.progress = Progress::new(systems.len());
    let rounds = bench.rounds(Cell::of_case(failover::NAME, &names), 1, |_, at, progress| {
        let kills = match (quick, systems[at]) {
            (true, _) => 4,
            (false, System::Greenwave) => 100,
            (false, System::Etcd) => 20,
        };
        failover::run(&mut *systems[at].start()?, kills, progress)
    });
    rounds.push(&mut bench.results, |_| false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(quick: bool) -> (Vec<String>, Vec<String>) {
        let wanted = Wanted { quick, ..Wanted::default() };
        wanted.choose_cases(&names().expect("there are cases"), is_quick).expect("none is named")
    }

    #[test]
    fn a_quick_run_leaves_environments_out_and_says_which() {
        let (all, none) = cases(false);
        assert_eq!((&all, none.len()), (&names().expect("there are cases"), 0));
        let (measured, left_out) = cases(true);
        let is_simulated = |case: &String| model::is_one(case) || case.starts_with(change::KIND);
        assert!(left_out.iter().all(is_simulated), "{left_out:?}");
        assert_eq!(measured.len() + left_out.len(), all.len());
        for kind in ["put-256B", lone::NAME, failover::NAME, source::KIND, model::KIND] {
            assert!(measured.iter().any(|case| case.starts_with(kind)), "{kind}");
        }
    }

    #[test]
    fn cases_are_named_by_themselves_or_by_their_kind_and_systems_of_all_kinds() {
        let wanted = |cases: &[&str], systems: &[&str]| Wanted {
            cases: cases.iter().map(|&case| case.to_owned()).collect(),
            systems: systems.iter().map(|&system| system.to_owned()).collect(),
            ..Wanted::default()
        };
        let all = names().expect("there are cases");
        let chosen = |cases: &[&str]| wanted(cases, &[]).choose_cases(&all, |_| true).map(|(chosen, _)| chosen);
        assert_eq!(chosen(&["model/lan-10g-20us-128-fast-3"]).expect("it is one"), ["model/lan-10g-20us-128-fast-3"]);
        assert_eq!(chosen(&["source"]).expect("it is a kind"), source::names());
        let models = chosen(&["model", failover::NAME]).expect("both are there");
        assert_eq!(models.len(), all.iter().filter(|case| case.starts_with(model::KIND)).count() + 1);
        assert_eq!(chosen(&["held-out"]).expect("it is a kind").len(), 41);
        assert_eq!(chosen(&["change"]).expect("it is a kind"), change::names());
        assert!(chosen(&["put"]).is_err_and(|error| error.to_string().contains("`put`")));
        for system in systems() {
            assert_eq!(wanted(&[], &[system]).choose_systems(&systems()).expect("it is one"), [system]);
        }
        assert!(wanted(&[], &["nobody"]).choose_systems(&systems()).is_err());
    }
}
