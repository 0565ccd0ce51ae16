//! Instants, budgets and deadlines over the whole of their ranges.

use crate::strategies::{any_budget, any_nanos, any_span, any_time, budget, exact, time};
use greenwave_policy::{Budget, Deadline, Time};
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn a_request_is_late_from_the_moment_its_deadline_passes() {
    let budget = Budget::expected(Duration::from_millis(1));
    assert!(budget.after_stage(Duration::from_millis(1)).is_spent());
    assert!(!budget.after_stage(Duration::from_nanos(999_999)).is_spent());
}

#[test]
fn a_budget_says_what_it_is() {
    assert_eq!(Budget::expected(Duration::from_millis(3)).to_string(), "3ms left");
    assert_eq!(Budget::from_nanos(-2_000).to_string(), "late by 2µs");
    assert_eq!(Budget::UNLIMITED.to_string(), "unlimited");
}

#[test]
fn what_is_asked_for_beyond_three_lifetimes_is_unlimited() {
    let longest = Duration::from_nanos(i64::MAX as u64 - 1);
    assert!(!Budget::expected(longest).is_unlimited());
    assert!(Budget::expected(longest + Duration::from_nanos(1)).is_unlimited());
    assert!(Budget::expected(Duration::MAX).is_unlimited());
}

fn clamp(exact: i128) -> i64 {
    i64::try_from(exact.clamp(i64::MIN.into(), i64::MAX.into())).expect("clamped")
}

proptest! {
    #[test]
    fn instants_saturate(at in any_time(), span in any_span(), other in any_time()) {
        let (nanos, last) = (i128::from(at.as_nanos()), i128::from(u64::MAX));
        prop_assert_eq!(i128::from((at + span).as_nanos()), (nanos + exact(span)).min(last));
        prop_assert_eq!(i128::from((at - span).as_nanos()), (nanos - exact(span)).max(0));
        prop_assert_eq!(exact(at.since(other)), (nanos - i128::from(other.as_nanos())).max(0));
    }

    #[test]
    fn charging_saturates_and_never_makes_unlimited(budget in any_budget(), spent in any_span()) {
        let left = budget.after_stage(spent);
        if budget.is_unlimited() {
            prop_assert!(left.is_unlimited());
        } else {
            prop_assert_eq!(left.as_nanos(), clamp(i128::from(budget.as_nanos()) - exact(spent)));
            prop_assert!(left <= budget);
        }
    }

    #[test]
    fn what_remains_and_what_is_late_are_two_sides_of_a_budget(budget in any_budget()) {
        prop_assert_eq!(budget.remaining().is_none(), budget.is_unlimited());
        let Some(remaining) = budget.remaining() else { return Ok(()) };
        prop_assert_eq!(exact(remaining) - exact(budget.late()), i128::from(budget.as_nanos()));
        prop_assert_eq!(remaining.is_zero(), budget.is_spent());
        prop_assert!(remaining.is_zero() || budget.late().is_zero());
    }

    #[test]
    fn a_deadline_gives_back_the_budget_it_was_made_of(now in time(), budget in budget()) {
        prop_assert_eq!(Deadline::at(now, budget).budget(now), budget);
    }

    /// Time that passes is a charge like any other.
    #[test]
    fn a_deadline_counts_down(now in time(), budget in budget(), passed in any_nanos()) {
        let passed = Duration::from_nanos(passed >> 24);
        let later = Deadline::at(now, budget).budget(now + passed);
        prop_assert_eq!(later, budget.after_stage(passed));
        prop_assert_eq!(Deadline::at(now, budget).is_past(now + passed), later.is_spent());
    }

    #[test]
    fn only_the_unlimited_never_expires(now in any_time(), budget in any_budget(), later in any_time()) {
        let deadline = Deadline::at(now, budget);
        prop_assert_eq!(deadline == Deadline::NEVER, budget.is_unlimited());
        prop_assert_eq!(deadline.expires().is_none(), budget.is_unlimited());
        prop_assert_eq!(deadline.budget(later).is_unlimited(), budget.is_unlimited());
        prop_assert_eq!(deadline.is_past(later), deadline.budget(later).is_spent());
    }

    #[test]
    fn deadlines_sort_as_their_budgets(now in any_time(), one in any_budget(), other in any_budget()) {
        let (first, second) = (Deadline::at(now, one), Deadline::at(now, other));
        if one <= other {
            prop_assert!(first <= second && second <= Deadline::NEVER);
            prop_assert_eq!(first.tighten(second), first);
        }
        prop_assert_eq!(first.tighten(second), second.tighten(first));
    }

    #[test]
    fn a_share_is_never_more_than_the_whole(budget in any_budget(), here in any_span(), ahead in any_span()) {
        let share = budget.for_stage(here, ahead);
        prop_assert!(share <= budget);
        prop_assert!(share.is_spent() || !budget.is_spent());
        prop_assert_eq!(share.is_unlimited(), budget.is_unlimited());
    }

    /// More left never makes a smaller share: sharing keeps the order of deadlines among equal requests.
    #[test]
    fn a_share_grows_with_the_budget(
        one in any_budget(), other in any_budget(), here in any_span(), ahead in any_span(),
    ) {
        prop_assert!(one.min(other).for_stage(here, ahead) <= one.max(other).for_stage(here, ahead));
    }

    #[test]
    fn an_instant_is_its_nanoseconds(nanos in any_nanos()) {
        prop_assert_eq!(Time::from_nanos(nanos).as_nanos(), nanos);
        prop_assert_eq!(Time::ZERO + Duration::from_nanos(nanos), Time::from_nanos(nanos));
        prop_assert!(Time::from_nanos(nanos) <= Time::MAX);
    }
}
