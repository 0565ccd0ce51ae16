//! What published works report, beside what simulations by Greenwave's own policies give.
//!
//! Each [`Entry`] is a table or figure of a work. Doing it gives [`Claim`]s: the work's value, ours, and a [`Verdict`]: they
//! agree, they differ for a reason that is stated, or they differ and no reason is known. [`page`] shows them as a page, and
//! as JSON.
//!
//! Where a work doesn't say what its systems cost, the entry says what was assumed, and which values were fitted to which of
//! the work's; such values are no evidence, and their claims say so.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod batching;
mod claim;
mod d2p;
pub mod darpc;
pub mod page;
mod parallel;
mod small_flows;
mod tq;

pub use claim::{Claim, Figure, Table, Verdict, Within};

use greenwave_sim::clusters::ClustersError;
use greenwave_sim::cores::PlanError;
use greenwave_sim::fabric::FabricError;
use greenwave_sim::graph::GraphError;
use greenwave_sim::replica::StartError;
use greenwave_sim::vcpu::GuestError;

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Roughly a tenth of all, for a first look.
    pub quick: bool,
    /// Threads.
    pub threads: usize,
    /// From which all chance comes: the same seed, the same values.
    pub seed: u64,
}

impl Effort {
    /// So many jobs, or a tenth of them.
    fn jobs(&self, jobs: u64) -> u64 {
        if self.quick { jobs / 10 } else { jobs }
    }

    /// How often a range is halved in a search.
    fn halvings(&self) -> u32 {
        if self.quick { 6 } else { 8 }
    }
}

/// A table or figure.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name for commands.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    run: fn(&Effort) -> Result<Figure, ReproduceError>,
}

impl Entry {
    /// Simulates it.
    ///
    /// # Errors
    /// None of what is simulated here is refused.
    pub fn run(&self, effort: &Effort) -> Result<Figure, ReproduceError> {
        (self.run)(effort)
    }

    /// Those of this name, or those of a work that is named (`tq`), or `all`; empty if there is none.
    #[must_use]
    pub fn named(name: &str) -> Vec<Self> {
        let is_of = |entry: &&Self| {
            name == "all"
                || entry.name == name
                || entry.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
        };
        ENTRIES.iter().filter(is_of).copied().collect()
    }
}

/// All of them, in the order of the page.
pub const ENTRIES: [Entry; 20] = [
    Entry { name: "tq-workloads", about: "six workloads on 16 workers under five systems", run: tq::workloads },
    Entry { name: "tq-long", about: "what long jobs get of five workloads", run: tq::long },
    Entry { name: "tq-quantum", about: "the quantum against the tail of short jobs, and its cost", run: tq::quantum },
    Entry { name: "tq-levels", about: "one central queue against two levels", run: tq::levels },
    Entry { name: "tq-ablations", about: "what each part of TQ is worth", run: tq::ablations },
    Entry { name: "tq-dispatcher", about: "a dispatcher's limit, and polling in place beside it", run: tq::dispatcher },
    Entry {
        name: "d2p-chain",
        about: "table 1: three stages, first come first served and by deadlines",
        run: d2p::chain,
    },
    Entry { name: "d2p-parallel", about: "table 2: 18 workers of a parallel unit", run: d2p::parallel },
    Entry {
        name: "d2p-distributions",
        about: "figures 7 to 11: distributions of the latency by both orders",
        run: d2p::distributions,
    },
    Entry {
        name: "d2p-growth",
        about: "figure 2: how latency and variability grow along five stages",
        run: d2p::growth,
    },
    Entry { name: "darpc-queues", about: "who serves completion queues, and at which rate", run: darpc::queues },
    Entry { name: "darpc-access", about: "how callers come to their completions", run: darpc::access },
    Entry { name: "darpc-latency", about: "of what a call's latency consists", run: darpc::latency },
    Entry {
        name: "small-flows-traps",
        about: "three delays of small flows, alone and together",
        run: small_flows::traps,
    },
    Entry { name: "small-flows-fabric", about: "small flows among large ones of 128 hosts", run: small_flows::fabric },
    Entry { name: "batching-wan", about: "batches and windows on 10 Mbit/s and 50 ms", run: batching::wan },
    Entry { name: "batching-lan", about: "batches and windows in a local network", run: batching::lan },
    Entry { name: "batching-latency", about: "what a client waits, by batch and window", run: batching::latency },
    Entry {
        name: "batching-sizes",
        about: "batching alone and pipelining alone, by the request",
        run: batching::sizes,
    },
    Entry { name: "batching-distances", about: "followers at different distances", run: batching::distances },
];

/// A simulation that was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// Of cores.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Of a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Of completion queues.
    #[error(transparent)]
    Clusters(#[from] ClustersError),
    /// Of a network.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Of guests.
    #[error(transparent)]
    Guests(#[from] GuestError),
    /// Flows of which more came than a network that is meant to carry them does.
    #[error("cut at {0} unfinished flows: more come than can be carried")]
    Cut(usize),
    /// Of a replica group.
    #[error("a group that can't be started: {0}")]
    Group(#[from] StartError),
    /// Of a group's environment.
    #[error(transparent)]
    Environment(#[from] greenwave_policy::replication::EnvironmentError),
}
