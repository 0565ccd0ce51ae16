//! What is claimed, held against what was measured.

use std::borrow::Cow;

use greenwave_bench::claims::{Aim, Claim};

use crate::{model, source};

const CLAIMS: [Claim; 4] = [
    Claim::new("three times etcd's rate", "put-256B-clients-512", "greenwave", "ops_over_etcd", Aim::AtLeast(3.0)),
    Claim::new("p99 no worse than etcd's", "put-256B-clients-1", "greenwave", "p99_over_etcd", Aim::AtMost(1.0)),
    Claim::new("waits for no batch", "lone-request", "controller", "p50_over_static_1", Aim::AtMost(1.05)),
    Claim::new("nothing acknowledged is lost", "failover", "greenwave", "lost", Aim::AtMost(0.0)),
];

/// What is claimed of every environment.
const OF_MODELS: [Claim; 2] = [
    Claim::new("near the best setting", "", "model", "ops_over_best", Aim::AtLeast(0.90)),
    Claim::new("nearer the best setting", "", "controller", "ops_over_best", Aim::AtLeast(0.95)),
];

/// What is claimed of every figure of the source's.
const OF_SOURCES: [Claim; 2] = [
    Claim::new("as the source states", "", source::MODEL, source::RATIO, Aim::Within(0.9, 1.1)),
    Claim::new("as the source states", "", source::SIMULATED, source::RATIO, Aim::Within(0.9, 1.1)),
];

/// What is claimed of these cases.
pub(crate) fn of(cases: &[String]) -> Vec<Claim> {
    let of_case = |case: &String| {
        let claims: &[Claim] = match case {
            case if case.starts_with(model::KIND) => &OF_MODELS,
            case if case.starts_with(source::KIND) => &OF_SOURCES,
            _ => return CLAIMS.into_iter().filter(|claim| claim.case == **case).collect(),
        };
        let claims = claims.iter().map(|claim| Claim { case: Cow::Owned(case.clone()), ..claim.clone() });
        claims.collect::<Vec<_>>()
    };
    cases.iter().flat_map(of_case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::names;

    #[test]
    fn what_is_claimed_is_measured() {
        let claimed = of(&names().expect("there are cases"));
        assert!(CLAIMS.iter().all(|claim| claimed.contains(claim)));
        for Claim { case, system, .. } in &claimed {
            assert!(!case.starts_with(model::KIND) || model::systems().contains(system), "{system}");
        }
    }

    #[test]
    fn every_environment_has_a_claim_of_the_model_and_one_of_the_controller() {
        let cases = model::names().expect("there are cases");
        let claimed = of(&cases);
        for case in &cases {
            let of_case: Vec<_> = claimed.iter().filter(|claim| claim.case == **case).collect();
            let aims: Vec<_> = of_case.iter().map(|claim| (claim.system, claim.aim)).collect();
            assert_eq!(aims, [("model", Aim::AtLeast(0.9)), ("controller", Aim::AtLeast(0.95))], "{case}");
        }
    }
}
