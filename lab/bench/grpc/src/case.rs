//! What is measured: echoes of so many bytes, so many in flight, over so many connections.

use std::str::FromStr;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// How long a message is, in each direction.
    pub(crate) bytes: usize,
    /// How many calls are under way at a time, in all.
    pub(crate) in_flight: usize,
    /// On how many connections in turn.
    pub(crate) connections: usize,
    /// Whether it is part of a quick run, in which there isn't time for all.
    pub(crate) is_quick: bool,
}

/// What a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A call of one request and one answer.
    Unary,
    /// A message on a stream, and the one that answers it: as many streams as are in flight.
    PingPong,
    /// A call that is answered by a stream of [`MESSAGES`].
    Stream,
}

/// How many messages a stream has.
pub(crate) const MESSAGES: usize = 1000;

pub(crate) const CASES: [Case; 18] = [
    case("unary-64B/in-flight-1/connections-1", 64, 1, 1),
    case("unary-64B/in-flight-64/connections-1", 64, 64, 1),
    case("unary-64B/in-flight-64/connections-16", 64, 64, 16),
    case("unary-64B/in-flight-64/connections-1000", 64, 64, 1000),
    case("unary-64B/in-flight-1024/connections-1", 64, 1024, 1).slow(),
    case("unary-64B/in-flight-1024/connections-16", 64, 1024, 16).slow(),
    case("unary-64B/in-flight-1024/connections-1000", 64, 1024, 1000).slow(),
    case("unary-1KB/in-flight-1/connections-1", 1 << 10, 1, 1).slow(),
    case("unary-1KB/in-flight-64/connections-1", 1 << 10, 64, 1).slow(),
    case("unary-1KB/in-flight-64/connections-16", 1 << 10, 64, 16).slow(),
    case("unary-64KB/in-flight-1/connections-1", 64 << 10, 1, 1).slow(),
    case("unary-64KB/in-flight-64/connections-1", 64 << 10, 64, 1).slow(),
    case("unary-64KB/in-flight-64/connections-16", 64 << 10, 64, 16).slow(),
    case("ping-pong-64B/in-flight-1/connections-1", 64, 1, 1).of(Kind::PingPong).slow(),
    case("ping-pong-64B/in-flight-64/connections-1", 64, 64, 1).of(Kind::PingPong),
    case("ping-pong-64B/in-flight-64/connections-16", 64, 64, 16).of(Kind::PingPong).slow(),
    case("stream-64B/in-flight-1/connections-1", 64, 1, 1).of(Kind::Stream).slow(),
    case("stream-64B/in-flight-16/connections-1", 64, 16, 1).of(Kind::Stream),
];

const fn case(name: &'static str, bytes: usize, in_flight: usize, connections: usize) -> Case {
    Case { name, kind: Kind::Unary, bytes, in_flight, connections, is_quick: true }
}

impl Case {
    const fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    const fn slow(self) -> Self {
        Self { is_quick: false, ..self }
    }

    /// The method that is called.
    pub(crate) fn method(self) -> &'static str {
        match self.kind {
            Kind::Unary => "Echo",
            Kind::PingPong => "PingPong",
            Kind::Stream => "Stream",
        }
    }

    /// How many messages are answered in a call.
    pub(crate) fn messages(self) -> usize {
        if self.kind == Kind::Stream { MESSAGES } else { 1 }
    }

    /// Whether it shows what a call costs in time, and not how many can be made: then nobody sleeps.
    pub(crate) fn is_alone(self) -> bool {
        self.in_flight == 1 && self.kind != Kind::Stream
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = CASES.into_iter().find(|case| case.name == name);
        found.ok_or_else(|| format!("there are {}", CASES.map(|case| case.name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_found_by_its_name_which_says_what_it_is() {
        for case in CASES {
            assert_eq!(case.name.parse(), Ok(case));
            let (in_flight, connections) = (case.in_flight, case.connections);
            assert!(case.name.ends_with(&format!("/in-flight-{in_flight}/connections-{connections}")), "{}", case.name);
        }
        assert!("unary".parse::<Case>().is_err_and(|said| said.contains("unary-64KB/in-flight-1/connections-1")));
    }
}
