//! Equations (2) and (3) of D2P, and the shares of stages.

use crate::strategies::{budget, exact, limited_budget, span};
use greenwave_policy::Budget;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_chain_spends_what_its_stages_and_wires_take() {
    let hops = [(Duration::ZERO, 60 * MS), (MS, 39 * MS)];
    assert_eq!(after(Budget::expected(200 * MS), &hops), Budget::expected(100 * MS));
}

#[test]
fn a_stage_of_which_nothing_is_known_may_use_everything() {
    let budget = Budget::expected(MS);
    assert_eq!(budget.for_stage(Duration::ZERO, Duration::ZERO), budget);
    assert_eq!(budget.for_stage(MS, Duration::ZERO), budget);
}

/// Hops of a chain: the wire to a stage, and the time in it.
fn chain() -> impl Strategy<Value = Vec<(Duration, Duration)>> {
    vec((span(), span()), 0..12)
}

fn after(expected: Budget, hops: &[(Duration, Duration)]) -> Budget {
    hops.iter().fold(expected, |left, &(wire, stage)| left.after_wire(wire).after_stage(stage))
}

proptest! {
    /// deadline(S_i) = expected_deadline - elapsed(S_i), and elapsed adds up each stage and the wire to it.
    #[test]
    fn equations_2_and_3_the_budget_is_what_was_expected_less_elapsed(expected in limited_budget(), hops in chain()) {
        let elapsed: i128 = hops.iter().map(|&(wire, stage)| exact(wire) + exact(stage)).sum();
        prop_assert_eq!(i128::from(after(expected, &hops).as_nanos()), i128::from(expected.as_nanos()) - elapsed);
    }

    /// However a stage's time is cut up, the budget after it is the same, even past the deadline.
    #[test]
    fn splitting_a_stage_changes_nothing(budget in budget(), first in span(), second in span()) {
        prop_assert_eq!(budget.after_stage(first).after_stage(second), budget.after_stage(first + second));
    }

    #[test]
    fn a_stage_gets_its_share_by_learned_times(budget in 1_i64..1 << 40, here in span(), ahead in span()) {
        prop_assume!(!ahead.is_zero());
        let share = Budget::from_nanos(budget).for_stage(here, ahead).as_nanos();
        let whole = exact(here) + exact(ahead);
        let rounded_off = i128::from(budget) * exact(here) - i128::from(share) * whole;
        prop_assert!((0..whole).contains(&rounded_off), "{share} is not {budget} * {here:?} / ({here:?} + {ahead:?})");
    }

    /// Stages that each use all of their share use up the budget, and not more.
    #[test]
    fn the_shares_of_all_stages_are_the_whole_budget(budget in 1_i64..1 << 40, stages in vec(span(), 1..8)) {
        let mut left = Budget::from_nanos(budget);
        for (at, &here) in stages.iter().enumerate() {
            let share = left.for_stage(here, stages[at + 1..].iter().sum());
            prop_assert!(share.as_nanos() >= 0);
            left = left.after_stage(share.remaining().expect("a share of a limited budget is limited"));
        }
        prop_assert_eq!(left, Budget::from_nanos(0));
    }

    #[test]
    fn lateness_is_not_shared_out(late in -1_i64 << 40..=0, here in span(), ahead in span()) {
        let late = Budget::from_nanos(late);
        prop_assert_eq!(late.for_stage(here, ahead), late);
    }

    #[test]
    fn nothing_is_charged_to_the_unlimited(hops in chain(), here in span(), ahead in span()) {
        prop_assert_eq!(after(Budget::UNLIMITED, &hops), Budget::UNLIMITED);
        prop_assert_eq!(Budget::UNLIMITED.for_stage(here, ahead), Budget::UNLIMITED);
        prop_assert_eq!(Budget::UNLIMITED.laxity(here), Budget::UNLIMITED);
    }
}
