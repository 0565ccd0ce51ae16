//! Two clocks of which the difference is known to the test, and is to be found out by the policy.

use greenwave_policy::{AbsoluteClock, Budget};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const LIMIT: Duration = Duration::from_millis(1);

/// The year 2033 or so.
const NOW: u64 = 2_000_000_000 * SECOND;

/// An exchange that starts at `sent`, with a clock that is `ahead`, and takes `there` and `back`.
fn exchange(clock: &mut AbsoluteClock, sent: u64, ahead: i64, there: u64, back: u64) {
    clock.observe(sent, (sent + there).saturating_add_signed(ahead), sent + there + back);
}

#[test]
fn without_an_exchange_budgets_count() {
    let clock = AbsoluteClock::new(LIMIT);
    assert_eq!((clock.skew(), clock.doubt(), clock.usable()), (None, None, false));
    assert_eq!(clock.budget(NOW + SECOND, NOW), None);
}

#[test]
fn clocks_in_sync_make_dates_count() {
    let mut clock = AbsoluteClock::new(LIMIT);
    exchange(&mut clock, NOW, 0, 50 * US, 50 * US);
    assert_eq!(clock.skew(), Some(0));
    assert_eq!(clock.budget(NOW + 30 * MS, NOW + MS), Some(Budget::expected(Duration::from_millis(29))));
    assert_eq!(clock.budget(NOW, NOW + MS), Some(Budget::from_nanos(-1_000_000)));
}

#[test]
fn clocks_that_differ_by_more_than_the_limit_make_budgets_count() {
    let mut clock = AbsoluteClock::new(LIMIT);
    exchange(&mut clock, NOW, 2_000_000, 50 * US, 50 * US);
    assert_eq!((clock.skew(), clock.usable()), (Some(2_000_000), false));
    assert_eq!(clock.budget(NOW + SECOND, NOW), None);
}

#[test]
fn skew_and_doubt_may_be_as_much_as_the_limit_together() {
    let at_limit = |ahead, there, back| {
        let mut clock = AbsoluteClock::new(LIMIT);
        exchange(&mut clock, NOW, ahead, there, back);
        clock.usable()
    };
    assert!(at_limit(1_000_000, 0, 0) && !at_limit(1_000_001, 0, 0));
    assert!(at_limit(400_000, 600 * US, 600 * US) && !at_limit(400_001, 600 * US, 600 * US));
}

/// All the time was spent on the way there, or all on the way back: the two ends of one doubt.
#[test]
fn the_most_uneven_exchanges_agree() {
    let mut clock = AbsoluteClock::new(LIMIT);
    exchange(&mut clock, NOW, 0, 0, 100);
    assert_eq!(clock.skew(), Some(-50));
    exchange(&mut clock, NOW, 0, 100, 0);
    assert_eq!(clock.skew(), Some(-50), "the first is still known");
    exchange(&mut clock, NOW, 1, 100, 0);
    assert_eq!(clock.skew(), Some(51), "the first can't be true any more");
}

#[test]
fn an_exchange_slower_than_the_limit_proves_nothing() {
    let mut clock = AbsoluteClock::new(LIMIT);
    exchange(&mut clock, NOW, 0, 2 * MS, 2 * MS);
    assert_eq!((clock.skew(), clock.usable()), (Some(0), false));
}

#[test]
fn a_clock_that_is_set_is_found_out_by_the_next_exchange() {
    let mut clock = AbsoluteClock::new(LIMIT);
    (0..8).for_each(|second| exchange(&mut clock, NOW + second * SECOND, 0, 50 * US, 50 * US));
    assert!(clock.usable());
    exchange(&mut clock, NOW + 8 * SECOND, 5_000_000, 90 * US, 90 * US);
    assert_eq!((clock.skew(), clock.usable()), (Some(5_000_000), false));
    exchange(&mut clock, NOW + 9 * SECOND, 0, 90 * US, 90 * US);
    assert!(clock.usable());
}

#[test]
fn what_was_known_of_clocks_wears_off() {
    let mut clock = AbsoluteClock::new(LIMIT);
    exchange(&mut clock, NOW, 0, 50 * US, 50 * US);
    assert!(clock.budget(NOW + 50 * SECOND, NOW + 50 * SECOND).is_some());
    assert_eq!(clock.budget(NOW + 70 * SECOND, NOW + 70 * SECOND), None);
}

#[test]
fn a_side_that_does_not_state_its_clock_tells_nothing() {
    let mut clock = AbsoluteClock::new(LIMIT);
    clock.observe(NOW, 0, NOW + US);
    clock.observe(NOW + US, NOW + US, NOW);
    assert_eq!(clock.skew(), None);
}

/// Exchanges of one second each: how long there and back.
fn exchanges() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((0..3 * MS, 0..3 * MS), 1..40)
}

proptest! {
    #[test]
    fn the_true_skew_is_within_the_doubt(ahead in -1_i64 << 50..1 << 50, exchanges in exchanges()) {
        let mut clock = AbsoluteClock::new(LIMIT);
        for (second, (there, back)) in (0..).zip(exchanges) {
            exchange(&mut clock, NOW + second * SECOND, ahead, there, back);
            let (skew, doubt) = (clock.skew().expect("observed"), clock.doubt().expect("observed"));
            prop_assert!(u128::from(skew.abs_diff(ahead)) <= doubt.as_nanos());
        }
    }

    /// Where dates count they are off by no more than the limit.
    #[test]
    fn a_date_is_right_within_the_limit(
        ahead in -2_000_000_i64..2_000_000, exchanges in exchanges(), left in -1_i64 << 40..1 << 40,
    ) {
        let mut clock = AbsoluteClock::new(LIMIT);
        let mut now = NOW;
        for (there, back) in exchanges {
            exchange(&mut clock, now, ahead, there, back);
            now += SECOND;
        }
        // The request expires when the other clock says so, `left` from now.
        let expires = now.saturating_add_signed(ahead).saturating_add_signed(left);
        if let Some(budget) = clock.budget(expires, now) {
            prop_assert!(u128::from(budget.as_nanos().abs_diff(left)) <= LIMIT.as_nanos());
            prop_assert!(clock.usable());
        }
    }

    /// Good clocks and one good exchange among the last eight are enough.
    #[test]
    fn a_good_exchange_is_remembered(exchanges in vec((0..3 * MS, 0..3 * MS), 0..8)) {
        let mut clock = AbsoluteClock::new(LIMIT);
        exchange(&mut clock, NOW, 0, 50 * US, 50 * US);
        for (second, (there, back)) in (1..).zip(&exchanges) {
            exchange(&mut clock, NOW + second * SECOND, 0, *there, *back);
        }
        prop_assert_eq!(clock.usable(), true);
    }
}
