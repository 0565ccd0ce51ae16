//! Over all connections of an instance the smallest remainder goes first, and nobody waits for ever.

use greenwave_policy::{Rotation, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const LONG: usize = 1 << 20;

/// No other thread has anything.
const ALONE: usize = usize::MAX;

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

#[test]
fn the_smallest_remainder_of_all_connections_goes_first() {
    let mut rotation = Rotation::new();
    for (connection, least) in [(1, 3 * LONG), (2, LONG), (3, 64), (4, 2 * LONG)] {
        rotation.offer(at(0), connection, least);
    }
    let order: Vec<_> = std::iter::from_fn(|| rotation.next(at(1), ALONE)).collect();
    assert_eq!(order, [3, 2, 4, 1]);
}

#[test]
fn a_longer_one_is_held_back_while_a_shorter_one_is_held_up_by_its_link() {
    let mut rotation = Rotation::new();
    rotation.posted(1, Some(LONG));
    rotation.offer(at(0), 2, 2 * LONG);
    assert_eq!((rotation.next(at(1), ALONE), rotation.is_any_ready()), (None, true));
    // One with less than that isn't, nor is anything short.
    rotation.offer(at(2), 3, LONG / 2);
    rotation.offer(at(2), 4, 64);
    assert_eq!(
        (rotation.next(at(3), ALONE), rotation.next(at(3), ALONE), rotation.next(at(3), ALONE)),
        (Some(4), Some(3), None)
    );
    // Nor is it any more when that one is done.
    rotation.posted(1, None);
    assert_eq!(rotation.next(at(4), ALONE), Some(2));
}

#[test]
fn nobody_is_held_back_for_longer_than_the_hold() {
    let mut rotation = Rotation::new();
    rotation.posted(1, Some(LONG));
    rotation.offer(at(5), 2, 2 * LONG);
    let due = rotation.due(at(6), ALONE).expect("one waits");
    assert_eq!(due, at(5) + Rotation::HOLD);
    assert_eq!(rotation.next(due, ALONE), Some(2));
    assert_eq!(rotation.due(due, ALONE), None);
}

#[test]
fn a_shorter_one_of_another_thread_holds_longer_ones_back_but_not_for_long() {
    let mut rotation = Rotation::new();
    rotation.offer(at(0), 1, 2 * LONG);
    rotation.offer(at(0), 2, Rotation::SHORT);
    // What is short goes all the same, and so does what has less.
    assert_eq!((rotation.next(at(1), LONG), rotation.next(at(1), LONG)), (Some(2), None));
    rotation.offer(at(1), 3, LONG / 2);
    assert_eq!((rotation.next(at(2), LONG), rotation.due(at(2), LONG)), (Some(3), Some(at(0) + Rotation::HOLD)));
    assert_eq!(rotation.next(at(0) + Rotation::HOLD, LONG), Some(1));
    rotation.offer(at(3), 4, 2 * LONG);
    assert_eq!(rotation.next(at(4), 2 * LONG), Some(4));
}

#[test]
fn what_is_held_up_is_told() {
    let mut rotation = Rotation::new();
    rotation.offer(at(0), 1, LONG);
    assert_eq!(rotation.held_up(), ALONE);
    rotation.posted(2, Some(3 * LONG));
    rotation.posted(3, Some(2 * LONG));
    assert_eq!(rotation.held_up(), 2 * LONG);
    // It has room again.
    rotation.offer(at(0), 3, 2 * LONG);
    assert_eq!(rotation.held_up(), 3 * LONG);
}

#[test]
fn who_is_gone_holds_nobody_back() {
    let mut rotation = Rotation::new();
    rotation.posted(1, Some(LONG));
    rotation.offer(at(0), 2, 2 * LONG);
    rotation.remove(1);
    assert_eq!(rotation.due(at(1), ALONE), Some(at(1)));
    assert_eq!(rotation.next(at(1), ALONE), Some(2));
}

/// What is done to a number of connections.
#[derive(Clone, Debug)]
enum Act {
    Offer { connection: usize, least: usize },
    Next { least: Option<usize> },
    Remove(usize),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let least = || prop_oneof![0..4 * Rotation::SHORT, 0..4 * LONG];
    let act = prop_oneof![
        4 => (0..8_usize, least()).prop_map(|(connection, least)| Act::Offer { connection, least }),
        6 => proptest::option::of(least()).prop_map(|least| Act::Next { least }),
        1 => (0..8_usize).prop_map(Act::Remove),
        3 => (0..1500_u64).prop_map(Act::Pass),
    ];
    vec(act, 0..200)
}

proptest! {
    #[test]
    fn the_order_is_that_of_remainders_but_for_those_that_waited_too_long(acts in acts()) {
        let mut rotation = Rotation::new();
        let (mut now, mut ready, mut held_up) = (at(0), BTreeMap::new(), BTreeMap::new());
        for act in acts {
            match act {
                Act::Pass(micros) => now = now + Duration::from_micros(micros),
                Act::Offer { connection, least } => {
                    rotation.offer(now, connection, least);
                    held_up.remove(&connection);
                    ready.entry(connection).or_insert((now, least)).1 = least;
                }
                Act::Remove(connection) => {
                    rotation.remove(connection);
                    ready.remove(&connection);
                    held_up.remove(&connection);
                }
                Act::Next { least } => {
                    let smallest = ready.values().map(|(_, least)| *least).min();
                    let blocked = |least: usize| held_up.values().any(|held: &usize| *held < least);
                    let oldest = ready.values().map(|(since, _)| *since).min();
                    let overdue = oldest.is_some_and(|since| now.since(since) >= Rotation::HOLD);
                    let due = rotation.due(now, ALONE);
                    let Some(connection) = rotation.next(now, ALONE) else {
                        // Only what is long is held back, only while something shorter is held up, and not for long.
                        prop_assert!(smallest.is_none_or(|least| least > Rotation::SHORT && blocked(least) && !overdue));
                        prop_assert_eq!(due, oldest.map(|since| since + Rotation::HOLD));
                        continue;
                    };
                    prop_assert!(due.is_some_and(|due| due <= now), "it went before it was due");
                    let (since, remainder) = ready.remove(&connection).expect("only who is ready has a turn");
                    if Some(remainder) != smallest {
                        prop_assert!(overdue && Some(since) == oldest, "out of turn");
                        prop_assert!(smallest > Some(Rotation::SHORT), "something short waits");
                    }
                    rotation.posted(connection, least);
                    if let Some(least) = least {
                        held_up.insert(connection, least);
                    }
                }
            }
            prop_assert_eq!(rotation.is_any_ready(), !ready.is_empty());
        }
    }

    /// Whoever is ready has had a turn after the hold, and one turn for each other that was ready before.
    #[test]
    fn nobody_starves(lengths in vec(Rotation::SHORT + 1..LONG, 2..10)) {
        let mut rotation = Rotation::new();
        lengths.iter().enumerate().for_each(|(connection, &least)| rotation.offer(at(0), connection, least));
        let mut had = vec![false; lengths.len()];
        let mut now = at(0) + Rotation::HOLD;
        for _ in 0..lengths.len() {
            now = now + Duration::from_micros(1);
            let connection = rotation.next(now, ALONE).expect("overdue");
            had[connection] = true;
            // It always has more, and room for it.
            rotation.offer(now, connection, 2 * Rotation::SHORT);
        }
        prop_assert!(had.into_iter().all(|had| had));
    }
}
