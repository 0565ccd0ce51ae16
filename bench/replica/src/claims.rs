//! What is claimed, held against what was measured.

use greenwave_bench::result::Results;
use greenwave_bench::table::{Table, significant};

/// A figure that should be so small, or so large.
struct Claim {
    what: &'static str,
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

const CLAIMS: [Claim; 4] = [
    claim("three times etcd's rate", "put-256B-clients-512", "greenwave", "ops_over_etcd", Aim::AtLeast(3.0)),
    claim("p99 no worse than etcd's", "put-256B-clients-1", "greenwave", "p99_over_etcd", Aim::AtMost(1.0)),
    claim("waits for no batch", "lone-request", "controller", "p50_over_static_1", Aim::AtMost(1.05)),
    claim("nothing acknowledged is lost", "failover", "greenwave", "lost", Aim::AtMost(0.0)),
];

const fn claim(what: &'static str, case: &'static str, system: &'static str, metric: &'static str, aim: Aim) -> Claim {
    Claim { what, case, system, metric, aim }
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
    let mut table = Table::new(["claim", "of", "aim", "measured", "reached"]);
    for Claim { what, case, system, metric, aim } in &CLAIMS {
        let (measured, reached) = match results.value(case, system, metric) {
            None => ("–".to_owned(), "not measured"),
            Some(value) => (significant(value), if aim.is_reached(value) { "yes" } else { "no" }),
        };
        table.row([format!("{case}: {what}"), format!("{system} {metric}"), aim.shown(), measured, reached.to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::names;

    #[test]
    fn an_aim_is_reached_or_not_or_nothing_was_measured() {
        let mut results = Results::new("replica");
        results.push("put-256B-clients-512", "greenwave", "ops_over_etcd", 3.0);
        results.push("lone-request", "controller", "p50_over_static_1", 1.06);
        let table = table(&results).to_string();
        let reached: Vec<&str> = table.lines().skip(2).filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!(reached, ["yes", "not measured", "no", "not measured"], "{table}");
    }

    #[test]
    fn what_is_claimed_is_measured() {
        for Claim { case, .. } in &CLAIMS {
            assert!(names().contains(case), "{case}");
        }
    }
}
