//! What is claimed: whoever attacks, clients that behave keep most of what they get, and memory stays within its bound.

use greenwave_bench::claims::Aim::{AtLeast, AtMost};
use greenwave_bench::claims::{Aim, Claim, claim};

use crate::newcomers::SERVED;

/// Goodput while an attacker is there over that while none is.
pub(crate) const KEPT: &str = "goodput_over_calm";
/// The most bytes of messages that were held, over the bound.
pub(crate) const HELD: &str = "held_over_bound";
/// The most memory that the process had, over the bound.
pub(crate) const MEMORY: &str = "memory_over_bound";
/// The same in that of the rounds in which it was most: a bound holds in each.
pub(crate) const MOST_HELD: &str = "held_over_bound_max";
pub(crate) const MOST_MEMORY: &str = "memory_over_bound_max";

const ALL: &str = "slow-loris|silent|flood|flood-uncredited|bulk|hog|poisoner|connections|unread";

const GOODPUT: &str = "clients that behave are served";
const WELCOME: &str = "who comes later is served too";
const BOUNDED: &str = "memory stays within its bound";

const fn of(what: &'static str, case: &'static str, system: &'static str, metric: &'static str, aim: Aim) -> Claim {
    claim(what, case, system, metric, aim)
}

pub(crate) const CLAIMS: [Claim; 16] = [
    of(GOODPUT, ALL, "greenwave", KEPT, AtLeast(0.8)),
    of(GOODPUT, "handshake-storm", "greenwave", KEPT, AtLeast(0.8)),
    of(GOODPUT, ALL, "grpc", KEPT, AtLeast(0.8)),
    of(GOODPUT, "reset", "grpc", KEPT, AtLeast(0.8)),
    of(WELCOME, ALL, "greenwave", SERVED, AtLeast(0.8)),
    of(WELCOME, "handshake-storm", "greenwave", SERVED, AtLeast(0.8)),
    of(WELCOME, ALL, "grpc", SERVED, AtLeast(0.8)),
    of(WELCOME, "reset", "grpc", SERVED, AtLeast(0.8)),
    of(BOUNDED, ALL, "greenwave", MOST_HELD, AtMost(1.0)),
    of(BOUNDED, "handshake-storm", "greenwave", MOST_HELD, AtMost(1.0)),
    of(BOUNDED, ALL, "grpc", MOST_HELD, AtMost(1.0)),
    of(BOUNDED, "reset", "grpc", MOST_HELD, AtMost(1.0)),
    of(BOUNDED, ALL, "greenwave", MOST_MEMORY, AtMost(1.0)),
    of(BOUNDED, "handshake-storm", "greenwave", MOST_MEMORY, AtMost(1.0)),
    of(BOUNDED, ALL, "grpc", MOST_MEMORY, AtMost(1.0)),
    of(BOUNDED, "reset", "grpc", MOST_MEMORY, AtMost(1.0)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::system::System;
    use clap::ValueEnum as _;
    use greenwave_bench::benchmark::Named as _;
    use greenwave_bench::claims::fits;

    #[test]
    fn everything_is_claimed_of_each_case_and_each_server_of_ours() {
        for case in Case::value_variants() {
            for system in case.systems() {
                let about = |claim: &&Claim| fits(claim.case, &case.name()) && claim.system == system.name();
                let metrics: Vec<&str> = CLAIMS.iter().filter(about).map(|claim| claim.metric).collect();
                let all: &[&str] = if system.is_ours() { &[KEPT, SERVED, MOST_HELD, MOST_MEMORY] } else { &[] };
                assert_eq!(metrics, all, "{case:?} {system:?}");
            }
        }
        assert!(System::value_variants().len() == 3);
    }
}
