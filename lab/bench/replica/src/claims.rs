//! What is claimed. What was found in virtual time is the same on every machine.

use greenwave_bench::claims::Aim::{AtLeast, AtMost, Within};
use greenwave_bench::claims::{Claim, claim};

use crate::model::ALL_HELD_OUT;

/// In how many environments.
const NEAR: &str = "environments_near_best";

pub(crate) const CLAIMS: [Claim; 11] = [
    claim("three times etcd's rate", "put-256B-clients-512", "greenwave", "ops_over_etcd", AtLeast(3.0)),
    claim("p99 no worse than etcd's", "put-256B-clients-1", "greenwave", "p99_over_etcd", AtMost(1.0)),
    claim("waits for no batch", "lone-request", "controller", "p50_over_static_1", AtMost(1.05)),
    claim("nothing acknowledged is lost", "failover", "greenwave", "lost", AtMost(0.0)).steady(),
    claim("as the source states", "source/*", "model", "over_source", Within(0.9, 1.1)).steady(),
    claim("as the source states", "source/*", "simulated", "over_source", Within(0.9, 1.1)).steady(),
    claim("near the best where nothing was tuned", ALL_HELD_OUT, "model", NEAR, AtLeast(38.0)).steady(),
    claim("nearer the best where nothing was tuned", ALL_HELD_OUT, "controller", NEAR, AtLeast(38.0)).steady(),
    claim("no worse than what stays", "change/*/*", "controller", "ops_over_best", AtLeast(1.0)).steady(),
    claim("near the best setting", "model/*", "model", "ops_over_best", AtLeast(0.90)).steady(),
    claim("nearer the best setting", "model/*", "controller", "ops_over_best", AtLeast(0.95)).steady(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::KIND;
    use crate::model::HELD_OUT;
    use crate::run::{names, systems};
    use greenwave_bench::claims::fits;

    #[test]
    fn something_is_claimed_of_what_is_measured_and_of_every_environment_two_things() {
        let names = names().expect("there are cases");
        for Claim { case, system, .. } in CLAIMS {
            assert!(names.iter().any(|name| fits(case, name)), "{case}");
            assert!(system == "controller" || systems().contains(&system), "{system}");
        }
        for name in names.iter().filter(|name| name.contains('/')) {
            let claims = CLAIMS.iter().filter(|claim| fits(claim.case, name)).count();
            // What is held out is judged as a whole.
            let expected = if name.starts_with(HELD_OUT) {
                0
            } else if name.starts_with(KIND) {
                1
            } else {
                2
            };
            assert_eq!(claims, expected, "{name}");
        }
    }
}
