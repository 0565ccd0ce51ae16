//! One link: its order, its bandwidth, its delay, what it loses.

use greenwave_policy::Time;
use greenwave_sim::link::SEGMENT;
use greenwave_sim::{Bandwidth, Fate, Link, LinkRule, Seed};
use proptest::prelude::*;
use std::time::Duration;

fn rules() -> impl Strategy<Value = LinkRule> {
    (0..50_000_u64, 0..50_000_u64, 1_000..1_000_000_000_u64, 0.0..0.3_f64, any::<bool>()).prop_map(
        |(delay, jitter, bandwidth, loss, ordered)| LinkRule {
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter),
            bandwidth: Bandwidth::bytes_per_s(bandwidth),
            loss,
            ordered,
            cut: false,
        },
    )
}

/// Gaps in microseconds and sizes in bytes.
fn messages() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..20_000_u64, 0..50_000_u64), 1..100)
}

fn send_all(link: &mut Link, messages: &[(u64, u64)]) -> Vec<(Time, u64, Fate)> {
    let mut now = Time::ZERO;
    let mut fates = Vec::new();
    for &(gap, bytes) in messages {
        now = now + Duration::from_micros(gap);
        fates.push((now, bytes, link.send(now, bytes)));
    }
    fates
}

proptest! {
    /// An ordered link delivers everything, in the order of sending, and never before delay and bytes allow.
    #[test]
    fn ordered_links_keep_order_and_lose_nothing(rule in rules(), messages in messages(), seed: u64) {
        let rule = LinkRule { ordered: true, ..rule };
        let mut link = Link::new(rule, Seed::new(seed).stream("link", 0));
        let mut last = Time::ZERO;
        for (now, bytes, fate) in send_all(&mut link, &messages) {
            let at = fate.arrival().expect("an ordered link delivers");
            prop_assert!(at >= last);
            prop_assert!(at >= now + rule.delay + rule.bandwidth.time_for(bytes));
            last = at;
        }
    }

    /// Whatever span one takes, no more leaves in it than the bandwidth has room for, beside the message that was
    /// on its way out when the span began.
    #[test]
    fn bandwidth_is_never_exceeded(rule in rules(), messages in messages(), seed: u64) {
        let mut link = Link::new(rule, Seed::new(seed).stream("link", 0));
        let departed: Vec<(Time, u64)> = send_all(&mut link, &messages)
            .into_iter()
            .map(|(_, bytes, fate)| match fate {
                Fate::Arrives { departs, .. } | Fate::Lost { departs } => (departs, bytes),
                Fate::Cut => unreachable!("it isn't cut"),
            })
            .collect();
        for first in 0..departed.len() {
            let mut bytes = 0;
            for &(departs, size) in &departed[first + 1..] {
                bytes += size;
                let span = departs.since(departed[first].0);
                prop_assert!(span >= rule.bandwidth.time_for(bytes), "{bytes} bytes in {span:?}");
            }
        }
        prop_assert_eq!(link.carried(), messages.iter().map(|&(_, bytes)| bytes).sum::<u64>());
    }

    /// Without loss and jitter the arrival is what one works out by hand.
    #[test]
    fn arrival_is_waiting_and_bytes_and_delay(rule in rules(), messages in messages()) {
        let rule = LinkRule { jitter: Duration::ZERO, loss: 0.0, ..rule };
        let mut link = Link::new(rule, Seed::new(0).stream("link", 0));
        let mut free = Time::ZERO;
        for (now, bytes, fate) in send_all(&mut link, &messages) {
            free = free.max(now) + rule.bandwidth.time_for(bytes);
            prop_assert_eq!(fate, Fate::Arrives { departs: free, at: free + rule.delay });
        }
    }

    /// A cut link passes nothing, and costs nothing of what comes after.
    #[test]
    fn cut_links_pass_nothing(rule in rules(), messages in messages(), seed: u64) {
        let mut link = Link::new(LinkRule { cut: true, ..rule }, Seed::new(seed).stream("link", 0));
        for (_, _, fate) in send_all(&mut link, &messages) {
            prop_assert_eq!(fate, Fate::Cut);
        }
        prop_assert_eq!(link.carried(), 0);
    }
}

/// Of messages with one packet, the share that gets lost is the rule's; of messages with ten, nearly ten times that.
#[test]
fn loss_is_per_packet() {
    let rule = LinkRule { loss: 0.02, ordered: false, ..LinkRule::PERFECT };
    let mut link = Link::new(rule, Seed::new(3).stream("link", 0));
    let mut lost = |bytes| (0..20_000).filter(|_| link.send(Time::ZERO, bytes).arrival().is_none()).count();
    let (short, long) = (lost(SEGMENT), lost(10 * SEGMENT));
    assert!((300..500).contains(&short), "{short} of 20000");
    assert!((3_400..3_900).contains(&long), "{long} of 20000, expected 1 - 0.98^10");
}

/// Jitter reorders what isn't ordered, and stays within its bounds.
#[test]
fn jitter_is_bounded_and_reorders() {
    let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(3));
    let rule = LinkRule { jitter, ordered: false, ..LinkRule::delay(delay) };
    let mut link = Link::new(rule, Seed::new(3).stream("link", 0));
    let arrivals: Vec<Time> = (0..1000)
        .map(|number| Time::from_nanos(number * 1000))
        .map(|now| {
            let at = link.send(now, 1).arrival().expect("nothing is lost");
            assert!((delay..delay + jitter).contains(&at.since(now)));
            at
        })
        .collect();
    assert!(arrivals.windows(2).any(|pair| pair[0] > pair[1]));
}

/// A stream over a lossy path gets what Mathis et al. say, and loss over a long path hurts more than over a short one.
#[test]
fn loss_limits_streams() {
    let path = |ms, loss| LinkRule {
        loss,
        bandwidth: Bandwidth::bits_per_s(1_000_000_000),
        ..LinkRule::delay(Duration::from_millis(ms))
    };
    let rate = |rule: LinkRule| rule.stream_bandwidth().as_bytes_per_s() as f64;
    // 1.22 * 1448 / (0.1 s * 0.1).
    assert!((rate(path(50, 0.01)) / 176_656.0 - 1.0).abs() < 1e-3);
    assert!((rate(path(5, 0.01)) / rate(path(50, 0.01)) - 10.0).abs() < 1e-3);
    assert_eq!(path(50, 0.0).stream_bandwidth(), path(50, 0.0).bandwidth);
}

/// What no path can have is refused, with the number.
#[test]
fn impossible_rules_are_refused() {
    for loss in [-0.1, 1.1, f64::NAN, 0.9] {
        let refused = LinkRule { loss, ..LinkRule::PERFECT }.checked().expect_err("refused").to_string();
        assert!(refused.contains(&loss.to_string()), "{refused}");
    }
    assert!(LinkRule { loss: 0.9, ordered: false, ..LinkRule::PERFECT }.checked().is_ok());
}
