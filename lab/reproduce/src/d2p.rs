//! D2P, distributed deadline propagation (Ren, Ma, Sui, Bao).

use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::{Histogram, Work};
use greenwave_sim::graph::{Class, Graph, Outcome, Stage, run};
use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const RATE: f64 = 100.0;

const ORDERS: [Order; 5] =
    [Order::Fcfs, Order::EarliestDeadline, Order::LeastLaxity, Order::OldestFirst, Order::Guarded];

fn class(name: &str, deadline: Duration) -> Class {
    Class { name: name.to_owned(), share: 1.0, deadline: Some(deadline) }
}

fn same() -> Vec<Class> {
    vec![class("all", ms(200))]
}

fn differing() -> Vec<Class> {
    vec![class("50 ms", ms(50)), class("200 ms", ms(200)), class("800 ms", ms(800))]
}

/// Three stages. The work gives no service times, so those were fitted to the first-come-first-served column.
fn three_stages(order: Order) -> Graph {
    let stage = |workers, mean, deviation| Stage::new(workers, Work::Normal { mean, deviation });
    let stages = vec![stage(8, us(59_500), us(17_500)), stage(3, us(17_300), us(4500)), stage(3, us(15_500), us(9500))];
    Graph { classes: same(), ..Graph::new(stages, order) }
}

const EQUAL: &str = "With one expected deadline for all, the earliest deadline is that of the request that was born first, \
    and at the first stage that is the order of arrival: there both orders are the same schedule, job by job. Further down \
    they differ only where requests have overtaken one another in stages with several workers. So the work's cut can't \
    come from its algorithm alone.";

/// Table 1.
pub(crate) fn chain(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "Three stages, Poisson arrivals at 100 requests a second, normal service times, an expected deadline of 200 ms. \
             The work gives no service times and no numbers of workers: 8 workers of 59.5 ms (deviation 17.5), 3 of 17.3 ms \
             (4.5) and 3 of 15.5 ms (9.5) were fitted to its first-come-first-served columns."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let requests = effort.jobs(2_000_000);
    let outcomes = parallel::map(effort.threads, &ORDERS, |order| {
        run(&three_stages(*order), RATE, requests, Seed::new(effort.seed))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    let (fcfs, edf) = (&outcomes[0].since_birth, &outcomes[1].since_birth);
    let reason = if fcfs[0] == edf[0] { format!("{EQUAL} {SAME_TIMES}") } else { EQUAL.to_owned() };
    let theirs = [(63.74, 97.0, 14.43), (82.62, 117.0, 8.55), (99.34, 139.0, 2.16)];
    for (stage, (mean, p95, _)) in theirs.iter().enumerate() {
        let number = stage + 1;
        let of = &fcfs[stage];
        figure.claims.push(
            Claim::new(format!("S{number}: mean, FCFS, ms"), *mean, of.mean() * 1e3, Within::Share(0.05)).fitted(),
        );
        figure.claims.push(
            Claim::new(format!("S{number}: p95, FCFS, ms"), *p95, of.quantile(0.95) * 1e3, Within::Share(0.08))
                .fitted(),
        );
    }
    for (stage, (_, _, cut)) in theirs.iter().enumerate() {
        let ours = 100.0 * (1.0 - edf[stage].quantile(0.95) / fcfs[stage].quantile(0.95));
        figure.claims.push(
            Claim::new(format!("S{}: cut of the p95 by deadlines, %", stage + 1), *cut, ours, Within::Amount(1.0))
                .because(reason.clone()),
        );
    }
    let variability = |at: usize| outcomes[at].variability(2);
    figure.claims.push(
        Claim::new(
            "cut of the variability range (figures), %",
            25.0,
            100.0 * (1.0 - variability(1) / variability(0)),
            Within::Amount(5.0),
        )
        .because(reason.clone()),
    );
    figure.tables.push(orders("One expected deadline of 200 ms for all: p95 since birth in ms.", &outcomes));
    for (title, rate, admission) in [
        (
            "Expected deadlines of 50, 200 and 800 ms, a third of the requests each, 100 requests a second on stages of 8, 9 and 8 ms: share answered in time.",
            100.0,
            None,
        ),
        ("The same at 130 requests a second, more than can be served, with nobody refused.", 130.0, None),
        ("The same with our admission.", 130.0, Some(AdmissionConfig::default())),
    ] {
        figure.tables.push(by_class(effort, title, rate, admission, &mut figure.hash)?);
    }
    figure.text.push(
        "Where deadlines differ, order pays. Under an overload that lasts, nothing is in time by any order but one that goes by \
         the work that is left, and by that little; what helps is to refuse."
            .to_owned(),
    );
    Ok(figure)
}

fn orders(title: &str, outcomes: &[Outcome]) -> Table {
    let stages = outcomes.first().map_or(0, |outcome| outcome.since_birth.len());
    let mut table = Table::new(title, &["order"]);
    table.head.extend((1..=stages).map(|stage| format!("S{stage}")));
    for (order, outcome) in ORDERS.iter().zip(outcomes) {
        let p95 = outcome.since_birth.iter().map(|spans| number(spans.quantile(0.95) * 1e3));
        table.row(std::iter::once(order.to_string()).chain(p95));
    }
    table
}

fn by_class(
    effort: &Effort,
    title: &str,
    rate: f64,
    admission: Option<AdmissionConfig>,
    hash: &mut u64,
) -> Result<Table, ReproduceError> {
    // Overload only grows; a short run says as much as a long one.
    let requests = effort.jobs(if rate > RATE { 100_000 } else { 1_000_000 });
    let outcomes = parallel::map(effort.threads, &ORDERS, |order| {
        let stage = |mean, deviation| Stage::new(1, Work::Normal { mean: ms(mean), deviation: ms(deviation) });
        let mut graph = Graph::new(vec![stage(8, 3), stage(9, 3), stage(8, 3)], *order);
        (graph.classes, graph.admission) = (differing(), admission);
        run(&graph, rate, requests, Seed::new(effort.seed))
    });
    let mut table = Table::new(title, &["order", "50 ms", "200 ms", "800 ms", "all"]);
    for (order, outcome) in ORDERS.iter().zip(outcomes) {
        let outcome = outcome?;
        *hash = (hash.rotate_left(5) ^ outcome.hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let good = outcome.classes.iter().map(|class| number(class.good()));
        table.row(std::iter::once(order.to_string()).chain(good).chain([number(outcome.good())]));
    }
    Ok(table)
}

/// Table 2.
pub(crate) fn parallel(effort: &Effort) -> Result<Figure, ReproduceError> {
    let graph = |order, classes| {
        // Fitted to the averages of the first-come-first-served columns.
        let work = Work::Normal { mean: ms(43), deviation: ms(34) };
        let search = Stage { workers: 8, ..Stage::parallel(18, work, Some(Work::Fixed(ms(1)))) };
        let spout = Stage::new(1, Work::Fixed(ms(1)));
        Graph { classes, ..Graph::new(vec![spout, search, Stage::new(1, Work::Fixed(ms(1)))], order) }
    };
    let requests = effort.jobs(300_000);
    let runs: Vec<(Order, bool)> =
        [false, true].into_iter().flat_map(|differ| ORDERS.map(|order| (order, differ))).collect();
    let outcomes = parallel::map(effort.threads, &runs, |(order, differ)| {
        let (classes, rate) = if *differ {
            (vec![class("150 ms", ms(150)), class("300 ms", ms(300)), class("1 s", ms(1000))], FULL)
        } else {
            (same(), RATE)
        };
        run(&graph(*order, classes), rate, requests, Seed::new(effort.seed))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut figure = Figure {
        text: vec![
            "A request is split over 18 workers and put together; 100 requests a second. The work gives no service times, \
             so normal ones of 43 ms (deviation 34, what would be less than nothing cut off) on 8 cores of each worker were \
             fitted to the averages of its first-come-first-served columns. The table's rows are workers that do the same, so \
             their average is compared."
                .to_owned(),
        ],
        ..Figure::default()
    };
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    let mean = |at: usize, of: fn(&Histogram) -> f64| {
        let units = &outcomes[at].units[1];
        units.iter().map(of).sum::<f64>() / units.len() as f64 * 1e3
    };
    let p95 = |at: usize| mean(at, |spans| spans.quantile(0.95));
    figure.claims.push(
        Claim::new("mean of the workers' means, FCFS, ms", THEIR_MEAN, mean(0, Histogram::mean), Within::Share(0.1))
            .fitted(),
    );
    figure.claims.push(Claim::new("mean of their p95, FCFS, ms", THEIR_P95, p95(0), Within::Share(0.1)).fitted());
    figure.claims.push(
        Claim::new(
            "cut of their p95 by deadlines, on average, %",
            10.5,
            100.0 * (1.0 - p95(1) / p95(0)),
            Within::Amount(1.0),
        )
        .because(if outcomes[0].hash == outcomes[1].hash {
            format!("{EQUAL} {SAME_RUN}")
        } else {
            EQUAL.to_owned()
        }),
    );
    let mut table = Table::new(
        "One expected deadline of 200 ms: p95 of the workers and of what is put together, in ms. Deadlines of 150, 300 and 1000 ms at 160 requests a second: share answered in time.",
        &["order", "workers", "put together", "150 ms", "300 ms", "1 s", "all"],
    );
    for (at, order) in ORDERS.iter().enumerate() {
        let differ = &outcomes[ORDERS.len() + at];
        let first = [order.to_string(), number(p95(at)), number(outcomes[at].since_birth[1].quantile(0.95) * 1e3)];
        let good = differ.classes.iter().map(|class| number(class.good()));
        table.row(first.into_iter().chain(good).chain([number(differ.good())]));
    }
    figure.tables.push(table);
    let slowest = outcomes[0].at_stage[1].quantile(0.5) / outcomes[0].units[1][0].quantile(0.5);
    figure.text.push(format!(
        "What is put together waits for the slowest of 18: its median is {} times a worker's. The work finds the same, and that \
         the aggregator gains little; here too order can't help a request whose slowest part is slow by itself.",
        number(slowest)
    ));
    Ok(figure)
}

/// At which order matters, as workers are busy for most of the time.
const FULL: f64 = 160.0;

const SAME_TIMES: &str =
    "Here the first stage's times are the same under both, to the last bucket of their histograms.";

const SAME_RUN: &str = "Here the two runs are the same event by event: they have the same hash.";

/// The averages of table 2's columns.
const THEIR_MEAN: f64 = 45.8;
const THEIR_P95: f64 = 100.2;

/// Latency along five stages.
pub(crate) fn growth(effort: &Effort) -> Result<Figure, ReproduceError> {
    const LOADS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];
    let runs: Vec<(f64, Order)> =
        LOADS.into_iter().flat_map(|load| [(load, Order::Fcfs), (load, Order::EarliestDeadline)]).collect();
    let requests = effort.jobs(1_000_000);
    let outcomes = parallel::map(effort.threads, &runs, |(load, order)| {
        let stage = Stage::new(4, Work::Normal { mean: ms(20), deviation: ms(8) });
        let graph = Graph { classes: same(), ..Graph::new(vec![stage; 5], *order) };
        run(&graph, load * 200.0, requests, Seed::new(effort.seed))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut figure = Figure {
        text: vec![
            "Five stages of 4 workers with normal service times of 20 ms (deviation 8), at several loads, as the work doesn't \
             say at which it measured. It finds that p90 grows 2.6 times and p95 2.4 times from the first stage to the fifth."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let mut table = Table::new(
        "From the first stage to the fifth, and the variability range after the fifth.",
        &["load", "p90 grows", "p95 grows", "variability, FCFS", "by deadlines", "cut, %"],
    );
    let grows = |outcome: &Outcome, quantile| {
        outcome.since_birth[4].quantile(quantile) / outcome.since_birth[0].quantile(quantile)
    };
    for (load, pair) in LOADS.iter().zip(outcomes.chunks(2)) {
        let [fcfs, edf] = [pair[0].variability(4), pair[1].variability(4)];
        let cells = [*load, grows(&pair[0], 0.9), grows(&pair[0], 0.95), fcfs, edf, 100.0 * (1.0 - edf / fcfs)];
        table.row(cells.map(number));
    }
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    figure.tables.push(table);
    // What growth is where the first stage takes longer than the others, on as many more workers.
    const FIRST: [u64; 4] = [20, 30, 40, 60];
    let slower = parallel::map(effort.threads, &FIRST, |first| {
        let stage = |mean: u64, workers: u64| {
            Stage::new(workers as usize, Work::Normal { mean: ms(mean), deviation: ms(mean * 2 / 5) })
        };
        let mut stages = vec![stage(20, 4); 5];
        stages[0] = stage(*first, 4 * first / 20);
        let graph = Graph { classes: same(), ..Graph::new(stages, Order::Fcfs) };
        run(&graph, 0.7 * 200.0, requests, Seed::new(effort.seed))
    });
    let slower: Vec<Outcome> = slower.into_iter().collect::<Result<_, _>>()?;
    let mut table = Table::new(
        "The same at a load of 0.7 and first come first served, with a first stage that takes longer than the other four.",
        &["first stage, ms", "p90 grows", "p95 grows"],
    );
    for (first, outcome) in FIRST.iter().zip(&slower) {
        table.row([first.to_string(), number(grows(outcome, 0.9)), number(grows(outcome, 0.95))]);
        figure.note(outcome.hash);
    }
    figure.tables.push(table);
    let reason = format!(
        "The work's stages aren't equal, and how long they take isn't given: in its table 1 the first has two thirds of what all \
         three have. Simulated with a first stage that takes twice as long as the others, p90 grows {} times and p95 {} times. \
         Load explains less: at 0.9 it is {} and {}.",
        number(grows(&slower[2], 0.9)),
        number(grows(&slower[2], 0.95)),
        number(grows(&outcomes[6], 0.9)),
        number(grows(&outcomes[6], 0.95)),
    );
    for (quantile, theirs, name) in [(0.9, 2.6, "p90"), (0.95, 2.4, "p95")] {
        let claim = Claim::new(
            format!("{name} after stage five to stage one, at 70 %"),
            theirs,
            grows(&outcomes[4], quantile),
            Within::Share(0.15),
        );
        figure.claims.push(claim.because(reason.clone()));
    }
    Ok(figure)
}
