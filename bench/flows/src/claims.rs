//! What is claimed, held against what was measured.

use greenwave_bench::claims::{self, Aim, Claim};
use greenwave_bench::result::Results;
use greenwave_bench::table::Table;

const CLAIMS: [Claim; 13] = [
    Claim::new("median 90% lower", "switch-queue", "greenwave", "p50_over_fifo", Aim::AtMost(0.1)),
    Claim::new("p99.9 90% lower", "switch-queue", "greenwave", "p999_over_fifo", Aim::AtMost(0.1)),
    Claim::new("bulk loses 2% at most", "switch-queue", "greenwave", "bulk_over_fifo", Aim::AtLeast(0.98)),
    Claim::new("median 90% lower", "host-queue", "greenwave", "p50_over_fifo", Aim::AtMost(0.1)),
    Claim::new("p99.9 90% lower", "host-queue", "greenwave", "p999_over_fifo", Aim::AtMost(0.1)),
    Claim::new("bulk loses 2% at most", "host-queue", "greenwave", "bulk_over_fifo", Aim::AtLeast(0.98)),
    Claim::new("small again after a pause", "return-to-small", "greenwave", "p50_over_idle", Aim::AtMost(1.5)),
    Claim::new("wakes sooner", "boost", "boosted", "p99_over_beside", Aim::AtMost(0.5)),
    Claim::new("small calls wait little longer", "same-connection", "greenwave", "p99_over_idle", Aim::AtMost(3.0)),
    Claim::new("bulk loses 5% at most", "same-connection", "greenwave", "bulk_over_alone", Aim::AtLeast(0.95)),
    Claim::new(
        "small calls wait little longer",
        "same-connection",
        "greenwave-apart",
        "p99_over_idle",
        Aim::AtMost(3.0),
    ),
    Claim::new(
        "small calls wait little longer",
        "same-connection-loopback",
        "greenwave",
        "p99_over_idle",
        Aim::AtMost(3.0),
    ),
    Claim::new("the neighbour loses little", "boost", "boosted", "neighbour_work_over_beside", Aim::AtLeast(0.98)),
];

/// Every aim with what was measured, and whether that reaches it.
pub(crate) fn table(results: &Results) -> Table {
    claims::table(&CLAIMS, results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use crate::rounds::ratio_name;

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
