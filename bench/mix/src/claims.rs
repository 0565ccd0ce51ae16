//! What is claimed of preemption, held against what was measured.

use std::fmt;

use greenwave_bench::result::Results;
use greenwave_bench::table::significant;

/// The load at which tails are compared.
pub const LOAD: f64 = 0.7;

/// A ratio that should be at least so much.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What is compared.
    pub what: String,
    /// What was measured; `None` if it wasn't.
    pub measured: Option<f64>,
    /// What it should be at least.
    pub aim: f64,
}

/// The claims with what the results say of them.
#[must_use]
pub fn of(results: &Results) -> Vec<Claim> {
    let claim = |what: &str, case: &str, system: &str, metric: &str, aim: f64| Claim {
        what: what.to_owned(),
        measured: results.value(case, system, metric),
        aim,
    };
    let bimodal = "mix/extreme-bimodal";
    let at_load = format!("{bimodal}/load-{LOAD}");
    vec![
        claim(
            "extreme bimodal at 0.7: p99.9 of short jobs, fcfs over ps-1us",
            &at_load,
            "ps-1us",
            "short_p999_fcfs_over_this",
            30.0,
        ),
        claim("extreme bimodal, saturated: ps-1us over fcfs", bimodal, "ps-1us", "saturated_over_fcfs", 0.85),
        claim("extreme bimodal, saturated: ps-5us over fcfs", bimodal, "ps-5us", "saturated_over_fcfs", 0.95),
    ]
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, measured, aim } = self;
        match measured {
            None => write!(f, "{what}: not measured (aim {aim})"),
            Some(ratio) => {
                let verdict = if ratio >= aim { "holds" } else { "fails" };
                write!(f, "{what}: {} (aim {aim}) {verdict}", significant(*ratio))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_fails_or_was_not_measured() {
        let mut results = Results::new("mix");
        results.push("mix/extreme-bimodal", "ps-1us", "saturated_over_fcfs", 0.9);
        results.push("mix/extreme-bimodal", "ps-5us", "saturated_over_fcfs", 0.9);
        let said: Vec<_> = of(&results).iter().map(ToString::to_string).collect();
        assert!(said[0].ends_with("not measured (aim 30)"), "{said:?}");
        assert!(said[1].ends_with("0.900 (aim 0.85) holds"), "{said:?}");
        assert!(said[2].ends_with("0.900 (aim 0.95) fails"), "{said:?}");
    }
}
