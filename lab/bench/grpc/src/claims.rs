//! What is claimed.

use greenwave_bench::claims::Aim::{AtLeast, AtMost};
use greenwave_bench::claims::{Claim, claim};

/// Calls a second that one core of the server's would do if it were always at work, over tonic's.
const RATE: &str = "rate_per_server_core_over_tonic";

pub(crate) const CLAIMS: [Claim; 6] = [
    claim("twice tonic's calls", "unary-64B/in-flight-64/connections-1", "greenwave", RATE, AtLeast(2.0)),
    claim("twice tonic's calls", "unary-64B/in-flight-64/connections-16", "greenwave", RATE, AtLeast(2.0)),
    claim("twice tonic's calls", "unary-64B/in-flight-64/connections-1000", "greenwave", RATE, AtLeast(2.0)),
    claim("no later than tonic", "unary-64B/in-flight-1/connections-1", "greenwave", "p50_over_tonic", AtMost(1.0)),
    claim("no later than tonic", "unary-1KB/in-flight-1/connections-1", "greenwave", "p50_over_tonic", AtMost(1.0)),
    claim("no later than tonic", "unary-64KB/in-flight-1/connections-1", "greenwave", "p50_over_tonic", AtMost(1.0)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::system::System;
    use greenwave_bench::benchmark::Named as _;

    #[test]
    fn what_is_claimed_is_measured() {
        for Claim { case, system, metric, .. } in CLAIMS {
            let case: Case = case.parse().expect("there is such a case");
            System::named(system).expect("there is such a system");
            assert_eq!(case.is_alone(), metric.starts_with("p50"), "{}", case.name);
        }
    }
}
