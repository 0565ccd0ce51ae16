//! The pacing of an event loop, in virtual time.

use greenwave_policy::{Due, Pacing, Span, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const fn us(micros: u64) -> Span {
    Span::from_nanos(micros * 1000)
}

/// What is done while calls run without end in quanta of 5 us, for 20 ms. Looks cost `look`; posts cost `post`, and a
/// sixteenth of that for each reply; there is a reply in each quantum if `replies`. How many looks and posts, and the share
/// of all the time that they took, replies by themselves aside.
fn run(look: Span, post: Span, replies: bool) -> (usize, usize, f64) {
    let (mut pacing, mut now, mut looks, mut posts, mut spent) = (Pacing::new(), 0, 0, 0, 0);
    let (end, mut waiting) = (20_000_000, 0);
    while now < end {
        pacing.ran(us(5));
        now += 5000;
        if replies {
            pacing.replied(None);
            waiting += 1;
        }
        let cost = match pacing.after_quantum(Time::from_nanos(now)) {
            Due::Look => {
                pacing.looked(look, 0);
                looks += 1;
                look
            }
            Due::Post => {
                let each = post.as_nanos() * std::mem::take(&mut waiting) / 16;
                pacing.posted(Span::from_nanos(post.as_nanos() + each));
                posts += 1;
                now += each;
                post
            }
            Due::Nothing | Due::Both => Span::ZERO,
        };
        (spent, now) = (spent + cost.as_nanos(), now + cost.as_nanos());
    }
    (looks, posts, spent as f64 / now as f64)
}

#[test]
fn a_lone_call_is_found_within_a_quantum_where_a_look_is_cheap() {
    let (looks, _, share) = run(Span::from_nanos(200), us(5), false);
    assert!(looks > 3700, "{looks}");
    assert!(share < Pacing::SHARE, "{share}");
}

#[test]
fn a_reply_to_what_was_found_does_not_wait_for_the_next_look() {
    let mut pacing = Pacing::new();
    let at_end = |pacing: &mut Pacing| {
        pacing.ran(us(5));
        pacing.after_quantum(Time::ZERO)
    };
    (0..50).for_each(|_| pacing.looked(us(1), 1));
    while at_end(&mut pacing) != Due::Look {}
    pacing.looked(us(1), 1);
    pacing.ran(Span::from_nanos(500));
    pacing.replied(None);
    assert_eq!(at_end(&mut pacing), Due::Post);
}

#[test]
fn a_burst_of_replies_is_posted_with_few_calls() {
    let mut pacing = Pacing::new();
    let posts = (0..96).filter(|_| {
        pacing.ran(Span::from_nanos(400));
        pacing.replied(None);
        let due = pacing.after_call(Time::ZERO, 0);
        if due != Due::Nothing {
            pacing.posted(us(5));
        }
        if due == Due::Both {
            pacing.looked(us(1), 1);
        }
        due != Due::Nothing
    });
    assert!((3..8).contains(&posts.count()));
}

#[test]
fn a_post_carries_more_where_many_wait() {
    let replies = |waiting| {
        let mut pacing = Pacing::new();
        (1..1000).find(|_| {
            pacing.replied(None);
            pacing.after_call(Time::ZERO, waiting) == Due::Post
        })
    };
    let batch = Pacing::BATCH;
    let expected = [batch, batch, 4 * batch, 8 * batch].map(Some);
    assert_eq!([0, Pacing::QUEUED, 4 * batch * Pacing::QUEUED, usize::MAX].map(replies), expected);
}

#[test]
fn a_reply_that_would_be_late_is_posted_at_once() {
    let mut pacing = Pacing::new();
    (0..50).for_each(|_| pacing.looked(us(5), 1));
    let now = Time::from_nanos(1_000_000);
    pacing.replied(Some(now + Duration::from_millis(50)));
    assert_eq!([pacing.after_quantum(now), pacing.after_call(now, 0)], [Due::Nothing; 2]);
    pacing.replied(Some(now + Duration::from_micros(30)));
    assert_eq!([pacing.after_quantum(now), pacing.after_call(now, 0)], [Due::Post; 2]);
    pacing.posted(us(5));
    assert_eq!(pacing.after_quantum(now), Due::Nothing);
}

#[test]
fn time_without_work_fills_the_allowance() {
    let mut pacing = Pacing::new();
    (0..50).for_each(|_| pacing.looked(us(5), 1));
    assert_eq!(pacing.after_quantum(Time::ZERO), Due::Nothing);
    pacing.rested(Time::ZERO);
    assert_eq!(pacing.after_quantum(Time::ZERO), Due::Look);
}

/// The longest time between two looks, in microseconds, while long calls run in quanta of 5 us and so many short ones come in
/// a millisecond. Each of those costs 1 us to read and to run, and 1 us to answer, beside 5 us for a look and 20 us for a
/// post.
fn longest_gap(per_ms: u64) -> u64 {
    let (mut pacing, mut now) = (Pacing::new(), 0);
    let at = |nanos| Time::from_nanos(nanos);
    let (mut last, mut longest, end) = (now, 0, now + 50_000_000);
    while now < end {
        pacing.ran(us(5));
        now += 5000;
        match pacing.after_quantum(at(now)) {
            Due::Look => {
                let found = (now - last) * per_ms / 1_000_000;
                longest = longest.max(now - last);
                last = now;
                pacing.looked(us(5 + found), found as usize);
                pacing.ran(us(found));
                (0..found).for_each(|_| pacing.replied(None));
                now += 1000 * (5 + 2 * found);
            }
            Due::Post => {
                let replies = (now - last) * per_ms / 1_000_000;
                pacing.posted(us(20 + replies));
                now += 1000 * (20 + replies);
            }
            Due::Nothing | Due::Both => {}
        }
    }
    longest / 1000
}

#[test]
fn many_calls_do_not_put_the_next_look_off() {
    let [few, many] = [40, 160].map(longest_gap);
    assert!(many < 2 * few, "{few} us with few calls, {many} with many");
}

#[test]
fn where_time_is_spare_looks_come_sooner() {
    let [busy, idle] = [0, 60].map(|idle| {
        let mut pacing = Pacing::new();
        let at = |nanos| Time::from_nanos(nanos);
        for round in 0..1000 {
            pacing.ran(us(100 - idle));
            pacing.looked(us(5), 1);
            pacing.rested(at(round * 100_000));
            pacing.resumed(at(round * 100_000 + idle * 1000));
        }
        pacing.looked(us(5), 1);
        while pacing.after_quantum(Time::ZERO) == Due::Look {
            pacing.looked(us(5), 1);
        }
        (1..).find(|_| {
            pacing.ran(us(5));
            pacing.after_quantum(Time::ZERO) == Due::Look
        })
    });
    assert!(idle.unwrap() * 3 < busy.unwrap(), "{idle:?} {busy:?}");
}

proptest! {
    /// Whatever looks and posts cost, they take no more than their share of a busy core, but for those that were saved up
    /// before; and they take turns.
    #[test]
    fn they_stay_within_their_share(look in 50..20_000_u64, post in 50..20_000_u64, replies in any::<bool>()) {
        let (looks, posts, share) = run(Span::from_nanos(look), Span::from_nanos(post), replies);
        prop_assert!(share <= Pacing::SHARE * 1.1, "{share}");
        prop_assert!(posts <= looks + 1 && (!replies || looks <= posts + 1), "{looks} {posts}");
        // And they use it: what they cost is what they get.
        let cost = look + if replies { post } else { 0 };
        let most = if cost as f64 / Pacing::SHARE < 5000.0 { 1800.0 } else { 20_000_000.0 * Pacing::SHARE / cost as f64 };
        prop_assert!(looks as f64 >= most.min(1800.0) * 0.6, "{looks} of {most}");
    }

    /// While it says that nothing is due, nothing is.
    #[test]
    fn nothing_is_due_for_as_long_as_it_says(
        acts in vec((0..5_u8, 0..200_000_u64), 0..50),
        (step, due) in (1..20_000_u64, 0..4_000_000_u64),
    ) {
        let (mut pacing, mut now) = (Pacing::new(), 1_000_000);
        for (act, number) in acts {
            match act {
                0 => pacing.ran(Span::from_nanos(number)),
                1 => pacing.looked(Span::from_nanos(number), 1),
                2 => _ = pacing.posted(Span::from_nanos(number)),
                3 => pacing.replied((due > 1_000_000).then(|| Time::from_nanos(now + due))),
                _ => pacing.rested(Time::from_nanos(now)),
            }
            now += number;
            pacing.resumed(Time::from_nanos(now));
        }
        if pacing.after_quantum(Time::from_nanos(now)) == Due::Nothing {
            let quiet = pacing.quiet_for(Time::from_nanos(now)).as_nanos() as u64;
            let until = now + quiet;
            let mut longer = pacing.clone();
            longer.ran(Span::from_nanos(quiet + 1));
            prop_assert!(longer.after_quantum(Time::from_nanos(until + 1)) != Due::Nothing, "it is for no longer");
            let (mut steps, mut is_due) = (0, false);
            while now + step < until {
                prop_assert!(!is_due, "after {steps} steps of {step} ns");
                pacing.ran(Span::from_nanos(step));
                (now, steps) = (now + step, steps + 1);
                is_due = pacing.after_quantum(Time::from_nanos(now)) != Due::Nothing;
            }
            prop_assert!(!is_due, "at the end");
        }
    }

    /// A thread that is kept from running now and then pays for it with no more than a few turns.
    #[test]
    fn a_stall_is_no_price(stalls in vec(0..10_u8, 200)) {
        let (mut pacing, mut since, mut longest) = (Pacing::new(), 0, 0);
        for stall in stalls {
            pacing.ran(us(5));
            since += 1;
            longest = longest.max(since);
            if pacing.after_quantum(Time::ZERO) == Due::Look {
                pacing.looked(if stall == 0 { us(10_000) } else { us(1) }, 1);
                since = 0;
            }
        }
        prop_assert!(longest < 200, "{longest}");
    }

    #[test]
    fn it_takes_anything(acts in vec((0..6_u8, any::<u64>()), 0..50)) {
        let mut pacing = Pacing::new();
        for (act, number) in acts {
            match act {
                0 => pacing.ran(Span::from_nanos(number)),
                1 => pacing.looked(Span::from_nanos(number), number as usize),
                2 => _ = pacing.posted(Span::from_nanos(number)),
                3 => pacing.replied(Some(Time::from_nanos(number))),
                4 => pacing.rested(Time::from_nanos(number)),
                _ => pacing.resumed(Time::from_nanos(number)),
            }
            let _ = pacing.after_quantum(Time::from_nanos(number));
            let _ = pacing.after_call(Time::from_nanos(number), number as usize);
        }
    }
}
