//! All systems in turns.
//!
//! What disturbs a machine (its neighbours, its clock rate) changes from minute to minute. So the systems
//! don't run one after another, but in rounds, and the median of the rounds is what counts. Ratios are taken within
//! each round and then their median.

use std::time::Duration;

use greenwave_bench::capacity::median;
use greenwave_bench::disturbance::{QUIET, Watch};
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::Cores;
use crate::case::Case;
use crate::child::ServerProcess;
use crate::harness::{Figures, Recorder};
use crate::pin;
use crate::system::System;
use crate::watchdog::Watchdog;

/// How much longer than planned a run may take.
const PATIENCE: Duration = Duration::from_secs(10);

struct Lengths {
    rounds: usize,
    time: Duration,
    pilot: Duration,
}

/// Measures all systems in all cases.
pub(crate) fn bench(cores: Cores, quick: bool) -> anyhow::Result<()> {
    let ms = Duration::from_millis;
    let lengths = match quick {
        true => Lengths { rounds: 3, time: ms(750), pilot: ms(200) },
        false => Lengths { rounds: 7, time: ms(2000), pilot: ms(1000) },
    };
    let watch = Watch::start();
    let mut results = Results::new("rpc");
    let mut progress = Progress::new(Case::ALL.len() * (1 + lengths.rounds * System::ALL.len()));
    let mut chosen = Vec::new();
    for case in Case::ALL {
        progress.step(format!("{}: choosing variants", case.name()));
        let contenders = best_variants(cores, case, lengths.pilot)?;
        let mut rounds = Vec::new();
        for round in 1..=lengths.rounds {
            rounds.push(one_round(cores, case, &contenders, lengths.time, round, &mut progress)?);
        }
        push(&mut results, case, &contenders, &rounds);
        chosen.extend(contenders.into_iter().filter(|(_, variant)| *variant != "plain").map(|it| (case, it)));
    }
    drop(progress);
    print(&results, &chosen);
    if let Some(others) = watch.others() {
        results.push("machine", "others", "busy_cores", others);
        if others > QUIET {
            println!("Others kept {others:.2} cores busy meanwhile: times are too long, and ratios uncertain.");
        }
    }
    println!("wrote {}", results.write()?.display());
    Ok(())
}

/// Measures one system: a server process on its core, the client here.
pub(crate) fn run(cores: Cores, system: System, variant: &str, case: Case, time: Duration) -> anyhow::Result<Figures> {
    let what = format!("{} ({variant}) in {}", system.name(), case.name());
    let _watchdog = Watchdog::start(what, 2 * time + PATIENCE);
    pin::this_thread(cores.client)?;
    let server = ServerProcess::start(cores, system, variant)?;
    let recorder = Recorder::start((time / 4).min(Duration::from_millis(500)), time);
    Ok(system.drive(variant, server.address, case, recorder)?.figures())
}

type Contender = (System, &'static str);

/// Each system with the variant that does best in this case: by p50 with one call in flight, otherwise by rate.
fn best_variants(cores: Cores, case: Case, time: Duration) -> anyhow::Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    for system in System::ALL {
        let variants = system.variants(case);
        let mut best = (f64::INFINITY, variants[0]);
        for variant in variants.iter().filter(|_| variants.len() > 1) {
            let figures = run(cores, system, variant, case, time)?;
            let badness = if case.in_flight() == 1 { figures.p50_us } else { -figures.rate_per_s };
            if badness < best.0 {
                best = (badness, variant);
            }
        }
        contenders.push((system, best.1));
    }
    Ok(contenders)
}

/// Every round begins with another system, so that none always follows the same one.
fn one_round(
    cores: Cores,
    case: Case,
    contenders: &[Contender],
    time: Duration,
    round: usize,
    progress: &mut Progress,
) -> anyhow::Result<Vec<Figures>> {
    let mut figures = vec![None; contenders.len()];
    for turn in 0..contenders.len() {
        let index = (turn + round) % contenders.len();
        let (system, variant) = contenders[index];
        progress.step(format!("{}: round {round}, {}", case.name(), system.name()));
        figures[index] = Some(run(cores, system, variant, case, time)?);
    }
    Ok(figures.into_iter().flatten().collect())
}

fn push(results: &mut Results, case: Case, contenders: &[Contender], rounds: &[Vec<Figures>]) {
    for (index, (system, _)) in contenders.iter().enumerate() {
        for (row, (metric, _)) in rounds[0][index].rows().into_iter().enumerate() {
            let values: Vec<f64> = rounds.iter().map(|round| round[index].rows()[row].1).collect();
            results.push(case.name(), system.name(), metric, median(&values));
        }
    }
    let place = |wanted: System| contenders.iter().position(|(system, _)| *system == wanted);
    let mut ratio = |metric: &str, peer: System, of: fn(&Figures) -> f64| {
        if let (Some(own), Some(peer)) = (place(System::Greenwave), place(peer)) {
            let values: Vec<f64> = rounds.iter().map(|round| of(&round[own]) / of(&round[peer])).collect();
            results.push(case.name(), System::Greenwave.name(), metric, median(&values));
        }
    };
    ratio("p50_over_raw_tcp_spin", System::RawTcpSpin, |figures| figures.p50_us);
    ratio("rate_over_tonic", System::Tonic, |figures| figures.rate_per_s);
    ratio("rate_over_tarpc", System::Tarpc, |figures| figures.rate_per_s);
    ratio("best_rate_over_tonic", System::Tonic, |figures| figures.best_rate_per_s);
    ratio("best_rate_over_tarpc", System::Tarpc, |figures| figures.best_rate_per_s);
}

fn print(results: &Results, chosen: &[(Case, Contender)]) {
    println!("{}", results.table(&["p50_us", "p99_us", "p999_us", "rate_per_s", "best_rate_per_s"]));
    for case in Case::ALL {
        let value = |metric| results.value(case.name(), System::Greenwave.name(), metric).unwrap_or(f64::NAN);
        println!(
            "{}: greenwave's p50 is {:.2} times raw-tcp-spin's; its rate is {:.1} times tonic's and {:.1} times tarpc's, in \
             the best 20 ms {:.1} and {:.1} times",
            case.name(),
            value("p50_over_raw_tcp_spin"),
            value("rate_over_tonic"),
            value("rate_over_tarpc"),
            value("best_rate_over_tonic"),
            value("best_rate_over_tarpc")
        );
    }
    let chosen =
        chosen.iter().map(|(case, (system, variant))| format!("{} {variant} ({})", system.name(), case.in_flight()));
    println!("Best variants, with so many in flight: {}", chosen.collect::<Vec<_>>().join(", "));
}
