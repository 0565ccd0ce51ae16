//! What is claimed of preemption, held against what was measured.

use greenwave_bench::claims::{self, Aim, Claim};
use greenwave_bench::result::Results;
use greenwave_bench::table::Table;

/// The load at which tails are compared.
pub const LOAD: f64 = 0.7;

const BIMODAL: &str = "mix/extreme-bimodal";
const AT_LOAD: &str = "mix/extreme-bimodal/load-0.7";

const KV: &str = "mix/kv-0.5-scan";

const CLAIMS: [Claim; 5] = [
    Claim::new("short jobs' p99.9, fcfs over this", AT_LOAD, "ps-1us", "short_p999_fcfs_over_this", Aim::AtLeast(30.0)),
    Claim::new("little throughput is lost", BIMODAL, "ps-1us", "saturated_over_fcfs", Aim::AtLeast(0.88)),
    Claim::new("little throughput is lost", BIMODAL, "ps-5us", "saturated_over_fcfs", Aim::AtLeast(0.97)),
    Claim::new("little throughput is lost", KV, "ps-1us", "saturated_over_fcfs", Aim::AtLeast(0.88)),
    Claim::new("little throughput is lost", KV, "ps-5us", "saturated_over_fcfs", Aim::AtLeast(0.97)),
];

/// Every aim with what was measured, and whether that reaches it.
#[must_use]
pub fn table(results: &Results) -> Table {
    claims::table(&CLAIMS, results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_compared_at_the_load_that_is_measured() {
        assert_eq!(AT_LOAD, format!("{BIMODAL}/load-{LOAD}"));
    }
}
