//! What holds of a queue with controlled delay and adaptive LIFO.

use greenwave_policy::{CodelLifo, CodelLifoRule, Time};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const START: Time = Time::from_nanos(1_000_000_000);

fn at(ms: u32) -> Time {
    START + ms * MS
}

#[test]
fn few_are_served_in_turn_and_the_newest_first_once_a_queue_forms() {
    let mut queue = CodelLifo::new(CodelLifoRule { forms_at: 2, ..CodelLifoRule::default() });
    for work in 0..4 {
        queue.push(at(work), work);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(4))).collect();
    assert_eq!(order, [3, 2, 0, 1]);
}

#[test]
fn who_comes_to_a_queue_that_stands_may_wait_for_the_target_alone() {
    let mut queue = CodelLifo::new(CodelLifoRule::default());
    queue.push(at(0), "patient");
    queue.push(at(90), "patient still");
    assert!(!queue.stands(at(100)));
    queue.push(at(101), "hurried");
    assert!(queue.stands(at(101)));
    assert_eq!((queue.take_late(at(105)), queue.take_late(at(105))), (Some("patient"), None));
    assert_eq!((queue.next_late(), queue.take_late(at(106))), (Some(at(106)), Some("hurried")));
    assert_eq!((queue.take_late(at(189)), queue.take_late(at(190))), (None, Some("patient still")));
}

#[test]
fn a_queue_that_was_emptied_is_patient_again() {
    let mut queue = CodelLifo::new(CodelLifoRule::default());
    queue.push(at(0), 0);
    queue.push(at(101), 1);
    assert_eq!((queue.pop(at(102)), queue.pop(at(102))), (Some(1), Some(0)));
    queue.push(at(103), 2);
    assert_eq!((queue.stands(at(200)), queue.next_late()), (false, Some(at(203))));
}

#[test]
fn an_idle_queue_does_not_stand_however_long_it_is_idle() {
    let mut queue = CodelLifo::new(CodelLifoRule::default());
    assert!(!queue.stands(at(10_000)));
    queue.push(at(10_000), ());
    assert_eq!(queue.next_late(), Some(at(10_100)));
}

/// One server of a fixed speed, with more work than it can do: first come, first served has a queue as long as the overload
/// has lasted.
#[test]
fn in_an_overload_the_queue_stays_short_and_who_is_served_has_waited_little() {
    let rule = CodelLifoRule::default();
    let mut queue = CodelLifo::new(rule);
    let (mut served, mut longest, mut most) = (0, Duration::ZERO, 0);
    for ms in 0..10_000 {
        // Three come in two milliseconds, and one is served in each.
        for _ in 0..1 + ms % 2 {
            queue.push(at(ms), at(ms));
        }
        while queue.take_late(at(ms)).is_some() {}
        if let Some(came) = queue.pop(at(ms)).filter(|_| ms > 1_000) {
            served += 1;
            longest = longest.max(at(ms).since(came));
        }
        if ms > 1_000 {
            most = most.max(queue.len());
        }
    }
    assert_eq!(served, 8_999);
    assert!(longest <= rule.target, "{longest:?}");
    assert!(most <= 8, "{most}");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    TakeLate,
    Remove(usize),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Push),
        2 => Just(Step::Pop),
        2 => Just(Step::TakeLate),
        1 => any::<usize>().prop_map(Step::Remove),
        2 => (0u16..200).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Whatever is done to it, each that comes leaves once, and nobody stays who is late while somebody takes the late.
    #[test]
    fn each_leaves_once_and_the_late_are_found(steps in prop::collection::vec(step(), 0..200), forms_at in 0usize..8) {
        let rule = CodelLifoRule { forms_at, ..CodelLifoRule::default() };
        let mut queue = CodelLifo::new(rule);
        let (mut now, mut places, mut inside) = (START, Vec::new(), BTreeSet::new());
        for step in steps {
            let left = match step {
                Step::Push => {
                    places.push(queue.push(now, places.len()));
                    inside.insert(places.len() - 1);
                    None
                }
                Step::Pop => queue.pop(now),
                Step::TakeLate => queue.take_late(now),
                Step::Remove(at) => {
                    let at = at % places.len().max(1);
                    let removed = places.get(at).and_then(|place| queue.remove(now, *place));
                    prop_assert_eq!(removed, inside.contains(&at).then_some(at));
                    removed
                }
                Step::Wait(ms) => {
                    now = now + u32::from(ms) * MS;
                    None
                }
            };
            prop_assert!(left.is_none_or(|left| inside.remove(&left)));
            prop_assert_eq!(queue.len(), inside.len());
        }
        now = now + rule.interval;
        while let Some(left) = queue.take_late(now) {
            prop_assert!(inside.remove(&left));
        }
        prop_assert!(queue.is_empty() && inside.is_empty());
    }
}
