//! Which batches and windows a replica group is to have for a rate of commands.
//!
//! The real core runs on links, processors and disks of a machine, as in [`measure`](crate::replica::measure), under commands
//! that come at random at one rate, with batches of 1, 2, 4, ... commands. How many of them may be under way is what the model
//! says keeps the group's busiest part busy. What a command takes then is what a method waits for whose calls are commands.

use crate::cores::{Sample, Work};
use crate::replica::StartError;
use crate::replica::environments;
use crate::replica::measure::{Scene, latencies};
use crate::seed::Seed;
use greenwave_policy::replication::{
    Bandwidth, Cpu, Disk, Environment, EnvironmentError, Load, Network, Setting, needed_window,
};
use std::time::Duration;

/// A group, and what comes to it.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its members, the leader among them.
    pub members: u32,
    /// One way between two of them, and how fast bytes leave.
    pub path: Duration,
    /// See [`path`](Self::path).
    pub bandwidth: Bandwidth,
    /// How long a sync of the disk takes.
    pub sync: Duration,
    /// A processor's time for each message, and for each command.
    pub message: Duration,
    /// See [`message`](Self::message).
    pub command: Duration,
    /// Bytes of a command.
    pub request: u32,
    /// Commands a second.
    pub per_second: f64,
}

/// What came of a batch and a window.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Commands of a batch at most.
    pub commands: u64,
    /// Batches that are under way at most.
    pub window: u64,
    /// p50, p99 and p99.9 of what commands took, from the leader's having them to their answers.
    pub quantiles: [Duration; 3],
    /// Whether as many were answered as came.
    pub keeps_up: bool,
    /// How long commands took, as a work.
    pub took: Work,
}

/// A group that can't be meant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Something is out of its range.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// It can't be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Nothing comes.
    #[error("{0} commands a second; allowed: more than 0, up to 10^8")]
    Rate(f64),
}

/// The largest batch is two to this power.
const LARGEST: u32 = 10;

/// Commands of a run.
const COMMANDS: usize = 50_000;

/// A group answers as many as come, if it isn't short of them by more than chance.
const ENOUGH: f64 = 0.97;

/// What each batch comes to, the smallest first. Tells `progress` which share was tried.
///
/// # Errors
/// If the group can't be meant.
pub fn batches(group: &Group, seed: u64, mut progress: impl FnMut(f64)) -> Result<Vec<Tried>, GroupError> {
    if !(group.per_second > 0.0 && group.per_second <= 1e8) {
        return Err(GroupError::Rate(group.per_second));
    }
    let environment = group.environment()?;
    let load = Load::Open { per_s: group.per_second };
    let scene = Scene { environment: &environment, load, distances: &[], change: None };
    let sizes = environment.sizes();
    let command = u64::from(sizes.request) + u64::from(sizes.entry_head);
    let mut tried = Vec::new();
    for power in 0..=LARGEST {
        progress(f64::from(power) / f64::from(LARGEST + 1));
        let bytes = command << power;
        let window = (needed_window(&environment, bytes).ceil() as u64).clamp(1, Setting::MOST_WINDOW);
        let (took, ops_per_s) = latencies(&scene, Setting::with_window(bytes, window), COMMANDS, Seed::new(seed))?;
        let Some(sample) = Sample::new(took.iter().map(|took| (took.as_nanos() as u64, 1)).collect()) else { continue };
        let quantiles = [0.5, 0.99, 0.999].map(|share| Duration::from_nanos(sample.quantile(share)));
        let keeps_up = ops_per_s >= ENOUGH * group.per_second;
        let took = Work::Measured(sample.keep());
        tried.push(Tried { commands: 1 << power, window, quantiles, keeps_up, took });
    }
    progress(1.0);
    Ok(tried)
}

impl Group {
    fn environment(&self) -> Result<Environment, EnvironmentError> {
        let leader = Cpu { per_message: self.message, per_byte_ns: 0.3, per_command: self.command };
        let disk = Disk { sync: self.sync, bandwidth: Bandwidth::UNLIMITED };
        let network = Network::lan(self.bandwidth, self.path);
        Environment::new(self.members, network, leader, leader, disk, environments::sizes(self.request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_serve_few_and_large_ones_many() {
        let us = Duration::from_micros;
        let few = Group {
            members: 3,
            path: us(50),
            bandwidth: Bandwidth::bits_per_s(10_000_000_000).unwrap(),
            sync: us(200),
            message: us(6),
            command: us(2),
            request: 128,
            per_second: 500.0,
        };
        let tried = batches(&few, 1, |_| {}).unwrap();
        assert_eq!(tried.len(), 11);
        assert!(tried.iter().all(|of| of.keeps_up && of.quantiles[0] > us(300)), "{tried:?}");
        let many = batches(&Group { per_second: 60_000.0, ..few }, 1, |_| {}).unwrap();
        assert!(!many[0].keeps_up && many[10].keeps_up, "{many:?}");
        let wrong = batches(&Group { per_second: 0.0, ..few }, 1, |_| {}).unwrap_err().to_string();
        assert!(wrong.contains("allowed"), "{wrong}");
        assert!(batches(&Group { members: 0, ..few }, 1, |_| {}).is_err());
    }
}
