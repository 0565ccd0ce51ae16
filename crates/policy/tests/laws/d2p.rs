//! Equations (2) to (5) of D2P.

use crate::strategies::{budget, exact, limited_budget, span};
use greenwave_policy::{Budget, ParallelUnit, StageService};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_field_starts_at_the_expected_deadline_and_not_at_zero() {
    let request = StageService::new(Budget::expected(200 * MS));
    assert_eq!(request.budget(), Budget::expected(200 * MS));
    assert_eq!(request.elapsed(), Duration::ZERO);
}

#[test]
fn a_chain_spends_what_its_stages_and_wires_take() {
    let mut request = StageService::new(Budget::expected(200 * MS));
    request.pass(Duration::ZERO, 60 * MS);
    request.pass(MS, 39 * MS);
    assert_eq!(request.budget(), Budget::expected(100 * MS));
}

#[test]
fn the_slowest_branch_decides_an_aggregation() {
    let request = Budget::expected(100 * MS);
    let branches = [10, 70, 30].map(|took| request.after_stage(took * MS));
    assert_eq!(Budget::of_aggregation(branches, 5 * MS), Some(Budget::expected(25 * MS)));
}

#[test]
fn an_aggregation_of_nothing_has_no_elapsed_time() {
    assert_eq!(Budget::of_aggregation([], MS), None);
    assert_eq!(ParallelUnit::split(StageService::new(Budget::expected(MS))).aggregate(MS), None);
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

/// Branches of a parallel unit: the wire to the worker, its time, the wire back.
fn branches() -> impl Strategy<Value = Vec<(Duration, Duration, Duration)>> {
    vec((span(), span(), span()), 1..20)
}

fn after(mut request: StageService, hops: &[(Duration, Duration)]) -> StageService {
    hops.iter().for_each(|&(wire, stage)| request.pass(wire, stage));
    request
}

proptest! {
    /// elapsed(S_i) = elapsed(S_{i-1}) + C(S_{i-1}) + L(S_i)
    #[test]
    fn equation_2_each_stage_adds_its_wire_and_itself(expected in budget(), hops in chain()) {
        let mut request = StageService::new(expected);
        for (wire, stage) in hops {
            let before = request.elapsed();
            request.pass(wire, stage);
            prop_assert_eq!(request.elapsed(), before + wire + stage);
        }
    }

    /// deadline(S_i) = expected_deadline - elapsed(S_i)
    #[test]
    fn equation_3_the_budget_is_what_was_expected_less_elapsed(expected in limited_budget(), hops in chain()) {
        let request = after(StageService::new(expected), &hops);
        let total: i128 = hops.iter().map(|&(wire, stage)| exact(wire) + exact(stage)).sum();
        prop_assert_eq!(i128::from(request.budget().as_nanos()), i128::from(expected.as_nanos()) - total);
    }

    /// A node that only sees budgets comes to the same result as one that knows the whole chain.
    #[test]
    fn equation_3_can_be_taken_a_step_at_a_time(expected in budget(), hops in chain()) {
        let step = |left: Budget, &(wire, stage): &(Duration, Duration)| left.after_wire(wire).after_stage(stage);
        prop_assert_eq!(hops.iter().fold(expected, step), after(StageService::new(expected), &hops).budget());
    }

    /// However a stage's time is cut up, the budget after it is the same, even past the deadline.
    #[test]
    fn splitting_a_stage_changes_nothing(budget in budget(), first in span(), second in span()) {
        prop_assert_eq!(budget.after_stage(first).after_stage(second), budget.after_stage(first + second));
    }

    /// Budget and elapsed are all that has to travel.
    #[test]
    fn the_next_node_carries_on_where_this_one_stopped(expected in budget(), here in chain(), there in chain()) {
        let request = after(StageService::new(expected), &here);
        let arrived = StageService::resume(request.budget(), request.elapsed());
        prop_assert_eq!(arrived, request);
        prop_assert_eq!(after(arrived, &there), after(request, &there));
    }

    /// elapsed(A_AP) = max over j ( elapsed(W_j_CP) + C(W_j) + L(A_AP) )
    #[test]
    fn equation_4_the_slowest_branch_decides(
        expected in budget(), partition in chain(), branches in branches(), aggregation in span(),
    ) {
        let mut unit = ParallelUnit::split(after(StageService::new(expected), &partition));
        let mut longest = Duration::ZERO;
        for &(there, computation, back) in &branches {
            let worker = after(unit.branch(), &[(there, computation)]);
            longest = longest.max(worker.elapsed() + back + aggregation);
            unit.join(worker.elapsed(), back);
        }
        let aggregated = unit.aggregate(aggregation).expect("a branch joined");
        prop_assert_eq!(aggregated.elapsed(), longest);
        prop_assert_eq!(unit.joined() as usize, branches.len());
    }

    /// deadline(l_p) = expected_deadline - elapsed(l_p), l_p in {A_PP, W_j_CP, A_AP}
    #[test]
    fn equation_5_holds_in_every_phase(
        expected in limited_budget(), partition in chain(), branches in branches(), aggregation in span(),
    ) {
        let partitioned = after(StageService::new(expected), &partition);
        let mut unit = ParallelUnit::split(partitioned);
        let mut phases = vec![partitioned];
        for &(there, computation, back) in &branches {
            let worker = after(unit.branch(), &[(there, computation)]);
            unit.join(worker.elapsed(), back);
            phases.push(worker);
        }
        phases.extend(unit.aggregate(aggregation));
        prop_assert_eq!(phases.len(), branches.len() + 2);
        for phase in phases {
            let left = i128::from(expected.as_nanos()) - exact(phase.elapsed());
            prop_assert_eq!(i128::from(phase.budget().as_nanos()), left);
        }
    }

    /// An aggregator that only gets budgets back comes to the same result.
    #[test]
    fn equation_4_can_be_taken_with_budgets(expected in budget(), branches in branches(), aggregation in span()) {
        let mut unit = ParallelUnit::split(StageService::new(expected));
        let budgets = branches.iter().map(|&(there, computation, back)| {
            expected.after_wire(there).after_stage(computation).after_wire(back)
        });
        for &(there, computation, back) in &branches {
            unit.join(there + computation, back);
        }
        let aggregated = unit.aggregate(aggregation).map(|request| request.budget());
        prop_assert_eq!(Budget::of_aggregation(budgets, aggregation), aggregated);
    }

    #[test]
    fn branches_may_join_in_any_order(branches in branches(), aggregation in span()) {
        let unit = ParallelUnit::split(StageService::new(Budget::expected(MS)));
        let (mut forward, mut backward) = (unit, unit);
        branches.iter().for_each(|&(_, computation, back)| forward.join(computation, back));
        branches.iter().rev().for_each(|&(_, computation, back)| backward.join(computation, back));
        prop_assert_eq!(forward, backward);
        prop_assert_eq!(forward.aggregate(aggregation), backward.aggregate(aggregation));
    }

    #[test]
    fn a_branch_carries_the_whole_budget_and_the_flag(expected in budget(), partition in chain()) {
        let partitioned = after(StageService::new(expected), &partition);
        let field = ParallelUnit::split(partitioned).field();
        prop_assert_eq!(field.budget, partitioned.budget());
        prop_assert!(field.parallel_unit);
    }

    /// A branch is in time by its own budget exactly if the aggregation after it is.
    #[test]
    fn branches_within_their_budget_leave_time_to_aggregate(
        budget in budget(), aggregation in span(), branch in span(),
    ) {
        let branch_left = ParallelUnit::branch_budget(budget, aggregation).after_stage(branch);
        let aggregated = Budget::of_aggregation([budget.after_stage(branch)], aggregation);
        prop_assert_eq!(Some(branch_left), aggregated);
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
        prop_assert_eq!(after(StageService::new(Budget::UNLIMITED), &hops).budget(), Budget::UNLIMITED);
        prop_assert_eq!(Budget::UNLIMITED.for_stage(here, ahead), Budget::UNLIMITED);
        prop_assert_eq!(Budget::UNLIMITED.laxity(here), Budget::UNLIMITED);
    }
}
