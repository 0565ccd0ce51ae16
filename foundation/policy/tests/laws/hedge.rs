//! Second attempts are rationed.

use greenwave_policy::{Budget, Hedge, ServiceTimes};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn learned(observations: u32) -> ServiceTimes {
    let mut times = ServiceTimes::new();
    (0..observations).for_each(|_| times.observe(8 * MS));
    times
}

#[test]
fn the_wait_is_a_quantile_once_that_can_be_known() {
    let hedge = Hedge::new(0.05, 0.95, MS);
    assert_eq!(hedge.delay(&learned(19)), None);
    let delay = hedge.delay(&learned(20)).expect("20 observations have a twentieth");
    assert!(delay.abs_diff(8 * MS) <= MS / 4, "{delay:?}");
}

#[test]
fn the_wait_is_at_least_the_least() {
    assert_eq!(Hedge::new(0.05, 0.95, 20 * MS).delay(&learned(100)), Some(20 * MS));
}

#[test]
fn a_ratio_of_nothing_never_hedges() {
    for ratio in [0.0, -1.0, f64::NAN] {
        let mut hedge = Hedge::new(ratio, 0.95, MS);
        (0..1000).for_each(|_| hedge.on_request());
        assert_eq!(hedge.delay(&learned(1000)), None);
        assert!(!hedge.try_hedge(Budget::UNLIMITED, Duration::ZERO));
    }
}

#[test]
fn an_attempt_that_would_be_late_is_not_made_and_not_spent() {
    let mut hedge = Hedge::new(1.0, 0.95, MS);
    hedge.on_request();
    assert!(!hedge.try_hedge(Budget::expected(5 * MS), 5 * MS));
    assert!(hedge.try_hedge(Budget::expected(5 * MS), 4 * MS));
    assert!(!hedge.try_hedge(Budget::expected(5 * MS), 4 * MS), "one request earned one attempt");
}

proptest! {
    /// From the start no more than the ratio, and over any stretch no more than that and what was saved.
    #[test]
    fn attempts_stay_within_the_ratio(millionths in 0..=1_000_000_u64, requests in vec(proptest::bool::weighted(0.7), 0..500)) {
        let mut hedge = Hedge::new(millionths as f64 / 1e6, 0.95, MS);
        let (mut balance, mut highest) = (0, 0);
        for is_request in requests {
            if is_request {
                hedge.on_request();
                balance += i64::try_from(millionths).expect("up to a million");
            } else if hedge.try_hedge(Budget::UNLIMITED, MS) {
                balance -= 1_000_000;
            }
            highest = highest.max(balance);
            prop_assert!(balance >= 0);
            prop_assert!(highest - balance <= i64::try_from(Hedge::BURST * 1_000_000).expect("a few millions"));
        }
    }

    /// However long it was calm, a storm starts with a few attempts only.
    #[test]
    fn a_calm_saves_up_a_few_attempts(ratio in 0.0..=1.0_f64, calm in 0..5000_u64) {
        let mut hedge = Hedge::new(ratio, 0.95, MS);
        (0..calm).for_each(|_| hedge.on_request());
        let storm = (0..100).filter(|_| hedge.try_hedge(Budget::UNLIMITED, MS)).count() as u64;
        prop_assert!(storm <= Hedge::BURST);
        prop_assert_eq!(storm, Hedge::BURST.min((calm as f64 * (ratio * 1e6).round() / 1e6) as u64));
    }
}
