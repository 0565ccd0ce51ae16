//! What a file may say.

use super::group::{self, GroupTable, Replicas};
use super::network::{NetworkTable, SizesTable};
use super::quantity::{Span, SpanOrOff};
use super::{MOST_MEMORY, ScenarioError};
use crate::cores::{self, Cores, Costs, Knowledge, Load, LoopCosts, Method, Plan, Rate, Scheme, Steal, Work};
use crate::fabric::{self, Fabric, Flows, Sizes};
use crate::graph::{Class, Graph, Stage};
use crate::vcpu::VcpuRule;
use greenwave_policy::replication;
use greenwave_policy::{AdmissionConfig, DispatchRule, Order, StealRule};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    cores: Option<CoresTable>,
    graph: Option<GraphTable>,
    network: Option<NetworkTable>,
    group: Option<GroupTable>,
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
    Heads,
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
    /// A calibration; what is said beside it counts more.
    pub(super) file: Option<PathBuf>,
    dispatch: Span,
    turn: Option<Span>,
    switch: Span,
    preempt: Span,
    io: Span,
    steal: Span,
    probes: f64,
    inexact: f64,
    look: Span,
    look_each: Span,
    look_empty: Span,
    round: Span,
    post: Span,
    post_each: Span,
    spin: SpanOrOff,
    wake: Span,
    wire: Option<WorkTable>,
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
    #[serde(default = "whole")]
    share: f64,
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
    sizes: Option<SizesTable>,
    small: Option<u64>,
    network: Option<FlowsTable>,
    clients: Option<u32>,
    think: Option<Span>,
}

/// What a network carries whose small flows are the way from a stage to the next.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowsTable {
    share: f64,
    sizes: SizesTable,
    small: Option<u64>,
    #[serde(default = "enough")]
    flows: u64,
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
    warmup: Option<f64>,
    seed: u64,
    seeds: u64,
    most_unfinished: Option<usize>,
}

impl Default for RunTable {
    fn default() -> Self {
        Self { jobs: 1_000_000, warmup: None, seed: 1, seeds: 1, most_unfinished: None }
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

    /// With how many unfinished jobs a run is cut, if each takes so many bytes at most and all runs take `beside`: what is
    /// asked for, or `usual`, or as many as fit.
    fn most_unfinished(&self, usual: usize, each: u64, beside: u64) -> Result<usize, ScenarioError> {
        let fit = MOST_MEMORY.saturating_sub(beside) / each;
        match self.most_unfinished {
            _ if fit == 0 => {
                let gib = (beside + each) >> 30;
                Err(ScenarioError(format!("a run of this takes {gib} GiB at least; allowed: up to 4 GiB")))
            }
            Some(most) if most as u64 > fit => {
                let each = each as f64 / 1024.0;
                Err(ScenarioError(format!(
                    "run.most_unfinished is {most}; allowed: up to {fit}, which take 4 GiB, {each:.1} KiB each"
                )))
            }
            Some(most) => Ok(most),
            None => Ok(usual.min(usize::try_from(fit).unwrap_or(usize::MAX))),
        }
    }

    /// Others than cores always leave out the first tenth.
    fn refuse_warmup(&self, of: &str) -> Result<(), ScenarioError> {
        let told = format!("run.warmup is for [cores]; {of} always leaves out the first tenth");
        self.warmup.map_or(Ok(()), |_| Err(ScenarioError(told)))
    }
}

/// What is run, once for each seed.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Cores { cores: Cores, load: Load, plan: Plan },
    Graph { graph: Graph, per_second: f64, requests: u64, network: Option<Carried> },
    Network(Carried),
    Group(Replicas),
}

/// Flows through a network; beside a graph, small ones are the way from a stage to the next.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) fabric: Fabric,
    pub(super) flows: Flows,
}

impl Subject {
    /// What a run takes of memory if it is as full as it may be, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let (each, beside, most) = match self {
            Self::Cores { cores, load, plan } => {
                let (each, beside) = cores_memory(cores, load);
                (each, beside, plan.most_unfinished)
            }
            Self::Graph { graph, network, .. } => {
                let (each, beside) = graph_memory(graph);
                // One after the other.
                let network = network.as_ref().map_or(0, Carried::memory);
                return network.max(memory(graph.most_unfinished, each, beside));
            }
            Self::Network(carried) => return carried.memory(),
            Self::Group(replicas) => {
                let (each, beside) = group::memory(&replicas.environment, replicas.commands);
                (each, beside, replicas.most_unfinished)
            }
        };
        memory(most, each, beside)
    }
}

impl Carried {
    fn memory(&self) -> u64 {
        let (each, beside) = network_memory(&self.fabric, &self.flows.sizes, self.flows.vcpu.as_ref());
        memory(self.flows.most_unfinished, each, beside)
    }
}

/// What so many unfinished ones take, and what all take beside them.
fn memory(most: usize, each: u64, beside: u64) -> u64 {
    (most as u64).saturating_mul(each).saturating_add(beside)
}

/// A job, its place in queues and in the list of free ones; vectors grow by doubling. And what all take.
fn cores_memory(cores: &Cores, load: &Load) -> (u64, u64) {
    (512, HISTOGRAM * (load.methods().len() as u64 + 2) + 4096 * cores.workers as u64)
}

/// Each request has a part in the queue of each unit of its stage.
fn graph_memory(graph: &Graph) -> (u64, u64) {
    let stations = graph.stages.iter().map(|stage| stage.units as u64 + 1).sum::<u64>();
    let widest = graph.stages.iter().map(|stage| stage.units as u64).max().unwrap_or(1);
    (256 + 256 * widest, (HISTOGRAM + 8192) * (stations + 2 * graph.stages.len() as u64))
}

/// A flow, a bit for each of its segments, and as many packets under way as its window lets it have; and a core for each host
/// that has guests.
fn network_memory(fabric: &Fabric, sizes: &Sizes, vcpu: Option<&VcpuRule>) -> (u64, u64) {
    let largest = match *sizes {
        Sizes::Fixed(bytes) => bytes,
        Sizes::Pareto { most, .. } => most,
    };
    let segments = largest / 1460 + 1;
    let hosts = fabric.network.hosts() as u64;
    let core = vcpu.map_or(0, |rule| 1024 + 256 * rule.neighbours as u64);
    let each = 1024 + segments / 4 + segments.min(fabric.tcp.most_window.into()) * 96;
    (each, (1 << 20) + 64 * hosts * hosts + core * hosts)
}

/// What a histogram takes.
const HISTOGRAM: u64 = 43 << 10;

impl File {
    /// The calibration that costs are taken from, and the table that names it.
    pub(super) fn calibration(&self) -> Option<(&'static str, &Path)> {
        let cores = self.cores.iter().filter_map(|cores| Some(("cores", cores.costs.file.as_deref()?)));
        let group = self.group.iter().filter_map(|group| Some(("group", group.costs.file.as_deref()?)));
        cores.chain(group).next()
    }

    /// What the file says is to be run.
    pub(super) fn subject(&self) -> Result<Subject, ScenarioError> {
        if self.load.network.is_some() && (self.graph.is_none() || self.network.is_none()) {
            return Err(ScenarioError("load.network is of flows beside both [graph] and [network]".to_owned()));
        }
        if self.group.is_none() && (self.load.clients.is_some() || self.load.think.is_some()) {
            return Err(ScenarioError("load.clients and load.think are of commands, beside [group]".to_owned()));
        }
        match (&self.cores, &self.graph, &self.network, &self.group) {
            (Some(cores), None, None, None) => self.cores(cores),
            (None, Some(graph), None, None) => self.graph(graph, None),
            (None, None, Some(network), None) => self.network(network),
            (None, Some(graph), Some(network), None) => self.services(graph, network),
            (None, None, None, Some(group)) => self.group(group),
            _ => Err(ScenarioError(
                "a file has one of the tables [cores], [graph], [network] and [group], or [graph] and [network]"
                    .to_owned(),
            )),
        }
    }

    fn services(&self, graph: &GraphTable, network: &NetworkTable) -> Result<Subject, ScenarioError> {
        if graph.wire.is_some() {
            let told =
                "graph.wire is for graphs without [network], whose small flows are the way from a stage to the next";
            return Err(ScenarioError(told.to_owned()));
        }
        let Some(load) = &self.load.network else {
            let told = "beside [graph] and [network], [load.network] says share, of what the hosts' cables carry, and sizes of flows";
            return Err(ScenarioError(told.to_owned()));
        };
        let carried = self.carried(network, load.share, load.sizes, load.small, load.flows)?;
        self.graph(graph, Some(carried))
    }

    fn network(&self, table: &NetworkTable) -> Result<Subject, ScenarioError> {
        let of = &self.load;
        if of.workload.is_some() || !of.method.is_empty() || of.rate.is_some() {
            let told =
                "beside [network], [load] says share, of what the hosts' cables carry, and sizes, and may say small";
            return Err(ScenarioError(told.to_owned()));
        }
        let (Some(load), Some(sizes)) = (of.share, of.sizes) else {
            let told = "load says share, of what the hosts' cables carry, and sizes, such as { pareto = [1000, 10000000, 1.2] }";
            return Err(ScenarioError(told.to_owned()));
        };
        self.run.refuse_warmup("[network]")?;
        Ok(Subject::Network(self.carried(table, load, sizes, of.small, self.run.jobs)?))
    }

    fn group(&self, table: &GroupTable) -> Result<Subject, ScenarioError> {
        let of = &self.load;
        if of.workload.is_some()
            || !of.method.is_empty()
            || of.share.is_some()
            || of.sizes.is_some()
            || of.small.is_some()
        {
            let told = "beside [group], [load] says clients, and may say think, or rate, in commands a second";
            return Err(ScenarioError(told.to_owned()));
        }
        self.run.refuse_warmup("[group]")?;
        let commands = self.run.jobs;
        if commands == 0 {
            return Err(ScenarioError("run.jobs is 0 commands; allowed: 1 at least".to_owned()));
        }
        let environment = table.environment()?;
        let distances = table.distances(&environment)?;
        let sizing = table.sizing(&environment, &distances)?;
        let (each, beside) = group::memory(&environment, commands);
        let most_unfinished = self.run.most_unfinished(1 << 20, each, beside)?;
        let load = match (of.clients, of.rate) {
            (Some(clients), None) if (1..=most_unfinished).contains(&(clients as usize)) => {
                replication::Load::Closed { clients, think: of.think.unwrap_or_default().0 }
            }
            (Some(clients), None) => {
                return Err(ScenarioError(format!("load.clients is {clients}; allowed: 1 to {most_unfinished}")));
            }
            (None, Some(_)) if of.think.is_some() => {
                return Err(ScenarioError("load.think is of clients; beside load.rate there are none".to_owned()));
            }
            (None, Some(per_s)) if per_s > 0.0 && per_s <= 1e8 => replication::Load::Open { per_s },
            (None, Some(per_s)) => {
                return Err(ScenarioError(format!(
                    "load.rate is {per_s} commands a second; allowed: more than 0, up to 10^8"
                )));
            }
            _ => return Err(ScenarioError("load says one of clients and rate, in commands a second".to_owned())),
        };
        Ok(Subject::Group(Replicas { environment, distances, sizing, load, commands, most_unfinished }))
    }

    fn carried(
        &self,
        table: &NetworkTable,
        load: f64,
        sizes: SizesTable,
        small: Option<u64>,
        flows: u64,
    ) -> Result<Carried, ScenarioError> {
        let fabric = table.fabric()?;
        let sizes = sizes.sizes();
        let vcpu = table.vcpu()?;
        let (each, beside) = network_memory(&fabric, &sizes, vcpu.as_ref());
        let most_unfinished = self.run.most_unfinished(100_000, each, beside)?;
        let small = small.unwrap_or(30_000);
        let flows = Flows { flows, load, sizes, small, most_unfinished, kept: false, vcpu };
        fabric::validate(&fabric, &flows).map_err(|error| ScenarioError(error.to_string()))?;
        Ok(Carried { fabric, flows })
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
            SchemeName::Heads => {
                let steal = match steal {
                    Steal::Never => None,
                    Steal::Given(rule) => Some(rule),
                    Steal::WhenIdle => {
                        let told = "cores.steal is \"when-idle\"; heads give calls away: \"given\" or \"never\"";
                        return Err(ScenarioError(told.to_owned()));
                    }
                };
                Scheme::Heads { order: table.order, quantum, steal }
            }
        };
        let costs = &table.costs;
        let cores = Cores {
            workers: table.workers,
            scheme,
            costs: Costs {
                dispatch: costs.dispatch.0,
                turn: costs.turn.map(|span| span.0),
                switch: costs.switch.0,
                preempt: costs.preempt.0,
                io: costs.io.0,
                steal: costs.steal.0,
                probes: costs.probes,
                inexact: costs.inexact,
                event_loop: LoopCosts {
                    look: costs.look.0,
                    look_each: costs.look_each.0,
                    look_empty: costs.look_empty.0,
                    round: costs.round.0,
                    post: costs.post.0,
                    post_each: costs.post_each.0,
                    spin: costs.spin.0,
                    wake: costs.wake.0,
                    wire: costs.wire.map(WorkTable::work),
                    ..LoopCosts::default()
                },
                ..Costs::default()
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
        self.load.refuse_flows()?;
        let (each, beside) = cores_memory(&cores, &load);
        let most_unfinished = self.run.most_unfinished(1 << 20, each, beside)?;
        let plan = Plan { jobs: self.run.jobs, warmup: self.run.warmup.unwrap_or(0.1), rate, most_unfinished };
        plan.validate(&cores, &load).map_err(|error| ScenarioError(error.to_string()))?;
        Ok(Subject::Cores { cores, load, plan })
    }

    fn graph(&self, table: &GraphTable, network: Option<Carried>) -> Result<Subject, ScenarioError> {
        if self.load.workload.is_some() || !self.load.method.is_empty() {
            let told = "stages say their work themselves: beside [graph], [load] says rate or share alone";
            return Err(ScenarioError(told.to_owned()));
        }
        let stage = |stage: &StageTable| Stage {
            workers: stage.workers,
            work: stage.work.work(),
            each: Vec::new(),
            units: stage.units,
            merge: stage.merge.map(WorkTable::work),
            share: stage.share,
        };
        let mut graph = Graph::new(table.stage.iter().map(stage).collect(), table.order);
        graph.admission = table.admission.then(AdmissionConfig::default);
        graph.wire = table.wire.map(WorkTable::work);
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
        self.load.refuse_flows()?;
        self.run.refuse_warmup("[graph]")?;
        let (each, beside) = graph_memory(&graph);
        graph.most_unfinished = self.run.most_unfinished(1 << 20, each, beside)?;
        crate::graph::validate(&graph, per_second, self.run.jobs).map_err(|error| ScenarioError(error.to_string()))?;
        Ok(Subject::Graph { graph, per_second, requests: self.run.jobs, network })
    }
}

impl LoadTable {
    fn refuse_flows(&self) -> Result<(), ScenarioError> {
        match self.sizes.is_some() || self.small.is_some() {
            true => Err(ScenarioError("load.sizes and load.small are of flows, beside [network]".to_owned())),
            false => Ok(()),
        }
    }

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
                    behind: None,
                    stages: Vec::new(),
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
pub(super) fn named<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn one() -> usize {
    1
}

fn enough() -> u64 {
    100_000
}

fn whole() -> f64 {
    1.0
}
