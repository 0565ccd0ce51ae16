//! What a file may say.

use super::ScenarioError;
use super::quantity::{Span, SpanOrOff};
use crate::cores::{self, Cores, Costs, Knowledge, Load, Method, Plan, Rate, Scheme, Steal, Work};
use crate::graph::{Class, Graph, Stage};
use greenwave_policy::{AdmissionConfig, DispatchRule, Order, StealRule};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::str::FromStr;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    cores: Option<CoresTable>,
    graph: Option<GraphTable>,
    load: LoadTable,
    #[serde(default)]
    pub(super) run: RunTable,
    #[serde(default)]
    pub(super) vary: toml::Table,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoresTable {
    workers: usize,
    #[serde(default)]
    scheme: SchemeName,
    #[serde(default, deserialize_with = "named")]
    dispatch: DispatchRule,
    #[serde(default, deserialize_with = "named")]
    order: Order,
    #[serde(default)]
    quantum: SpanOrOff,
    #[serde(default)]
    steal: StealName,
    #[serde(default)]
    knowledge: KnowledgeName,
    #[serde(default)]
    costs: CostsTable,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SchemeName {
    #[default]
    Central,
    TwoLevel,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StealName {
    #[default]
    Never,
    WhenIdle,
    Given,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KnowledgeName {
    #[default]
    Learned,
    Exact,
    Nothing,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CostsTable {
    dispatch: Span,
    switch: Span,
    preempt: Span,
    io: Span,
    steal: Span,
    probes: f64,
    inexact: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphTable {
    #[serde(default, deserialize_with = "named")]
    order: Order,
    #[serde(default)]
    admission: bool,
    wire: Option<WorkTable>,
    stage: Vec<StageTable>,
    #[serde(default)]
    class: Vec<ClassTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StageTable {
    #[serde(default = "one")]
    workers: usize,
    #[serde(default = "one")]
    units: usize,
    work: WorkTable,
    merge: Option<WorkTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassTable {
    name: String,
    #[serde(default = "whole")]
    share: f64,
    deadline: Option<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadTable {
    workload: Option<String>,
    #[serde(default)]
    method: Vec<MethodTable>,
    rate: Option<f64>,
    share: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MethodTable {
    name: String,
    #[serde(default = "whole")]
    share: f64,
    work: WorkTable,
    deadline: Option<Span>,
}

/// A distribution with what it takes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WorkTable {
    Fixed(Span),
    Exponential(Span),
    Uniform(Span, Span),
    Normal(Span, Span),
    Pareto(Span, Span, f64),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunTable {
    pub(super) jobs: u64,
    warmup: f64,
    seed: u64,
    seeds: u64,
    most_unfinished: usize,
}

impl Default for RunTable {
    fn default() -> Self {
        Self { jobs: 1_000_000, warmup: 0.1, seed: 1, seeds: 1, most_unfinished: 1 << 20 }
    }
}

impl RunTable {
    pub(super) fn seeds(&self) -> Result<impl Iterator<Item = u64> + use<>, ScenarioError> {
        if self.seeds == 0 || self.seeds > super::MOST_RUNS as u64 || self.seed.checked_add(self.seeds).is_none() {
            let most = super::MOST_RUNS;
            return Err(ScenarioError(format!("run.seeds is {}; allowed: 1 to {most}", self.seeds)));
        }
        Ok(self.seed..self.seed + self.seeds)
    }
}

/// What is run, once for each seed.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Cores { cores: Cores, load: Load, plan: Plan },
    Graph { graph: Graph, per_second: f64, requests: u64 },
}

impl File {
    /// What the file says is to be run.
    pub(super) fn subject(&self) -> Result<Subject, ScenarioError> {
        match (&self.cores, &self.graph) {
            (Some(cores), None) => self.cores(cores),
            (None, Some(graph)) => self.graph(graph),
            _ => Err(ScenarioError("a file has one of the tables [cores] and [graph]".to_owned())),
        }
    }

    fn cores(&self, table: &CoresTable) -> Result<Subject, ScenarioError> {
        let quantum = table.quantum.0;
        let steal = match table.steal {
            StealName::Never => Steal::Never,
            StealName::WhenIdle => Steal::WhenIdle,
            StealName::Given => Steal::Given(StealRule::default()),
        };
        let scheme = match table.scheme {
            SchemeName::Central => Scheme::Central { order: table.order, quantum },
            SchemeName::TwoLevel => Scheme::TwoLevel { dispatch: table.dispatch, order: table.order, quantum, steal },
        };
        let costs = &table.costs;
        let cores = Cores {
            workers: table.workers,
            scheme,
            costs: Costs {
                dispatch: costs.dispatch.0,
                switch: costs.switch.0,
                preempt: costs.preempt.0,
                io: costs.io.0,
                steal: costs.steal.0,
                probes: costs.probes,
                inexact: costs.inexact,
            },
            knowledge: match table.knowledge {
                KnowledgeName::Learned => Knowledge::Learned,
                KnowledgeName::Exact => Knowledge::Exact,
                KnowledgeName::Nothing => Knowledge::Nothing,
            },
        };
        let load = self.load.jobs()?;
        let rate = match (self.load.rate, self.load.share) {
            (Some(rate), None) => Rate::PerSecond(rate),
            (None, Some(share)) => Rate::Share(share),
            _ => {
                return Err(ScenarioError(
                    "load says one of rate, in jobs a second, and share, of the capacity".into(),
                ));
            }
        };
        let RunTable { jobs, warmup, most_unfinished, .. } = self.run;
        let plan = Plan { jobs, warmup, rate, most_unfinished };
        plan.validate(&cores, &load).map_err(|error| ScenarioError(error.to_string()))?;
        Ok(Subject::Cores { cores, load, plan })
    }

    fn graph(&self, table: &GraphTable) -> Result<Subject, ScenarioError> {
        if self.load.workload.is_some() || !self.load.method.is_empty() {
            let told = "stages say their work themselves: beside [graph], [load] says rate or share alone";
            return Err(ScenarioError(told.to_owned()));
        }
        let stage = |stage: &StageTable| Stage {
            workers: stage.workers,
            work: stage.work.work(),
            units: stage.units,
            merge: stage.merge.map(WorkTable::work),
        };
        let mut graph = Graph::new(table.stage.iter().map(stage).collect(), table.order);
        graph.admission = table.admission.then(AdmissionConfig::default);
        graph.wire = table.wire.map(WorkTable::work);
        graph.most_unfinished = self.run.most_unfinished;
        if !table.class.is_empty() {
            let class = |class: &ClassTable| Class {
                name: class.name.clone(),
                share: class.share,
                deadline: class.deadline.map(|span| span.0),
            };
            graph.classes = table.class.iter().map(class).collect();
        }
        let per_second = match (self.load.rate, self.load.share) {
            (Some(rate), None) => rate,
            (None, Some(share)) => share / graph.busiest(1.0),
            _ => {
                return Err(ScenarioError(
                    "load says one of rate, in requests a second, and share, of the busiest stage".into(),
                ));
            }
        };
        crate::graph::validate(&graph, per_second, self.run.jobs).map_err(|error| ScenarioError(error.to_string()))?;
        Ok(Subject::Graph { graph, per_second, requests: self.run.jobs })
    }
}

impl LoadTable {
    fn jobs(&self) -> Result<Load, ScenarioError> {
        let known = || Load::NAMES.join(", ");
        match &self.workload {
            Some(_) if !self.method.is_empty() => {
                Err(ScenarioError("load says one of workload and [[load.method]]".to_owned()))
            }
            Some(name) => Load::named(name)
                .ok_or_else(|| ScenarioError(format!("no workload is called {name:?}; there are: {}", known()))),
            None if self.method.is_empty() => {
                let told = format!("load says a workload ({}), or has tables [[load.method]]", known());
                Err(ScenarioError(told))
            }
            None => {
                let method = |method: &MethodTable| Method {
                    name: method.name.clone(),
                    share: method.share,
                    work: method.work.work(),
                    deadline: method.deadline.map(|span| span.0),
                };
                let methods = self.method.iter().map(method).collect();
                Load::new(methods).map_err(|error: cores::PlanError| ScenarioError(error.to_string()))
            }
        }
    }
}

impl WorkTable {
    fn work(self) -> Work {
        match self {
            Self::Fixed(Span(span)) => Work::Fixed(span),
            Self::Exponential(Span(mean)) => Work::Exponential(mean),
            Self::Uniform(Span(least), Span(most)) => Work::Uniform { least, most },
            Self::Normal(Span(mean), Span(deviation)) => Work::Normal { mean, deviation },
            Self::Pareto(Span(least), Span(most), alpha) => Work::Pareto { least, most, alpha },
        }
    }
}

/// By the name that configurations have for it; the error says which there are.
fn named<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn one() -> usize {
    1
}

fn whole() -> f64 {
    1.0
}

/// What a run takes of memory at most, in bytes: a job or request, its place in queues and in the list of free ones.
pub(super) const BYTES_EACH: u64 = 512;
