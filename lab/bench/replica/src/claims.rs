//! What is claimed.

use greenwave_bench::claims::Aim::{AtLeast, AtMost, Within};
use greenwave_bench::claims::{Claim, claim};

pub(crate) const CLAIMS: [Claim; 8] = [
    claim("three times etcd's rate", "put-256B-clients-512", "greenwave", "ops_over_etcd", AtLeast(3.0)),
    claim("p99 no worse than etcd's", "put-256B-clients-1", "greenwave", "p99_over_etcd", AtMost(1.0)),
    claim("waits for no batch", "lone-request", "controller", "p50_over_static_1", AtMost(1.05)),
    claim("nothing acknowledged is lost", "failover", "greenwave", "lost", AtMost(0.0)),
    claim("as the source states", "source/*", "model", "over_source", Within(0.9, 1.1)),
    claim("as the source states", "source/*", "simulated", "over_source", Within(0.9, 1.1)),
    claim("near the best setting", "model/*", "model", "ops_over_best", AtLeast(0.90)),
    claim("nearer the best setting", "model/*", "controller", "ops_over_best", AtLeast(0.95)),
];

#[cfg(test)]
mod tests {
    use super::*;
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
            assert_eq!(CLAIMS.iter().filter(|claim| fits(claim.case, name)).count(), 2, "{name}");
        }
    }
}
