//! When to try again.

use crate::strategies::{any_span, any_time};
use greenwave_policy::{Backoff, Time};
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The pauses after so many failures in a row, each found out when the next attempt is due.
fn pauses(first: Duration, seed: u64, failures: usize) -> Vec<Duration> {
    let (mut backoff, mut now) = (Backoff::new(first, seed), Time::ZERO);
    let mut pause = || {
        backoff.failed(now);
        backoff.due().since(std::mem::replace(&mut now, backoff.due()))
    };
    (0..failures).map(|_| pause()).collect()
}

proptest! {
    #[test]
    fn a_pause_is_between_half_and_all_of_a_doubling(first in 1_u64..1 << 40, seed: u64) {
        for (failures, pause) in (0..).zip(pauses(Duration::from_nanos(first), seed, 9)) {
            let whole = Duration::from_nanos(first << Backoff::DOUBLINGS.min(failures));
            prop_assert!(whole / 2 <= pause && pause <= whole, "{pause:?} of {whole:?}");
        }
    }

    #[test]
    fn what_was_of_use_is_tried_again_at_once_and_then_as_at_first(seed: u64, failures in 0_usize..9) {
        let mut backoff = Backoff::new(SECOND, seed);
        (0..failures).for_each(|_| backoff.failed(Time::ZERO));
        backoff.succeeded(Time::ZERO);
        prop_assert_eq!(backoff.due(), Time::ZERO);
        backoff.failed(Time::ZERO);
        prop_assert!(backoff.due() <= Time::ZERO + SECOND);
    }

    #[test]
    fn any_pause_will_do(first in any_span(), now in any_time(), seed: u64) {
        let mut backoff = Backoff::new(first, seed);
        for _ in 0..9 {
            backoff.failed(now);
            prop_assert!(backoff.due() >= now);
        }
    }
}

#[test]
fn the_same_seed_draws_the_same_pauses() {
    assert_eq!(pauses(SECOND, 7, 9), pauses(SECOND, 7, 9));
}

/// A hundred that lose the same server at once, some failures later: no part of the time is left out, or crowded.
#[test]
fn those_of_different_seeds_spread_out() {
    let mut tenths = [0; 10];
    for seed in 0..100 {
        let pause = pauses(SECOND, seed, 1)[0];
        tenths[((pause - SECOND / 2).as_millis() / 51) as usize] += 1;
    }
    assert!(tenths.iter().all(|many| (2..=22).contains(many)), "{tenths:?}");
}
