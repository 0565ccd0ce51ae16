//! What is measured.

use std::str::FromStr;

use greenwave::{Delivery, Mode};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// How long a message is, in each direction.
    pub(crate) bytes: usize,
    /// How many calls are under way at a time, or connections are open, on all of which there is one.
    pub(crate) in_flight: usize,
    /// Whether it is part of a quick run, in which there isn't time for all.
    pub(crate) is_quick: bool,
}

/// How calls are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// In a closed loop: one at a time shows what a call costs, many how many can be made.
    Unary,
    /// One at a time where both sides sleep until something comes.
    Blocking,
    /// In batches: so many are sent together, and the next when all are answered.
    Batch,
    /// One on each of so many connections, driven by one thread.
    Connections,
    /// One at a time through memory that two processes share.
    FabricShm,
    /// With two clusters, and all come on connections of the same one. A call is real work.
    Skew,
    /// By threads that call and wait, over a channel that all share or one for each.
    Client { shared: bool, mode: Mode },
    /// None: nothing happens on so many connections.
    Idle,
}

/// What two variants of a system are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Less is better.
    P50,
    /// More is better.
    Rate,
}

// Who polls a channel's connection.
const DIRECT: Mode = Mode::Direct;
const POLL: Mode = Mode::Dispatched { delivery: Delivery::Poll };
const NOTIFY: Mode = Mode::Dispatched { delivery: Delivery::Notify };

/// The cases by groups. Those of a group are measured in the same rounds, so that ratios can be taken across them.
pub(crate) const GROUPS: [&[Case]; 15] = [
    &[case("unary-64B-inflight-1", Kind::Unary, 64, 1)],
    &[case("unary-64B-inflight-64", Kind::Unary, 64, 64)],
    &[case("unary-1KB-inflight-1", Kind::Unary, 1 << 10, 1).slow()],
    &[case("unary-64KB-inflight-1", Kind::Unary, 64 << 10, 1).slow()],
    &[case("unary-1MB-inflight-1", Kind::Unary, 1 << 20, 1).slow()],
    &[case("unary-64B-inflight-1-blocking", Kind::Blocking, 64, 1)],
    &[case("batch-8", Kind::Batch, 64, 8).slow()],
    &[case("batch-64", Kind::Batch, 64, 64)],
    &[
        FEW_CONNECTIONS,
        case("connections-128", Kind::Connections, 64, 128).slow(),
        case("connections-1024", Kind::Connections, 64, 1024),
    ],
    &[case("fabric-shm-64B-inflight-1", Kind::FabricShm, 64, 1)],
    &[case("skew", Kind::Skew, 64, 64)],
    &[
        client("client-1-one-direct", 1, true, DIRECT),
        client("client-1-one-dispatched-poll", 1, true, POLL),
        client("client-1-one-dispatched-notify", 1, true, NOTIFY),
    ],
    &[
        client("client-4-one-direct", 4, true, DIRECT),
        client("client-4-one-dispatched-poll", 4, true, POLL),
        client("client-4-one-dispatched-notify", 4, true, NOTIFY),
        client("client-4-each-direct", 4, false, DIRECT),
        client("client-4-each-dispatched-poll", 4, false, POLL),
        client("client-4-each-dispatched-notify", 4, false, NOTIFY),
    ],
    &[
        client("client-16-one-direct", 16, true, DIRECT),
        client("client-16-one-dispatched-poll", 16, true, POLL),
        client("client-16-one-dispatched-notify", 16, true, NOTIFY),
        client("client-16-each-direct", 16, false, DIRECT),
        client("client-16-each-dispatched-poll", 16, false, POLL),
        client("client-16-each-dispatched-notify", 16, false, NOTIFY),
    ],
    &[case("idle-1000", Kind::Idle, 64, 1000).slow()],
];

/// What many connections are compared with.
pub(crate) const FEW_CONNECTIONS: Case = case("connections-16", Kind::Connections, 64, 16);

const fn case(name: &'static str, kind: Kind, bytes: usize, in_flight: usize) -> Case {
    Case { name, kind, bytes, in_flight, is_quick: true }
}

const fn client(name: &'static str, threads: usize, shared: bool, mode: Mode) -> Case {
    case(name, Kind::Client { shared, mode }, 64, threads).slow()
}

impl Case {
    const fn slow(self) -> Self {
        Self { is_quick: false, ..self }
    }

    pub(crate) fn goal(self) -> Goal {
        if self.in_flight == 1 { Goal::P50 } else { Goal::Rate }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let cases: Vec<Self> = GROUPS.concat();
        cases.iter().find(|case| case.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
            format!("there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_found_by_its_name() {
        for case in GROUPS.concat() {
            assert_eq!(case.name.parse(), Ok(case));
        }
        assert!(
            "unary".parse::<Case>().is_err_and(|said| said.contains("unary-64KB-inflight-1, unary-1MB-inflight-1"))
        );
    }
}
