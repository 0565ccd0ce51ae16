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
use greenwave_bench::capacity::median;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::table::{Table, significant};
use greenwave_programs::Program;

use super::{QUANTA, Setting, claims, instructions};
use crate::child::Process;
use crate::run::Run;

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

/// One run by each system; there may be no control.
type Turn = [Option<Run>; SYSTEMS.len()];

/// How many steps of progress it takes.
pub(super) fn steps(setting: &Setting) -> usize {
    setting.programs.len()
}

pub(super) fn measure(setting: &Setting, results: &mut Results, progress: &mut Progress) -> anyhow::Result<()> {
    let counter = if setting.quick { None } else { instructions::Counter::find() };
    for program in &setting.programs {
        progress.step(format!("{}: what probes cost", program.name));
        push(results, program, &turns(setting, program, progress)?);
        if let Some(counter) = &counter {
            let [plain, probes] = [&setting.plain, &setting.probes].map(|build| counter.count(build, program));
            let (plain, probes) = (plain?, probes?);
            results.push(&case(program), "plain", "instructions", plain);
            results.push(&case(program), "probes", "instructions", probes);
            results.push(&case(program), "probes", "instructions_ratio", probes / plain);
            if let Some(control) = &setting.layouts[0].control {
                let control = counter.count(control, program)?;
                results.push(&case(program), "control", "instructions", control);
                results.push(&case(program), "control", "instructions_ratio", control / plain);
                results.push(&case(program), "probes", "instructions_ratio_to_control", probes / control);
            }
        }
    }
    claims::push_ratios(setting, results);
    Ok(())
}

pub(super) fn case(program: &Program) -> String {
    format!("probe-overhead/{}", program.name)
}

fn turns(setting: &Setting, program: &Program, progress: &mut Progress) -> anyhow::Result<Vec<Turn>> {
    let layouts = &setting.layouts;
    let (processes, each) = match (setting.quick, layouts.len()) {
        (true, _) => (1, 3),
        (false, 1) => (11, 2),
        (false, count) => (2 * count, 2),
    };
    let mut turns: Vec<Turn> = Vec::new();
    for process in 0..processes {
        let start = |build| Process::start(build, program, setting.scale(), setting.core);
        // Each layout of one build meets two of the other.
        let (one, other) = (process % layouts.len(), (process + process / layouts.len()) % layouts.len());
        let (mut plain, mut probes) = (start(&layouts[one].plain)?, start(&layouts[other].probes)?);
        let mut control = layouts[one].control.as_deref().map(start).transpose()?;
        for _ in 0..each {
            progress.show(turns.len() as f64 / (processes * each) as f64, 0);
            let mut turn: Turn = [None; SYSTEMS.len()];
            for place in 0..SYSTEMS.len() {
                let index = if turns.len().is_multiple_of(2) { place } else { SYSTEMS.len() - 1 - place };
                let System { build, quantum, .. } = SYSTEMS[index];
                turn[index] = match build {
                    Build::Plain => Some(plain.run(quantum)?),
                    Build::Control => control.as_mut().map(|control| control.run(quantum)).transpose()?,
                    Build::Probes => Some(probes.run(quantum)?),
                };
            }
            turns.push(turn);
        }
    }
    let checksums: BTreeSet<u64> = turns.iter().flatten().flatten().map(|run| run.checksum).collect();
    ensure!(checksums.len() == 1, "{} came to different results: probes or preemption broke it", program.name);
    Ok(turns)
}

fn push(results: &mut Results, program: &Program, turns: &[Turn]) {
    let case = case(program);
    let ms = |turn: &Turn, index: usize| turn[index].map(|run| run.ms);
    // Of two systems, turn by turn.
    let ratio = |of: usize, to: usize| -> Option<f64> {
        let ratios: Option<Vec<f64>> = turns.iter().map(|turn| Some(ms(turn, of)? / ms(turn, to)?)).collect();
        ratios.map(|ratios| median(&ratios))
    };
    for (index, system) in SYSTEMS.iter().enumerate() {
        let Some(times) = turns.iter().map(|turn| ms(turn, index)).collect::<Option<Vec<f64>>>() else { continue };
        results.push(&case, system.name, "time_ms", median(&times));
        results.push(&case, system.name, "time_ms_min", times.iter().copied().fold(f64::INFINITY, f64::min));
        results.push(&case, system.name, "time_ms_max", times.iter().copied().fold(0.0, f64::max));
        if let Some(ratio) = ratio(index, 0).filter(|_| index > 0) {
            results.push(&case, system.name, "ratio", ratio);
        }
        if let Some(ratio) = ratio(index, 1).filter(|_| system.name == "probes") {
            results.push(&case, system.name, "ratio_to_control", ratio);
        }
        if system.quantum.is_some() {
            let rates = turns.iter().filter_map(|turn| turn[index]).map(|run| run.preempted as f64 / run.ms);
            results.push(&case, system.name, "yields_per_ms", median(&rates.collect::<Vec<f64>>()));
        }
    }
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
            results.value(&case, system, metric).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))
        };
        let value = |system, metric| results.value(&case, system, metric).map_or_else(|| "–".to_owned(), significant);
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
    for claim in claims::overhead(setting, results) {
        println!("{claim}");
    }
    println!();
}
