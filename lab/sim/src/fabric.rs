//! Networks of switches: ports with queues and bands, and TCP flows that share them, packet by packet.
//!
//! Packets wait in the queue of each port on their way, small flows' before large ones' where a port has bands, and are lost
//! where a queue is full. Hosts tag them as the host's agent does, by the same
//! [`FlowRule`](greenwave_policy::FlowRule) and bucket, or in one of the other ways that are compared ([`Tagging`]).
//!
//! - [`Network`]: ports, and the ways between hosts: a [fat tree](Network::fat_tree) or a [star](Network::star).
//! - [`Flows`]: how many come, how large, from whom to whom.
//! - [`run()`]: what became of them. [`run_planned()`]: the same of flows of which each is [`Planned`].
//!
//! TCP has slow start, congestion avoidance, fast retransmission with NewReno's recovery, and timeouts. Each flow begins with a
//! window of its own. There are no delayed acknowledgements and no selective ones.

mod arrivals;
mod codel;
mod flows;
mod guests;
mod network;
mod planned;
mod port;
mod run;
mod tagging;
mod tcp;

use crate::vcpu::GuestError;
use std::time::Duration;

pub use codel::CodelRule;
pub use flows::{Flows, Sizes};
pub use guests::GuestsOutcome;
pub use network::{Network, PortRule};
pub use planned::{MOST_UNFINISHED, Planned, PlannedOutcome, Served};
pub(crate) use run::validate;
pub use run::{Fabric, Outcome, run, run_planned};
pub use tagging::Tagging;
pub use tcp::TcpRule;

/// A network or flows that can't be meant.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum FabricError {
    /// Of hosts.
    #[error("{0} hosts; allowed: 2 to 1024")]
    Hosts(usize),
    /// Of ports.
    #[error("{0} ports; allowed: up to 2000")]
    Ports(usize),
    /// A port's bits a second.
    #[error("{0} bits a second; allowed: 1 kbit/s to 1 Tbit/s")]
    Rate(u64),
    /// A port's way.
    #[error("a delay of {0:?}; allowed: up to a minute")]
    Delay(Duration),
    /// A port's loss.
    #[error("a loss of {0}; allowed: 0 to 0.5")]
    Loss(f64),
    /// A port's bands.
    #[error("{0} bands; allowed: 1 to 8")]
    Bands(usize),
    /// What is asked for.
    #[error("flows of {0}, as a share of the hosts' rate; allowed: more than 0, up to 10")]
    Load(f64),
    /// Sizes.
    #[error("sizes of flows: allowed: 1 byte to 1 GB, least below most, alpha above 0 and not 1")]
    Sizes,
    /// How many.
    #[error("no flows; allowed: 1 or more, and at most 1,000,000 unfinished ones")]
    Flows,
    /// A plan.
    #[error("a plan from host {0} to host {1}; allowed: two of the network's, at least one byte, every 1us or more")]
    Plan(usize, usize),
    /// More virtual time than there is.
    #[error("{0:.0} s of virtual time; allowed: 40 days; ask for fewer flows")]
    TooLong(f64),
    /// Guests.
    #[error(transparent)]
    Guests(#[from] GuestError),
    /// A rule of tagging.
    #[error("{0}")]
    Rule(greenwave_policy::FlowRuleError),
}
