//! What probes cost.
//!
//! What disturbs a machine changes from minute to minute, so all systems take turns on one core, in an order that is
//! reversed each time, and each ratio is that of two runs that follow each other; the median of the ratios is what
//! counts. The *control* is made as the build with probes is, but has none: what probes cost is told beside both, the
//! plain build and the control. Where data happens to lie in memory is worth some per cent and stays for a process's life, and where code
//! lies is worth up to a third and stays until it is linked again (Mytkowicz et al., "Producing wrong data without doing
//! anything obviously wrong!", ASPLOS'09). So in a full run there are several processes of each build in each of several
//! layouts, which the linker has shuffled.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Cell, Rounds, figures};
use greenwave_bench::table::{MISSING, Table};
use greenwave_programs::Program;

use super::{QUANTA, Setting, instructions, summary};
use crate::child::Child;

/// How a program is run.
#[derive(Clone, Copy)]
struct System {
    name: &'static str,
    build: Build,
    quantum: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    Plain,
    Control,
    Probes,
}

const SYSTEMS: [System; 5] = [
    System { name: "plain", build: Build::Plain, quantum: None },
    System { name: "control", build: Build::Control, quantum: None },
    System { name: "probes", build: Build::Probes, quantum: None },
    System { name: QUANTA[0].0, build: Build::Probes, quantum: Some(QUANTA[0].1) },
    System { name: QUANTA[1].0, build: Build::Probes, quantum: Some(QUANTA[1].1) },
];

/// How many steps of progress it takes.
pub(super) fn steps(setting: &Setting) -> usize {
    setting.programs.len()
}

pub(super) fn measure(setting: &Setting, bench: &mut Benchmark) -> anyhow::Result<()> {
    let counter = if setting.quick { None } else { instructions::Counter::find() };
    for program in &setting.programs {
        bench.progress.step(format!("{}: what probes cost", program.name));
        measure_times(setting, program, &mut bench.progress)?.push(&mut bench.results, |metric| metric == "time_ms");
        if let Some(counter) = &counter {
            count_instructions(setting, program, counter, &mut bench.results)?;
        }
    }
    summary::push(setting, &mut bench.results);
    Ok(())
}

fn count_instructions(
    setting: &Setting,
    program: &Program,
    counter: &instructions::Counter,
    results: &mut Results,
) -> anyhow::Result<()> {
    let case = case(program);
    let [plain, probes] = [&setting.plain, &setting.probes].map(|build| counter.count(build, program));
    let (plain, probes) = (plain?, probes?);
    results.push(&case, "plain", "instructions", plain);
    results.push(&case, "probes", "instructions", probes);
    results.push(&case, "probes", "instructions_ratio", probes / plain);
    if let Some(control) = &setting.layouts[0].control {
        let control = counter.count(control, program)?;
        results.push(&case, "control", "instructions", control);
        results.push(&case, "control", "instructions_ratio", control / plain);
        results.push(&case, "probes", "instructions_ratio_to_control", probes / control);
    }
    Ok(())
}

pub(super) fn case(program: &Program) -> String {
    format!("probe-overhead/{}", program.name)
}

fn measure_times(setting: &Setting, program: &Program, progress: &mut Progress) -> anyhow::Result<Rounds> {
    let layouts = &setting.layouts;
    let (processes, each) = match (setting.quick, layouts.len()) {
        (true, _) => (1, 3),
        (false, 1) => (11, 2),
        (false, count) => (2 * count, 2),
    };
    let mut rounds = Rounds::new(Cell::of_case(&case(program), &SYSTEMS.map(|system| system.name)));
    let mut checksums = BTreeSet::new();
    for process in 0..processes {
        let start = |build| Child::start(build, program, setting.scale(), setting.core);
        // Each layout of one build meets two of the other.
        let (one, other) = (process % layouts.len(), (process + process / layouts.len()) % layouts.len());
        let (mut plain, mut probes) = (start(&layouts[one].plain)?, start(&layouts[other].probes)?);
        let mut control = layouts[one].control.as_deref().map(start).transpose()?;
        for round in process * each..(process + 1) * each {
            progress.show(round as f64 / (processes * each) as f64, 0);
            for nth in 0..SYSTEMS.len() {
                let at = if round.is_multiple_of(2) { nth } else { SYSTEMS.len() - 1 - nth };
                let System { build, quantum, .. } = SYSTEMS[at];
                let child = match build {
                    Build::Plain => Some(&mut plain),
                    Build::Control => control.as_mut(),
                    Build::Probes => Some(&mut probes),
                };
                let Some(run) = child.map(|child| child.run(quantum)).transpose()? else { continue };
                checksums.insert(run.checksum);
                let yields = quantum.map_or(f64::NAN, |_| run.preempted as f64 / run.ms);
                rounds.add(round, at, figures([("time_ms", run.ms), ("yields_per_ms", yields)]));
            }
        }
    }
    ensure!(checksums.len() == 1, "{} came to different results: probes or preemption broke it", program.name);
    let [plain, control] = [0, 1].map(|at| rounds.cells()[at].clone());
    (1..SYSTEMS.len()).for_each(|at| rounds.ratio(at, "time_ms", &plain, "ratio"));
    rounds.ratio(2, "time_ms", &control, "ratio_to_control");
    Ok(rounds)
}

pub(super) fn print(setting: &Setting, results: &Results) {
    let columns = [
        "program",
        "plain ms",
        "probes",
        "/control",
        "instructions",
        "/control",
        QUANTA[0].0,
        "yields/ms",
        QUANTA[1].0,
        "yields/ms",
    ];
    let mut table = Table::new(columns);
    for program in &setting.programs {
        let case = case(program);
        let ratio = |system, metric| {
            results.value(&case, system, metric).map_or_else(|| MISSING.to_owned(), |ratio| format!("{ratio:.3}"))
        };
        let value = |system, metric| results.shown(&case, system, metric);
        table.row([
            program.name.to_owned(),
            value("plain", "time_ms"),
            ratio("probes", "ratio"),
            ratio("probes", "ratio_to_control"),
            ratio("probes", "instructions_ratio"),
            ratio("probes", "instructions_ratio_to_control"),
            ratio(QUANTA[0].0, "ratio"),
            value(QUANTA[0].0, "yields_per_ms"),
            ratio(QUANTA[1].0, "ratio"),
            value(QUANTA[1].0, "yields_per_ms"),
        ]);
    }
    println!("What probes cost: time and instructions as multiples of plain, and of the control.\n\n{table}");
    if setting.quick {
        println!("Instructions are counted in full runs.");
    } else if instructions::Counter::find().is_none() {
        println!("Instructions are left out: there is no valgrind; to install it: apt-get install valgrind");
    }
    summary::print_overhead(setting, results);
}
