//! Doing the runs, on several threads.

use super::file::{Carried, Subject};
use super::group::Replicas;
use super::row::{Cell, Row};
use crate::cores::{Histogram, Report, Work, run};
use crate::fabric;
use crate::graph::{self, Graph, Outcome};
use crate::replica::measure;
use crate::seed::Seed;
use greenwave_policy::replication::Load;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// A run: what is special about it, and what it is.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) cells: Vec<(String, Cell)>,
    pub(super) subject: Subject,
    pub(super) seed: u64,
}

impl Run {
    pub(super) fn memory(&self) -> u64 {
        self.subject.memory()
    }

    pub(super) fn at_most(&mut self, jobs: u64) {
        let less = |of: &mut u64| *of = (*of).min(jobs.max(1));
        match &mut self.subject {
            Subject::Cores { plan, .. } => less(&mut plan.jobs),
            Subject::Network(carried) => less(&mut carried.flows.flows),
            Subject::Group(replicas) => less(&mut replicas.commands),
            Subject::Graph { requests, network, .. } => {
                less(requests);
                network.iter_mut().for_each(|carried| less(&mut carried.flows.flows));
            }
        }
    }

    fn row(&self) -> Row {
        let mut row = Row::default();
        self.cells.iter().for_each(|(name, cell)| row.push(name, cell.clone()));
        row.add("seed", self.seed as f64);
        let seed = Seed::new(self.seed);
        match &self.subject {
            Subject::Cores { cores, load, plan } => match run(cores, load, plan, seed) {
                Ok(report) => {
                    row.add("rate", plan.per_second(cores, load));
                    cores_row(&mut row, &report, load.methods().iter().map(|method| method.name.as_str()));
                }
                Err(error) => row.push("cut", Cell::Text(error.to_string())),
            },
            Subject::Graph { graph, per_second, requests, network } => {
                match services(graph, network.as_ref(), *per_second, *requests, seed) {
                    Ok((outcome, network)) => {
                        row.add("rate", *per_second);
                        if let Some(network) = network {
                            spans(&mut row, "wire.", &network.small);
                        }
                        graph_row(&mut row, &outcome, graph.classes.iter().map(|class| class.name.as_str()));
                    }
                    Err(error) => row.push("cut", Cell::Text(error)),
                }
            }
            Subject::Network(Carried { fabric, flows }) => match fabric::run(fabric, flows, seed) {
                Ok(outcome) => {
                    row.add("rate", flows.per_second(&fabric.network));
                    network_row(&mut row, &outcome);
                }
                Err(error) => row.push("cut", Cell::Text(error.to_string())),
            },
            Subject::Group(replicas) => {
                let Replicas { sizing, commands, most_unfinished, .. } = replicas;
                match measure::commands(&replicas.scene(), *sizing, *commands, *most_unfinished, seed) {
                    Ok(outcome) => {
                        if let Load::Open { per_s } = replicas.load {
                            row.add("rate", per_s);
                        }
                        group_row(&mut row, &outcome);
                    }
                    Err(error) => row.push("cut", Cell::Text(error.to_string())),
                }
            }
        }
        row
    }
}

/// A graph's requests, and before them the flows of the network on which it lies, if it lies on one: then the way from a stage to the
/// next takes what small flows took.
fn services(
    graph: &Graph,
    network: Option<&Carried>,
    per_second: f64,
    requests: u64,
    seed: Seed,
) -> Result<(Outcome, Option<fabric::Outcome>), String> {
    let run = |graph: &Graph| graph::run(graph, per_second, requests, seed).map_err(|error| error.to_string());
    let Some(Carried { fabric, flows }) = network else { return Ok((run(graph)?, None)) };
    let network = fabric::run(fabric, flows, seed).map_err(|error| error.to_string())?;
    let ways = network.small.sample().ok_or("no flow is small, so no message goes from a stage to the next")?;
    let mut outcome = run(&Graph { wire: Some(Work::Measured(ways.keep())), ..graph.clone() })?;
    // Where a network carries less than comes, ways grow without an end.
    outcome.cut_at = network.cut_at.or(outcome.cut_at);
    outcome.hash = outcome.hash.rotate_left(1) ^ network.hash;
    outcome.events += network.events;
    Ok((outcome, Some(network)))
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

fn spans(row: &mut Row, prefix: &str, spans: &Histogram) {
    row.add(format!("{prefix}mean_us"), spans.mean() * 1e6);
    for (name, quantile) in QUANTILES {
        row.add(format!("{prefix}{name}_us"), spans.quantile(quantile) * 1e6);
    }
}

fn cores_row<'a>(row: &mut Row, report: &Report, methods: impl Iterator<Item = &'a str>) {
    row.add("done", report.done as f64);
    row.add("throughput", report.throughput());
    spans(row, "", &report.all);
    if report.methods.len() > 1 {
        for (name, method) in methods.zip(&report.methods) {
            spans(row, &format!("{name}."), method);
        }
    }
    row.add("slowdown_p999", report.slowdown(0.999));
    row.add("late", report.late.iter().sum::<u64>() as f64);
    row.add("busy", report.busy);
    row.add("overhead", report.overhead);
    row.add("preemptions", report.preemptions as f64);
    row.add("stolen", report.stolen as f64);
    row.add("most_unfinished", report.most_unfinished as f64);
    row.add("events", report.events as f64);
    row.push("hash", Cell::Text(format!("{:016x}", report.hash)));
    row.push("cut", Cell::Text(report.cut.map(|cut| cut.to_string()).unwrap_or_default()));
}

fn graph_row<'a>(row: &mut Row, outcome: &Outcome, classes: impl Iterator<Item = &'a str>) {
    for (stage, since_birth) in outcome.since_birth.iter().enumerate() {
        spans(row, &format!("s{}.", stage + 1), since_birth);
    }
    for (name, class) in classes.zip(&outcome.classes) {
        row.add(format!("{name}.in_time"), class.in_time as f64);
        row.add(format!("{name}.late"), class.late as f64);
        row.add(format!("{name}.refused"), class.refused as f64);
    }
    row.add("good", outcome.good());
    row.add("events", outcome.events as f64);
    row.push("hash", Cell::Text(format!("{:016x}", outcome.hash)));
    let cut = outcome.cut_at.map(|at| format!("cut at {at} unfinished requests: more come than can be served"));
    row.push("cut", Cell::Text(cut.unwrap_or_default()));
}

fn network_row(row: &mut Row, outcome: &fabric::Outcome) {
    row.add("done", (outcome.small.count() + outcome.large.count()) as f64);
    spans(row, "small.", &outcome.small);
    spans(row, "large.", &outcome.large);
    row.add("large_mbit", outcome.large_rate / 1e6);
    row.add("goodput_mbit", outcome.goodput / 1e6);
    if let Some(guests) = &outcome.guests {
        spans(row, "guest.", &guests.woken);
        row.add("neighbours", guests.neighbours);
        row.add("preempted_per_s", guests.preempted);
        row.add("switching", guests.switching);
    }
    row.add("lost", outcome.lost as f64);
    row.add("timeouts", outcome.timeouts as f64);
    row.add("events", outcome.events as f64);
    row.push("hash", Cell::Text(format!("{:016x}", outcome.hash)));
    let than = if outcome.guests.is_some() { "sent and carried" } else { "carried" };
    let cut = outcome.cut_at.map(|at| format!("cut at {at} unfinished flows: more come than can be {than}"));
    row.push("cut", Cell::Text(cut.unwrap_or_default()));
}

fn group_row(row: &mut Row, outcome: &measure::Outcome) {
    row.add("done", outcome.took.count() as f64);
    row.add("throughput", outcome.ops_per_s);
    spans(row, "", &outcome.took);
    row.add("commands_per_batch", outcome.commands_per_batch);
    row.add("batches_per_s", outcome.batches_per_s);
    row.add("batch_bytes", outcome.setting.batch_bytes() as f64);
    row.add("window", outcome.setting.window() as f64);
    row.add("behind", outcome.behind as f64);
    row.add("events", outcome.events as f64);
    row.push("hash", Cell::Text(format!("{:016x}", outcome.hash)));
    row.push("cut", Cell::Text(outcome.cut.map(|cut| cut.to_string()).unwrap_or_default()));
}

/// Does all, and tells rows in order.
pub(super) fn all(runs: &[Run], threads: usize, each: &mut impl FnMut(Row)) {
    let (next, (done, rows)) = (AtomicUsize::new(0), mpsc::channel());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, runs.len().max(1)) {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(at) else { return };
                    if done.send((at, run.row())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut early: BTreeMap<usize, Row> = BTreeMap::new();
        let mut told = 0;
        for (at, row) in rows {
            early.insert(at, row);
            while let Some(row) = early.remove(&told) {
                told += 1;
                each(row);
            }
        }
    });
}
