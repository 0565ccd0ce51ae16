//! What is claimed.

use greenwave_bench::claims::Aim::{AtLeast, AtMost};
use greenwave_bench::claims::{Claim, claim};

pub(crate) const CLAIMS: [Claim; 11] = [
    claim("near a raw socket", "unary-64B-inflight-1", "greenwave", "p50_over_raw_tcp_spin", AtMost(1.10)),
    claim("near a raw socket", "unary-64B-inflight-1-blocking", "greenwave", "p50_over_raw_tcp_blocking", AtMost(1.10)),
    claim("faster than others", "unary-64B-inflight-64", "greenwave", "rate_over_tonic", AtLeast(25.0)),
    claim("faster than others", "unary-64B-inflight-64", "greenwave", "rate_over_tarpc", AtLeast(6.0)),
    claim("1.5 million calls a second", "unary-64B-inflight-64", "greenwave", "rate_per_s", AtLeast(1.5e6))
        .on_this_machine(),
    claim("half of a raw socket", "batch-8", "greenwave", "rate_over_raw_tcp_spin", AtLeast(0.5)),
    claim("half of a raw socket", "batch-64", "greenwave", "rate_over_raw_tcp_spin", AtLeast(0.5)),
    claim("near the raw fabric", "fabric-shm-64B-inflight-1", "greenwave", "p50_over_raw_fabric_shm", AtMost(1.10)),
    claim("many connections cost little", "connections-1024", "greenwave", "rate_over_connections_16", AtLeast(0.8)),
    claim("stealing helps", "skew", "greenwave-stealing", "stealing_over_none", AtLeast(1.5)),
    claim("idle costs nothing", "idle-1000", "greenwave", "cpu_percent", AtMost(1.0)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::ratios;
    use crate::system::System;
    use greenwave_bench::benchmark::Named as _;

    #[test]
    fn what_is_claimed_is_measured() {
        for Claim { case, system, metric, .. } in CLAIMS {
            let case: Case = case.parse().expect("there is such a case");
            let system = System::named(system).expect("there is such a system");
            let figures = ["rate_per_s", "cpu_percent"];
            let known = figures.contains(&metric) || ratios::of(case, system).iter().any(|ratio| ratio.name == metric);
            assert!(known && !system.variants(case).is_empty(), "{metric} of {}", case.name);
        }
    }
}
