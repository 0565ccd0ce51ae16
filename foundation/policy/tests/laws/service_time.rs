//! Quantiles, against the sorted observations.

use greenwave_policy::{ServiceTimes, Span};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const US: Duration = Duration::from_micros(1);

fn observed(times: impl IntoIterator<Item = Duration>) -> ServiceTimes {
    let mut learned = ServiceTimes::new();
    times.into_iter().for_each(|took| learned.observe(took));
    learned
}

/// Within a bucket's relative error.
fn is_near(estimate: Duration, exact: Duration) -> bool {
    estimate.abs_diff(exact) <= exact / 32
}

#[test]
fn nothing_is_known_of_what_was_not_observed() {
    let times = ServiceTimes::new();
    assert_eq!((times.quantile(0.5), times.mean(), times.count()), (None, None, 0));
}

#[test]
fn a_method_that_became_slower_is_known_as_slower() {
    let mut times = observed([US; 10_000]);
    (0..20_000).for_each(|_| times.observe(100 * US));
    let slow = times.quantile(0.01).expect("observed");
    assert!(is_near(slow, 100 * US), "{slow:?}");
    assert!(is_near(times.mean().expect("observed"), 100 * US), "{times:?}");
    assert_eq!(times.count(), 30_000);
}

#[test]
fn what_was_seen_2048_observations_ago_counts_for_half() {
    let mut times = observed([US; 4096]);
    (0..2047).for_each(|_| times.observe(100 * US));
    assert!(is_near(times.quantile(0.5).expect("observed"), US), "{times:?}");
    (0..2).for_each(|_| times.observe(100 * US));
    assert!(is_near(times.quantile(0.51).expect("observed"), 100 * US), "{times:?}");
}

/// One call in a hundred is slow, at times that never repeat: each bucket holds a few, which must not be forgotten
/// before the many.
#[test]
fn the_rare_slow_calls_keep_their_share() {
    let slow = |call: u32| Duration::from_millis(1) + call * 10 * US;
    let times = observed((0..100_000).map(|call| if call % 100 == 0 { slow(call / 100) } else { US }));
    assert!(is_near(times.quantile(0.985).expect("observed"), US), "{times:?}");
    assert!(times.quantile(0.995).expect("observed") > Duration::from_millis(1), "{times:?}");
}

#[test]
fn what_is_left_is_what_those_that_took_longer_went_on_to_take() {
    let us = Duration::from_micros;
    let bimodal = observed((0..1000).map(|at| if at % 200 == 0 { us(500) } else { us(1) }));
    let left = |had| bimodal.left(Span::from(us(had)));
    assert!(left(0).is_some_and(|left| is_near(left, us(1))), "{:?}", left(0));
    assert!(left(5).is_some_and(|left| is_near(left, us(495))), "{:?}", left(5));
    assert!(left(400).is_some_and(|left| left.abs_diff(us(100)) < us(20)), "{:?}", left(400));
    assert_eq!(left(600), None);
    assert_eq!(ServiceTimes::new().left(Span::ZERO), None);
}

#[test]
fn who_has_about_as_much_left_as_at_first_has_no_more_and_who_has_much_more_has() {
    let us = Duration::from_micros;
    let times = observed((0..1000).map(|at| if at % 20 == 0 { us(18) } else { us(10) }));
    let remaining = |given, had| times.remaining(us(given), Span::from(us(had)));
    assert_eq!(remaining(10, 3), us(7));
    assert_eq!(remaining(10, 10), Duration::ZERO);
    assert_eq!(remaining(10, 40), us(40), "none was seen");
    assert_eq!(remaining(5, 11), us(5));
    assert!(is_near(remaining(3, 11), us(7)), "{:?}", remaining(3, 11));
    assert!(is_near(remaining(0, 11), us(7)), "{:?}", remaining(0, 11));
}

#[test]
fn absurd_times_count_as_the_longest_there_are() {
    let times = observed([Duration::MAX]);
    let longest = Duration::from_nanos(1 << 40);
    assert!(is_near(times.quantile(1.0).expect("observed"), longest), "{times:?}");
    assert!(times.mean().expect("observed") < longest);
}

/// Times of all magnitudes.
fn times() -> impl Strategy<Value = Vec<Duration>> {
    let took = (0..40_u32, any::<u64>()).prop_map(|(bits, nanos)| Duration::from_nanos(nanos % (2 << bits)));
    vec(took.prop_map(|took| took.min(Duration::from_nanos((1 << 40) - 1))), 1..400)
}

proptest! {
    #[test]
    fn a_quantile_is_within_a_buckets_error(mut times in times(), quantile in 0.0..=1.0_f64) {
        let learned = observed(times.iter().copied());
        times.sort_unstable();
        let rank = (quantile * times.len() as f64).ceil().max(1.0) as usize;
        let (estimate, exact) = (learned.quantile(quantile).expect("observed"), times[rank - 1]);
        prop_assert!(is_near(estimate, exact), "{estimate:?} for {exact:?}");
    }

    /// A share that ends between two observations ends with the shorter one.
    #[test]
    fn a_quantile_is_an_observation_and_not_the_next(mut times in times(), rank in any::<proptest::sample::Index>()) {
        let learned = observed(times.iter().copied());
        times.sort_unstable();
        let at = rank.index(times.len());
        let share = (at + 1) as f64 / times.len() as f64;
        prop_assume!(share * times.len() as f64 == (at + 1) as f64);
        prop_assert!(is_near(learned.quantile(share).expect("observed"), times[at]));
    }

    #[test]
    fn what_is_left_falls_within_the_longer_half(times in times(), had in 0..1_u64 << 40) {
        let observed = observed(times.iter().copied());
        match observed.left(Span::from_nanos(had)) {
            Some(left) => {
                let whole = Duration::from_nanos(had) + left;
                prop_assert!(whole <= observed.quantile(1.0).expect("something was observed").max(Duration::from_nanos(had)));
            }
            // Those of its own bucket are taken to be no longer.
            None => {
                let longest = times.iter().max().copied().unwrap_or_default();
                prop_assert!(longest.as_nanos() as u64 <= had + had / 16 + 1, "{longest:?}");
            }
        }
    }

    #[test]
    fn a_higher_quantile_is_no_shorter(times in times(), one in 0.0..=1.0_f64, other in 0.0..=1.0_f64) {
        let learned = observed(times);
        prop_assert!(learned.quantile(one.min(other)) <= learned.quantile(one.max(other)));
    }

    #[test]
    fn the_mean_is_exact_until_something_is_forgotten(times in times()) {
        let mean = times.iter().sum::<Duration>() / times.len() as u32;
        let learned = observed(times).mean().expect("observed");
        prop_assert!(learned.abs_diff(mean) <= Duration::from_nanos(1), "{learned:?} for {mean:?}");
    }

    /// A constant is learned as it is, however long it goes on.
    #[test]
    fn forgetting_changes_nothing_of_what_is_constant(nanos in 1000..1_u64 << 39, repeated in 4000..12_000_usize) {
        let took = Duration::from_nanos(nanos);
        let learned = observed(std::iter::repeat_n(took, repeated));
        let mean = learned.mean().expect("observed");
        prop_assert!(mean.abs_diff(took) <= took / 500, "{mean:?} for {took:?}");
        prop_assert!(is_near(learned.quantile(0.5).expect("observed"), took));
    }
}
