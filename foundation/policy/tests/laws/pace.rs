//! A short message waits for a chunk or two, whatever the link; and the link is not idle for it.

use greenwave_policy::{Acknowledged, Pace, Time};
use proptest::prelude::*;
use std::time::Duration;

const MOST: usize = 128 << 10;
const MICRO: Duration = Duration::from_micros(1);

/// A connection that was held up by a link of so many bytes per second for a while.
fn held_up(rate: u64, round_trip: Duration) -> Pace {
    let mut pace = Pace::new();
    for millis in 0..20 {
        let acked = u128::from(rate) * millis / 1000;
        let acked = u64::try_from(acked).unwrap_or(u64::MAX);
        pace.observe(
            Time::from_nanos(millis as u64 * 1_000_000),
            Acknowledged { bytes: acked, round_trip, all: false },
        );
    }
    pace
}

/// A link that carries `rate` bytes per second over a round trip, and a sender who refills what the kernel holds, up to
/// the bound, when a third of it is free and `delay` has passed. What it carried in the last fifth of the time, as a
/// share of what it could, and the most that ever lay before a new byte then.
fn carried(
    pace: &mut Pace,
    from: Time,
    rate: u64,
    round_trip: Duration,
    delay: Duration,
    time: Duration,
) -> (f64, usize) {
    let step = Duration::from_micros(10);
    let per_step = rate as f64 * step.as_secs_f64();
    let trip = (round_trip.as_nanos() / step.as_nanos()) as usize;
    let steps = (time.as_nanos() / step.as_nanos()) as usize;
    // What leaves in each step is acknowledged a round trip later; `queued` has yet to leave.
    let (mut left, mut queued, mut unacked, mut acked) = (vec![0.0; steps + trip + 1], 0.0_f64, 0.0_f64, 0.0_f64);
    let (mut wanted_since, mut sent, mut deepest) = (Some(0), 0.0, 0);
    for at in 0..steps {
        let now = from + step * at as u32;
        let sends = queued.min(per_step);
        queued -= sends;
        left[at + trip] = sends;
        (acked, unacked) = (acked + left[at], unacked - left[at]);
        pace.observe(now, Acknowledged { bytes: acked as u64, round_trip, all: unacked + queued < 1.0 && at > trip });
        let bound = pace.bound(MOST) as f64;
        if queued + unacked <= bound * 2.0 / 3.0 {
            wanted_since.get_or_insert(at);
        }
        if wanted_since.is_some_and(|since| step * (at - since) as u32 >= delay) {
            let chunk = pace.chunk(MOST) as f64;
            while queued + unacked + chunk <= bound {
                queued += chunk;
            }
            wanted_since = None;
        }
        unacked += sends;
        if at >= steps * 4 / 5 {
            sent += sends;
            deepest = deepest.max(queued as usize);
        }
    }
    (sent / (per_step * (steps - steps * 4 / 5) as f64), deepest)
}

#[test]
fn before_anything_was_measured_chunks_are_as_long_as_they_may_be() {
    let pace = Pace::new();
    assert_eq!((pace.rate(), pace.chunk(MOST), pace.chunk(512)), (None, MOST, 512));
    assert!(pace.bound(512) >= 2 * 512 && pace.bound(MOST) >= 2 * MOST);
}

#[test]
fn a_rest_does_not_count_as_time_that_the_link_took() {
    let mut pace = held_up(100_000_000, 50 * MICRO);
    let rate = pace.rate();
    pace.rest();
    assert!(!pace.is_measuring());
    let later = Time::from_nanos(60_000_000_000);
    assert!(!pace.observe(later, Acknowledged { bytes: 1 << 40, round_trip: 50 * MICRO, all: false }));
    assert_eq!(pace.rate(), rate);
}

#[test]
fn a_link_that_became_slow_is_noticed_within_two_windows() {
    let mut pace = held_up(1_000_000_000, 50 * MICRO);
    let chunk = pace.chunk(MOST);
    for millis in 20..1200 {
        let acked = 20_000_000 + (millis - 20) * 10_000;
        pace.observe(
            Time::from_nanos(millis * 1_000_000),
            Acknowledged { bytes: acked, round_trip: 50 * MICRO, all: false },
        );
    }
    assert!(pace.rate() <= Some(10_000_000), "{:?}", pace.rate());
    assert!(pace.chunk(MOST) < chunk);
}

#[test]
fn a_link_that_became_fast_is_used_within_a_few_dozen_round_trips() {
    for (slow, fast) in [(1_250_000, 1_250_000_000), (25_000_000, 125_000_000)] {
        let trip = 100 * MICRO;
        let mut pace = held_up(slow, trip);
        pace.rest();
        let (share, _) =
            carried(&mut pace, Time::from_nanos(20_000_000), fast, trip, 50 * MICRO, Duration::from_millis(500));
        assert!(share > 0.95, "{slow} became {fast}: {share}");
    }
}

#[test]
fn who_refills_late_holds_more_and_the_link_is_busy_all_the_same() {
    let (rate, trip) = (25_000_000, 50 * MICRO);
    let mut pace = Pace::new();
    let (share, deepest) = carried(&mut pace, Time::ZERO, rate, trip, Duration::from_millis(2), Duration::from_secs(2));
    assert!(share > 0.95, "{share}");
    assert!(deepest < 25_000 * 6, "{deepest} bytes are more than three times what is needed");
    // And less again when a core is free.
    pace.rest();
    let from = Time::ZERO + Duration::from_secs(2);
    let (_, deepest) = carried(&mut pace, from, rate, trip, Duration::ZERO, Duration::from_secs(2));
    assert!(deepest < 25_000, "{deepest}");
}

proptest! {
    /// A chunk is no longer than the link carries in the time for one, unless it is the least; nor than allowed.
    #[test]
    fn a_chunk_takes_its_time_and_no_more(rate in 1..50_000_000_000_u64, most in 1..(1_usize << 20), micros in 0..100_000_u32) {
        let pace = held_up(rate, micros * MICRO);
        let chunk = pace.chunk(most);
        prop_assert!((1..=most).contains(&chunk));
        if let Some(rate) = pace.rate() {
            let takes = chunk as f64 / rate as f64;
            prop_assert!(chunk <= Pace::CHUNK_LEAST || takes <= Pace::CHUNK_TIME.as_secs_f64() * 1.001, "{takes}");
            prop_assert!(pace.bound(most) >= 2 * chunk);
        }
    }

    /// A link of any speed and length is busy, and what lies before a new byte is a few chunks' worth of it: what was
    /// slack, and what there is in the way of chunks and half round trips.
    #[test]
    fn the_link_is_busy_and_what_is_bound_is_little(
        rate in 2_000_000..2_000_000_000_u64,
        trip in 2..200_u32,
        delay in 0..10_u32,
    ) {
        let (trip, delay) = (trip * 10 * MICRO, delay * 10 * MICRO);
        let mut pace = Pace::new();
        let (share, deepest) = carried(&mut pace, Time::ZERO, rate, trip, delay, Duration::from_secs(1));
        prop_assert!(share > 0.95, "{share} of {rate} over {trip:?}, {delay:?}");
        let waits = Duration::from_secs_f64(deepest as f64 / rate as f64);
        let chunks = Duration::from_secs_f64(2.0 * pace.chunk(MOST) as f64 / rate as f64);
        // Where a chunk takes longer than the least slack, that grows.
        prop_assert!(waits <= (Pace::SLACK.0 + trip / 2 + chunks + chunks / 4) + 20 * MICRO, "{waits:?} at {rate} over {trip:?}");
    }

    /// Whatever a kernel says, nothing panics and the sizes stay within what is allowed.
    #[test]
    fn absurd_measurements_are_survived(
        seen in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..50),
        most in 1..usize::MAX,
    ) {
        let mut pace = Pace::new();
        for (at, acked, round_trip) in seen {
            let round_trip = Duration::from_nanos(round_trip);
            pace.observe(Time::from_nanos(at), Acknowledged { bytes: acked, round_trip, all: false });
            prop_assert!((1..=most).contains(&pace.chunk(most)));
            prop_assert!(pace.bound(most) >= pace.chunk(most));
        }
    }
}
