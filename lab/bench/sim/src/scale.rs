//! `scale/*`: where each mechanism ends, at sizes that no machine here has. docs/scale.md says what follows from these.
//!
//! Each system is a way to do it, and each case a size. Time is virtual, so all cores are used and figures don't depend on it.

use std::time::Duration;

use greenwave_bench::benchmark::{Benchmark, Wanted};
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Figures, figures};
use greenwave_bench::table::Table;
use greenwave_policy::replication::{Aim, Environment, predict, recommend};
use greenwave_policy::{DispatchRule, FlowRule, Order, StealRule};
use greenwave_reproduce::darpc;
use greenwave_sim::Seed;
use greenwave_sim::clusters::{self, Access, Clients, Server, Serving, Stealing, Taking};
use greenwave_sim::cores::{self, Cores, Costs, Load, Plan, Scheme, Steal, Work, search};
use greenwave_sim::fabric::{self, Fabric, Flows, Network, Planned, PortRule, Sizes, Tagging, TcpRule};
use greenwave_sim::graph::{self, Class, Graph, Stage};
use greenwave_sim::replica::environments;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

/// What the names of these cases begin with.
pub(crate) const KIND: &str = "scale/";

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// What is shown, of what a case has.
const SHOWN: [&str; 20] = [
    "most_per_s",
    "share_of_capacity",
    "calls_per_s",
    "mean_us",
    "p50_us",
    "p99_us",
    "p999_us",
    "stolen_share",
    "p50_ms",
    "p99_ms",
    "timeouts",
    "lost_per_answer",
    "bulk_mbit",
    "small_p50_us",
    "small_p99_us",
    "large_mbit",
    "in_time_share",
    "ops_per_s",
    "commands_of_a_batch",
    "turn_ms",
];

const fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// A mechanism at a size, done in one way.
struct Cell {
    case: String,
    system: String,
    model: Model,
}

#[derive(Clone, Copy)]
enum Model {
    /// The highest rate at which the p99.9 stays within 50 times the work, of so many cores.
    Rate { cores: usize, work: Duration, with: Giving },
    /// The times of jobs at 0.8 of what so many cores can do.
    Times { cores: usize, work: Duration, with: Giving },
    /// So many clients of a server with 64 cores and so many heads.
    Clients { clients: usize, heads: usize, batch: usize },
    /// So many hosts that answer one at a time, with 2 KB each, while another sends bulk.
    Incast { hosts: usize, is_tagged: bool },
    /// So many hosts around a switch.
    Hosts { hosts: usize, is_tagged: bool },
    /// A request that is split over so many units.
    FanOut { units: usize },
    /// A group of so many replicas.
    Replicas { replicas: u32 },
}

/// Who gives jobs to cores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Giving {
    /// A dispatcher on one of them, to the shortest queue.
    Dispatcher,
    /// Nobody: jobs come to the core of their connection, any of them.
    Nobody,
    /// Likewise, and a core with much to do gives some away.
    Stealing,
    /// One queue for all, which costs nothing: no server has it.
    OneQueue,
}

impl Giving {
    const fn name(self) -> &'static str {
        match self {
            Self::Dispatcher => "dispatcher",
            Self::Nobody => "heads",
            Self::Stealing => "heads-stealing",
            Self::OneQueue => "one-queue",
        }
    }

    /// Costs are those of docs/reproduction.md: 71 ns of a dispatcher for a job and 100 ns of a worker, or 171 ns of a head; 40 ns
    /// for a switch, and a microsecond for a job that another head takes.
    fn cores(self, cores: usize) -> Cores {
        let (order, quantum) = (Order::ProcessorSharing, Some(US));
        let two_level = |dispatch, steal| Scheme::TwoLevel { dispatch, order, quantum, steal };
        let costs = Costs { switch: ns(40), io: ns(171), steal: US, ..Costs::default() };
        match self {
            Self::Dispatcher => {
                let scheme = two_level(DispatchRule::JoinShortestQueue, Steal::Never);
                Cores::new(cores - 1, scheme).with_costs(Costs { dispatch: ns(71), io: ns(100), ..costs })
            }
            Self::Nobody => Cores::new(cores, two_level(DispatchRule::Random, Steal::Never)).with_costs(costs),
            Self::Stealing => {
                let steal = Steal::Given(StealRule::default());
                Cores::new(cores, two_level(DispatchRule::Random, steal)).with_costs(costs)
            }
            Self::OneQueue => Cores::new(cores, Scheme::Central { order, quantum }),
        }
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add =
        |case: String, system: String, model| cells.push(Cell { case: format!("{KIND}{case}"), system, model });
    for cores in [16, 64, 256] {
        for (us, work) in [(1, US), (10, 10 * US)] {
            for with in [Giving::Dispatcher, Giving::Nobody, Giving::Stealing] {
                let case = format!("rate-{us}us/cores-{cores}");
                add(case, with.name().to_owned(), Model::Rate { cores, work, with });
            }
        }
        for with in [Giving::Nobody, Giving::Stealing, Giving::OneQueue] {
            let case = format!("times-10us/cores-{cores}");
            add(case, with.name().to_owned(), Model::Times { cores, work: 10 * US, with });
        }
    }
    for clients in [64, 1000, 4000] {
        for (heads, batch) in [(4, 1), (16, 1), (64, 1), (16, 8), (64, 8)] {
            add(
                format!("clients-{clients}"),
                format!("heads-{heads}-posts-{batch}"),
                Model::Clients { clients, heads, batch },
            );
        }
    }
    for (is_tagged, system) in [(false, "fifo"), (true, "tagged")] {
        for hosts in [16, 64, 112, 128, 256, 900] {
            add(format!("incast-{hosts}"), system.to_owned(), Model::Incast { hosts, is_tagged });
        }
        for hosts in [128, 1000] {
            add(format!("hosts-{hosts}"), system.to_owned(), Model::Hosts { hosts, is_tagged });
        }
    }
    for units in [1, 16, 128, 1000] {
        add(format!("fan-out-{units}"), "deadlines".to_owned(), Model::FanOut { units });
    }
    for replicas in [3, 5, 9, 33, 99] {
        add(format!("replicas-{replicas}"), "model".to_owned(), Model::Replicas { replicas });
    }
    cells
}

/// All cases' names.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for cell in cells() {
        if !names.contains(&cell.case) {
            names.push(cell.case);
        }
    }
    names
}

/// All systems' names.
pub(crate) fn systems() -> Vec<String> {
    cells().into_iter().map(|cell| cell.system).collect()
}

/// Simulates the cases, on all cores at once.
pub(crate) fn measure(cases: &[String], wanted: &Wanted, bench: &mut Benchmark) {
    let is_wanted = |cell: &Cell| cases.contains(&cell.case) && wanted.wants_system(&cell.system);
    let cells: Vec<Cell> = cells().into_iter().filter(is_wanted).collect();
    let all: Vec<anyhow::Result<Figures>> = cells.par_iter().map(|cell| cell.model.run(1.0)).collect();
    for (Cell { case, system, .. }, done) in cells.iter().zip(all) {
        for (metric, value) in bench.settle(case, done).unwrap_or_default() {
            bench.results.push(case, system, metric, value);
        }
    }
}

/// What was found: a table for each mechanism.
pub(crate) fn tables(results: &Results) -> Vec<Table> {
    let mut kinds: Vec<&str> = Vec::new();
    for case in results.distinct(|row| &row.case).into_iter().filter(|case| case.starts_with(KIND)) {
        if !kinds.contains(&kind(case)) {
            kinds.push(kind(case));
        }
    }
    let of_kind = |of: &&str| {
        let mut own = results.clone();
        own.rows.retain(|row| row.case.starts_with(KIND) && kind(&row.case) == *of);
        let has = own.distinct(|row| &row.metric);
        own.table(&SHOWN.into_iter().filter(|metric| has.contains(metric)).collect::<Vec<_>>())
    };
    kinds.iter().map(of_kind).collect()
}

/// A case without its size.
fn kind(case: &str) -> &str {
    case.rsplit_once('-').map_or(case, |(kind, _)| kind)
}

impl Model {
    /// Simulates this share of what is enough.
    fn run(self, share: f64) -> anyhow::Result<Figures> {
        let (seed, some) = (Seed::new(1), |jobs: u64| ((jobs as f64 * share) as u64).max(1000));
        Ok(match self {
            Self::Rate { cores, work, with } => {
                let within = 50.0 * work.as_secs_f64();
                let (cores, load, plan) = (with.cores(cores), Load::exponential(work), Plan::new(some(400_000)));
                let found =
                    search::highest(&cores, &load, &plan, seed, 7, |report| report.all.quantile(0.999) <= within)?;
                figures([("most_per_s", found.per_second), ("share_of_capacity", found.share)])
            }
            Self::Times { cores, work, with } => {
                let plan = Plan::new(some(2_000_000)).with_share(0.8);
                let report = cores::run(&with.cores(cores), &Load::exponential(work), &plan, seed)?;
                let us = |seconds: f64| seconds * 1e6;
                figures([
                    ("mean_us", us(report.all.mean())),
                    ("p99_us", us(report.all.quantile(0.99))),
                    ("p999_us", us(report.all.quantile(0.999))),
                    ("stolen_share", report.stolen as f64 / report.done as f64),
                ])
            }
            Self::Clients { clients, heads, batch } => {
                let outcome = clusters::run(&server(heads, batch), &callers(clients), some(1_000_000), seed)?;
                let [p50, p99] = [0.5, 0.99].map(|quantile| outcome.latency.quantile(quantile) * 1e6);
                figures([("calls_per_s", outcome.per_second), ("p50_us", p50), ("p99_us", p99)])
            }
            Self::Incast { hosts, is_tagged } => incast(hosts, is_tagged, share)?,
            Self::Hosts { hosts, is_tagged } => {
                let cable = cable(is_tagged);
                let star = fabric_of(Network::star(hosts, cable, cable)?, is_tagged);
                let sizes = Sizes::Pareto { least: 1000, most: 10_000_000, alpha: 1.2 };
                let flows = Flows {
                    flows: some(1_000_000),
                    load: 0.4,
                    sizes,
                    small: 30_000,
                    most_unfinished: 100_000,
                    kept: false,
                    vcpu: None,
                };
                let outcome = fabric::run(&star, &flows, seed)?;
                figures([
                    ("small_p50_us", outcome.small.quantile(0.5) * 1e6),
                    ("small_p99_us", outcome.small.quantile(0.99) * 1e6),
                    ("large_mbit", outcome.large_rate / 1e6),
                ])
            }
            Self::FanOut { units } => {
                let stage = Stage::parallel(units, Work::Exponential(MS), None);
                let mut graph = Graph::new(vec![stage], Order::EarliestDeadline);
                graph.classes = vec![Class { name: "all".to_owned(), share: 1.0, deadline: Some(20 * MS) }];
                // Half of what each unit can do.
                let outcome = graph::run(&graph, 500.0, some(30_000).max(3000), seed)?;
                let [p50, p99] = [0.5, 0.99].map(|quantile| outcome.since_birth[0].quantile(quantile) * 1e3);
                figures([("in_time_share", outcome.good()), ("p50_ms", p50), ("p99_ms", p99)])
            }
            Self::Replicas { replicas } => replicas_of(replicas)?,
        })
    }
}

/// 64 cores behind one interface. Costs are those of docs/reproduction.md: 1.74 us of a head for a call, 346 ns of the interface for
/// each post and 70 ns for each reply in it.
fn server(heads: usize, batch: usize) -> Server {
    let costs = clusters::Costs { call: darpc::LOCAL, steal: US, ..clusters::Costs::default() };
    let steal = Some(Stealing { rule: StealRule::default(), taking: Taking::WithFewOwn });
    Server { cores: 64, serving: Serving::Clusters { heads, steal }, costs, interfaces: vec![darpc::T5], batch }
}

/// Each has a connection and one call under way.
fn callers(clients: usize) -> Clients {
    Clients {
        callers: vec![1; clients],
        credits: 64,
        access: Access::Direct,
        own: darpc::OWN,
        wire: darpc::WIRE,
        jitter: darpc::JITTER,
        work: Work::Fixed(ns(1)),
    }
}

fn cable(is_tagged: bool) -> PortRule {
    PortRule { bands: if is_tagged { 2 } else { 1 }, ..PortRule::GIGABIT }
}

fn fabric_of(network: Network, is_tagged: bool) -> Fabric {
    let tagging = if is_tagged { Tagging::Bucket(FlowRule::default()) } else { Tagging::None };
    let tcp = TcpRule { first_timeout: 200 * MS, ..TcpRule::default() };
    Fabric { network, tagging, tcp }
}

/// All answer the first host within 10 us, every 100 ms; one further host sends it bulk.
fn incast(hosts: usize, is_tagged: bool, share: f64) -> anyhow::Result<Figures> {
    let time = Duration::from_secs_f64((20.0 * share).max(2.0));
    let cable = cable(is_tagged);
    let star = fabric_of(Network::star(hosts + 2, cable, cable)?, is_tagged);
    let answer = |from: usize| Planned {
        from,
        to: 0,
        bytes: 2000,
        after: 50 * MS,
        every: 100 * MS,
        jitter: 10 * US,
        window: None,
        sent: None,
        vcpu: None,
    };
    let bulk = Planned { bytes: 1 << 36, after: Duration::ZERO, every: 2 * time, ..answer(hosts + 1) };
    let plans: Vec<Planned> = (1..=hosts).map(answer).chain([bulk]).collect();
    let outcome = fabric::run_planned(&star, &plans, time, Seed::new(1))?;
    let mut all = cores::Histogram::new();
    outcome.plans[..hosts].iter().for_each(|served| all.merge(&served.took));
    Ok(figures([
        ("p50_ms", all.quantile(0.5) * 1e3),
        ("p99_ms", all.quantile(0.99) * 1e3),
        ("lost_per_answer", outcome.lost as f64 / all.count().max(1) as f64),
        ("timeouts", outcome.timeouts as f64),
        ("bulk_mbit", outcome.plans[hosts].rate / 1e6),
    ]))
}

/// A rack: 1 Gbit/s through each interface, 50 us one way, commands of 1 KB, a fast disk, 4096 clients; what the model that chooses
/// batches says of the batch and window that it recommends.
fn replicas_of(replicas: u32) -> anyhow::Result<Figures> {
    let all = environments::cases()?;
    let rack = all.iter().find(|case| case.name == "lan-1g-50us-1k-fast-3").map(|case| case.environment);
    let rack = rack.ok_or_else(|| anyhow::anyhow!("there is no such environment"))?;
    let environment =
        Environment::new(replicas, rack.network(), rack.leader(), rack.follower(), rack.disk(), rack.sizes())?;
    let load = greenwave_policy::replication::Load::Saturated;
    let setting = recommend(&environment, load, Aim::Throughput);
    let said = predict(&environment, setting, load);
    Ok(figures([
        ("ops_per_s", said.ops_per_s),
        ("turn_ms", said.turn.as_secs_f64() * 1e3),
        ("commands_of_a_batch", said.batch),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_can_be_meant() {
        for Cell { case, system, model } in cells() {
            let found = model.run(0.01).unwrap_or_else(|error| panic!("{case}, {system}: {error:#}"));
            assert!(found.values().all(|value| value.is_finite()), "{case}, {system}: {found:?}");
        }
    }
}
