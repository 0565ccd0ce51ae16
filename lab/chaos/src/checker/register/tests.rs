use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn step(called: u64, ended: impl Into<Option<u64>>, effect: Effect) -> Step {
    Step { called, ended: ended.into(), effect }
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn verdict(steps: &[Step]) -> Verdict {
    Register::default().take(steps, later())
}

fn swap(expected: Value, value: u32, answer: Option<Result<(), Value>>) -> Effect {
    Effect::Swap { expected, value, answer }
}

#[test]
fn a_read_during_a_write_may_see_it_or_not() {
    for read in [None, Some(1)] {
        let steps = [step(0, 10, Effect::Put(1)), step(5, 6, Effect::Get(read))];
        assert_eq!(verdict(&steps), Verdict::Linearizable);
    }
}

#[test]
fn a_read_after_a_write_has_to_see_it() {
    let steps = [step(0, 10, Effect::Put(1)), step(11, 12, Effect::Get(None))];
    assert_eq!(verdict(&steps), Verdict::Violated { explained: 1 });
}

#[test]
fn what_was_read_once_stays_read() {
    let (write, new, old) =
        (step(0, 100, Effect::Put(1)), step(10, 20, Effect::Get(Some(1))), step(30, 40, Effect::Get(None)));
    assert!(matches!(verdict(&[write, new, old]), Verdict::Violated { .. }));
    let at_the_same_time = Step { called: 15, ..old };
    assert_eq!(verdict(&[write, new, at_the_same_time]), Verdict::Linearizable);
}

#[test]
fn an_unknown_write_may_be_late_and_may_never_be_done() {
    let unknown = step(0, None, Effect::Put(1));
    let (without, with) = (step(10, 20, Effect::Get(None)), step(30, 40, Effect::Get(Some(1))));
    assert_eq!(verdict(&[unknown, without]), Verdict::Linearizable);
    assert_eq!(verdict(&[unknown, without, with]), Verdict::Linearizable);
    let gone = step(50, 60, Effect::Get(None));
    assert!(matches!(verdict(&[unknown, with, gone]), Verdict::Violated { .. }));
}

#[test]
fn an_unknown_write_that_nobody_read_may_be_what_was_deleted() {
    let steps = [step(0, None, Effect::Put(1)), step(10, 20, Effect::Delete(Some(true)))];
    assert_eq!(verdict(&steps), Verdict::Linearizable);
    let before = [step(30, None, Effect::Put(1)), step(10, 20, Effect::Delete(Some(true)))];
    assert!(matches!(verdict(&before), Verdict::Violated { .. }));
}

#[test]
fn one_of_two_swaps_of_the_same_value_succeeds() {
    let put = step(0, 1, Effect::Put(1));
    let first = step(2, 10, swap(Some(1), 2, Some(Ok(()))));
    let lost = step(3, 9, swap(Some(1), 3, Some(Err(Some(2)))));
    assert_eq!(verdict(&[put, first, lost]), Verdict::Linearizable);
    let won = Step { effect: swap(Some(1), 3, Some(Ok(()))), ..lost };
    assert!(matches!(verdict(&[put, first, won]), Verdict::Violated { .. }));
}

#[test]
fn a_search_that_takes_too_long_is_given_up() {
    // Reads of nothing beside unknown writes that are read in the end: none of the orders will do, and there are many.
    let mut steps: Vec<Step> = (0..24).map(|value| step(0, None, Effect::Put(value))).collect();
    steps.extend((0..24).map(|value| step(10, 20, Effect::Get(Some(value)))));
    steps.push(step(30, 40, Effect::Get(Some(99))));
    assert_eq!(Register::default().take(&steps, Instant::now()), Verdict::Undecided);
}

/// All orders, one after the other.
fn by_force(steps: &[Step], left: u32, now: Value) -> bool {
    let is_left = |at: usize| left & (1 << at) != 0;
    let owed: Vec<usize> = (0..steps.len()).filter(|at| is_left(*at) && steps[*at].ended.is_some()).collect();
    if owed.is_empty() {
        return true;
    }
    (0..steps.len()).filter(|at| is_left(*at)).any(|at| {
        let is_next = owed.iter().all(|other| steps[*other].ended.is_none_or(|ended| ended >= steps[at].called));
        is_next && steps[at].effect.apply(now).is_some_and(|then| by_force(steps, left & !(1 << at), then))
    })
}

/// Parts of a history, one after the other. Values that are written are those of the call's place, so that no two are the same.
fn parts(count: Range<usize>, steps: Range<usize>) -> impl Strategy<Value = Vec<Vec<Step>>> {
    let value = || prop::option::of(0_u32..7);
    let effect = prop_oneof![
        value().prop_map(Effect::Get),
        Just(Effect::Put(0)),
        prop::option::of(any::<bool>()).prop_map(Effect::Delete),
        (value(), prop::option::of(prop::option::of(value()))).prop_map(|(expected, answer)| swap(
            expected,
            0,
            answer.map(|found| found.map_or(Ok(()), Err))
        )),
    ];
    let one = (0_u64..20, 0_u64..12, prop::bool::weighted(0.25), effect);
    prop::collection::vec(prop::collection::vec(one, steps), count).prop_map(|parts| {
        let mut number = 0;
        let mut made = |begins: u64, (called, took, unknown, effect): (u64, u64, bool, Effect)| {
            let effect = match effect {
                Effect::Put(_) => Effect::Put(number),
                Effect::Swap { expected, answer, .. } => {
                    swap(expected, number, if unknown { None } else { answer.or(Some(Ok(()))) })
                }
                Effect::Delete(found) => Effect::Delete(if unknown { None } else { Some(found == Some(true)) }),
                Effect::Get(read) => Effect::Get(read),
            };
            number += 1;
            // A read that wasn't answered says nothing.
            let unknown = unknown && !matches!(effect, Effect::Get(_));
            step(begins + called, (!unknown).then_some(begins + called + took), effect)
        };
        let begin = (0..).step_by(100);
        begin.zip(parts).map(|(begins, part)| part.into_iter().map(|step| made(begins, step)).collect()).collect()
    })
}

#[test]
fn of_a_long_history_no_more_is_kept_than_of_a_short_one() {
    let mut register = Register::default();
    for part in 0..500_u64 {
        let (at, value) = (part * 100, part as u32 * 2);
        // The unknown write is done, which a read sees, and over.
        let steps = [
            step(at, at + 10, Effect::Put(value)),
            step(at + 5, None, Effect::Put(value + 1)),
            step(at + 20, at + 30, Effect::Get(Some(value + 1))),
            step(at + 25, at + 35, Effect::Get(Some(value + 1))),
        ];
        assert_eq!(register.take(&steps, later()), Verdict::Linearizable);
        assert_eq!((register.states.iter().count(), register.unknown.len()), (1, 0));
        assert_eq!(register.values().collect::<Vec<_>>(), [value + 1]);
    }
}

#[test]
fn an_unknown_write_may_be_done_parts_later_and_once() {
    let mut register = Register::default();
    let value = |register: &mut Register, at, read| register.take(&[step(at, at + 5, Effect::Get(read))], later());
    assert_eq!(register.take(&[step(0, None, Effect::Put(1))], later()), Verdict::Linearizable);
    assert_eq!(value(&mut register, 10, None), Verdict::Linearizable);
    assert_eq!(value(&mut register, 20, Some(1)), Verdict::Linearizable);
    assert_eq!(register.take(&[step(30, 35, Effect::Put(2))], later()), Verdict::Linearizable);
    assert_eq!(value(&mut register, 40, Some(1)), Verdict::Violated { explained: 3 });
}

#[test]
fn many_unknown_writes_are_no_more_than_so_many_states() {
    let mut steps: Vec<Step> = (0..200).map(|value| step(u64::from(value), None, Effect::Put(value))).collect();
    for value in 0..100 {
        let at = 1000 + u64::from(value) * 10;
        steps.push(step(at, at + 8, Effect::Put(1000 + value)));
        steps.push(step(at + 1, at + 9, Effect::Get(Some(value))));
    }
    assert_eq!(verdict(&steps), Verdict::Linearizable);
    steps.push(step(5000, 5001, Effect::Get(Some(50))));
    assert_eq!(verdict(&steps), Verdict::Violated { explained: 200 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_what_all_orders_tried_one_by_one_find(parts in parts(1..2, 1..7)) {
        let steps = &parts[0];
        let expected = by_force(steps, (1 << steps.len()) - 1, None);
        prop_assert_eq!(verdict(steps) == Verdict::Linearizable, expected);
    }

    #[test]
    fn a_history_in_parts_has_an_order_if_the_whole_has(parts in parts(2..4, 1..4)) {
        let steps = parts.concat();
        let expected = by_force(&steps, (1 << steps.len()) - 1, None);
        let mut register = Register::default();
        let is = parts.iter().all(|part| register.take(part, later()) == Verdict::Linearizable);
        prop_assert_eq!(is, expected);
    }
}
