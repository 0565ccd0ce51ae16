//! What is aimed at, held against what was measured.

use greenwave_bench::result::Results;
use greenwave_bench::table::{Table, significant};

/// A figure that should be so small, or so large.
struct Claim {
    case: &'static str,
    system: &'static str,
    metric: &'static str,
    aim: Aim,
}

#[derive(Clone, Copy)]
enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

const CLAIMS: [Claim; 11] = [
    claim("unary-64B-inflight-1", "greenwave", "p50_over_raw_tcp_spin", Aim::AtMost(1.10)),
    claim("unary-64B-inflight-1-blocking", "greenwave", "p50_over_raw_tcp_blocking", Aim::AtMost(1.10)),
    claim("unary-64B-inflight-64", "greenwave", "rate_over_tonic", Aim::AtLeast(25.0)),
    claim("unary-64B-inflight-64", "greenwave", "rate_over_tarpc", Aim::AtLeast(6.0)),
    claim("unary-64B-inflight-64", "greenwave", "rate_per_s", Aim::AtLeast(1.5e6)),
    claim("batch-8", "greenwave", "rate_over_raw_tcp_spin", Aim::AtLeast(0.5)),
    claim("batch-64", "greenwave", "rate_over_raw_tcp_spin", Aim::AtLeast(0.5)),
    claim("fabric-shm-64B-inflight-1", "greenwave", "p50_over_raw_fabric_shm", Aim::AtMost(1.10)),
    claim("connections-1024", "greenwave", "rate_over_connections_16", Aim::AtLeast(0.8)),
    claim("skew", "greenwave-stealing", "stealing_over_none", Aim::AtLeast(1.5)),
    claim("idle-1000", "greenwave", "cpu_percent", Aim::AtMost(1.0)),
];

const fn claim(case: &'static str, system: &'static str, metric: &'static str, aim: Aim) -> Claim {
    Claim { case, system, metric, aim }
}

impl Aim {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {}", significant(most)),
            Self::AtLeast(least) => format!(">= {}", significant(least)),
        }
    }
}

/// Every aim with what was measured, and whether that reaches it.
pub(crate) fn table(results: &Results) -> Table {
    let mut table = Table::new(["claim", "aim", "measured", "reached"]);
    for Claim { case, system, metric, aim } in &CLAIMS {
        let (measured, reached) = match results.value(case, system, metric) {
            None => ("–".to_owned(), "not measured"),
            // A rate says more of the machine than of the system.
            Some(value) if *metric == "rate_per_s" => {
                (significant(value), if aim.is_reached(value) { "yes, on this machine" } else { "no, on this machine" })
            }
            Some(value) => (significant(value), if aim.is_reached(value) { "yes" } else { "no" }),
        };
        table.row([format!("{case}: {system} {metric}"), aim.shown(), measured, reached.to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::ratios;
    use crate::system::System;
    use clap::ValueEnum;

    #[test]
    fn an_aim_is_reached_or_not_or_nothing_was_measured() {
        let mut results = Results::new("rpc");
        results.push("unary-64B-inflight-1", "greenwave", "p50_over_raw_tcp_spin", 1.10);
        results.push("batch-8", "greenwave", "rate_over_raw_tcp_spin", 0.4);
        results.push("idle-1000", "greenwave", "cpu_percent", 0.0);
        let table = table(&results).to_string();
        let said = |claim: &str| -> String {
            table.lines().find(|line| line.starts_with(claim)).map(str::to_owned).unwrap_or_default()
        };
        assert!(said("unary-64B-inflight-1: ").ends_with("<= 1.10      1.10           yes"), "{table}");
        assert!(said("batch-8: ").ends_with("no"), "{table}");
        assert!(said("idle-1000: ").ends_with("yes"), "{table}");
        assert!(said("skew: ").ends_with("not measured"), "{table}");
    }

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
