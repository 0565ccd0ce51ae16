//! All cases, with an attacker and without in turns.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum as _};
use greenwave_bench::benchmark::{self, Benchmark, Named as _};
use greenwave_bench::claims::{Claim, fits};
use greenwave_bench::pin::{self, Cores};
use greenwave_bench::rounds::{Cell, range};

use crate::case::Case;
use crate::cell::{Attack, Testbed, connections};
use crate::claims::{CLAIMS, HELD, KEPT, MEMORY, MOST_HELD, MOST_MEMORY};
use crate::mix::Units;
use crate::newcomers::SERVED;
use crate::system::System;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The share of what a server can do that clients ask for.
const LOAD: f64 = 0.5;
/// What a cell takes beside what is measured: to start a server and to connect, and an attacker if there is one.
const START: Duration = ms(400);
const GATHERS: Duration = ms(1200);

/// What is to be measured.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) what: benchmark::Wanted,
    /// So many rounds of everything
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: Option<u8>,
    /// Measure each for so long
    #[arg(long, value_name = "MS")]
    pub(crate) window: Option<u64>,
    /// How much the attacker gives way to the clients, whose core it shares: 19 is most; with less it does more where others
    /// use the machine too
    #[arg(long, value_name = "NICE", default_value_t = 19, allow_hyphen_values = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub(crate) attacker_nice: i32,
}

/// All that will be measured.
#[derive(Clone, Debug)]
struct Plan {
    /// Each with whom it is measured of.
    cases: Vec<(Case, Vec<System>)>,
    left_out: Vec<String>,
    rounds: usize,
    warm_up: Duration,
    window: Duration,
    /// Whether all is measured of which something is claimed.
    is_full: bool,
}

impl Plan {
    fn new(wanted: &Options) -> anyhow::Result<Self> {
        let quick = wanted.what.quick;
        let all = Case::value_variants();
        let names: Vec<String> = all.iter().map(Case::name).collect();
        let is_quick = |name: &str| Case::named(name).is_ok_and(Case::is_quick);
        let (chosen, left_out) = wanted.what.choose_cases(&names, is_quick)?;
        let systems: Vec<String> = System::value_variants().iter().map(System::name).collect();
        wanted.what.choose_systems(&systems.iter().map(String::as_str).collect::<Vec<_>>())?;
        // The same server by another protocol is what a quick run can do without.
        let is_all = !quick || !wanted.what.systems.is_empty() || !wanted.what.cases.is_empty();
        let of = |case: Case| {
            let systems = case.systems().iter().copied();
            let has_time = |system: &System| is_all || *system != System::Grpc;
            systems.filter(|system| wanted.what.wants_system(&system.name())).filter(has_time).collect::<Vec<_>>()
        };
        let chosen = all.iter().filter(|case| chosen.contains(&case.name()));
        let cases: Vec<_> = chosen.map(|case| (*case, of(*case))).filter(|(_, systems)| !systems.is_empty()).collect();
        ensure!(!cases.is_empty(), "none of these systems is measured in these cases");
        let is_chosen = !wanted.what.cases.is_empty() || !wanted.what.systems.is_empty();
        Ok(Self {
            cases,
            left_out,
            rounds: wanted.rounds.map_or(if quick { 1 } else { 5 }, usize::from),
            warm_up: ms(300),
            window: wanted.window.map_or(ms(if quick { 800 } else { 3000 }), ms),
            is_full: !quick && !is_chosen,
        })
    }

    /// The systems, each with whether it is measured over TLS, for which a capacity is measured.
    fn capacities(&self) -> Vec<(System, bool)> {
        let mut found = Vec::new();
        for (case, systems) in &self.cases {
            let new = systems.iter().map(|system| (*system, case.is_over_tls()));
            found.extend(new.filter(|pair| !found.contains(pair)).collect::<Vec<_>>());
        }
        found
    }

    fn cells(&self) -> usize {
        2 * self.rounds * self.cases.iter().map(|(_, systems)| systems.len()).sum::<usize>()
    }

    /// About how long it takes.
    fn length(&self) -> Duration {
        let cell = START + self.warm_up + self.window + GATHERS / 2;
        let capacity = START + self.warm_up + self.window / 2;
        cell * self.cells() as u32 + capacity * self.capacities().len() as u32
    }
}

/// Measures what is wanted, prints it and writes it.
pub(crate) fn bench(cores: Cores, wanted: &Options) -> anyhow::Result<()> {
    let plan = Plan::new(wanted)?;
    let units = pin::with(&[cores.server], Units::measured)?;
    pin::this_thread(cores.client)?;
    eprintln!("takes about {:.0?}", plan.length());
    let attacker_nice = wanted.attacker_nice;
    let testbed = Testbed { cores, units, attacker_nice, warm_up: plan.warm_up, window: plan.window };
    let mut bench = Benchmark::new("abuse", plan.capacities().len() + plan.cells());
    let mut capacities = BTreeMap::new();
    for (system, is_over_tls) in plan.capacities() {
        let name = system.name();
        bench.progress.step(format!("{name}: capacity"));
        let case = if is_over_tls { Case::HandshakeStorm } else { Case::Silent };
        let found = testbed.capacity(system, case, &mut bench.progress);
        if let Some(capacity) = bench.settle(&format!("{name}: capacity"), found) {
            bench.results.push(if is_over_tls { "tls" } else { "all" }, &name, "capacity_per_s", capacity);
            capacities.insert((name, is_over_tls), capacity);
        }
    }
    for (case, systems) in &plan.cases {
        let known = |system: &&System| capacities.contains_key(&(system.name(), case.is_over_tls()));
        let systems: Vec<(System, f64)> = systems
            .iter()
            .filter(known)
            .map(|system| (*system, LOAD * capacities[&(system.name(), case.is_over_tls())]))
            .collect();
        measure(*case, &systems, testbed, plan.rounds, &mut bench);
    }
    note_limits(&plan, &mut bench);
    bench.note_left_out(&plan.left_out);
    let names: Vec<String> = plan.cases.iter().map(|(case, _)| case.name()).collect();
    let is_measured = |claim: &Claim| {
        let of = |(case, systems): &(Case, Vec<System>)| {
            fits(claim.case, &case.name()) && systems.iter().any(|system| system.name() == claim.system)
        };
        plan.cases.iter().any(of)
    };
    let claims: Vec<Claim> = CLAIMS.into_iter().filter(is_measured).collect();
    let counts = bench.finish(&claims, &names, |results| {
        println!("{}", results.table(&CLIENTS));
        println!("{}", results.table(&ATTACKER));
        println!("{}", results.table(&SERVER));
    })?;
    let missed = counts.fail + counts.not_measured;
    ensure!(!plan.is_full || missed == 0, "{missed} of {} claims don't hold", missed + counts.hold);
    Ok(())
}

fn measure(case: Case, systems: &[(System, f64)], testbed: Testbed, count: usize, bench: &mut Benchmark) {
    // Of each system first without an attacker, then with one.
    let names: Vec<String> = systems.iter().flat_map(|(system, _)| [system.calm(), system.name()]).collect();
    let mut rounds = bench.rounds(Cell::of_case(&case.name(), &names), count, |round, at, progress| {
        let (system, per_second) = systems[at / 2];
        let attack = Attack { system, case, is_made: at % 2 == 1, per_second, seed: round as u64 + 1 };
        testbed.measure(attack, progress)
    });
    for (at, (system, _)) in systems.iter().enumerate() {
        let calm = Cell::new(case.name(), system.calm());
        rounds.ratio(2 * at + 1, "goodput_per_s", &calm, KEPT);
        rounds.ratio(2 * at + 1, "p99_us", &calm, "p99_over_calm");
    }
    let ratios = [KEPT, "p99_over_calm"];
    rounds.push(&mut bench.results, |metric| {
        ratios.contains(&metric) || ["goodput_per_s", "p99_us", "peak_mib", "server_cpu_share"].contains(&metric)
    });
    for (at, Cell { case, system }) in rounds.cells().iter().enumerate() {
        for (metric, most) in [(HELD, MOST_HELD), (MEMORY, MOST_MEMORY)] {
            let values = rounds.values(at, metric);
            if !values.is_empty() {
                bench.results.push(case, system, most, range(&values).1);
            }
        }
    }
}

/// Says where the system lets a process have fewer connections than an attacker would.
fn note_limits(plan: &Plan, bench: &mut Benchmark) {
    for (case, _) in &plan.cases {
        let (wanted, had) = (case.force().connections, connections(*case));
        if had < wanted {
            let name = case.name();
            bench.notes.push(format!(
                "{name}: {had} connections and not {wanted}, as a process may have no more files open (`ulimit -Hn`)"
            ));
        }
    }
}

/// What the tables show; the file has all.
const CLIENTS: [&str; 10] = [
    "capacity_per_s",
    "offered_per_s",
    "goodput_per_s",
    KEPT,
    "goodput_over_calm_min",
    "goodput_over_calm_max",
    "p99_us",
    "missed_share",
    SERVED,
    "newcomers_p50_us",
];

const ATTACKER: [&str; 6] = [
    "attacker_open",
    "attacker_opened_per_s",
    "attacker_calls_per_s",
    "attacker_ended_per_s",
    "attacker_handshakes_per_s",
    "attacker_bytes_per_s",
];

const SERVER: [&str; 11] = [
    "server_cpu_share",
    "peak_mib",
    "bound_mib",
    MOST_MEMORY,
    "most_held_mib",
    MOST_HELD,
    "server_infeasible_per_s",
    "server_queue_full_per_s",
    "server_memory_refused_per_s",
    "server_connections_refused_per_s",
    "server_violations_per_s",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(quick: bool, cases: &[&str], systems: &[&str]) -> anyhow::Result<Plan> {
        let [cases, systems] = [cases, systems].map(|names| names.iter().map(|&name| name.to_owned()).collect());
        Plan::new(&Options { what: benchmark::Wanted { quick, cases, systems }, ..Options::default() })
    }

    #[test]
    fn a_quick_run_takes_less_than_45_seconds() {
        let plan = plan(true, &[], &[]).unwrap();
        assert!(plan.length() < Duration::from_secs(40), "{:?}", plan.length());
        assert!(!plan.is_full && !plan.left_out.is_empty());
    }

    #[test]
    fn a_full_run_leaves_nothing_out() {
        let plan = plan(false, &[], &[]).unwrap();
        assert!(plan.is_full && plan.left_out.is_empty());
        assert_eq!(plan.cases.len(), Case::value_variants().len());
        assert_eq!(plan.capacities().len(), 4, "three systems, and one over TLS");
        assert!(plan.length() < Duration::from_secs(30 * 60), "{:?}", plan.length());
    }

    #[test]
    fn only_what_is_named_is_measured() {
        let plan_of_two = plan(false, &["hog", "reset"], &["greenwave"]).unwrap();
        assert_eq!(plan_of_two.cases, [(Case::Hog, vec![System::Greenwave])]);
        assert!(!plan_of_two.is_full);
        assert!(plan(false, &["reset"], &["greenwave"]).unwrap_err().to_string().contains("none of these systems"));
        assert!(plan(false, &["nonsense"], &[]).unwrap_err().to_string().contains("slow-loris"));
    }
}
