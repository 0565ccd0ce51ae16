//! What is claimed of preemption.

use greenwave_bench::claims::Aim::AtLeast;
use greenwave_bench::claims::{Claim, claim};

const BIMODAL: &str = "mix/extreme-bimodal";
const KV: &str = "mix/kv-0.5-scan";

pub(crate) const CLAIMS: [Claim; 5] = [
    claim(
        "short jobs' p99.9, fcfs over this",
        "mix/extreme-bimodal/load-0.7",
        "ps-1us",
        "short_p999_fcfs_over_this",
        AtLeast(30.0),
    ),
    claim("little throughput is lost", BIMODAL, "ps-1us", "saturated_over_fcfs", AtLeast(0.88)),
    claim("little throughput is lost", BIMODAL, "ps-5us", "saturated_over_fcfs", AtLeast(0.97)),
    claim("little throughput is lost", KV, "ps-1us", "saturated_over_fcfs", AtLeast(0.88)),
    claim("little throughput is lost", KV, "ps-5us", "saturated_over_fcfs", AtLeast(0.97)),
];
