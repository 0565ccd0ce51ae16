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

const CLAIMS: [Claim; 13] = [
    claim("median 90% lower", "switch-queue", "greenwave", "p50_over_fifo", Aim::AtMost(0.1)),
    claim("p99.9 90% lower", "switch-queue", "greenwave", "p999_over_fifo", Aim::AtMost(0.1)),
    claim("bulk loses 2% at most", "switch-queue", "greenwave", "bulk_over_fifo", Aim::AtLeast(0.98)),
    claim("median 90% lower", "host-queue", "greenwave", "p50_over_fifo", Aim::AtMost(0.1)),
    claim("p99.9 90% lower", "host-queue", "greenwave", "p999_over_fifo", Aim::AtMost(0.1)),
    claim("bulk loses 2% at most", "host-queue", "greenwave", "bulk_over_fifo", Aim::AtLeast(0.98)),
    claim("small again after a pause", "return-to-small", "greenwave", "p50_over_idle", Aim::AtMost(1.5)),
    claim("wakes sooner", "boost", "boosted", "p99_over_beside", Aim::AtMost(0.5)),
    claim("small calls wait little longer", "same-connection", "greenwave", "p99_over_idle", Aim::AtMost(3.0)),
    claim("bulk loses 5% at most", "same-connection", "greenwave", "bulk_over_alone", Aim::AtLeast(0.95)),
    claim("small calls wait little longer", "same-connection", "greenwave-apart", "p99_over_idle", Aim::AtMost(3.0)),
    claim("small calls wait little longer", "same-connection-loopback", "greenwave", "p99_over_idle", Aim::AtMost(3.0)),
    claim("the neighbour loses little", "boost", "boosted", "neighbour_work_over_beside", Aim::AtLeast(0.98)),
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
    use crate::cases;
    use crate::rounds::ratio_name;

    #[test]
    fn an_aim_is_reached_or_not_or_nothing_was_measured() {
        let mut results = Results::new("flows");
        results.push("switch-queue", "greenwave", "p50_over_fifo", 0.02);
        results.push("switch-queue", "greenwave", "bulk_over_fifo", 0.9);
        let table = table(&results).to_string();
        let reached: Vec<&str> = table.lines().skip(2).take(3).filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!(reached, ["yes", "not measured", "no"], "{table}");
    }

    #[test]
    fn what_is_claimed_is_measured() {
        let cases = cases::all();
        for Claim { case, system, metric, .. } in &CLAIMS {
            let case = cases.iter().find(|it| it.name() == *case).expect("there is such a case");
            assert!(case.systems().contains(system), "{system}");
            let ratios = case.ratios().iter().map(|(of, over)| ratio_name(of, over));
            let own = case.own_ratios().iter().map(|own| (*own).to_owned());
            assert!(ratios.chain(own).any(|name| name == *metric), "{metric} of {}", case.name());
        }
    }
}
