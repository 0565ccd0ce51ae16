//! What a replica group runs on: how many there are, what lies between them, what work and durability cost.

use super::bandwidth::Bandwidth;
use std::fmt;
use std::time::Duration;

/// A group and what it runs on, every value in its range. All followers are alike: for a group that isn't, take the
/// follower that completes the quorum, as it decides when a command is committed.
///
/// 1. There is at least one replica.
/// 2. Every number is finite, and within the range that its part states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Environment {
    replicas: u32,
    network: Network,
    leader: Cpu,
    follower: Cpu,
    disk: Disk,
    sizes: Sizes,
}

impl Environment {
    /// The most replicas of a group.
    pub const MOST_REPLICAS: u32 = 99;

    /// A group of `replicas` (1 to 99, the leader included).
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn new(
        replicas: u32,
        network: Network,
        leader: Cpu,
        follower: Cpu,
        disk: Disk,
        sizes: Sizes,
    ) -> Result<Self, EnvironmentError> {
        if !(1..=Self::MOST_REPLICAS).contains(&replicas) {
            return Err(EnvironmentError::Replicas { given: replicas });
        }
        network.validate()?;
        leader.validate()?;
        follower.validate()?;
        disk.validate()?;
        sizes.validate()?;
        Ok(Self { replicas, network, leader, follower, disk, sizes })
    }

    /// How many replicas, the leader included.
    #[must_use]
    pub const fn replicas(&self) -> u32 {
        self.replicas
    }

    /// What lies between them.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// What work costs the leader.
    #[must_use]
    pub const fn leader(&self) -> Cpu {
        self.leader
    }

    /// What work costs a follower.
    #[must_use]
    pub const fn follower(&self) -> Cpu {
        self.follower
    }

    /// Everybody's disk.
    #[must_use]
    pub const fn disk(&self) -> Disk {
        self.disk
    }

    /// How large things are.
    #[must_use]
    pub const fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// How many followers there are.
    #[must_use]
    pub const fn followers(&self) -> u32 {
        self.replicas - 1
    }

    /// How many followers have to have an entry, beside the leader, for it to be committed.
    #[must_use]
    pub const fn quorum_followers(&self) -> u32 {
        self.replicas / 2
    }
}

/// What lies between the replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// From a message's last byte leaving to its arrival, one way: at most a minute.
    pub delay: Duration,
    /// How fast bytes leave.
    pub bandwidth: Bandwidth,
    /// What the bandwidth is a limit of.
    pub limit: Limit,
    /// The share of packets that are lost: 0 to 0.5.
    pub loss: f64,
    /// What the layers below add to every byte, as a share: 0 to 1. TCP/IP over Ethernet adds 0.036 to full packets.
    pub framing: f64,
}

impl Network {
    /// No delay, no limit, no loss.
    pub const PERFECT: Self =
        Self { delay: Duration::ZERO, bandwidth: Bandwidth::UNLIMITED, limit: Limit::Pair, loss: 0.0, framing: 0.0 };

    /// A wide-area network: so much between any two replicas, so long one way, with 4 % of framing.
    #[must_use]
    pub const fn wan(bandwidth: Bandwidth, delay: Duration) -> Self {
        Self { delay, bandwidth, limit: Limit::Pair, loss: 0.0, framing: 0.04 }
    }

    /// A local network: so much through each replica's interface, so long one way, with 4 % of framing.
    #[must_use]
    pub const fn lan(bandwidth: Bandwidth, delay: Duration) -> Self {
        Self { limit: Limit::Interface, ..Self::wan(bandwidth, delay) }
    }

    fn validate(&self) -> Result<(), EnvironmentError> {
        span("network.delay", self.delay)?;
        share("network.loss", self.loss, 0.5)?;
        share("network.framing", self.framing, 1.0)
    }
}

/// What a bandwidth is a limit of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The path between two replicas: a wide-area network. Clients' bytes don't count.
    Pair,
    /// A replica's interface, in each direction: a local network. All appends and the clients' bytes share it.
    Interface,
}

/// What work costs on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// For each append and each acknowledgement, sent or received: at most a minute.
    pub per_message: Duration,
    /// For each byte of them, in nanoseconds: 0 to 1,000,000.
    pub per_byte_ns: f64,
    /// For each command, all together: on a leader to receive it, to execute it and to answer, on a follower to
    /// execute it. At most a minute.
    pub per_command: Duration,
}

impl Cpu {
    /// Work that costs nothing.
    pub const FREE: Self = Self { per_message: Duration::ZERO, per_byte_ns: 0.0, per_command: Duration::ZERO };

    fn validate(&self) -> Result<(), EnvironmentError> {
        span("cpu.per_message", self.per_message)?;
        share("cpu.per_byte_ns", self.per_byte_ns, 1e6)?;
        span("cpu.per_command", self.per_command)
    }
}

/// What it costs to make a write durable. All that waits becomes durable by one sync (group commit).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disk {
    /// How long a sync takes, beside its bytes: at most a minute. Zero: nothing is synced.
    pub sync: Duration,
    /// How fast bytes are written.
    pub bandwidth: Bandwidth,
}

impl Disk {
    /// Takes no time.
    pub const PERFECT: Self = Self { sync: Duration::ZERO, bandwidth: Bandwidth::UNLIMITED };

    fn validate(&self) -> Result<(), EnvironmentError> {
        span("disk.sync", self.sync)
    }
}

/// How many bytes things have: each at most 64 MiB, a request at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// A command.
    pub request: u32,
    /// What its client sends beside it.
    pub request_head: u32,
    /// What its client is answered, all included.
    pub answer: u32,
    /// An append without its entries.
    pub append_head: u32,
    /// What an entry adds to its command.
    pub entry_head: u32,
    /// An acknowledgement.
    pub ack: u32,
}

impl Sizes {
    /// The most that anything has.
    pub const MOST: u32 = 64 << 20;

    /// With the heads of JPaxos, the source's system: 20 bytes a request, 25 an append, 16 an entry, 17 an
    /// acknowledgement.
    #[must_use]
    pub const fn new(request: u32, answer: u32) -> Self {
        Self { request, request_head: 20, answer, append_head: 25, entry_head: 16, ack: 17 }
    }

    fn validate(&self) -> Result<(), EnvironmentError> {
        let sizes = [
            ("sizes.request", self.request, 1),
            ("sizes.request_head", self.request_head, 0),
            ("sizes.answer", self.answer, 0),
            ("sizes.append_head", self.append_head, 0),
            ("sizes.entry_head", self.entry_head, 0),
            ("sizes.ack", self.ack, 0),
        ];
        match sizes.into_iter().find(|(_, given, least)| !(*least..=Self::MOST).contains(given)) {
            Some((what, given, least)) => Err(EnvironmentError::Size { what, given, least }),
            None => Ok(()),
        }
    }
}

/// A value of an [`Environment`] that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EnvironmentError {
    /// A group has 1 to 99 replicas.
    Replicas {
        /// What was given.
        given: u32,
    },
    /// Nothing takes longer than a minute.
    Span {
        /// The value's name.
        what: &'static str,
        /// What was given.
        given: Duration,
    },
    /// Not a number, negative, or too much.
    Number {
        /// The value's name.
        what: &'static str,
        /// What was given.
        given: f64,
        /// The most that is allowed.
        most: f64,
    },
    /// Too many bytes, or too few.
    Size {
        /// The value's name.
        what: &'static str,
        /// What was given.
        given: u32,
        /// The least that is allowed.
        least: u32,
    },
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replicas { given } => write!(f, "replicas is {given}; allowed: 1 to {}", Environment::MOST_REPLICAS),
            Self::Span { what, given } => write!(f, "{what} is {given:?}; allowed: at most {LONGEST:?}"),
            Self::Number { what, given, most } => write!(f, "{what} is {given}; allowed: 0 to {most}"),
            Self::Size { what, given, least } => {
                write!(f, "{what} is {given} bytes; allowed: {least} to {}", Sizes::MOST)
            }
        }
    }
}

impl std::error::Error for EnvironmentError {}

/// The longest that a single thing takes.
const LONGEST: Duration = Duration::from_secs(60);

fn span(what: &'static str, given: Duration) -> Result<(), EnvironmentError> {
    if given > LONGEST { Err(EnvironmentError::Span { what, given }) } else { Ok(()) }
}

fn share(what: &'static str, given: f64, most: f64) -> Result<(), EnvironmentError> {
    if (0.0..=most).contains(&given) { Ok(()) } else { Err(EnvironmentError::Number { what, given, most }) }
}
