//! Table 2.

use super::chance::Chance;
use super::orders::{self, Bursty, Steady};
use super::{EDF, EQUAL, FCFS, ORDERS, RATE, by_deadlines, cut, millis, ms, same};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::{Histogram, Sample, Work};
use greenwave_sim::graph::{Graph, Outcome, Stage};
use std::time::Duration;

/// Of a worker, in milliseconds: the mean and the p95, first come first served and by deadlines.
pub(super) struct Reported {
    pub(super) mean: [f64; 2],
    pub(super) p95: [f64; 2],
}

const fn row(fcfs: f64, edf: f64, p95_fcfs: f64, p95_edf: f64) -> Reported {
    Reported { mean: [fcfs, edf], p95: [p95_fcfs, p95_edf] }
}

pub(super) const TABLE: [Reported; 18] = [
    row(45.2, 41.3, 98.0, 86.0),
    row(47.6, 43.4, 105.0, 96.0),
    row(44.7, 42.6, 97.0, 91.0),
    row(43.6, 41.5, 96.0, 89.0),
    row(49.5, 47.3, 106.0, 98.0),
    row(48.1, 46.9, 106.0, 96.0),
    row(43.6, 40.1, 98.0, 85.0),
    row(46.5, 45.3, 104.0, 90.0),
    row(47.0, 46.2, 101.0, 91.0),
    row(45.5, 41.5, 98.0, 84.0),
    row(47.4, 45.9, 104.0, 92.0),
    row(42.3, 41.2, 94.0, 86.0),
    row(46.5, 43.8, 101.0, 83.0),
    row(46.6, 45.2, 97.0, 89.0),
    row(46.0, 44.7, 102.0, 88.0),
    row(44.9, 43.2, 99.0, 87.0),
    row(47.0, 45.3, 101.0, 93.0),
    row(42.3, 41.1, 95.0, 89.0),
];

/// What the work found a query to take on its first worker that took 51 ms on its second.
const SLOW: Duration = ms(5457);

impl Reported {
    /// Normal service times that were fitted to the row's first-come-first-served values: what is cut off below nothing makes
    /// the mean larger, and 95 % are within 1.645 deviations.
    fn work(&self) -> Work {
        let mean = 0.94 * self.mean[FCFS];
        let deviation = (self.p95[FCFS] - mean) / 1.68;
        Work::Normal { mean: Duration::from_secs_f64(mean / 1e3), deviation: Duration::from_secs_f64(deviation / 1e3) }
    }
}

/// A request is split over 18 workers of 8 cores, and put together.
pub(super) fn search(order: Order) -> Graph {
    let each: Vec<Work> = TABLE.iter().map(Reported::work).collect();
    let work = each[0];
    let search = Stage { workers: 8, each, ..Stage::parallel(TABLE.len(), work, Some(Work::Fixed(ms(1)))) };
    let spout = Stage::new(1, Work::Fixed(ms(1)));
    Graph { classes: same(), ..Graph::new(vec![spout, search, Stage::new(1, Work::Fixed(ms(1)))], order) }
}

/// The stage that is split.
pub(super) const SPLIT: usize = 1;

/// Table 2.
pub(crate) fn parallel(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "A request is split over 18 workers and put together; 100 requests a second. The work gives no service times, \
             so normal ones on 8 cores of each worker were fitted to its first-come-first-served columns, row by row: a mean of \
             0.94 times the row's, and a deviation by which the p95 is the row's, what would be less than nothing cut off. Its \
             values by deadlines count as fitted where first come first served gives one that is as near."
                .to_owned(),
            EQUAL.to_owned(),
        ],
        ..Figure::default()
    };
    let graph = search(Order::Fcfs);
    let outcomes = orders::all(effort, &graph, RATE, effort.jobs(300_000), &mut figure)?;
    let chance = by_chance(effort, &mut figure)?;
    claims(&outcomes, &chance, &mut figure);
    let mut table = Table::new(
        "One expected deadline of 200 ms: p95 of the workers, on average, and of what is put together, in ms.",
        &["order", "workers", "put together"],
    );
    for (order, outcome) in ORDERS.iter().zip(&outcomes) {
        let put_together = millis(&outcome.since_birth[SPLIT], 0.95);
        table.row([order.to_string(), number(average(outcome, 0.95)), number(put_together)]);
    }
    figure.tables.push(table);
    let slowest = millis(&outcomes[FCFS].at_stage[SPLIT], 0.5) / average(&outcomes[FCFS], 0.5);
    figure.text.push(format!(
        "What is put together waits for the slowest of 18: its median is {} times a worker's. The work finds the same, and that \
         the aggregator gains little; here too order can't help a request whose slowest part is slow by itself.",
        number(slowest)
    ));
    skew(effort, &mut figure)?;
    deadlines(effort, &graph, &mut figure)?;
    Ok(figure)
}

/// The average over workers, in milliseconds.
fn average(outcome: &Outcome, quantile: f64) -> f64 {
    let units = &outcome.units[SPLIT];
    units.iter().map(|spans| millis(spans, quantile)).sum::<f64>() / units.len() as f64
}

/// What chance gives of a few requests: cuts of each worker's p95, and of their average.
pub(super) fn by_chance(effort: &Effort, figure: &mut Figure) -> Result<Chance, ReproduceError> {
    Chance::of(effort, &search(Order::Fcfs), RATE, super::chain::FEW, figure, |outcome| {
        let p95 = outcome.units[SPLIT].iter().map(|spans| millis(spans, 0.95));
        p95.chain([average(outcome, 0.95)]).collect()
    })
}

/// Why deadline order gives another value.
pub(super) fn told(fcfs: &Outcome, edf: &Outcome) -> String {
    if fcfs.units[SPLIT] == edf.units[SPLIT] {
        format!(
            "{EQUAL} Here the times of all 18 workers are the same under both, to the last bucket of their histograms."
        )
    } else {
        let pairs = fcfs.units[SPLIT].iter().zip(&edf.units[SPLIT]);
        let most = pairs.map(|(one, other)| one.distance(other)).fold(0.0, f64::max);
        format!("Here no worker's two distributions are more than {} ms apart.", number(most * 1e3))
    }
}

fn claims(outcomes: &[Outcome], chance: &Chance, figure: &mut Figure) {
    let [fcfs, edf] = [&outcomes[FCFS], &outcomes[EDF]];
    let (is_same, told) = (fcfs.units[SPLIT] == edf.units[SPLIT], told(fcfs, edf));
    let within = Within::Share(0.05);
    for (at, theirs) in TABLE.iter().enumerate() {
        let name = format!("W{}", at + 1);
        let [before, after] = [fcfs, edf].map(|outcome| &outcome.units[SPLIT][at]);
        let ours = |of: fn(&Histogram) -> f64| [of(before), of(after)];
        let mean = ours(|spans| spans.mean() * 1e3);
        let tail = ours(|spans| millis(spans, 0.95));
        let fitted =
            |what: &str, theirs, ours| Claim::new(format!("{name}: {what}, FCFS, ms"), theirs, ours, within).fitted();
        let by = |what: &str, theirs: [f64; 2], ours: [f64; 2]| {
            let claim =
                by_deadlines(format!("{name}: {what} by deadlines, ms"), theirs[EDF], ours[EDF], ours[FCFS], within);
            chance.because(claim, TABLE.len(), CUT, is_same, &told)
        };
        figure.claims.extend([
            fitted("mean", theirs.mean[FCFS], mean[FCFS]),
            fitted("p95", theirs.p95[FCFS], tail[FCFS]),
            by("mean", theirs.mean, mean),
            by("p95", theirs.p95, tail),
        ]);
    }
    let [before, after] = [fcfs, edf].map(|outcome| average(outcome, 0.95));
    let claim =
        Claim::new("cut of their p95 by deadlines, on average, %", CUT, cut(before, after), Within::Amount(1.0));
    figure.claims.push(chance.because(claim, TABLE.len(), CUT, is_same, &told));
}

/// The average that the work states.
const CUT: f64 = 10.5;

/// Workers that aren't alike for a query: one part in so many takes as long as the work's slowest on the first worker.
fn skew(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let mut table = Table::new(
        "One query in so many takes 5457 ms on the first worker: its mean and p95 and the second worker's p95, and what is put \
         together, in ms, by deadlines; and by how many percent deadlines cut the p99 of what is put together.",
        &["one in", "W1 mean", "W1 p95", "W2 p95", "put together p50", "p95", "p99", "p99.9", "p99 cut, %"],
    );
    for one_in in [None, Some(10_000), Some(1000), Some(300)] {
        let mut graph = search(Order::Fcfs);
        if let Some(one_in) = one_in {
            graph.stages[SPLIT].each[0] = with_slow(TABLE[0].work(), one_in, effort.seed);
        }
        let outcomes = orders::both(effort, &graph, RATE, effort.jobs(300_000), figure)?;
        let edf = &outcomes[EDF];
        let units = &edf.units[SPLIT];
        let [before, after] = [&outcomes[FCFS], edf].map(|outcome| &outcome.since_birth[SPLIT]);
        let cells = [
            units[0].mean() * 1e3,
            millis(&units[0], 0.95),
            millis(&units[1], 0.95),
            millis(after, 0.5),
            millis(after, 0.95),
            millis(after, 0.99),
            millis(after, 0.999),
            cut(millis(before, 0.99), millis(after, 0.99)),
        ];
        let name = one_in.map_or_else(|| "none".to_owned(), |one_in: u64| one_in.to_string());
        table.row(std::iter::once(name).chain(cells.map(number)));
    }
    figure.tables.push(table);
    figure.text.push(
        "No worker is slower than the others in the work's table: their means are 42 to 50 ms. A query is, where its data lie: \
         the same took 5457 ms on the first worker and 51 ms on the second, and another 107 and 34 ms on two others. The latter is \
         within what the fitted times give; the former isn't, and how often it occurs isn't said, so its share is varied."
            .to_owned(),
    );
    Ok(())
}

/// A work of which one in so many is slow.
fn with_slow(work: Work, one_in: u64, seed: u64) -> Work {
    let mut stream = Seed::new(seed).stream("usual parts", one_in);
    let usual = (1..one_in).map(|_| (work.draw(&mut stream), 1));
    let slow = (SLOW.as_nanos() as u64, 1);
    Sample::new(usual.chain([slow]).collect()).map_or(work, |sample| Work::Measured(sample.keep()))
}

const DEADLINES: [u64; 3] = [150, 300, 1000];

/// What the work has none of: deadlines that differ, and overload.
fn deadlines(effort: &Effort, graph: &Graph, figure: &mut Figure) -> Result<(), ReproduceError> {
    let (many, few) = (effort.jobs(300_000), effort.jobs(60_000));
    let overload = |title, admission, most_waiting| Steady {
        title,
        deadlines: &DEADLINES,
        per_second: 200.0,
        requests: few,
        admission,
        most_waiting,
    };
    let title = "Expected deadlines of 150, 300 and 1000 ms, a third of the requests each, at 150 requests a second";
    Steady { per_second: 150.0, requests: many, ..overload(title, None, None) }.show(effort, graph, figure)?;
    let ours = Some(AdmissionConfig::default());
    for overload in [
        overload("The same at 200 requests a second, more than can be served, with nobody refused", None, None),
        overload("The same where at most 100 wait at a station", None, Some(100)),
        overload("The same with our admission", ours, None),
    ] {
        overload.show(effort, graph, figure)?;
    }
    let bursty = Bursty {
        title: "The same at 120 requests a second",
        deadlines: &DEADLINES,
        per_second: 120.0,
        requests: effort.jobs(150_000),
    };
    bursty.show(effort, graph, figure)
}
