//! How exactly quanta end: each program beside a loop that only reads the clock, one after the other on one core.

use std::time::Duration;

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::Results;
use greenwave_bench::table::Table;
use greenwave_programs::Program;

use super::{QUANTA, Setting, summary};
use crate::child::{Child, Request};
use crate::gaps::{Limit, Overshoot};

/// How many steps of progress it takes.
pub(super) fn steps(setting: &Setting) -> usize {
    setting.programs.len() * QUANTA.len()
}

pub(super) fn measure(setting: &Setting, bench: &mut Benchmark) -> anyhow::Result<()> {
    let limit = match setting.quick {
        true => Limit { slices: 20_000, time: Duration::from_millis(200) },
        false => Limit { slices: 200_000, time: Duration::from_secs(3) },
    };
    for program in &setting.programs {
        let start = |build| Child::start(build, program, setting.scale(), setting.core);
        let (mut plain, mut probes) = (start(&setting.plain)?, start(&setting.probes)?);
        for (system, quantum) in QUANTA {
            bench.progress.step(format!("{}: how exactly {system} ends", program.name));
            let own = probes.overshoot(Request::Gaps(quantum, limit))?;
            push(&mut bench.results, program, system, own);
            let raw = plain.overshoot(Request::RawSpin(quantum, limit))?;
            push(&mut bench.results, program, &raw_spin(system), raw);
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

fn push(results: &mut Results, program: &Program, system: &str, overshoot: Overshoot) {
    let case = case(program);
    results.push(&case, system, "slices", overshoot.slices as f64);
    for (metric, value) in overshoot.figures {
        let is_length = !metric.ends_with("_share") && !metric.starts_with("undisturbed");
        results.push(&case, system, if is_length { format!("overshoot_{metric}") } else { metric }, value);
    }
    results.push_distribution(&case, system, "overshoot_ns", overshoot.distribution);
}

pub(super) fn print(setting: &Setting, results: &Results) {
    let metrics =
        ["mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|metric| (metric, format!("overshoot_{metric}")));
    let shown = |case: &str, system: &str, metric: &str| results.shown(case, system, metric);
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
    summary::print_gaps(setting, results);
}
