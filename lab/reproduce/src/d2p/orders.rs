//! Every order beside first come first served: with one expected deadline, with several, and with more than can be served.

use super::{EDF, FCFS, ORDERS, classes, millis};
use crate::claim::{Figure, Table};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::Seed;
use greenwave_sim::graph::{Bursts, Graph, Outcome, run};
use std::time::Duration;

/// A graph under each of the orders. The figure notes the runs.
pub(super) fn all(
    effort: &Effort,
    graph: &Graph,
    per_second: f64,
    requests: u64,
    figure: &mut Figure,
) -> Result<Vec<Outcome>, ReproduceError> {
    some(effort, &ORDERS, graph, per_second, requests, figure)
}

/// The same under the two that the work compares.
pub(super) fn both(
    effort: &Effort,
    graph: &Graph,
    per_second: f64,
    requests: u64,
    figure: &mut Figure,
) -> Result<Vec<Outcome>, ReproduceError> {
    some(effort, &[ORDERS[FCFS], ORDERS[EDF]], graph, per_second, requests, figure)
}

fn some(
    effort: &Effort,
    orders: &[Order],
    graph: &Graph,
    per_second: f64,
    requests: u64,
    figure: &mut Figure,
) -> Result<Vec<Outcome>, ReproduceError> {
    let outcomes = parallel::map(effort.threads, orders, |order| {
        run(&Graph { order: *order, ..graph.clone() }, per_second, requests, Seed::new(effort.seed))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    Ok(outcomes)
}

/// The p95 since birth after each stage, and how far the last stage's distribution is from that of first come first served.
pub(super) fn p95(title: &str, outcomes: &[Outcome]) -> Table {
    let stages = outcomes.first().map_or(0, |outcome| outcome.since_birth.len());
    let mut table = Table::new(title, &["order"]);
    table.head.extend((1..=stages).map(|stage| format!("S{stage}")));
    table.head.push("distance from fcfs at the end".to_owned());
    for (order, outcome) in ORDERS.iter().zip(outcomes) {
        let p95 = outcome.since_birth.iter().map(|spans| number(millis(spans, 0.95)));
        let distance = outcome.since_birth.last().zip(outcomes[FCFS].since_birth.last());
        let distance = distance.map_or(0.0, |(this, fcfs)| this.distance(fcfs) * 1e3);
        table.row(std::iter::once(order.to_string()).chain(p95).chain([number(distance)]));
    }
    table
}

/// Requests of several classes at a steady rate.
pub(super) struct Steady<'a> {
    /// What it shows, beside what comes out.
    pub(super) title: &'a str,
    /// Expected deadlines in milliseconds; as many requests have each.
    pub(super) deadlines: &'a [u64],
    pub(super) per_second: f64,
    pub(super) requests: u64,
    pub(super) admission: Option<AdmissionConfig>,
    /// How many may wait at a station; others are turned away, whatever their deadlines.
    pub(super) most_waiting: Option<usize>,
}

impl Steady<'_> {
    /// Adds which share of each class is answered in time.
    pub(super) fn show(&self, effort: &Effort, graph: &Graph, figure: &mut Figure) -> Result<(), ReproduceError> {
        let graph = Graph {
            classes: classes(self.deadlines),
            admission: self.admission,
            most_waiting: self.most_waiting,
            ..graph.clone()
        };
        let mut table = Table::new(&format!("{}: share answered in time.", self.title), &["order"]);
        table.head.extend(graph.classes.iter().map(|class| class.name.clone()));
        table.head.push("all".to_owned());
        let outcomes = all(effort, &graph, self.per_second, self.requests, figure)?;
        for (order, outcome) in ORDERS.iter().zip(&outcomes) {
            let good = outcome.classes.iter().map(|class| number(class.good()));
            table.row(std::iter::once(order.to_string()).chain(good).chain([number(outcome.good())]));
        }
        figure.tables.push(table);
        if let Some(most) = self.most_waiting {
            let [fcfs, edf] = [outcomes[FCFS].good(), outcomes[EDF].good()];
            let why = " By deadlines who is late already goes before who could be in time still, until all are late; first come \
                       first served keeps the deadlines that are longer than the queue.";
            figure.text.push(format!(
                "At {} requests a second with at most {most} waiting at a station, a share of {} is in time by earliest \
                 deadlines, and of {} first come first served.{}",
                self.per_second,
                number(edf),
                number(fcfs),
                if edf < fcfs { why } else { "" },
            ));
        }
        Ok(())
    }
}

/// Requests of several classes, of which twice as many come in bursts that end.
pub(super) struct Bursty<'a> {
    pub(super) title: &'a str,
    pub(super) deadlines: &'a [u64],
    /// Between bursts.
    pub(super) per_second: f64,
    pub(super) requests: u64,
}

/// How long bursts are, and how long it is from one to the next, in seconds.
const LENGTHS: [u64; 4] = [1, 2, 4, 8];
const EVERY: u64 = 30;

impl Bursty<'_> {
    /// Adds which share is answered in time by how long bursts are, with nobody refused and with our admission.
    pub(super) fn show(&self, effort: &Effort, graph: &Graph, figure: &mut Figure) -> Result<(), ReproduceError> {
        for (how, admission) in [("nobody refused", None), ("our admission", Some(AdmissionConfig::default()))] {
            let title =
                format!("{}, twice as many in bursts, every {EVERY} s; {how}: share answered in time.", self.title);
            let mut table = Table::new(&title, &["order"]);
            table.head.extend(LENGTHS.map(|length| format!("bursts of {length} s")));
            let mut rows: Vec<Vec<f64>> = vec![Vec::new(); ORDERS.len()];
            for length in LENGTHS {
                let bursts =
                    Bursts { every: Duration::from_secs(EVERY), length: Duration::from_secs(length), factor: 2.0 };
                let graph =
                    Graph { classes: classes(self.deadlines), admission, bursts: Some(bursts), ..graph.clone() };
                for (row, outcome) in rows.iter_mut().zip(all(effort, &graph, self.per_second, self.requests, figure)?)
                {
                    row.push(outcome.good());
                }
            }
            for (order, row) in ORDERS.iter().zip(&rows) {
                table.row(std::iter::once(order.to_string()).chain(row.iter().map(|good| number(*good))));
            }
            figure.tables.push(table);
            if admission.is_none() {
                figure.text.push(bursts_that_end(&rows[FCFS], &rows[EDF]));
            }
        }
        Ok(())
    }
}

/// Whether earliest deadlines fall behind first come first served in bursts of any length.
fn bursts_that_end(fcfs: &[f64], edf: &[f64]) -> String {
    let pairs = LENGTHS.iter().zip(fcfs.iter().zip(edf));
    let behind = pairs.filter(|(_, (fcfs, edf))| edf < fcfs);
    let behind: Vec<String> = behind
        .map(|(length, (fcfs, edf))| format!("{length} s ({edf:.3} in time, and {fcfs:.3} first come first served)"))
        .collect();
    let fall = if behind.is_empty() {
        "In bursts that end earliest deadlines don't fall behind first come first served".to_owned()
    } else {
        format!("Earliest deadlines fall behind in bursts of {}", behind.join(", "))
    };
    format!(
        "{fall}. Bursts show little of it: what waits grows and shrinks about evenly, so the time for which it is longer than the \
         mean deadline, when by deadlines all are late, is about the mean of the times for which it is longer than each."
    )
}
