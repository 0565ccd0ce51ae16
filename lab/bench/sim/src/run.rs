//! All cases, and what is made of them.

use greenwave_bench::benchmark::{Benchmark, Wanted};
use greenwave_bench::progress::Progress;

use crate::claims::CLAIMS;
use crate::speed::Speed;
use crate::system::System;
use crate::{forms, scale, seeds, speed, tcp};

/// What is shown of speed, of what a case has.
const SHOWN: [&str; 12] = [
    "events_per_s",
    "jobs_per_s",
    "hops_per_s",
    "peak_mib",
    "mean_us",
    "jobs_over_simpy",
    "hops_over_ns_3",
    "peak_mib_over_simpy",
    "peak_mib_over_ns_3",
    "cores",
    "speed_up",
    "speed_up_over_cores",
];

const OF_TCP: [&str; 7] =
    ["segments_per_s", "lost", "timeouts", "over_law", "over_law_min", "over_law_max", "over_law_at_random"];

/// All cases' names.
pub(crate) fn names() -> Vec<String> {
    let speeds = speed::all();
    let measured = speeds.iter().map(|case| case.name).chain(seeds::CASES.map(|case| case.0)).map(str::to_owned);
    measured.chain(forms::names()).chain(tcp::names()).chain(scale::names()).collect()
}

/// All systems' names.
pub(crate) fn systems() -> Vec<String> {
    let measured = System::ALL.map(System::name).into_iter().chain([forms::SIMULATED]).map(str::to_owned);
    measured.chain(scale::systems()).collect()
}

/// Whether a quick run has time for a case.
fn is_quick(name: &str) -> bool {
    let is_seeds = name == seeds::CASES[0].0;
    is_seeds || forms::is_quick(name) || tcp::is_quick(name) || speed::named(name).is_some_and(|case| case.is_quick)
}

/// Measures what is wanted, prints it and writes it.
pub(crate) fn run(wanted: &Wanted) -> anyhow::Result<()> {
    let (cases, left_out) = wanted.choose_cases(&names(), is_quick)?;
    let systems = systems();
    wanted.choose_systems(&systems.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut bench = Benchmark::new("sim", 0);
    bench.note_left_out(&left_out);
    let has = |name: &str| cases.iter().any(|case| case == name);
    let speeds: Vec<Speed> = speed::all().into_iter().filter(|case| has(case.name)).collect();
    let present = present(wanted, &speeds, &mut bench);
    let (rounds, seconds) = if wanted.quick { (2, 0.5) } else { (5, 2.0) };
    let ours = wanted.wants_system(System::Greenwave.name());
    let steps = speeds.iter().map(|case| case.systems().iter().filter(|system| present.contains(system)).count());
    let seeds: Vec<&str> = seeds::CASES.iter().map(|case| case.0).filter(|name| ours && has(name)).collect();
    bench.progress = Progress::new(rounds * (steps.sum::<usize>() + seeds.len()) + cases.len());
    for case in &speeds {
        let mut systems = case.systems();
        systems.retain(|system| present.contains(system));
        speed::measure(case, &systems, rounds, seconds, &mut bench);
    }
    for name in seeds {
        let done = seeds::measure(name, rounds, seconds, &mut bench);
        bench.settle(name, done);
    }
    if wanted.wants_system(forms::SIMULATED) {
        forms::measure(&cases, &mut bench);
        tcp::measure(&cases, &mut bench);
    }
    scale::measure(&cases, wanted, &mut bench);
    bench.finish(&CLAIMS, &cases, |results| {
        let is_speed = |case: &str| ![forms::KIND, tcp::KIND, scale::KIND].iter().any(|kind| case.starts_with(kind));
        let speeds = results.table_of_each(&SHOWN, is_speed);
        let mut rates = results.clone();
        rates.rows.retain(|row| row.case.starts_with(tcp::KIND));
        let all = speeds.into_iter().chain([forms::table(results), rates.table(&OF_TCP)]).chain(scale::tables(results));
        all.filter(|table| !table.is_empty()).for_each(|table| println!("{table}"));
    })?;
    Ok(())
}

/// Those who are wanted and there; of the others it is noted why they aren't.
fn present(wanted: &Wanted, speeds: &[Speed], bench: &mut Benchmark) -> Vec<System> {
    let is_needed = |system: &System| speeds.iter().any(|case| case.systems().contains(system));
    let mut present = Vec::new();
    for system in System::ALL.into_iter().filter(|system| wanted.wants_system(system.name()) && is_needed(system)) {
        match system.version() {
            Ok(version) => {
                bench.results.versions.insert(system.name().to_owned(), version);
                present.push(system);
            }
            Err(error) => bench.notes.push(format!("Skipped: {}, {error:#}", system.name())),
        }
    }
    if is_needed(&System::Ns3) {
        bench.notes.push("Skipped: omnet++, of which package registries have a downloader alone".to_owned());
    }
    present
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_something_of_every_kind() {
        for kind in ["cores/", "fabric/", "seeds/", forms::KIND, tcp::KIND] {
            assert!(names().iter().any(|name| name.starts_with(kind) && is_quick(name)), "{kind}");
        }
    }
}
