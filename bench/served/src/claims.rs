//! What is claimed of the order by default, held against what was measured.

use std::borrow::Cow;

use greenwave_bench::claims::{Aim, Claim};

use crate::case::{Case, Deadlines, Mix};
use crate::plan::Plan;
use crate::ratios;
use crate::system::System;

/// What is claimed of the cases that are measured, if those systems are that it takes.
pub(crate) fn of(plan: &Plan) -> Vec<Claim> {
    let saturated = plan.mixes().filter(|mix| matches!(mix, Mix::Extreme | Mix::Kv)).flat_map(of_saturated);
    let claims = saturated.chain(plan.cases.iter().flat_map(|case| of_case(*case)));
    claims.filter(|claim| ratios::can_be_had(claim.metric, claim.system, &plan.systems)).collect()
}

fn of_saturated(mix: Mix) -> [Claim; 3] {
    let claim = |system, least| {
        claim("little throughput is lost", mix.name().to_owned(), system, "saturated_over_fcfs", Aim::AtLeast(least))
    };
    [claim(System::Default, 0.95), claim(System::Sharing5, 0.92), claim(System::Sharing1, 0.75)]
}

fn of_case(case: Case) -> Vec<Claim> {
    let claim = |what, metric, aim| claim(what, case.to_string(), System::Default, metric, aim);
    if case.is_overload() {
        return vec![claim("as much as the best", "goodput_over_best", Aim::AtLeast(1.0))];
    }
    let mut claims = vec![claim("on time as by deadlines", "missed_points_over_deadline_orders", Aim::AtMost(0.1))];
    if case.load == Case::LOAD {
        match case.mix {
            Mix::Extreme | Mix::Kv => {
                let most = match case.deadlines {
                    Deadlines::None | Deadlines::Same | Deadlines::ByClass => 0.1,
                    Deadlines::Random => 0.25,
                    Deadlines::Inverted => 1.0,
                };
                claims.push(claim("short calls don't wait", "short_p99_over_fcfs", Aim::AtMost(most)));
                claims.push(claim("long ones aren't starved", "long_p999_over_ps_5us", Aim::AtMost(3.0)));
            }
            Mix::Exponential => claims.push(claim("nothing to gain or lose", "p99_over_fcfs", Aim::AtMost(1.1))),
            Mix::High | Mix::Tpcc => {}
        }
    }
    claims
}

fn claim(what: &'static str, case: String, system: System, metric: &'static str, aim: Aim) -> Claim {
    Claim { what, case: Cow::Owned(case), system: system.name(), metric, aim, of_machine: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Wanted;

    #[test]
    fn something_is_claimed_of_every_case_of_a_full_run() {
        let plan = Plan::new(&Wanted::default()).unwrap();
        let claims = of(&plan);
        assert!(plan.cases.iter().all(|case| claims.iter().any(|claim| claim.case == case.to_string())));
        let of = |metric: &str| claims.iter().filter(|claim| claim.metric == metric).count();
        let counts = ["short_p99_over_fcfs", "p99_over_fcfs", "goodput_over_best", "saturated_over_fcfs"].map(of);
        assert_eq!(counts, [10, 5, 25, 6]);
    }

    #[test]
    fn nothing_is_claimed_that_is_not_measured() {
        let wanted = Wanted { systems: vec![System::Default, System::Fcfs], ..Wanted::default() };
        let claims = of(&Plan::new(&wanted).unwrap());
        assert!(claims.iter().all(|claim| claim.metric.ends_with("over_fcfs")), "{claims:?}");
        assert!(!claims.is_empty());
    }
}
