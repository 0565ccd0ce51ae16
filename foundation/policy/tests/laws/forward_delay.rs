//! The estimate of the wire, against wires of which everything is known.

use greenwave_policy::{ForwardDelay, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn nothing_is_charged_before_something_is_known() {
    let wire = ForwardDelay::new();
    assert_eq!((wire.estimate(), wire.bound(), wire.samples()), (Duration::ZERO, Duration::ZERO, 0));
}

#[test]
fn a_callee_that_claims_too_much_makes_the_wire_free_and_not_negative() {
    let mut wire = ForwardDelay::new();
    wire.observe(Time::ZERO, 10 * US, 30 * US);
    assert_eq!((wire.estimate(), wire.samples()), (Duration::ZERO, 1));
}

#[test]
fn a_route_that_becomes_longer_is_found_within_a_window() {
    let mut wire = ForwardDelay::new();
    let mut now = Time::ZERO;
    for (both_ways, seconds) in [(10 * US, 30), (90 * US, 11)] {
        for _ in 0..seconds {
            now = now + SECOND;
            wire.observe(now, both_ways, Duration::ZERO);
        }
    }
    assert_eq!(wire.estimate(), 45 * US);
}

#[test]
fn an_idle_connection_keeps_its_estimate() {
    let mut wire = ForwardDelay::new();
    wire.observe(Time::ZERO, 10 * US, Duration::ZERO);
    assert_eq!(wire.estimate(), 5 * US);
    wire.observe(Time::ZERO + 1000 * SECOND, 30 * US, Duration::ZERO);
    assert_eq!(wire.estimate(), 15 * US, "what is older than the window is forgotten");
}

/// An exchange: how long after the one before, queueing there, the callee, queueing back.
type Exchange = (Duration, Duration, Duration, Duration);

fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let us = |most: u32| (0..most).prop_map(|us| us * US);
    vec(((0..800_u64).prop_map(Duration::from_millis), us(500), us(5000), us(500)), 1..60)
}

proptest! {
    /// The bound holds for the fastest exchange, however uneven its two ways are.
    #[test]
    fn the_true_delay_is_within_the_bound(there in 0..300_u32, back in 0..300_u32, exchanges in exchanges()) {
        let mut wire = ForwardDelay::with_window(Duration::MAX);
        let (mut now, mut fastest) = (Time::ZERO, None);
        for (gap, queued, callee, queued_back) in exchanges {
            now = now + gap;
            let (forward, backward) = (there * US + queued, back * US + queued_back);
            wire.observe(now, forward + callee + backward, callee);
            fastest = Some(fastest.unwrap_or((forward + backward, forward)).min((forward + backward, forward)));
            let (_, forward) = fastest.expect("just set");
            prop_assert!(forward.abs_diff(wire.estimate()) <= wire.bound());
            prop_assert!(wire.bound() - wire.estimate() <= Duration::from_nanos(1));
        }
    }

    /// On a wire that is alike both ways, one exchange that didn't queue is enough to know it.
    #[test]
    fn queueing_is_not_charged(each_way in 0..300_u32, exchanges in exchanges()) {
        let mut wire = ForwardDelay::with_window(Duration::MAX);
        wire.observe(Time::ZERO, 2 * each_way * US, Duration::ZERO);
        for (gap, queued, callee, queued_back) in exchanges {
            wire.observe(Time::ZERO + gap, 2 * each_way * US + queued + callee + queued_back, callee);
        }
        prop_assert_eq!(wire.estimate(), each_way * US);
    }

    /// The estimate is the minimum of a stretch that ends now and is between half a window and a window long.
    #[test]
    fn a_sample_counts_for_half_a_window_to_a_whole(exchanges in exchanges()) {
        let mut wire = ForwardDelay::new();
        let (mut now, mut seen) = (Time::ZERO, Vec::new());
        for (gap, queued, callee, queued_back) in exchanges {
            now = now + gap;
            let both_ways = queued + queued_back;
            seen.push((now, both_ways));
            wire.observe(now, both_ways + callee, callee);
            let minimum_of = |window: Duration| {
                seen.iter().filter(|(at, _)| now.since(*at) <= window).map(|(_, both_ways)| *both_ways / 2).min()
            };
            prop_assert!(Some(wire.estimate()) <= minimum_of(ForwardDelay::WINDOW / 2));
            prop_assert!(Some(wire.estimate()) >= minimum_of(ForwardDelay::WINDOW));
        }
    }
}
