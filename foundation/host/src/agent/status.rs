//! What agents of this network namespace see.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use greenwave_policy::Band;
use serde::{Deserialize, Serialize};

use super::control::{self, Request};
use super::error::AgentError;
use super::object::{Counters, Flow, Key};
use super::record::Folder;
use super::table::{Table, now};

/// What an agent does with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Tags what comes from the guest behind it.
    Guest,
    /// Tags what the host itself sends by it.
    Uplink,
    /// Takes over the tags of what arrives by it.
    Trusted,
}

impl Role {
    pub(super) const ALL: [Self; 3] = [Self::Guest, Self::Uplink, Self::Trusted];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Uplink => "uplink",
            Self::Trusted => "trusted",
        }
    }
}

/// All agents of a network namespace, and the flows that they know.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The agents.
    pub agents: Vec<AgentState>,
    /// Their flows, those with the most bytes first; not more than were asked for.
    pub flows: Vec<FlowState>,
}

/// An agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentState {
    /// Its process.
    pub pid: u32,
    /// Bits per second that a flow may send for ever and still be small.
    pub rate: u64,
    /// Bytes that it may send at once.
    pub burst: u64,
    /// The most that a flow can owe, in nanoseconds at its rate.
    pub debt_ns: u64,
    /// How many flows it knows.
    pub flows: u64,
    /// How many of those are large.
    pub large_flows: u64,
    /// How many it can know.
    pub room: u32,
    /// Its devices.
    pub devices: Vec<DeviceState>,
}

/// A device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceState {
    /// Its name, or a pattern that no device has matched yet.
    pub name: String,
    /// What is done with it.
    pub role: Role,
    /// Whether the classifier is at work there. It isn't while there is no such device.
    pub attached: bool,
    /// `tcx` or `clsact`, if it is.
    pub hook: Option<String>,
    /// Packets that were tagged small.
    pub small_packets: u64,
    /// Their bytes on the wire.
    pub small_bytes: u64,
    /// Packets that were tagged large.
    pub large_packets: u64,
    /// Their bytes on the wire.
    pub large_bytes: u64,
    /// Packets that are not IP, and passed as they came.
    pub not_ip: u64,
    /// Packets that can't be understood, and passed as they came.
    pub malformed: u64,
    /// Packets of flows that there was no room for, and passed as they came.
    pub no_room: u64,
}

impl DeviceState {
    pub(super) fn new(name: String, role: Role, hook: Option<String>, counters: &Counters) -> Self {
        Self {
            name,
            role,
            attached: hook.is_some(),
            hook,
            small_packets: counters.small_packets,
            small_bytes: counters.small_bytes,
            large_packets: counters.large_packets,
            large_bytes: counters.large_bytes,
            not_ip: counters.not_ip,
            malformed: counters.malformed,
            no_room: counters.no_room,
        }
    }
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowState {
    /// The device that it comes from.
    pub device: String,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to.
    pub target: IpAddr,
    /// The VLAN it is in; 0 if it is in none.
    pub vlan: u16,
    /// Its protocol, such as 6 for TCP; 0 if flows are told apart by their addresses alone.
    pub protocol: u8,
    /// Its source's port, if flows are told apart by ports.
    pub source_port: u16,
    /// Its target's port, likewise.
    pub target_port: u16,
    /// Whether its next packet is large.
    pub large: bool,
    /// Bytes that it may send at once and still be small.
    pub tokens: u64,
    /// Bytes that it owes.
    pub debt: u64,
    /// Nanoseconds since its last packet.
    pub idle_ns: u64,
    /// Packets that were tagged small.
    pub small_packets: u64,
    /// Their bytes on the wire.
    pub small_bytes: u64,
    /// Packets that were tagged large.
    pub large_packets: u64,
    /// Their bytes on the wire.
    pub large_bytes: u64,
}

impl FlowState {
    /// Bytes that it has sent, as far as is known.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.small_bytes.saturating_add(self.large_bytes)
    }

    /// Time since its last packet.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_nanos(self.idle_ns)
    }
}

/// What the agents of this network namespace see, with so many flows at most; `state` is [`Settings::STATE`] unless
/// they were told otherwise.
///
/// # Errors
/// [`AgentError::NotRunning`] if there is none; [`AgentError::Silent`] if one doesn't answer.
///
/// [`Settings::STATE`]: super::Settings::STATE
pub fn status(state: &Path, most_flows: usize) -> Result<Status, AgentError> {
    let mut all = Status::default();
    for socket in Folder::of(state)?.sockets()? {
        if let Some(answer) = control::ask::<Status>(&socket, &Request::Status { most_flows })? {
            all.agents.extend(answer.agents);
            all.flows.extend(answer.flows);
        }
    }
    if all.agents.is_empty() {
        return Err(AgentError::NotRunning);
    }
    all.flows.sort_by_key(|flow| Reverse(flow.bytes()));
    all.flows.truncate(most_flows);
    Ok(all)
}

/// How many flows there are, how many of them are large, and those with the most bytes.
pub(super) struct Census {
    pub(super) flows: u64,
    pub(super) large: u64,
    pub(super) largest: Vec<FlowState>,
}

/// Counts flows. `name` is a device's.
pub(super) fn census(table: &Table, most: usize, name: impl Fn(u32) -> Option<String>) -> io::Result<Census> {
    let now = now();
    let most = most.min(table.room as usize);
    let (mut flows, mut large) = (0, 0);
    let mut largest = BinaryHeap::new();
    let mut found: Vec<(Key, Flow)> = Vec::new();
    table.each(|key, flow| {
        flows += 1;
        large += u64::from(flow.bucket().band(&table.pace, now) == Band::Large);
        let bytes = flow.small_bytes.saturating_add(flow.large_bytes);
        let place = if found.len() < most {
            found.push((*key, *flow));
            found.len() - 1
        } else {
            match largest.peek() {
                Some(&Reverse((least, place))) if least < bytes => {
                    largest.pop();
                    found[place] = (*key, *flow);
                    place
                }
                _ => return,
            }
        };
        largest.push(Reverse((bytes, place)));
    })?;
    let mut largest: Vec<_> = found
        .iter()
        .map(|(key, flow)| {
            let bucket = flow.bucket();
            let (source_port, target_port) = key.ports();
            FlowState {
                device: name(key.device).unwrap_or_else(|| format!("#{}", key.device)),
                source: key.source(),
                target: key.target(),
                vlan: key.vlan,
                protocol: key.protocol,
                source_port,
                target_port,
                large: bucket.band(&table.pace, now) == Band::Large,
                tokens: bucket.tokens(&table.pace, now),
                debt: bucket.debt(&table.pace, now),
                idle_ns: now.as_nanos().saturating_sub(flow.seen),
                small_packets: flow.small_packets,
                small_bytes: flow.small_bytes,
                large_packets: flow.large_packets,
                large_bytes: flow.large_bytes,
            }
        })
        .collect();
    largest.sort_by_key(|flow| Reverse(flow.bytes()));
    Ok(Census { flows, large, largest })
}
