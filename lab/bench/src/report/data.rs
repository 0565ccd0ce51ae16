//! What a page is made of.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use crate::latencies::Latencies;
use crate::machine::{self, Machine};
use crate::measured::{Measured, Tally};
use crate::stages::{Sample, StageTally};

/// Stages of one depth are shown one by one up to this number, and as one beyond it: eighteen shards are too many.
const STAGES_APART: usize = 5;

/// What a page is made of. All of it is plain data, so that it can be kept and a page be made again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Data {
    /// The heading.
    pub title: String,
    /// What the reader sees here, in a sentence or two.
    pub lead: String,
    /// What was measured.
    pub commit: String,
    /// Where.
    pub machine: Machine,
    /// The systems that are compared. The first is what the others are held against.
    pub systems: Vec<System>,
    /// The services that were driven.
    pub services: Vec<Service>,
    /// How it was measured: one paragraph each. Facts that the runs themselves tell are added.
    pub method: Vec<String>,
}

impl Data {
    /// A page about the commit that is checked out and this machine, still without systems and services.
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        let (commit, machine) = (machine::commit(), Machine::this());
        Self { title: title.into(), lead: lead.into(), commit, machine, ..Self::default() }
    }
}

/// A system under comparison, such as a scheduling policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct System {
    /// What runs refer to it by.
    pub name: String,
    /// What it does, in half a sentence.
    pub about: String,
}

/// A service that was driven.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Its measured capacity.
    pub capacity_per_s: f64,
    /// One run for each system and load.
    pub runs: Vec<Run>,
}

/// One system under one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The system.
    pub system: String,
    /// The load as a share of capacity.
    pub load: f64,
    /// Requests due per second.
    pub offered_per_s: f64,
    /// How long it was measured.
    pub time: Duration,
    /// All requests.
    pub total: Figures,
    /// Those of each class.
    pub classes: Vec<ClassRun>,
    /// Each stage, or each depth of stages where they are many.
    pub stages: Vec<StageRun>,
    /// Of each class, a typical request and a slow one.
    pub samples: Vec<(Kind, Sample)>,
    /// The share of service time that went into requests that missed.
    pub wasted_work_share: Option<f64>,
    /// The longest that a request was sent behind its time.
    pub max_send_lag: Duration,
}

/// What a sampled request stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The one nearest to the median.
    Typical,
    /// The one nearest to the 95th percentile.
    Slow,
}

/// The figures of some requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// How many there were.
    pub scheduled: u64,
    /// Results in time, per second.
    pub goodput_per_s: f64,
    /// The share without a result in time.
    pub missed_share: f64,
    /// That share, by what became of the requests.
    pub misses: BTreeMap<String, f64>,
    /// Of the time to a result: p50, p95, p99, p99.9 and the longest, in milliseconds.
    pub quantiles_ms: [Option<f64>; 5],
    /// How the time to a result is distributed.
    pub results: Curve,
}

/// One class in one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassRun {
    /// Its name.
    pub name: String,
    /// Its expected deadline.
    pub deadline: Duration,
    /// Its figures.
    pub figures: Figures,
}

/// One stage in one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageRun {
    /// Its name.
    pub name: String,
    /// Time on the way there and back.
    pub network: Curve,
    /// Time in its queues.
    pub queue: Curve,
    /// Time at work.
    pub service: Curve,
    /// Queue and service together.
    pub here: Curve,
}

impl Run {
    /// What `measured` shows of `system` at `load`, a share of capacity.
    pub fn new(system: impl Into<String>, load: f64, measured: &Measured) -> Self {
        let class_run = |(class, tally): &(crate::classes::Class, Tally)| ClassRun {
            name: class.name.clone(),
            deadline: class.deadline,
            figures: Figures::new(tally, measured.time),
        };
        Self {
            system: system.into(),
            load,
            offered_per_s: measured.offered_per_s(),
            time: measured.time,
            total: Figures::new(&measured.total, measured.time),
            classes: measured.classes.iter().map(class_run).collect(),
            stages: stage_runs(&measured.stages),
            samples: samples(measured),
            wasted_work_share: measured.work.wasted_share(),
            max_send_lag: measured.max_send_lag,
        }
    }
}

impl Figures {
    fn new(tally: &Tally, time: Duration) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let share = |count: u64| count as f64 / tally.scheduled.max(1) as f64;
        let [p50, p95, p99, p999] = [0.5, 0.95, 0.99, 0.999].map(|q| tally.results.quantile(q).map(ms));
        Self {
            scheduled: tally.scheduled,
            goodput_per_s: tally.good as f64 / time.as_secs_f64(),
            missed_share: tally.missed_share(),
            misses: tally.misses.iter().map(|(name, &count)| ((*name).to_owned(), share(count))).collect(),
            quantiles_ms: [p50, p95, p99, p999, tally.results.max().map(ms)],
            results: Curve::new(&tally.results, tally.scheduled),
        }
    }
}

/// Of each class the sampled requests nearest to its median and to its 95th percentile.
fn samples(measured: &Measured) -> Vec<(Kind, Sample)> {
    let mut chosen = Vec::new();
    for (class, tally) in &measured.classes {
        for (kind, q) in [(Kind::Typical, 0.5), (Kind::Slow, 0.95)] {
            let Some(wanted) = tally.results.quantile(q) else { continue };
            let candidates = measured.samples.iter().filter(|sample| sample.class == class.name && sample.answered);
            chosen.extend(candidates.min_by_key(|sample| sample.latency.abs_diff(wanted)).map(|s| (kind, s.clone())));
        }
    }
    chosen
}

fn stage_runs(tallies: &[StageTally]) -> Vec<StageRun> {
    let mut depths: BTreeMap<u8, Vec<&StageTally>> = BTreeMap::new();
    for tally in tallies {
        depths.entry(tally.depth).or_default().push(tally);
    }
    depths
        .into_values()
        .flat_map(|stages| if stages.len() > STAGES_APART { merged(&stages) } else { apart(&stages) })
        .collect()
}

fn apart(stages: &[&StageTally]) -> Vec<StageRun> {
    stages.iter().map(|stage| stage_run(stage.name.clone(), &[stage])).collect()
}

fn merged(stages: &[&StageTally]) -> Vec<StageRun> {
    let mut name = stages[0].name.as_str();
    while !stages.iter().all(|stage| stage.name.starts_with(name)) {
        name = &name[..name.char_indices().next_back().map_or(0, |(at, _)| at)];
    }
    let name = name.trim_end_matches(|c: char| !c.is_alphabetic());
    let name = if name.is_empty() { "stages" } else { name };
    vec![stage_run(format!("{name} × {}", stages.len()), stages)]
}

fn stage_run(name: String, stages: &[&StageTally]) -> StageRun {
    let curve = |part: fn(&StageTally) -> &Latencies| {
        let mut all = Latencies::new();
        stages.iter().for_each(|stage| all.merge(part(stage)));
        Curve::new(&all, all.count())
    };
    StageRun {
        name,
        network: curve(|stage| &stage.network),
        queue: curve(|stage| &stage.queue),
        service: curve(|stage| &stage.service),
        here: curve(|stage| &stage.here),
    }
}
