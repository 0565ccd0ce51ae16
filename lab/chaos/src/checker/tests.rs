use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn step(called: u64, ended: impl Into<Option<u64>>, effect: Effect) -> Step {
    Step { called, ended: ended.into(), effect }
}

fn verdict(steps: &[Step]) -> Verdict {
    check(steps, Instant::now() + Duration::from_secs(60))
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
fn a_write_that_failed_must_not_be_read() {
    let call = |called, ask, outcome| Call { client: 0, called, ended: called + 1, ask, outcome };
    let key = || "k".to_owned();
    let failed = call(0, Ask::Put { key: key(), value: "a".into() }, Outcome::Failed("nobody leads".into()));
    let read = call(5, Ask::Get { key: key() }, Outcome::Value(Some("a".into())));
    assert!(matches!(verdict(&by_key(&[failed.clone(), read])["k"]), Verdict::Violated { .. }));
    let scan = call(5, Ask::Scan { keys: vec![key(), "l".into()] }, Outcome::Rows(vec![("k".into(), "a".into())]));
    let keys = by_key(&[failed, scan]);
    assert!(matches!(verdict(&keys["k"]), Verdict::Violated { .. }));
    assert_eq!(verdict(&keys["l"]), Verdict::Linearizable);
}

#[test]
fn a_search_that_takes_too_long_is_given_up() {
    // Reads of nothing beside unknown writes that are read in the end: none of the orders will do, and there are many.
    let mut steps: Vec<Step> = (0..24).map(|value| step(0, None, Effect::Put(value))).collect();
    steps.extend((0..24).map(|value| step(10, 20, Effect::Get(Some(value)))));
    steps.push(step(30, 40, Effect::Get(Some(99))));
    assert_eq!(check(&steps, Instant::now()), Verdict::Undecided);
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

/// Values that are written are those of the call's place, so that no two are the same.
fn steps() -> impl Strategy<Value = Vec<Step>> {
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
    prop::collection::vec(one, 1..7).prop_map(|steps| {
        let numbered = steps.into_iter().enumerate();
        let made = numbered.map(|(number, (called, took, unknown, effect))| {
            let effect = match effect {
                Effect::Put(_) => Effect::Put(number as u32),
                Effect::Swap { expected, answer, .. } => {
                    swap(expected, number as u32, if unknown { None } else { answer.or(Some(Ok(()))) })
                }
                Effect::Delete(found) => Effect::Delete(if unknown { None } else { Some(found == Some(true)) }),
                Effect::Get(read) => Effect::Get(read),
            };
            // A read that wasn't answered says nothing.
            let unknown = unknown && !matches!(effect, Effect::Get(_));
            step(called, (!unknown).then_some(called + took), effect)
        });
        made.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_what_all_orders_tried_one_by_one_find(steps in steps()) {
        let expected = by_force(&steps, (1 << steps.len()) - 1, None);
        prop_assert_eq!(verdict(&steps) == Verdict::Linearizable, expected);
    }
}
