//! The pacing of an event loop, in virtual time.

use greenwave_policy::{Due, Pacing, Span, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const fn us(micros: u64) -> Span {
    Span::from_nanos(micros * 1000)
}

/// What is done while calls run without end in quanta of 5 us, for 20 ms. Looks cost `look`, posts `post`; there is a reply
/// in each quantum if `replies`. How many looks and posts, and the share of all the time that they took.
fn run(look: Span, post: Span, replies: bool) -> (usize, usize, f64) {
    let (mut pacing, mut now, mut looks, mut posts, mut spent) = (Pacing::new(), 0, 0, 0, 0);
    let end = 20_000_000;
    while now < end {
        pacing.ran(us(5));
        now += 5000;
        if replies {
            pacing.replied(None);
        }
        let cost = match pacing.after_quantum(Time::from_nanos(now)) {
            Due::Look => {
                pacing.looked(look);
                looks += 1;
                look
            }
            Due::Post => {
                pacing.posted(post);
                posts += 1;
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
    let (looks, _, share) = run(Span::from_nanos(300), us(5), false);
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
    (0..50).for_each(|_| pacing.looked(us(1)));
    while at_end(&mut pacing) != Due::Look {}
    pacing.looked(us(1));
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
        let due = pacing.after_call(Time::ZERO);
        if due != Due::Nothing {
            pacing.posted(us(5));
        }
        if due == Due::Both {
            pacing.looked(us(1));
        }
        due != Due::Nothing
    });
    assert!((3..8).contains(&posts.count()));
}

#[test]
fn a_reply_that_would_be_late_is_posted_at_once() {
    let mut pacing = Pacing::new();
    (0..50).for_each(|_| pacing.looked(us(5)));
    let now = Time::from_nanos(1_000_000);
    pacing.replied(Some(now + Duration::from_millis(50)));
    assert_eq!([pacing.after_quantum(now), pacing.after_call(now)], [Due::Nothing; 2]);
    pacing.replied(Some(now + Duration::from_micros(30)));
    assert_eq!([pacing.after_quantum(now), pacing.after_call(now)], [Due::Post; 2]);
    pacing.posted(us(5));
    assert_eq!(pacing.after_quantum(now), Due::Nothing);
}

#[test]
fn time_without_work_fills_the_allowance() {
    let mut pacing = Pacing::new();
    (0..50).for_each(|_| pacing.looked(us(5)));
    assert_eq!(pacing.after_quantum(Time::ZERO), Due::Nothing);
    pacing.rested();
    assert_eq!(pacing.after_quantum(Time::ZERO), Due::Look);
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
        let most = if cost * 9 < 5000 { 1800.0 } else { 20_000_000.0 * Pacing::SHARE / cost as f64 };
        prop_assert!(looks as f64 >= most.min(1800.0) * 0.6, "{looks} of {most}");
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
                pacing.looked(if stall == 0 { us(10_000) } else { us(1) });
                since = 0;
            }
        }
        prop_assert!(longest < 200, "{longest}");
    }

    #[test]
    fn it_takes_anything(acts in vec((0..5_u8, any::<u64>()), 0..50)) {
        let mut pacing = Pacing::new();
        for (act, number) in acts {
            match act {
                0 => pacing.ran(Span::from_nanos(number)),
                1 => pacing.looked(Span::from_nanos(number)),
                2 => _ = pacing.posted(Span::from_nanos(number)),
                3 => pacing.replied(Some(Time::from_nanos(number))),
                _ => pacing.rested(),
            }
            let _ = pacing.after_quantum(Time::from_nanos(number));
            let _ = pacing.after_call(Time::from_nanos(number));
        }
    }
}
