//! The attacks.

use clap::ValueEnum;

use crate::system::System;

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Connections that send a byte now and then: of a HELLO, of HTTP/2's headers, of HTTP/1.1's.
    SlowLoris,
    /// Connections that say nothing.
    Silent,
    /// Short calls without a deadline, as fast as credits and windows allow.
    Flood,
    /// Such calls regardless of credits, windows and the number of streams.
    FloodUncredited,
    /// Calls of 16 MiB without a deadline.
    Bulk,
    /// Calls that claim tight deadlines, for more work than there is room for, on many connections.
    Hog,
    /// Calls of which some are late, so that the server takes all of their method to need more time than they do.
    Poisoner,
    /// TLS handshakes as fast as they can be begun: a third is finished, a third left, a third never goes on.
    HandshakeStorm,
    /// As many connections as one would have who has all there are, each of which has introduced itself.
    Connections,
    /// Long answers that are never read.
    Unread,
    /// Calls that are taken back as soon as they are made.
    Reset,
}

/// What an attack is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Force {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// The addresses that they come from.
    pub(crate) addresses: u8,
}

impl Case {
    /// Against whom it makes sense.
    pub(crate) fn systems(self) -> &'static [System] {
        match self {
            // Our own protocol takes a call back by CANCEL, which is answered: a flood. tonic's server has TLS with a
            // feature that the other benchmarks don't have, and the client of gRPC here has none.
            Self::HandshakeStorm => &[System::Greenwave],
            Self::Reset => &[System::Grpc, System::Tonic],
            _ => &[System::Greenwave, System::Grpc, System::Tonic],
        }
    }

    /// What a quick run has time for.
    pub(crate) fn is_quick(self) -> bool {
        matches!(self, Self::Silent | Self::Flood | Self::Hog | Self::Connections)
    }

    pub(crate) fn is_over_tls(self) -> bool {
        self == Self::HandshakeStorm
    }

    pub(crate) fn force(self) -> Force {
        let (connections, addresses) = match self {
            Self::SlowLoris => (3000, 4),
            Self::Silent => (5000, 4),
            Self::HandshakeStorm => (1536, 16),
            Self::Connections => (10_000, 4),
            Self::Flood | Self::FloodUncredited | Self::Unread | Self::Reset => (16, 1),
            // More than there is memory for.
            Self::Bulk => (32, 1),
            // One tenant each.
            Self::Hog => (64, 1),
            Self::Poisoner => (4, 1),
        };
        Force { connections, addresses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_of_a_server_of_ours() {
        for case in Case::value_variants() {
            assert!(case.systems().iter().any(|system| *system != System::Tonic), "{case:?}");
            assert!(case.force().connections > 0 && case.force().addresses > 0);
        }
    }

    #[test]
    fn who_is_to_be_told_apart_from_others_by_its_address_has_one() {
        assert!([Case::Hog, Case::Poisoner].map(|case| case.force().addresses) == [1, 1]);
    }
}
