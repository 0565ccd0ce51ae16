//! Events a second on one core.

use std::process::Command;
use std::time::{Duration, Instant};

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::pin;
use greenwave_bench::rounds::{Cell, figures};
use greenwave_policy::{DispatchRule, FlowRule, Order, StealRule};
use greenwave_sim::Seed;
use greenwave_sim::cores::{self, Cores, Costs, Load, Plan, Scheme, Steal, Work};
use greenwave_sim::fabric::{self, Fabric, Flows, Network, PortRule, Sizes, Tagging, TcpRule};
use greenwave_sim::graph::{self, Graph, Stage};

use crate::child::{self, Outcome, Run};
use crate::system::System;
use crate::{ns3, simpy};

const US: Duration = Duration::from_micros(1);

/// The share of the workers' time that jobs ask for.
const LOAD: f64 = 0.7;

/// A case.
pub(crate) struct Speed {
    pub(crate) name: &'static str,
    /// Whether a quick run has time for it.
    pub(crate) is_quick: bool,
    model: Model,
    /// How many jobs or flows take about a second.
    jobs: u64,
    /// Who else simulates it.
    peer: Option<Peer>,
}

enum Model {
    /// Workers, and who gives them jobs: exponential ones of a microsecond, or short ones beside few long ones.
    Cores { workers: usize, scheme: Scheme, is_extreme: bool },
    /// Three stages, one behind the other.
    Chain,
    /// 128 hosts.
    Tree { is_tagged: bool },
}

/// A model of another simulator's.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) system: System,
    pub(crate) model: &'static str,
    pub(crate) workers: usize,
    /// How many jobs or flows take it about a second.
    jobs: u64,
}

/// What is counted beside events, as others count these differently.
const UNITS: [&str; 2] = ["jobs_per_s", "hops_per_s"];

/// What other cases are made of.
pub(crate) const TWO_LEVELS: &str = "cores/two-levels-16";

/// All cases.
pub(crate) fn all() -> [Speed; 9] {
    let fcfs = Scheme::Central { order: Order::Fcfs, quantum: None };
    let quanta = Scheme::TwoLevel {
        dispatch: DispatchRule::JoinShortestQueue,
        order: Order::ProcessorSharing,
        quantum: Some(US),
        steal: Steal::Never,
    };
    let stealing =
        Scheme::TwoLevel { dispatch: DispatchRule::Random, order: Order::Fcfs, quantum: None, steal: Steal::WhenIdle };
    let heads = Scheme::TwoLevel {
        dispatch: DispatchRule::Random,
        order: Order::Guarded,
        quantum: Some(US),
        steal: Steal::Given(StealRule::default()),
    };
    let cores = |name, is_quick, workers, scheme, is_extreme, jobs, peer| Speed {
        name,
        is_quick,
        model: Model::Cores { workers, scheme, is_extreme },
        jobs,
        peer,
    };
    let in_simpy = |model, workers, jobs| Some(Peer { system: System::Simpy, model, workers, jobs });
    let in_ns3 = Some(Peer { system: System::Ns3, model: "fat-tree", workers: 128, jobs: 2000 });
    let tree =
        |name, is_tagged, peer| Speed { name, is_quick: true, model: Model::Tree { is_tagged }, jobs: 200_000, peer };
    [
        cores("cores/one-queue-1", true, 1, fcfs, false, 10_000_000, None),
        cores("cores/one-queue-16", true, 16, fcfs, false, 8_000_000, in_simpy("queue", 16, 100_000)),
        cores(TWO_LEVELS, true, 16, quanta, true, 4_000_000, in_simpy("two-levels", 16, 60_000)),
        cores("cores/stealing-16", false, 16, stealing, true, 8_000_000, None),
        cores("cores/heads-16", true, 16, heads, true, 3_000_000, None),
        cores("cores/heads-64", true, 64, heads, true, 3_000_000, None),
        Speed { name: "graph/chain-3", is_quick: false, model: Model::Chain, jobs: 1_000_000, peer: None },
        tree("fabric/fat-tree-128", false, in_ns3),
        tree("fabric/fat-tree-128-tagged", true, None),
    ]
}

/// The case of this name.
pub(crate) fn named(name: &str) -> Option<Speed> {
    all().into_iter().find(|case| case.name == name)
}

impl Speed {
    /// Who simulates it.
    pub(crate) fn systems(&self) -> Vec<System> {
        [System::Greenwave].into_iter().chain(self.peer.map(|peer| peer.system)).collect()
    }

    /// Simulates so many jobs or flows, in this process.
    pub(crate) fn run(&self, jobs: u64, seed: u64) -> anyhow::Result<Outcome> {
        let seed = Seed::new(seed);
        let begun = Instant::now();
        let (events, hash, unit, count, mean) = match self.model {
            Model::Cores { workers, scheme, is_extreme } => {
                let load = load(is_extreme);
                let costs = match scheme {
                    Scheme::Central { .. } => Costs::default(),
                    Scheme::TwoLevel { .. } | Scheme::Heads { .. } => {
                        Costs { switch: Duration::from_nanos(40), ..Costs::default() }
                    }
                };
                let plan = Plan::new(jobs).with_share(LOAD);
                let report = cores::run(&Cores::new(workers, scheme).with_costs(costs), &load, &plan, seed)?;
                (report.events, report.hash, UNITS[0], report.done as f64, report.all.mean() * 1e6)
            }
            Model::Chain => {
                let stage = Stage::new(4, Work::Exponential(20 * US));
                let chain = graph::run(&Graph::new(vec![stage; 3], Order::EarliestDeadline), 140_000.0, jobs, seed)?;
                (chain.events, chain.hash, UNITS[0], jobs as f64, f64::NAN)
            }
            Model::Tree { is_tagged } => {
                let outcome = fabric::run(&tree(is_tagged)?, &flows(jobs), seed)?;
                // Each hop is two events: the packet is sent, and arrives. Beside those there are flows that begin, and few timers.
                let hops = outcome.events.saturating_sub(jobs) as f64 / 2.0;
                (outcome.events, outcome.hash, UNITS[1], hops, f64::NAN)
            }
        };
        let took = begun.elapsed().as_secs_f64();
        let named = [
            ("events", events as f64),
            ("events_per_s", events as f64 / took),
            (unit, count / took),
            ("mean_us", mean),
        ];
        Ok(Outcome { figures: figures(named), hash: Some(format!("{hash:016x}")) })
    }

    /// How many jobs or flows take so long, about.
    pub(crate) fn jobs_in(&self, seconds: f64) -> u64 {
        (self.jobs as f64 * seconds) as u64
    }

    fn command(&self, system: System, seconds: f64, seed: u64) -> anyhow::Result<Command> {
        let of_peer = |peer: &Peer| (peer.jobs as f64 * seconds) as u64;
        match (system, &self.peer) {
            (System::Simpy, Some(peer)) => Ok(simpy::command(peer, of_peer(peer), seed)),
            (System::Ns3, Some(peer)) => Ok(ns3::command(of_peer(peer), seed)),
            _ => Run { case: self.name.to_owned(), seed, jobs: self.jobs_in(seconds) }.command(),
        }
    }
}

/// Measures a case by these systems in turns.
pub(crate) fn measure(case: &Speed, systems: &[System], rounds: usize, seconds: f64, bench: &mut Benchmark) {
    let names: Vec<&str> = systems.iter().map(|system| system.name()).collect();
    let mut hashes = Vec::new();
    let mut rounds = bench.rounds(Cell::of_case(case.name, &names), rounds, |_, at, _| {
        // The same seed in each round, so that what changes is the machine alone.
        let outcome = child::outcome(case.command(systems[at], seconds, 1)?, &[pin::last()?])?;
        hashes.extend(outcome.hash);
        Ok(outcome.figures)
    });
    if !hashes.is_empty() {
        let others = hashes.iter().filter(|hash| **hash != hashes[0]).count();
        bench.results.push(case.name, System::Greenwave.name(), "runs_that_differ", others as f64);
        bench.results.push_variant(case.name, System::Greenwave.name(), format!("hash {}", hashes[0]));
    }
    for metric in UNITS.into_iter().chain(["peak_mib"]) {
        System::ALL[1..].iter().for_each(|peer| rounds.ratios(metric, peer.name()));
    }
    rounds.push(&mut bench.results, |metric| metric.ends_with("_per_s"));
}

fn load(is_extreme: bool) -> Load {
    let exponential = || Load::exponential(US);
    if is_extreme { Load::named("extreme").unwrap_or_else(exponential) } else { exponential() }
}

/// Four pods of four edge switches, each with eight hosts at 1 Gbit/s; 10 Gbit/s between switches.
fn tree(is_tagged: bool) -> anyhow::Result<Fabric> {
    let (bands, tagging) = if is_tagged { (2, Tagging::Bucket(FlowRule::AS_PUBLISHED)) } else { (1, Tagging::None) };
    let host = PortRule { bands, ..PortRule::GIGABIT };
    let switch = PortRule { rate: 10_000_000_000, ..host };
    Ok(Fabric { network: Network::fat_tree(4, 4, 8, host, switch)?, tagging, tcp: TcpRule::default() })
}

fn flows(flows: u64) -> Flows {
    let sizes = Sizes::Pareto { least: 1000, most: 10_000_000, alpha: 1.2 };
    Flows { flows, load: 0.4, sizes, small: 30_000, most_unfinished: 100_000, kept: false, vcpu: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_runs_and_the_same_seed_gives_the_same_hash() {
        for case in all() {
            let run = |seed| case.run(2000, seed).expect("it can be meant");
            let (one, other) = (run(1), run(1));
            assert_eq!(one.hash, other.hash, "{}", case.name);
            assert_ne!(one.hash, run(2).hash, "{}", case.name);
            assert!(one.figures["events"] > 2000.0, "{}", case.name);
        }
    }
}
