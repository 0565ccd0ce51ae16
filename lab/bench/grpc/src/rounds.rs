//! All cases, and what is made of them.

use std::time::Duration;

use clap::ValueEnum as _;
use greenwave_bench::benchmark::{Benchmark, Named as _, Wanted};
use greenwave_bench::pin::Cores;
use greenwave_bench::rounds::Cell;

use crate::case::{CASES, Case};
use crate::claims::CLAIMS;
use crate::h2load;
use crate::run::Run;
use crate::system::System;

/// How often, and for how long, each cell is measured.
struct Effort {
    rounds: usize,
    time: Duration,
}

/// The cell in which h2load is asked too, in the first round.
const CROSS_CHECKED: &str = "unary-64B/in-flight-64/connections-1";

/// Measures what is wanted, prints it and writes it.
pub(crate) fn bench(cores: Cores, wanted: &Wanted) -> anyhow::Result<()> {
    let names: Vec<String> = CASES.iter().map(|case| case.name.to_owned()).collect();
    let (chosen, left_out) = wanted.choose_cases(&names, |name| name.parse().is_ok_and(|case: Case| case.is_quick))?;
    let all: Vec<String> = System::value_variants().iter().map(System::name).collect();
    wanted.choose_systems(&all.iter().map(String::as_str).collect::<Vec<_>>())?;
    let wanted_ones = System::value_variants().iter().copied().filter(|system| wanted.wants_system(&system.name()));
    let (missing, systems): (Vec<System>, Vec<System>) = wanted_ones.partition(|system| system.missing().is_some());
    anyhow::ensure!(!systems.is_empty(), "none of these systems can be measured here");
    let effort = match wanted.quick {
        true => Effort { rounds: 3, time: Duration::from_millis(600) },
        false => Effort { rounds: 7, time: Duration::from_secs(1) },
    };
    let mut bench = Benchmark::new("grpc", chosen.len() * systems.len() * effort.rounds);
    for case in CASES.into_iter().filter(|case| chosen.iter().any(|name| name == case.name)) {
        measure(case, &systems, cores, &effort, &mut bench);
    }
    bench.note_left_out(&left_out);
    let why = |system: &System| format!("Passed over: {}, {}", system.name(), system.missing().unwrap_or_default());
    bench.notes.extend(missing.iter().map(why));
    if !h2load::is_there() {
        bench
            .notes
            .push("Passed over: h2load, it isn't there; to install it: apt-get install nghttp2-client".to_owned());
    }
    bench.finish(&CLAIMS, &chosen, |results| {
        let shown = ["p50_us", "p99_us", "p999_us", "rate_per_s", "rate_per_server_core", "server_busy_share"];
        println!("{}", results.table(&shown));
        println!("{}", results.table(&["p50_over_tonic", "rate_over_tonic", "rate_per_server_core_over_tonic"]));
        let others = results.table(&["rate_per_s", "h2load_per_s"]);
        if results.rows.iter().any(|row| row.metric == "h2load_per_s") {
            println!("{others}");
        }
    })?;
    Ok(())
}

/// Measures the systems in turns.
fn measure(case: Case, systems: &[System], cores: Cores, effort: &Effort, bench: &mut Benchmark) {
    let names: Vec<String> = systems.iter().map(System::name).collect();
    let mut rounds = bench.rounds(Cell::of_case(case.name, &names), effort.rounds, |_, at, progress| {
        let cross_check = case.name == CROSS_CHECKED;
        Run { cores, case, system: systems[at], time: effort.time, cross_check }.measure(progress)
    });
    for metric in ["p50_us", "p99_us", "rate_per_s", "rate_per_server_core"] {
        rounds.ratios(metric, "tonic");
    }
    rounds.push(&mut bench.results, |metric| metric.contains("_over_") || metric == "rate_per_s" || metric == "p50_us");
}
