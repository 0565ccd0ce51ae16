//! What is claimed. What was found in virtual time is the same on every machine.

use greenwave_bench::claims::Aim::{AtLeast, AtMost, Within};
use greenwave_bench::claims::{Claim, claim};

use crate::forms::SIMULATED;

const OURS: &str = "greenwave";

pub(crate) const CLAIMS: [Claim; 12] = [
    claim("10 million events a second", "cores/*", OURS, "events_per_s", AtLeast(10e6)).on_this_machine(),
    claim("3 million events a second", "fabric/*", OURS, "events_per_s", AtLeast(3e6)).on_this_machine(),
    claim("as many cores, as many times the runs", "seeds/*", OURS, "speed_up_over_cores", AtLeast(0.9)),
    claim("25 times SimPy", "cores/one-queue-16", OURS, "jobs_over_simpy", AtLeast(25.0)),
    claim("25 times SimPy", "cores/two-levels-16", OURS, "jobs_over_simpy", AtLeast(25.0)),
    claim("20 times ns-3", "fabric/fat-tree-128", OURS, "hops_over_ns_3", AtLeast(20.0)),
    claim("the same seed, the same run", "cores|fabric|graph/*", OURS, "runs_that_differ", AtMost(0.0)).steady(),
    claim("as theory has it", "forms/*", SIMULATED, "over_theory", Within(0.99, 1.01)).steady(),
    claim("no better than one queue", "forms/bounds/jsq-16", SIMULATED, "over_least", AtLeast(1.0)).steady(),
    claim("no worse than in turns", "forms/bounds/jsq-16", SIMULATED, "over_most", AtMost(1.0)).steady(),
    claim("by the square-root law", "tcp/*", SIMULATED, "over_law", Within(0.9, 1.1)).steady(),
    claim("little memory", "cores|fabric|graph/*", OURS, "peak_mib", AtMost(64.0)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{names, systems};
    use crate::scale;
    use greenwave_bench::claims::fits;

    #[test]
    fn something_is_claimed_of_every_case_and_of_those_that_there_are() {
        for Claim { case, system, .. } in CLAIMS {
            assert!(names().iter().any(|name| fits(case, name)), "{case}");
            assert!(systems().iter().any(|name| name == system), "{system}");
        }
        // Where mechanisms end is found, and nothing is claimed of it.
        for name in names().into_iter().filter(|name| !name.starts_with(scale::KIND)) {
            assert!(CLAIMS.iter().any(|claim| fits(claim.case, &name)), "{name}");
        }
    }
}
