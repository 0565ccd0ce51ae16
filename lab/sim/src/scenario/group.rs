//! What a file may say of a replica group.

use super::ScenarioError;
use super::quantity::Span;
use crate::replica::environments;
use crate::replica::measure::Scene;
use greenwave_policy::replication::{
    Aim, Bandwidth, Cpu, Disk, Environment, EnvironmentError, Limit, Load, Network, Setting, needed_window,
};
use greenwave_replica::core::{BATCH_BYTES_MOST, Limits, Sizing};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, de};
use std::fmt;
use std::time::Duration;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    #[serde(default = "three")]
    members: u32,
    #[serde(default)]
    link: LinkTable,
    #[serde(default)]
    disk: DiskTable,
    /// Bytes of a command.
    #[serde(default = "short")]
    request: u32,
    /// Commands of a batch, and batches under way, at most.
    #[serde(default)]
    batch: AtMost,
    #[serde(default)]
    window: AtMost,
    #[serde(default)]
    pub(super) costs: MembersTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LinkTable {
    delay: Span,
    mbit: f64,
    limit: LimitName,
    loss: f64,
    /// Of each follower, in multiples of the delay.
    distances: Vec<f64>,
}

impl Default for LinkTable {
    /// As `greenwave sim plan` has it.
    fn default() -> Self {
        let delay = Span(Duration::from_micros(50));
        Self { delay, mbit: 10_000.0, limit: LimitName::Interface, loss: 0.0, distances: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LimitName {
    Interface,
    Pair,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DiskTable {
    sync: Option<Span>,
    /// Megabytes a second; without it bytes take no time.
    mbyte: Option<f64>,
}

/// What members' processors do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MembersTable {
    /// A calibration; what is said beside it counts more.
    pub(super) file: Option<std::path::PathBuf>,
    message: Span,
    command: Span,
    apply: Span,
}

impl Default for MembersTable {
    /// As [`environments`] has it.
    fn default() -> Self {
        let us = |us| Span(Duration::from_micros(us));
        Self { file: None, message: us(6), command: us(3), apply: us(1) }
    }
}

/// A number, or up to the group.
#[derive(Clone, Copy, Debug, Default)]
enum AtMost {
    #[default]
    Auto,
    Number(u64),
}

impl<'de> Deserialize<'de> for AtMost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = AtMost;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 1 on, or \"auto\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<AtMost, E> {
                match u64::try_from(number) {
                    Ok(number) if number > 0 => Ok(AtMost::Number(number)),
                    _ => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AtMost, E> {
                if text == "auto" { Ok(AtMost::Auto) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// A group, and the commands that come to it.
#[derive(Clone, Debug)]
pub(super) struct Replicas {
    pub(super) environment: Environment,
    pub(super) distances: Vec<f64>,
    pub(super) sizing: Sizing,
    pub(super) load: Load,
    pub(super) commands: u64,
    pub(super) most_unfinished: usize,
}

impl Replicas {
    pub(super) fn scene(&self) -> Scene<'_> {
        Scene { environment: &self.environment, load: self.load, distances: &self.distances, change: None }
    }
}

/// What a command takes of memory while it isn't answered, and what the members' logs take at most.
pub(super) fn memory(environment: &Environment, commands: u64) -> (u64, u64) {
    let bytes = command_bytes(environment);
    let members = u64::from(environment.replicas());
    // A log is cut at half of what a snapshot is taken at. Entries' data are the same memory for all members; the entries are
    // twice at each, in the engine and on its disk.
    let entries = (MOST_LOG / (bytes + ENTRY)).min(commands.saturating_mul(2).saturating_add(1000));
    let each = 1024 + 2 * bytes;
    (each, members * (1 << 20) + entries * bytes + entries * members * 2 * 160)
}

/// The most bytes of entries that a log has at a time: of those since the last snapshot and those that stay for followers that lag.
const MOST_LOG: u64 = 96 << 20;

/// What an entry counts in a log beside its commands.
const ENTRY: u64 = 16;

/// The least that an interface, or a pair of members, has to carry: heartbeats of the most members, every 100 ms.
const LEAST_MBIT: f64 = 1.0;

/// The longest that a message or a sync may take: elections, which end after a minute, are to come to an end.
const LONGEST: Duration = Duration::from_secs(1);

/// How long signs of life may stand behind the bytes of a window; a minute ends a leadership.
const LONGEST_WINDOW: f64 = 30.0;

impl GroupTable {
    /// The group under this load.
    pub(super) fn environment(&self) -> Result<Environment, ScenarioError> {
        let DiskTable { sync, mbyte } = self.disk;
        let Some(Span(sync)) = sync else {
            let told =
                "group.disk says sync, how long a sync takes; or group.costs says file, a calibration that has it";
            return Err(ScenarioError(told.to_owned()));
        };
        let LinkTable { delay: Span(delay), mbit, limit, loss, .. } = self.link;
        for (key, span) in [("group.link.delay", delay), ("group.disk.sync", sync)] {
            if span > LONGEST {
                return Err(ScenarioError(format!("{key} is {span:?}; allowed: up to {LONGEST:?}")));
            }
        }
        if !(LEAST_MBIT..=1e6).contains(&mbit) {
            return Err(ScenarioError(format!("group.link.mbit is {mbit}; allowed: {LEAST_MBIT} to 1000000")));
        }
        let written = match mbyte {
            None => Bandwidth::UNLIMITED,
            Some(mbyte) if (1.0..=1e6).contains(&mbyte) => bytes_per_s(mbyte * 1e6),
            Some(mbyte) => {
                return Err(ScenarioError(format!("group.disk.mbyte is {mbyte}; allowed: 1 to 1000000 MB/s")));
            }
        };
        let limit = match limit {
            LimitName::Interface => Limit::Interface,
            LimitName::Pair => Limit::Pair,
        };
        let most = Limits::default().command_bytes;
        if !(1..=most).contains(&(self.request as usize)) {
            return Err(ScenarioError(format!("group.request is {} bytes; allowed: 1 to {most}", self.request)));
        }
        let network = Network { limit, loss, ..Network::lan(bytes_per_s(mbit * 1e6 / 8.0), delay) };
        let leader = Cpu { per_message: self.costs.message.0, per_byte_ns: 0.3, per_command: self.costs.command.0 };
        let follower = Cpu { per_command: self.costs.apply.0, ..leader };
        let disk = Disk { sync, bandwidth: written };
        let sizes = environments::sizes(self.request);
        let wrong = |error: EnvironmentError| ScenarioError(format!("group: {error}"));
        Environment::new(self.members, network, leader, follower, disk, sizes).map_err(wrong)
    }

    /// How far each follower is from the leader, in multiples of the delay.
    pub(super) fn distances(&self, environment: &Environment) -> Result<Vec<f64>, ScenarioError> {
        let LinkTable { delay: Span(delay), distances, .. } = &self.link;
        let (followers, given) = (environment.followers() as usize, distances.len());
        if given != 0 && given != followers {
            let told = format!(
                "group.link.distances has {given} numbers; allowed: one for each of {followers} followers, or none"
            );
            return Err(ScenarioError(told));
        }
        let is_wrong = |distance: &&f64| {
            !(0.001..=1000.0).contains(*distance) || delay.as_secs_f64() * **distance > LONGEST.as_secs_f64()
        };
        if let Some(wrong) = distances.iter().find(is_wrong) {
            let told =
                format!("group.link.distances has {wrong}; allowed: 0.001 to 1000 times the delay, up to {LONGEST:?}");
            return Err(ScenarioError(told));
        }
        Ok(distances.clone())
    }

    /// How batches and windows are chosen.
    pub(super) fn sizing(&self, environment: &Environment, distances: &[f64]) -> Result<Sizing, ScenarioError> {
        let AtMost::Number(commands) = self.batch else {
            return match self.window {
                AtMost::Auto => Ok(Sizing::Auto(Aim::Throughput)),
                AtMost::Number(_) => {
                    let told = "group.window is of a group that has a batch; say group.batch, or \"auto\" for both";
                    Err(ScenarioError(told.to_owned()))
                }
            };
        };
        let bytes = command_bytes(environment);
        let most = BATCH_BYTES_MOST as u64 / bytes;
        if commands > most {
            let told =
                format!("group.batch is {commands} commands of {bytes} bytes; allowed: 1 to {most}, or \"auto\"");
            return Err(ScenarioError(told));
        }
        let batch = commands * bytes;
        let window = match self.window {
            AtMost::Number(window) if window > Setting::MOST_WINDOW => {
                let told =
                    format!("group.window is {window}; allowed: 1 to {} batches, or \"auto\"", Setting::MOST_WINDOW);
                return Err(ScenarioError(told));
            }
            AtMost::Number(window) => window,
            AtMost::Auto => needed(environment, distances, batch)?,
        };
        let network = environment.network();
        let copies = if network.limit == Limit::Interface { environment.followers() } else { 1 };
        let leaves = (batch * window * u64::from(copies)) as f64 / network.bandwidth.as_bytes_per_s() as f64;
        if leaves > LONGEST_WINDOW {
            let told = format!(
                "group.window: {window} batches of {batch} bytes take {leaves:.0} s to leave; allowed: up to {LONGEST_WINDOW} s"
            );
            return Err(ScenarioError(told));
        }
        Ok(Sizing::Fixed(Setting::with_window(batch, window)))
    }
}

/// How many batches the model says keep the group's busiest part busy, with the follower that completes the quorum as far as it is.
fn needed(environment: &Environment, distances: &[f64], batch: u64) -> Result<u64, ScenarioError> {
    let mut sorted = distances.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quorum = (environment.quorum_followers() as usize).saturating_sub(1);
    let distance = sorted.get(quorum).copied().unwrap_or(1.0);
    let Network { delay, .. } = environment.network();
    let network = Network { delay: delay.mul_f64(distance), ..environment.network() };
    let (leader, follower) = (environment.leader(), environment.follower());
    let (disk, sizes) = (environment.disk(), environment.sizes());
    let farther = Environment::new(environment.replicas(), network, leader, follower, disk, sizes);
    let farther = farther.map_err(|error| ScenarioError(format!("group: {error}")))?;
    Ok((needed_window(&farther, batch).ceil() as u64).clamp(1, Setting::MOST_WINDOW))
}

/// Bytes that a command has in a batch.
fn command_bytes(environment: &Environment) -> u64 {
    let sizes = environment.sizes();
    u64::from(sizes.request) + u64::from(sizes.entry_head)
}

/// Of a number that was seen to be one byte at least.
fn bytes_per_s(bytes: f64) -> Bandwidth {
    Bandwidth::bytes_per_s(bytes as u64).unwrap_or(Bandwidth::UNLIMITED)
}

fn three() -> u32 {
    3
}

fn short() -> u32 {
    128
}
