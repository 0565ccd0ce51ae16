//! All cases, and what is made of them.

use anyhow::ensure;
use greenwave_bench::benchmark::{Benchmark, Wanted};
use greenwave_bench::rounds::{Cell, Figures, calmest};

use crate::agent::Programs;
use crate::bench::{Bench, Case, Length};
use crate::cases::ALL;
use crate::claims::CLAIMS;
use crate::report;
use crate::testbed::Testbed;

/// Metrics whose least and most are told too.
const RANGED: [&str; 4] = ["p50_us", "p99_us", "p999_us", "bulk_mbit"];

/// A run in which a request was sent so late, since others had the processor, is done once more, and the less late one
/// counts; not in quick runs. It says little of the network, and is judged by the lateness alone, not by what came. How
/// late it was is in the results.
const TOO_LATE_US: f64 = 5000.0;
const LATENESS: &str = "max_send_lag_us";

/// A case with those systems that can be measured here.
struct Part {
    case: Case,
    systems: Vec<&'static str>,
    length: Length,
}

/// Measures what is wanted, prints it and writes it.
///
/// # Errors
/// When there can be no testbed here, or not all could be measured.
pub fn run(wanted: &Wanted, programs: Programs) -> anyhow::Result<()> {
    if let Some(obstacle) = Testbed::obstacle() {
        return Err(obstacle.into());
    }
    let testbed = Bench::new(programs)?;
    let (parts, notes) = plan(wanted, &testbed)?;
    let mut bench = Benchmark::new("flows", parts.iter().map(|part| part.length.rounds * part.systems.len()).sum());
    bench.notes = notes;
    parts.iter().for_each(|part| part.measure(&testbed, &mut bench));
    drop(testbed);
    let plot = report::plot(&bench.results)?;
    bench.notes.extend(plot.map(|plot| format!("wrote {}", plot.display())));
    bench.finish(&CLAIMS, &[], |results| {
        results.table_of_each(&report::SHOWN, |_| true).iter().for_each(|table| println!("{table}"));
    })?;
    Ok(())
}

impl Part {
    fn measure(&self, testbed: &Bench, bench: &mut Benchmark) {
        let Self { case, systems, length } = self;
        let tries = length.rounds.min(2);
        let mut rounds = bench.rounds(Cell::of_case(case.name, systems), length.rounds, |_, at, _| {
            let lateness = |figures: &Figures| figures.get(LATENESS).copied().unwrap_or(0.0);
            calmest(tries, TOO_LATE_US, lateness, || (case.run)(testbed, systems[at], length.time))
        });
        case.ratios.iter().for_each(|(metric, over)| rounds.ratios(metric, over));
        rounds.push(&mut bench.results, |metric| RANGED.contains(&metric));
    }
}

/// What is measured, and what isn't and why.
fn plan(wanted: &Wanted, testbed: &Bench) -> anyhow::Result<(Vec<Part>, Vec<String>)> {
    let (mut parts, mut notes) = (Vec::new(), Vec::new());
    wanted.choose_systems(&ALL.iter().flat_map(|case| case.systems).copied().collect::<Vec<_>>())?;
    let names: Vec<String> = ALL.iter().map(|case| case.name.to_owned()).collect();
    let is_quick = |name: &str| ALL.iter().any(|case| case.name == name && case.quick.is_some());
    let (chosen, left_out) = wanted.choose_cases(&names, is_quick)?;
    notes.extend(left_out.iter().map(|name| format!("Left out, since it was to be quick: {name}")));
    for case in ALL.into_iter().filter(|case| chosen.iter().any(|name| name == case.name)) {
        let length = case.quick.filter(|_| wanted.quick).unwrap_or(case.full);
        let why_not = |system: &str| match (case.missing)(testbed, system) {
            _ if wanted.quick && wanted.systems.is_empty() && case.not_quick.contains(&system) => {
                Some(format!("Left out, since it was to be quick: {system} of {}", case.name))
            }
            missing => missing.map(|why| format!("Passed over: {system} of {}, {why}", case.name)),
        };
        let mut systems = case.systems.to_vec();
        systems.retain(|system| wanted.wants_system(system));
        systems.retain(|system| {
            let why_not = why_not(system);
            notes.extend(why_not.clone());
            why_not.is_none()
        });
        if !systems.is_empty() {
            parts.push(Part { case, systems, length });
        }
    }
    ensure!(!parts.is_empty(), "nothing is left to be measured; {}", notes.join("; "));
    Ok((parts, notes))
}
