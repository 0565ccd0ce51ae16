//! Smallest remainder first, everything sent once, and nobody waits for ever.

use greenwave_policy::{Budget, Deadline, SplitQueue, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

/// The deadline of a request that has so many nanoseconds.
fn within(nanos: u64) -> Deadline {
    Deadline::at(Time::ZERO, Budget::expected(Duration::from_nanos(nanos)))
}

#[test]
fn a_short_message_overtakes_a_long_one_between_chunks() {
    let mut queue = SplitQueue::new();
    queue.push(1000, Deadline::NEVER, "long");
    assert_eq!(queue.next(100), Some((&mut "long", 100, false)));
    queue.push(50, Deadline::NEVER, "short");
    assert_eq!(queue.next(100), Some((&mut "short", 50, true)));
    assert_eq!(queue.next(100), Some((&mut "long", 100, false)));
}

#[test]
fn equal_remainders_go_by_deadline_and_then_by_age() {
    let mut queue = SplitQueue::new();
    queue.push(10, Deadline::NEVER, "no deadline");
    queue.push(10, within(7), "first");
    queue.push(10, within(7), "second");
    queue.push(10, within(5), "tightest");
    let order: Vec<_> = std::iter::from_fn(|| queue.next(10).map(|(name, _, _)| *name)).collect();
    assert_eq!(order, ["tightest", "first", "second", "no deadline"]);
}

#[test]
fn a_long_message_goes_next_when_its_patience_is_over() {
    let mut queue = SplitQueue::with_patience(3);
    queue.push(1000, Deadline::NEVER, 'L');
    let order: String = (0..8)
        .map(|_| {
            queue.push(1, Deadline::NEVER, 's');
            *queue.next(10).expect("two wait").0
        })
        .collect();
    assert_eq!(order, "sssLsssL");
}

#[test]
fn with_many_long_messages_a_short_one_still_goes_next() {
    let mut queue = SplitQueue::with_patience(3);
    (0..100).for_each(|_| _ = queue.push(1000, Deadline::NEVER, 'L'));
    (0..200).for_each(|_| assert!(queue.next(1).is_some()));
    queue.push(1, Deadline::NEVER, 's');
    let next_two = [(); 2].map(|()| *queue.next(1).expect("many wait").0);
    assert!(next_two.contains(&'s'), "{next_two:?}");
}

#[test]
fn a_sent_message_can_be_had_back_until_the_next_turn() {
    let mut queue = SplitQueue::new();
    queue.push(3, Deadline::NEVER, "one");
    queue.push(4, Deadline::NEVER, "two");
    assert_eq!(queue.take_sent(), None);
    queue.next(2);
    assert_eq!((queue.take_sent(), queue.len()), (None, 2));
    queue.next(2);
    assert_eq!((queue.take_sent(), queue.len()), (Some("one"), 1));
    queue.next(4);
    assert_eq!(queue.next(4), None);
    assert_eq!((queue.take_sent(), queue.is_empty()), (None, true));
}

#[test]
fn a_queue_in_order_sends_whole_messages_as_they_came() {
    let mut queue = SplitQueue::in_order();
    queue.push(1000, Deadline::NEVER, 'L');
    let order: String = std::iter::from_fn(|| {
        queue.push(1, within(1), 's');
        queue.next(250).map(|(name, _, _)| *name)
    })
    .take(8)
    .collect();
    assert_eq!(order, "LLLLssss");
}

#[test]
fn a_chunk_can_depend_on_its_message() {
    let mut queue = SplitQueue::new();
    queue.push(20, Deadline::NEVER, 8);
    assert_eq!(queue.next_with(|header| 16 - *header), Some((&mut 8, 8, false)));
    assert_eq!(queue.next_with(|_| 0), None);
    assert_eq!(queue.next_with(|_| 16), Some((&mut 8, 12, true)));
}

/// Who has waited longest is found without looking at all who wait: ten times as many cost about ten times as much to send.
#[test]
fn many_messages_cost_each_of_them_no_more_than_few() {
    let time_of = |count: usize| {
        let begin = std::time::Instant::now();
        let mut queue = SplitQueue::new();
        (0..count).for_each(|id| _ = queue.push(id % 7, within(id as u64 % 11), id));
        while queue.next(100).is_some() {}
        begin.elapsed().as_secs_f64() / count as f64
    };
    // The least of some, as whatever disturbs a measurement makes it longer: of more where the machine is busy.
    let (mut few, mut many) = (f64::INFINITY, f64::INFINITY);
    for round in 0..200 {
        (few, many) = (few.min(time_of(2_000)), many.min(time_of(20_000)));
        if round >= 7 && many < 5.0 * few {
            return;
        }
    }
    panic!("{few:e} s each of few, {many:e} s each of many");
}

/// What is done to a queue.
#[derive(Clone, Debug)]
enum Act {
    Push {
        remaining: usize,
        deadline: u64,
    },
    Next(usize),
    /// The message that is so far from the first, counted round.
    Remove(usize),
}

fn acts(longest: usize) -> impl Strategy<Value = Vec<Act>> {
    let push = (0..longest, 0..4_u64).prop_map(|(remaining, deadline)| Act::Push { remaining, deadline });
    let next = prop_oneof![1 => Just(0), 12 => 1..20_usize].prop_map(Act::Next);
    let remove = (0..30_usize).prop_map(Act::Remove);
    vec(prop_oneof![3 => push, 6 => next, 2 => remove], 0..300)
}

/// A message as the laws see it.
#[derive(Clone, Debug)]
struct Waiting {
    id: usize,
    place: usize,
    rank: (usize, Deadline, usize),
    passed_over: usize,
    /// How many waited when it was pushed or last sent, itself included.
    company: usize,
}

proptest! {
    #[test]
    fn the_smallest_remainder_goes_first_and_nobody_starves(acts in acts(100), patience in 0..6_u32) {
        let mut queue = SplitQueue::with_patience(patience);
        let patience = patience as usize;
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut turns_since_help = patience;
        for (id, act) in acts.into_iter().enumerate() {
            match act {
                Act::Push { remaining, deadline } => {
                    let place = queue.push(remaining, within(deadline), id);
                    let company = waiting.len() + 1;
                    waiting.push(Waiting { id, place, rank: (remaining, within(deadline), id), passed_over: 0, company });
                }
                Act::Remove(_) if waiting.is_empty() => {}
                Act::Remove(number) => {
                    let Waiting { id, place, .. } = waiting.remove(number % waiting.len());
                    prop_assert_eq!(queue.remove(place, |other| *other != id), None);
                    prop_assert_eq!(queue.remove(place, |other| *other == id), Some(id));
                    prop_assert_eq!(queue.remove(place, |_| true), None);
                }
                Act::Next(0) => prop_assert_eq!(queue.next(0), None),
                Act::Next(chunk) => {
                    let Some((&mut id, bytes, last)) = queue.next(chunk) else {
                        prop_assert!(waiting.is_empty());
                        continue;
                    };
                    let company = waiting.len();
                    let smallest = waiting.iter().map(|message| message.rank).min();
                    let at = waiting.iter().position(|message| message.id == id).expect("handed out while it waits");
                    let message = &mut waiting[at];
                    prop_assert_eq!(bytes, message.rank.0.min(chunk));
                    if Some(message.rank) == smallest {
                        turns_since_help += 1;
                    } else {
                        prop_assert!(message.passed_over >= patience, "{message:?} is out of turn");
                        prop_assert!(turns_since_help >= patience, "helped after {turns_since_help} turns");
                        turns_since_help = 0;
                    }
                    message.rank.0 -= bytes;
                    prop_assert_eq!(last, message.rank.0 == 0);
                    (message.passed_over, message.company) = (0, company);
                    waiting.iter_mut().filter(|message| message.id != id).for_each(|other| other.passed_over += 1);
                    if last {
                        waiting.remove(at);
                    }
                }
            }
            prop_assert_eq!(queue.least(), waiting.iter().map(|message| message.rank.0).min());
            prop_assert_eq!(queue.len(), waiting.len());
            prop_assert_eq!(queue.is_empty(), waiting.is_empty());
            for message in &waiting {
                prop_assert!(message.passed_over < (message.company + 1) * (patience + 1), "{message:?} starves");
            }
        }
    }

    /// Every byte of every message, each message's in one piece of `last`.
    #[test]
    fn everything_is_sent_once(messages in vec(0..1000_usize, 0..40), chunk in 1..100_usize, patience in 0..20_u32) {
        let mut queue = SplitQueue::with_patience(patience);
        messages.iter().enumerate().for_each(|(id, &bytes)| _ = queue.push(bytes, Deadline::NEVER, id));
        let (mut sent, mut ended) = (vec![0; messages.len()], vec![false; messages.len()]);
        while let Some((&mut id, bytes, last)) = queue.next(chunk) {
            prop_assert!(!ended[id] && bytes <= chunk);
            sent[id] += bytes;
            ended[id] = last;
        }
        prop_assert_eq!(sent, messages);
        prop_assert!(ended.iter().all(|ended| *ended));
        prop_assert!(queue.is_empty());
    }

    /// One message at a time is sent in as few chunks as it has.
    #[test]
    fn a_message_alone_is_sent_without_detours(lengths in vec(0..500_usize, 0..60), chunk in 1..100_usize) {
        let mut queue = SplitQueue::new();
        for bytes in lengths {
            queue.push(bytes, Deadline::NEVER, ());
            let chunks = bytes.div_ceil(chunk).max(1);
            for left in (0..chunks).rev() {
                let (_, _, last) = queue.next(chunk).expect("chunks are left");
                prop_assert_eq!(last, left == 0);
            }
        }
        prop_assert_eq!(queue.next(chunk), None);
    }
}
