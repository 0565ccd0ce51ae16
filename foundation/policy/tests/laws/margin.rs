//! The share of requests that come too late is the one that was asked for.

use greenwave_policy::Margin;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn it_begins_with_the_work_widens_fast_and_narrows_slowly() {
    let mut margin = Margin::new(0.02);
    assert_eq!(margin.needed(4 * MS), 4 * MS);
    (0..60).for_each(|_| margin.observe(true, MS, None));
    assert!(margin.needed(4 * MS) > 23 * MS, "{margin:?}");
    (0..60).for_each(|_| margin.observe(false, MS, None));
    assert!(margin.needed(4 * MS) > 23 * MS, "{margin:?}");
    (0..6000).for_each(|_| margin.observe(false, MS, None));
    assert_eq!(margin.needed(4 * MS), 4 * MS, "{margin:?}");
}

#[test]
fn a_share_that_is_no_number_is_none() {
    let mut margin = Margin::new(f64::NAN);
    margin.observe(true, MS, None);
    let wide = margin.factor();
    margin.observe(false, MS, None);
    assert!((margin.factor() - wide).abs() < 1e-12);
}

#[test]
fn who_would_be_turned_away_by_now_teaches_nothing() {
    let mut margin = Margin::new(0.02);
    (0..100).for_each(|_| margin.observe(true, 2 * MS, Some(7 * MS)));
    assert!(margin.needed(2 * MS) > 7 * MS, "{margin:?}");
    assert!(margin.needed(2 * MS) < 10 * MS, "{margin:?}");
}

proptest! {
    /// Over n requests the share is off by at most the range over the step times n, as long as the margin can move
    /// (Proposition 1 of the second source).
    #[test]
    fn the_share_of_late_requests_is_kept(share in 0.01..0.3_f64, seed: u64) {
        const REQUESTS: u32 = 20_000;
        let mut margin = Margin::new(share);
        let mut state = seed;
        let mut late = 0;
        for _ in 0..REQUESTS {
            // Times with a heavy tail, of which one in a hundred exceeds ten times the work.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let luck = ((state >> 11) as f64 / (1_u64 << 53) as f64).max(1e-9);
            let is_late = luck.powf(-0.5) > margin.factor();
            late += u32::from(is_late);
            margin.observe(is_late, MS, None);
        }
        let seen = f64::from(late) / f64::from(REQUESTS);
        prop_assert!((seen - share).abs() < 0.01, "{} for {}", seen, share);
    }

    #[test]
    fn it_stays_within_its_range(share: f64, outcomes: Vec<bool>, nanos: u64) {
        let mut margin = Margin::new(share);
        let (least, most) = Margin::RANGE;
        let work = Duration::from_nanos(nanos);
        for late in outcomes {
            margin.observe(late, MS, None);
            prop_assert!((least..=most).contains(&margin.factor()), "{:?}", margin);
            prop_assert!(margin.needed(work) >= work);
        }
        prop_assert!(margin.needed(Duration::MAX) == Duration::MAX);
    }
}
