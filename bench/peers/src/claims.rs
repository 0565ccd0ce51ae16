//! What is aimed at, held against what was measured.

use greenwave_bench::claims::{self, Aim, Claim};
use greenwave_bench::result::Results;
use greenwave_bench::table::Table;

const CLAIMS: [Claim; 11] = [
    Claim::new("near a raw socket", "unary-64B-inflight-1", "greenwave", "p50_over_raw_tcp_spin", Aim::AtMost(1.10)),
    Claim::new(
        "near a raw socket",
        "unary-64B-inflight-1-blocking",
        "greenwave",
        "p50_over_raw_tcp_blocking",
        Aim::AtMost(1.10),
    ),
    Claim::new("faster than others", "unary-64B-inflight-64", "greenwave", "rate_over_tonic", Aim::AtLeast(25.0)),
    Claim::new("faster than others", "unary-64B-inflight-64", "greenwave", "rate_over_tarpc", Aim::AtLeast(6.0)),
    Claim::new("1.5 million calls a second", "unary-64B-inflight-64", "greenwave", "rate_per_s", Aim::AtLeast(1.5e6))
        .on_this_machine(),
    Claim::new("half of a raw socket", "batch-8", "greenwave", "rate_over_raw_tcp_spin", Aim::AtLeast(0.5)),
    Claim::new("half of a raw socket", "batch-64", "greenwave", "rate_over_raw_tcp_spin", Aim::AtLeast(0.5)),
    Claim::new(
        "near the raw fabric",
        "fabric-shm-64B-inflight-1",
        "greenwave",
        "p50_over_raw_fabric_shm",
        Aim::AtMost(1.10),
    ),
    Claim::new(
        "many connections cost little",
        "connections-1024",
        "greenwave",
        "rate_over_connections_16",
        Aim::AtLeast(0.8),
    ),
    Claim::new("stealing helps", "skew", "greenwave-stealing", "stealing_over_none", Aim::AtLeast(1.5)),
    Claim::new("idle costs nothing", "idle-1000", "greenwave", "cpu_percent", Aim::AtMost(1.0)),
];

/// Every aim with what was measured, and whether that reaches it.
pub(crate) fn table(results: &Results) -> Table {
    claims::table(&CLAIMS, results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::ratios;
    use crate::system::System;
    use clap::ValueEnum;

    #[test]
    fn what_is_claimed_is_measured() {
        for Claim { case, system, metric, .. } in &CLAIMS {
            let case: Case = case.parse().expect("there is such a case");
            let system = System::from_str(system, false).expect("there is such a system");
            let figures = ["rate_per_s", "cpu_percent"];
            let known = figures.contains(metric) || ratios::of(case, system).iter().any(|ratio| ratio.name == *metric);
            assert!(known && !system.variants(case).is_empty(), "{metric} of {}", case.name());
        }
    }
}
