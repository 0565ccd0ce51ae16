//! Table 1.

use super::chance::Chance;
use super::orders::{self, Bursty, Steady};
use super::{EDF, EQUAL, FCFS, RATE, by_deadlines, cut, millis, ms, same, us};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::cores::Work;
use greenwave_sim::graph::{Graph, Outcome, Stage};

/// Of a stage, in milliseconds since birth: the mean and the p95, first come first served and by deadlines.
#[derive(Clone, Copy)]
pub(super) struct Reported {
    pub(super) mean: [f64; 2],
    pub(super) p95: [f64; 2],
    /// By how much less the p95 is by deadlines, in percent.
    pub(super) cut: f64,
}

pub(super) const TABLE: [Reported; 3] = [
    Reported { mean: [63.74, 61.94], p95: [97.0, 83.0], cut: 14.43 },
    Reported { mean: [82.62, 81.15], p95: [117.0, 107.0], cut: 8.55 },
    Reported { mean: [99.34, 99.22], p95: [139.0, 136.0], cut: 2.16 },
];

/// Three stages. The work gives no service times, so those were fitted to the first-come-first-served columns.
pub(super) fn three_stages(order: Order) -> Graph {
    let stage = |workers, mean, deviation| Stage::new(workers, Work::Normal { mean, deviation });
    let stages = vec![stage(8, us(58_800), us(16_300)), stage(3, us(17_200), us(4500)), stage(3, us(15_800), us(9800))];
    Graph { classes: same(), ..Graph::new(stages, order) }
}

/// How many requests a run of the work's may have had.
pub(super) const FEW: u64 = 1000;

/// What chance gives of so many requests: cuts of the p95 after each stage, and of the variability range after the last.
pub(super) fn by_chance(effort: &Effort, requests: u64, figure: &mut Figure) -> Result<Chance, ReproduceError> {
    Chance::of(effort, &three_stages(Order::Fcfs), RATE, requests, figure, |outcome| {
        let mut values: Vec<f64> = outcome.since_birth.iter().map(|spans| spans.quantile(0.95)).collect();
        values.push(outcome.variability(TABLE.len() - 1));
        values
    })
}

/// Why deadline order gives another value after this stage.
pub(super) fn told(stage: usize, fcfs: &Outcome, edf: &Outcome) -> String {
    if fcfs.since_birth[stage] == edf.since_birth[stage] {
        return format!("Here times after S{} are the same by both orders, to the last bucket.", stage + 1);
    }
    let overtaken = edf.overtaken[stage] as f64 / edf.since_birth[stage].count().max(1) as f64;
    format!(
        "Here {} % of the requests come to S{} after one that was born later, and the two distributions after it are {} \
         ms apart.",
        number(100.0 * overtaken),
        stage + 1,
        number(fcfs.since_birth[stage].distance(&edf.since_birth[stage]) * 1e3),
    )
}

/// Table 1.
pub(crate) fn chain(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "Three stages, Poisson arrivals at 100 requests a second, normal service times, an expected deadline of 200 ms. \
             The work gives no service times and no numbers of workers: 8 workers of 58.8 ms (deviation 16.3), 3 of 17.2 ms \
             (4.5) and 3 of 15.8 ms (9.8) were fitted to its first-come-first-served columns. Its values by deadlines count \
             as fitted where first come first served gives one that is as near."
                .to_owned(),
            EQUAL.to_owned(),
        ],
        ..Figure::default()
    };
    let graph = three_stages(Order::Fcfs);
    let outcomes = orders::all(effort, &graph, RATE, effort.jobs(2_000_000), &mut figure)?;
    let chances = [FEW / 3, FEW, 3 * FEW].into_iter().map(|requests| by_chance(effort, requests, &mut figure));
    let chances: Vec<Chance> = chances.collect::<Result<_, _>>()?;
    claims(&outcomes, &chances[1], &mut figure);
    figure.tables.push(chance_table(&chances));
    figure.tables.push(orders::p95(
        "One expected deadline of 200 ms for all: p95 since birth in ms, and how far the distribution after the last stage is \
         from that of first come first served (Wasserstein, ms).",
        &outcomes,
    ));
    deadlines(effort, &graph, &mut figure)?;
    figure.text.push(
        "Where deadlines differ, order pays. Under an overload that lasts and with all let in, nothing is in time by any order but \
         one that goes by the work that is left, and by that little; what helps is to refuse."
            .to_owned(),
    );
    Ok(figure)
}

fn claims(outcomes: &[Outcome], chance: &Chance, figure: &mut Figure) {
    let [fcfs, edf] = [&outcomes[FCFS], &outcomes[EDF]];
    let (mean, tail) = (Within::Share(0.05), Within::Share(0.08));
    for (stage, theirs) in TABLE.iter().enumerate() {
        let (of, name) = (&fcfs.since_birth[stage], format!("S{}", stage + 1));
        figure
            .claims
            .push(Claim::new(format!("{name}: mean, FCFS, ms"), theirs.mean[FCFS], of.mean() * 1e3, mean).fitted());
        figure
            .claims
            .push(Claim::new(format!("{name}: p95, FCFS, ms"), theirs.p95[FCFS], millis(of, 0.95), tail).fitted());
    }
    for (stage, theirs) in TABLE.iter().enumerate() {
        let [before, after] = [fcfs, edf].map(|outcome| &outcome.since_birth[stage]);
        let (is_same, told, name) = (before == after, told(stage, fcfs, edf), format!("S{}", stage + 1));
        let mean = by_deadlines(
            format!("{name}: mean by deadlines, ms"),
            theirs.mean[EDF],
            after.mean() * 1e3,
            before.mean() * 1e3,
            mean,
        );
        let [before, after] = [before, after].map(|spans| millis(spans, 0.95));
        let tail = by_deadlines(format!("{name}: p95 by deadlines, ms"), theirs.p95[EDF], after, before, tail);
        let cut = Claim::new(
            format!("{name}: cut of the p95 by deadlines, %"),
            theirs.cut,
            cut(before, after),
            Within::Amount(1.0),
        );
        let because = |claim| chance.because(claim, stage, theirs.cut, is_same, &told);
        figure.claims.extend([mean, because(tail), because(cut)]);
    }
}

fn chance_table(chances: &[Chance]) -> Table {
    let mut table = Table::new(
        "The same order twice: by how many percent the p95 of two runs differs that are both first come first served, as the root \
         of the mean square, and the share of pairs that differ by the work's cut or more.",
        &["requests"],
    );
    for (at, theirs) in TABLE.iter().enumerate() {
        table.head.extend([format!("S{}, %", at + 1), format!("by {} % or more", number(theirs.cut))]);
    }
    for chance in chances {
        let of = |(at, theirs): (usize, &Reported)| [chance.deviation(at), chance.share(at, theirs.cut)].map(number);
        table.row(std::iter::once(chance.requests.to_string()).chain(TABLE.iter().enumerate().flat_map(of)));
    }
    table
}

/// What the work has none of: deadlines that differ, and overload.
fn deadlines(effort: &Effort, graph: &Graph, figure: &mut Figure) -> Result<(), ReproduceError> {
    let many = effort.jobs(1_000_000);
    let on_table = |title, per_second| Steady {
        title,
        deadlines: &[110, 200, 800],
        per_second,
        requests: many,
        admission: None,
        most_waiting: None,
    };
    on_table("The stages above with expected deadlines of 110, 200 and 800 ms, a third of the requests each", RATE)
        .show(effort, graph, figure)?;
    on_table("The same at 130 requests a second", 130.0).show(effort, graph, figure)?;
    let stage = |mean, deviation| Stage::new(1, Work::Normal { mean: ms(mean), deviation: ms(deviation) });
    let short = Graph::new(vec![stage(8, 3), stage(9, 3), stage(8, 3)], Order::Fcfs);
    // An overload that lasts only grows; a short run says as much as a long one.
    let few = effort.jobs(100_000);
    let overload = |title, admission, most_waiting| Steady {
        title,
        deadlines: &[50, 200, 800],
        per_second: 130.0,
        requests: few,
        admission,
        most_waiting,
    };
    let title = "Expected deadlines of 50, 200 and 800 ms, a third of the requests each, 100 requests a second on stages of 8, 9 and \
                 8 ms";
    Steady { per_second: RATE, requests: many, ..overload(title, None, None) }.show(effort, &short, figure)?;
    let ours = Some(AdmissionConfig::default());
    for overload in [
        overload("The same at 130 requests a second, more than can be served, with nobody refused", None, None),
        overload("The same where at most 24 wait at a station", None, Some(24)),
        overload("The same where at most 40 wait at a station", None, Some(40)),
        overload("The same with our admission", ours, None),
    ] {
        overload.show(effort, &short, figure)?;
    }
    let bursty = Bursty {
        title: "The same at 80 requests a second",
        deadlines: &[50, 200, 800],
        per_second: 80.0,
        requests: effort.jobs(200_000),
    };
    bursty.show(effort, &short, figure)
}
