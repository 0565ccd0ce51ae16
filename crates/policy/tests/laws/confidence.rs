//! The share of requests that come too late is the one that was asked for.

use greenwave_policy::Confidence;
use proptest::prelude::*;

#[test]
fn it_rises_fast_and_falls_slowly() {
    let mut confidence = Confidence::new(0.5, 0.02);
    (0..20).for_each(|_| confidence.observe(true));
    assert!(confidence.level() > 0.88, "{confidence:?}");
    (0..20).for_each(|_| confidence.observe(false));
    assert!(confidence.level() > 0.87, "{confidence:?}");
    (0..10_000).for_each(|_| confidence.observe(false));
    assert!(confidence.level() < 0.06, "{confidence:?}");
}

#[test]
fn what_is_no_number_is_the_least() {
    assert!((Confidence::new(f64::NAN, f64::NAN).level() - Confidence::RANGE.0).abs() < 1e-12);
}

proptest! {
    /// Proposition 4.1 of the source: over n requests the share is off by at most the range over the step times n, as long
    /// as the level can move.
    #[test]
    fn the_share_of_late_requests_is_kept(share in 0.01..0.3_f64, seed: u64) {
        const REQUESTS: u32 = 20_000;
        let mut confidence = Confidence::new(0.5, share);
        let mut state = seed;
        let mut late = 0;
        for _ in 0..REQUESTS {
            // A request is late if its luck exceeds the level: that of quantiles of its own distribution.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let is_late = (state >> 11) as f64 / (1_u64 << 53) as f64 > confidence.level();
            late += u32::from(is_late);
            confidence.observe(is_late);
        }
        let seen = f64::from(late) / f64::from(REQUESTS);
        prop_assert!((seen - share).abs() < 0.01, "{} for {}", seen, share);
    }

    #[test]
    fn it_stays_within_its_range(level: f64, share: f64, outcomes: Vec<bool>) {
        let mut confidence = Confidence::new(level, share);
        let (least, most) = Confidence::RANGE;
        for late in outcomes {
            confidence.observe(late);
            prop_assert!((least..=most).contains(&confidence.level()), "{:?}", confidence);
        }
    }
}
