//! How exactly quanta end: each program beside a loop that only reads the clock, one after the other on one core.

use std::time::Duration;

use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::table::{Table, significant};
use greenwave_programs::Program;

use super::{QUANTA, Setting, claims};
use crate::child::Process;
use crate::gaps::{Limit, Overshoot};

/// How many steps of progress it takes.
pub(super) fn steps(setting: &Setting) -> usize {
    setting.programs.len() * QUANTA.len()
}

pub(super) fn measure(setting: &Setting, results: &mut Results, progress: &mut Progress) -> anyhow::Result<()> {
    let limit = match setting.quick {
        true => Limit { slices: 20_000, time: Duration::from_millis(200) },
        false => Limit { slices: 200_000, time: Duration::from_secs(3) },
    };
    for program in &setting.programs {
        let start = |build| Process::start(build, program, setting.scale(), setting.core);
        let (mut plain, mut probes) = (start(&setting.plain)?, start(&setting.probes)?);
        for (system, quantum) in QUANTA {
            progress.step(format!("{}: how exactly {system} ends", program.name));
            push(results, program, system, &probes.gaps(quantum, limit)?);
            push(results, program, &raw_spin(system), &plain.raw_spin(quantum, limit)?);
        }
    }
    Ok(())
}

pub(super) fn case(program: &Program) -> String {
    format!("yield-gap/{}", program.name)
}

/// What the limit beside a quantum is called.
pub(super) fn raw_spin(system: &str) -> String {
    format!("raw-spin-{}", system.trim_start_matches("quantum-"))
}

fn push(results: &mut Results, program: &Program, system: &str, overshoot: &Overshoot) {
    let case = case(program);
    let figures = [
        ("slices", overshoot.slices as f64),
        ("early_share", overshoot.early_share),
        ("overshoot_mean_ns", overshoot.mean_ns),
        ("overshoot_p50_ns", overshoot.p50_ns),
        ("overshoot_p90_ns", overshoot.p90_ns),
        ("overshoot_p99_ns", overshoot.p99_ns),
        ("overshoot_p999_ns", overshoot.p999_ns),
        ("overshoot_p9999_ns", overshoot.p9999_ns),
        ("overshoot_max_ns", overshoot.max_ns),
        ("disturbed_share", overshoot.disturbed_share),
        ("undisturbed_p99_ns", overshoot.undisturbed_p99_ns),
        ("undisturbed_p999_ns", overshoot.undisturbed_p999_ns),
    ];
    for (metric, value) in figures {
        results.push(&case, system, metric, value);
    }
    results.push_distribution(&case, system, "overshoot_ns", overshoot.distribution.clone());
}

pub(super) fn print(setting: &Setting, results: &Results) {
    let metrics =
        ["mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|metric| (metric, format!("overshoot_{metric}")));
    let shown = |case: &str, system: &str, metric: &str| {
        results.value(case, system, metric).map_or_else(|| "–".to_owned(), significant)
    };
    for (system, quantum) in QUANTA {
        let headings = metrics.iter().map(|(heading, _)| *heading);
        let limits = ["raw p50_ns", "raw p99_ns", "raw p999_ns", "raw max_ns"];
        let mut table = Table::new(
            ["program"].into_iter().chain(headings).chain(["slices", "undisturbed p99_ns", "p999_ns"]).chain(limits),
        );
        for program in &setting.programs {
            let (case, limit) = (case(program), raw_spin(system));
            let own = metrics.iter().map(|(_, metric)| shown(&case, system, metric));
            let undisturbed = ["undisturbed_p99_ns", "undisturbed_p999_ns"].map(|metric| shown(&case, system, metric));
            let raw = metrics[1..].iter().map(|(_, metric)| shown(&case, &limit, metric));
            let slices = shown(&case, system, "slices");
            table.row([program.name.to_owned()].into_iter().chain(own).chain([slices]).chain(undisturbed).chain(raw));
        }
        println!("How much longer than {quantum:?} slices are, beside a loop that only reads the clock.\n\n{table}");
    }
    for claim in claims::gaps(setting, results) {
        println!("{claim}");
    }
    println!();
}
