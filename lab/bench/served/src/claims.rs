//! What is claimed, mostly of the order by default.

use greenwave_bench::claims::Aim::{AtLeast, AtMost};
use greenwave_bench::claims::{Aim, Claim, claim};

pub(crate) const CLAIMS: [Claim; 10] = [
    claim("little throughput is lost", "extreme|kv", "default", SATURATED, AtLeast(0.95)),
    claim("little throughput is lost", "extreme|kv", "ps-5us", SATURATED, AtLeast(0.92)),
    claim("little throughput is lost", "extreme|kv", "ps-1us", SATURATED, AtLeast(0.75)),
    of_default("as much as the best", "*/*/load-1.2", "goodput_over_best", AtLeast(1.0)),
    of_default(
        "on time as by deadlines",
        "*/*/load-0.5|load-0.7|load-0.9",
        "missed_points_over_deadline_orders",
        AtMost(0.1),
    ),
    of_default("short calls don't wait", "extreme|kv/none|same|by-class/load-0.7", SHORT, AtMost(0.1)),
    of_default("short calls don't wait", "extreme|kv/random/load-0.7", SHORT, AtMost(0.25)),
    of_default("short calls don't wait", "extreme|kv/inverted/load-0.7", SHORT, AtMost(1.0)),
    of_default("long ones aren't starved", "extreme|kv/*/load-0.7", "long_p999_over_ps_5us", AtMost(3.0)),
    of_default("nothing to gain or lose", "exponential/*/load-0.7", "p99_over_fcfs", AtMost(1.1)),
];

const SATURATED: &str = "saturated_over_fcfs";
const SHORT: &str = "short_p99_over_fcfs";

const fn of_default(what: &'static str, case: &'static str, metric: &'static str, aim: Aim) -> Claim {
    claim(what, case, "default", metric, aim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, MIXES};
    use greenwave_bench::claims::fits;

    #[test]
    fn something_is_claimed_of_every_case() {
        let cases: Vec<String> = Case::all().iter().map(Case::to_string).collect();
        assert!(cases.iter().all(|case| CLAIMS.iter().any(|claim| fits(claim.case, case))));
        let all = || MIXES.map(|mix| mix.name.to_owned()).into_iter().chain(cases.clone());
        let of = |metric: &str| {
            let claims = CLAIMS.iter().filter(|claim| claim.metric == metric);
            claims.map(|claim| all().filter(|case| fits(claim.case, case)).count()).sum::<usize>()
        };
        let long = "long_p999_over_ps_5us";
        let points = "missed_points_over_deadline_orders";
        let counts = [SHORT, long, "p99_over_fcfs", "goodput_over_best", SATURATED, points].map(of);
        assert_eq!(counts, [10, 10, 5, 25, 6, 75]);
    }
}
