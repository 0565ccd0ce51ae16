//! What is claimed.

use greenwave_bench::claims::Aim::{AtLeast, AtMost};
use greenwave_bench::claims::{Claim, claim};

pub(crate) const CLAIMS: [Claim; 13] = [
    claim("median 90% lower", "switch-queue", "greenwave", "p50_over_fifo", AtMost(0.1)),
    claim("p99.9 90% lower", "switch-queue", "greenwave", "p999_over_fifo", AtMost(0.1)),
    claim("bulk loses 2% at most", "switch-queue", "greenwave", "bulk_over_fifo", AtLeast(0.98)),
    claim("median 90% lower", "host-queue", "greenwave", "p50_over_fifo", AtMost(0.1)),
    claim("p99.9 90% lower", "host-queue", "greenwave", "p999_over_fifo", AtMost(0.1)),
    claim("bulk loses 2% at most", "host-queue", "greenwave", "bulk_over_fifo", AtLeast(0.98)),
    claim("small again after a pause", "return-to-small", "greenwave", "p50_over_idle", AtMost(1.5)),
    claim("wakes sooner", "boost", "boosted", "p99_over_beside", AtMost(0.5)),
    claim("small calls wait little longer", "same-connection", "greenwave", "p99_over_idle", AtMost(3.0)),
    claim("bulk loses 5% at most", "same-connection", "greenwave", "bulk_over_alone", AtLeast(0.95)),
    claim("small calls wait little longer", "same-connection", "greenwave-apart", "p99_over_idle", AtMost(3.0)),
    claim("small calls wait little longer", "same-connection-loopback", "greenwave", "p99_over_idle", AtMost(3.0)),
    claim("the neighbour loses little", "boost", "boosted", "neighbour_work_over_beside", AtLeast(0.98)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::ALL;
    use greenwave_bench::ratios;

    #[test]
    fn what_is_claimed_is_measured() {
        for Claim { case, system, metric, .. } in CLAIMS {
            let case = ALL.iter().find(|it| it.name == case).expect("there is such a case");
            assert!(case.systems.contains(&system), "{system}");
            let ratios = case.ratios.iter().map(|(of, over)| ratios::name(of, over));
            let own = case.own_ratios.iter().map(|own| (*own).to_owned());
            assert!(ratios.chain(own).any(|name| name == metric), "{metric} of {}", case.name);
        }
    }
}
