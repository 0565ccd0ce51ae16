//! What is measured.

use std::str::FromStr;

use greenwave::rpc::{Delivery, Mode};

/// How long a message is, in each direction, where the case doesn't say otherwise.
const SHORT: usize = 64;

/// Who polls a channel's connection, by the name that cases have it under.
pub(crate) const MODES: &[(&str, Mode)] = &[
    ("direct", Mode::Direct), //
    ("dispatched-poll", Mode::Dispatched { delivery: Delivery::Poll }),
    ("dispatched-notify", Mode::Dispatched { delivery: Delivery::Notify }),
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Calls in a closed loop: one at a time shows what a call costs, many how many can be made.
    Unary { bytes: usize, in_flight: usize },
    /// One call at a time where both sides sleep until something comes.
    Blocking,
    /// Batches: so many calls are sent together, and the next when all are answered.
    Batch { calls: usize },
    /// So many connections with one call in flight on each, driven by one thread.
    Connections { connections: usize },
    /// One call at a time through memory that two processes share.
    FabricShm,
    /// Two clusters, and all calls come on connections of the same one. A call is real work.
    Skew,
    /// Threads that call and wait, over a channel that all share or one for each.
    Client { threads: usize, sharing: Sharing, mode: usize },
    /// Connections on which nothing happens.
    Idle { connections: usize },
}

/// How threads share channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    One,
    Each,
}

/// What two variants of a system are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Less is better.
    P50,
    /// More is better.
    Rate,
}

impl Case {
    /// The cases by groups. Those of a group are measured in the same rounds, so that ratios can be taken across them.
    pub(crate) fn groups() -> Vec<Vec<Self>> {
        let unary = |bytes, in_flight| vec![Self::Unary { bytes, in_flight }];
        let mut groups = vec![
            unary(SHORT, 1),
            unary(SHORT, 64),
            unary(1 << 10, 1),
            unary(64 << 10, 1),
            unary(1 << 20, 1),
            vec![Self::Blocking],
            vec![Self::Batch { calls: 8 }],
            vec![Self::Batch { calls: 64 }],
            [16, 128, 1024].map(|connections| Self::Connections { connections }).to_vec(),
            vec![Self::FabricShm],
            vec![Self::Skew],
        ];
        for threads in [1, 4, 16] {
            // A thread that is alone shares with nobody.
            let sharings: &[Sharing] = if threads == 1 { &[Sharing::One] } else { &[Sharing::One, Sharing::Each] };
            let modes = |&sharing| (0..MODES.len()).map(move |mode| Self::Client { threads, sharing, mode });
            groups.push(sharings.iter().flat_map(modes).collect());
        }
        groups.push(vec![Self::Idle { connections: 1000 }]);
        groups
    }

    /// Whether it is part of a quick run, in which there isn't time for all.
    pub(crate) fn is_quick(self) -> bool {
        match self {
            Self::Unary { bytes, .. } => bytes == SHORT,
            Self::Batch { calls } => calls == 64,
            Self::Connections { connections } => connections != 128,
            Self::Blocking | Self::FabricShm | Self::Skew => true,
            Self::Client { .. } | Self::Idle { .. } => false,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Unary { bytes, in_flight } => format!("unary-{}-inflight-{in_flight}", Size(bytes)),
            Self::Blocking => format!("unary-{}-inflight-1-blocking", Size(SHORT)),
            Self::Batch { calls } => format!("batch-{calls}"),
            Self::Connections { connections } => format!("connections-{connections}"),
            Self::FabricShm => format!("fabric-shm-{}-inflight-1", Size(SHORT)),
            Self::Skew => "skew".to_owned(),
            Self::Client { threads, sharing, mode } => {
                let sharing = if sharing == Sharing::One { "one" } else { "each" };
                format!("client-{threads}-{sharing}-{}", MODES[mode].0)
            }
            Self::Idle { connections } => format!("idle-{connections}"),
        }
    }

    /// How long a message is, in each direction.
    pub(crate) fn bytes(self) -> usize {
        if let Self::Unary { bytes, .. } = self { bytes } else { SHORT }
    }

    /// How many calls are under way at a time, on all connections together.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            Self::Unary { in_flight, .. } => in_flight,
            Self::Batch { calls } => calls,
            Self::Connections { connections } => connections,
            Self::Client { threads, .. } => threads,
            Self::Skew => 64,
            Self::Blocking | Self::FabricShm => 1,
            Self::Idle { .. } => 0,
        }
    }

    /// Whether calls are made in batches: none until all of the last one are answered.
    pub(crate) fn in_batches(self) -> bool {
        matches!(self, Self::Batch { .. })
    }

    pub(crate) fn goal(self) -> Goal {
        if self.in_flight() == 1 { Goal::P50 } else { Goal::Rate }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let cases: Vec<Self> = Self::groups().concat();
        cases.iter().find(|case| case.name() == name).copied().ok_or_else(|| {
            let names: Vec<String> = cases.iter().map(|case| case.name()).collect();
            format!("there are {}", names.join(", "))
        })
    }
}

/// A number of bytes, in words.
struct Size(usize);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{}MB", bytes >> 20),
            bytes if bytes >= 1 << 10 => write!(f, "{}KB", bytes >> 10),
            bytes => write!(f, "{bytes}B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_found_by_its_name() {
        for case in Case::groups().concat() {
            assert_eq!(case.name().parse(), Ok(case));
        }
        assert!(
            "unary".parse::<Case>().is_err_and(|said| said.contains("unary-64KB-inflight-1, unary-1MB-inflight-1"))
        );
    }
}
