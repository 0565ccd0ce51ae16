//! What is claimed. What a slice can't cure is measured, and nothing is claimed of it.

use greenwave_bench::claims::Aim::{AtLeast, AtMost};
use greenwave_bench::claims::{Claim, claim};

use super::case::SHORT;
use super::wakes::{OVER_NONE, SHARE};

/// Services that use less than their share, in a group of their own.
const HELPED: &str = "90-percent|three|one/20us-2ms|20us-0.2ms|300us-1ms";

pub(super) const CLAIMS: [Claim; 2] = [
    claim("p95 halved beside a neighbour at 90%", "90-percent/*", SHORT.name, OVER_NONE, AtMost(0.5)),
    claim("neighbours lose 15% at most", HELPED, SHORT.name, SHARE, AtLeast(0.85)),
];

#[cfg(test)]
mod tests {
    use super::super::case::CASES;
    use super::*;
    use greenwave_bench::claims::fits;

    #[test]
    fn what_is_claimed_is_measured() {
        for Claim { case, system, .. } in CLAIMS {
            let about: Vec<_> = CASES.iter().filter(|it| fits(case, &it.name())).collect();
            assert!(about.len() > 1, "{case}");
            assert!(about.iter().all(|case| case.levers.iter().any(|lever| lever.name == system)), "{system}");
        }
    }
}
