//! All workloads on 16 workers.

use super::systems::{ASSUMED, OF_HEADS, System};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_sim::Seed;
use greenwave_sim::cores::search::{Found, highest};
use greenwave_sim::cores::{Load, Plan, Report};

/// A workload, what is asked of it, and how many times the others' rate TQ has by the work.
struct Row {
    workload: &'static str,
    asked: &'static str,
    is_good: fn(&Report) -> bool,
    shinjuku: f64,
    caladan: f64,
}

fn short_within_50us(report: &Report) -> bool {
    report.methods[0].quantile(0.999) <= 50e-6
}

fn slowed_down_tenfold(report: &Report) -> bool {
    report.slowdown(0.999) <= 10.0
}

const SHORT: &str = "p99.9 of short jobs within 50 us";

const ROWS: [Row; 6] = [
    Row { workload: "extreme", asked: SHORT, is_good: short_within_50us, shinjuku: 2.6, caladan: 2.1 },
    Row { workload: "high", asked: SHORT, is_good: short_within_50us, shinjuku: 1.33, caladan: 1.65 },
    Row {
        workload: "tpcc",
        asked: "p99.9 of the slowdown within 10",
        is_good: slowed_down_tenfold,
        shinjuku: 1.18,
        caladan: 1.29,
    },
    Row { workload: "rocksdb-0.5", asked: SHORT, is_good: short_within_50us, shinjuku: 1.93, caladan: 2.07 },
    Row { workload: "rocksdb-50", asked: SHORT, is_good: short_within_50us, shinjuku: 1.28, caladan: 2.21 },
    Row { workload: "exponential", asked: SHORT, is_good: short_within_50us, shinjuku: 6.85, caladan: 1.21 },
];

pub(crate) fn workloads(effort: &Effort) -> Result<Figure, ReproduceError> {
    let pairs: Vec<(usize, System)> = (0..ROWS.len()).flat_map(|row| System::ALL.map(|system| (row, system))).collect();
    let found = parallel::map(effort.threads, &pairs, |&(row, system)| search(&ROWS[row], system, effort));
    let found: Vec<Found> = found.into_iter().collect::<Result<_, _>>()?;
    let mut figure = Figure {
        text: vec![
            "The highest rate at which what is asked holds, found by halving the range of rates eight times (six times with --quick); rates in \
             millions of jobs a second, 16 workers and a dispatcher beside them where there is one. TQ has quanta of 1 us."
                .to_owned(),
            ASSUMED.to_owned(),
            OF_HEADS.to_owned(),
        ],
        ..Figure::default()
    };
    let mut rates = Table::new(
        "Rates, in millions of jobs a second; the share of the workers' capacity in brackets.",
        &["workload", "asked"],
    );
    rates.head.extend(System::ALL.map(|system| system.name().to_owned()));
    for (at, row) in ROWS.iter().enumerate() {
        let of = |system: System| {
            &found[at * System::ALL.len() + System::ALL.iter().position(|it| *it == system).unwrap_or(0)]
        };
        let rate = |system| of(system).per_second / 1e6;
        if row.workload == "extreme" {
            figure.claims.push(Claim::new("extreme: TQ's rate, Mrps", 4.5, rate(System::Tq), Within::Share(0.15)));
        }
        let ratio = |name: &str, theirs, system, fitted: bool| {
            let claim = Claim::new(
                format!("{}: TQ's rate to that of {name}", row.workload),
                theirs,
                rate(System::Tq) / rate(system),
                Within::Share(0.25),
            );
            if fitted { claim.fitted() } else { claim }
        };
        let is_fitted = row.workload == "exponential";
        figure.claims.push(ratio("the centralised one", row.shinjuku, System::Shinjuku, is_fitted));
        figure.claims.push(ratio("FCFS with stealing", row.caladan, System::Caladan, is_fitted));
        let shown = System::ALL.map(|system| {
            let found = of(system);
            format!("{} ({})", number(found.per_second / 1e6), number(found.share))
        });
        rates.row([row.workload.to_owned(), row.asked.to_owned()].into_iter().chain(shown));
    }
    for found in &found {
        figure.note(found.report.as_ref().map_or(0, |report| report.hash));
    }
    figure.tables.push(rates);
    Ok(figure)
}

fn search(row: &Row, system: System, effort: &Effort) -> Result<Found, ReproduceError> {
    let load = Load::named(row.workload).unwrap_or_else(|| Load::exponential(super::systems::ns(1000)));
    // Long jobs are many turns, so of those there are fewer.
    let turns = (load.mean_ns() / super::systems::QUANTUM.as_nanos() as f64).max(1.0);
    let plan = Plan::new(effort.jobs(((30e6 / turns) as u64).clamp(300_000, 4_000_000)));
    Ok(highest(&system.cores(), &load, &plan, Seed::new(effort.seed), effort.halvings(), row.is_good)?)
}
