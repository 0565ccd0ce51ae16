//! A core's settings.

use crate::{Membership, NodeId};
use greenwave_policy::replication::{Aim, Setting};
use std::time::Duration;

/// A core's settings. The defaults suit replicas in one data centre.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Which replica this is.
    pub node: NodeId,
    /// The voters of a new group, the same for each of them. None for a replica that is added to a group: it learns
    /// of the others from them. Not looked at when there is something on disk.
    pub bootstrap: Option<Membership>,
    /// Where its random numbers begin; they spread elections. Give each replica and each start another one.
    pub seed: u64,
    /// How often time is looked at.
    pub tick: Duration,
    /// Ticks between a leader's signs of life.
    pub heartbeat_ticks: u32,
    /// Ticks without one after which others may be elected: each stands after this many, up to twice as many, by
    /// chance. Has to be the same for all if reads use leases.
    pub election_ticks: u32,
    /// How large batches are and how many are on their way.
    pub sizing: Sizing,
    /// How reads are made sure to be of the newest state.
    pub reads: Reads,
    /// How much may be held.
    pub limits: Limits,
}

/// How large batches are and how many are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// By what is measured while the group runs, for this aim.
    Auto(Aim),
    /// These, until [`Core::set_sizing`](super::Core::set_sizing) says otherwise for a peer.
    Fixed(Setting),
}

/// Bytes of a batch at most, whatever a setting says: a message of greenwave-rpc has to hold it.
pub const BATCH_BYTES_MOST: usize = 8 << 20;

/// How reads are made sure to be of the newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The leader asks the others whether it still leads; reads that wait share the question. (Dissertation, 6.4.)
    Index,
    /// As above, and for some time after a majority said yes nobody else can be elected, so reads need no question.
    /// Rests on clocks whose rates differ by less than `drift`, here in parts per thousand, and keeps a replica that
    /// has just started, or has heard a leader, from voting for an election's time. A clock that stands still while
    /// others go on, as that of a virtual machine that is halted, isn't such a clock. All replicas must have it or none.
    Lease {
        /// By how much the rates of two clocks may differ, in parts per thousand; below 500.
        drift: u32,
    },
}

/// How much may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Commands that wait.
    pub queue_commands: usize,
    /// Bytes of commands that wait.
    pub queue_bytes: usize,
    /// Bytes of one command.
    pub command_bytes: usize,
    /// Reads that wait.
    pub reads: usize,
    /// Bytes of entries since the last snapshot after which the next one is taken. Half of it stays behind for peers
    /// that lag; at four times as much nothing is taken in any more.
    pub log_bytes: usize,
    /// Bytes of entries that aren't durable yet, or aren't applied yet, after which nothing more is taken in.
    pub backlog_bytes: usize,
}

impl CoreConfig {
    /// Settings for this replica.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            bootstrap: None,
            seed: node.number(),
            tick: Duration::from_millis(10),
            heartbeat_ticks: 5,
            election_ticks: 30,
            sizing: Sizing::Auto(Aim::Throughput),
            reads: Reads::Index,
            limits: Limits::default(),
        }
    }

    /// # Errors
    /// The first setting that can't be.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Limits { queue_commands, queue_bytes, command_bytes, reads, log_bytes, backlog_bytes } = self.limits;
        let rules = [
            ("tick", self.tick.as_nanos(), 10_000, 10_000_000_000),
            ("heartbeat_ticks", self.heartbeat_ticks.into(), 1, 1000),
            ("election_ticks", self.election_ticks.into(), u128::from(self.heartbeat_ticks) * 2 + 2, 100_000),
            ("queue_commands", queue_commands as u128, 1, 1 << 40),
            ("queue_bytes", queue_bytes as u128, 1, 1 << 40),
            ("command_bytes", command_bytes as u128, 1, BATCH_BYTES_MOST as u128),
            ("reads", reads as u128, 1, 1 << 40),
            ("log_bytes", log_bytes as u128, 1, 1 << 40),
            ("backlog_bytes", backlog_bytes as u128, 1, 1 << 40),
            ("drift", if let Reads::Lease { drift } = self.reads { drift.into() } else { 0 }, 0, 499),
        ];
        for (key, found, least, most) in rules {
            if !(least..=most).contains(&found) {
                return Err(ConfigError { key, found, least, most });
            }
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_commands: 65_536,
            queue_bytes: 64 << 20,
            command_bytes: 4 << 20,
            reads: 65_536,
            log_bytes: 64 << 20,
            backlog_bytes: 128 << 20,
        }
    }
}

/// A setting that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} can't be {found}; {least} to {most} are allowed")]
pub struct ConfigError {
    /// Which one; times are in nanoseconds.
    pub key: &'static str,
    /// What it is.
    pub found: u128,
    /// What it has to be at least.
    pub least: u128,
    /// What it may be at most.
    pub most: u128,
}
