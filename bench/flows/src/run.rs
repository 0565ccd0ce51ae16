//! All cases, and what is made of them.

use anyhow::ensure;
use clap::Args;
use greenwave_bench::disturbance::{QUIET, Watch};
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::agent::Programs;
use crate::bench::{Bench, Case, Length};
use crate::testbed::Testbed;
use crate::{cases, report, rounds};

/// What is to be measured.
#[derive(Args, Clone, Debug, Default)]
pub struct Wanted {
    /// End within 45 seconds, with some of the cases, and fewer and shorter rounds
    #[arg(long)]
    pub quick: bool,
    /// Measure this case; repeatable; all if not stated
    #[arg(long = "case", value_name = "NAME")]
    pub cases: Vec<String>,
    /// Measure this system; repeatable; all if not stated
    #[arg(long = "system", value_name = "NAME")]
    pub systems: Vec<String>,
}

/// A case with those systems that can be measured here.
struct Part {
    case: Box<dyn Case>,
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
    let watch = Watch::start();
    let bench = Bench::new(programs)?;
    let (parts, notes) = plan(wanted, &bench)?;
    let mut results = Results::new("flows");
    let mut progress = Progress::new(parts.iter().map(|part| part.length.rounds * part.systems.len()).sum());
    let mut failures = Vec::new();
    for Part { case, systems, length } in &parts {
        // The others may well work, and take their time.
        if let Err(error) = rounds::measure(case.as_ref(), &bench, systems, *length, &mut progress, &mut results) {
            failures.push(format!("{}: {error:#}", case.name()));
        }
    }
    drop((progress, bench));
    report::print(&results);
    notes.iter().for_each(|note| println!("{note}"));
    if let Some(others) = watch.others() {
        results.push("machine", "others", "busy_cores", others);
        if others > QUIET {
            println!("Others kept {others:.2} cores busy meanwhile: times are too long, and ratios uncertain.");
        }
    }
    println!("wrote {}", results.write()?.display());
    if let Some(plot) = report::plot(&results)? {
        println!("wrote {}", plot.display());
    }
    ensure!(failures.is_empty(), "not all could be measured: {}", failures.join("; "));
    Ok(())
}

/// What is measured, and what isn't and why.
fn plan(wanted: &Wanted, bench: &Bench) -> anyhow::Result<(Vec<Part>, Vec<String>)> {
    let (mut parts, mut notes) = (Vec::new(), Vec::new());
    let all = cases::all();
    for name in &wanted.cases {
        let names: Vec<&str> = all.iter().map(|case| case.name()).collect();
        ensure!(names.contains(&name.as_str()), "no case is called `{name}`; there are {}", names.join(", "));
    }
    for name in &wanted.systems {
        let is_known = all.iter().any(|case| case.systems().contains(&name.as_str()));
        ensure!(is_known, "no system is called `{name}`; `greenwave-flows list` shows all");
    }
    for case in all {
        let is_named = wanted.cases.iter().any(|name| name == case.name());
        if !wanted.cases.is_empty() && !is_named {
            continue;
        }
        let Some(length) = case.length(wanted.quick).or_else(|| is_named.then(|| case.length(false)).flatten()) else {
            notes.push(format!("Left out, since it was to be quick: {}", case.name()));
            continue;
        };
        let mut systems = case.systems();
        systems.retain(|system| wanted.systems.is_empty() || wanted.systems.iter().any(|name| name == system));
        systems.retain(|system| {
            let stays = !wanted.quick || !wanted.systems.is_empty() || case.is_quick(system);
            if !stays {
                notes.push(format!("Left out, since it was to be quick: {system} of {}", case.name()));
            }
            stays
        });
        systems.retain(|system| match case.missing(bench, system) {
            None => true,
            Some(why) => {
                notes.push(format!("Passed over: {system} of {}, {why}", case.name()));
                false
            }
        });
        if !systems.is_empty() {
            parts.push(Part { case, systems, length });
        }
    }
    ensure!(!parts.is_empty(), "nothing is left to be measured; {}", notes.join("; "));
    Ok((parts, notes))
}
