//! What probes cost.
//!
//! What disturbs a machine changes from minute to minute, so all systems take turns on one core, in an order that is
//! reversed each time, and each ratio is that of two runs that follow each other; the median of the ratios is what
//! counts. Where data happens to lie in memory is worth some per cent and stays for a process's life, and where code
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
    probes: bool,
    quantum: Option<Duration>,
}

const SYSTEMS: [System; 4] = [
    System { name: "plain", probes: false, quantum: None },
    System { name: "probes", probes: true, quantum: None },
    System { name: QUANTA[0].0, probes: true, quantum: Some(QUANTA[0].1) },
    System { name: QUANTA[1].0, probes: true, quantum: Some(QUANTA[1].1) },
];

/// One run by each system.
type Turn = [Run; SYSTEMS.len()];

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
        let (mut plain, mut probes) = (start(&layouts[one][0])?, start(&layouts[other][1])?);
        for _ in 0..each {
            progress.show(turns.len() as f64 / (processes * each) as f64, 0);
            let mut turn = [Run::default(); SYSTEMS.len()];
            for place in 0..SYSTEMS.len() {
                let index = if turns.len().is_multiple_of(2) { place } else { SYSTEMS.len() - 1 - place };
                let System { probes: instrumented, quantum, .. } = SYSTEMS[index];
                turn[index] = if instrumented { probes.run(quantum)? } else { plain.run(None)? };
            }
            turns.push(turn);
        }
    }
    let checksums: BTreeSet<u64> = turns.iter().flatten().map(|run| run.checksum).collect();
    ensure!(checksums.len() == 1, "{} came to different results: probes or preemption broke it", program.name);
    Ok(turns)
}

fn push(results: &mut Results, program: &Program, turns: &[Turn]) {
    let case = case(program);
    for (index, system) in SYSTEMS.iter().enumerate() {
        let times: Vec<f64> = turns.iter().map(|turn| turn[index].ms).collect();
        results.push(&case, system.name, "time_ms", median(&times));
        results.push(&case, system.name, "time_ms_min", times.iter().copied().fold(f64::INFINITY, f64::min));
        results.push(&case, system.name, "time_ms_max", times.iter().copied().fold(0.0, f64::max));
        if index > 0 {
            let ratios: Vec<f64> = turns.iter().map(|turn| turn[index].ms / turn[0].ms).collect();
            results.push(&case, system.name, "ratio", median(&ratios));
        }
        if system.quantum.is_some() {
            let rates: Vec<f64> = turns.iter().map(|turn| turn[index].preempted as f64 / turn[index].ms).collect();
            results.push(&case, system.name, "yields_per_ms", median(&rates));
        }
    }
}

pub(super) fn print(setting: &Setting, results: &Results) {
    let columns = ["program", "plain ms", "probes", "instructions", QUANTA[0].0, "yields/ms", QUANTA[1].0, "yields/ms"];
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
            ratio("probes", "instructions_ratio"),
            ratio(QUANTA[0].0, "ratio"),
            value(QUANTA[0].0, "yields_per_ms"),
            ratio(QUANTA[1].0, "ratio"),
            value(QUANTA[1].0, "yields_per_ms"),
        ]);
    }
    println!("What probes cost: time and instructions as multiples of plain.\n\n{table}");
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
