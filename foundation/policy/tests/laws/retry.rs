//! Calls are made again within a budget.

use crate::strategies::{any_span, any_time};
use greenwave_policy::{Budget, Retries, RetryConfig, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const NOW: Time = Time::from_nanos(1 << 40);

/// No time earns anything.
fn by_calls(ratio: f64) -> RetryConfig {
    RetryConfig { ratio, per_second: 0.0, ..RetryConfig::default() }
}

fn spent(retries: &mut Retries, now: Time, asked: usize) -> usize {
    (0..asked).filter(|_| retries.try_again(now, 1, true, Budget::UNLIMITED, MS).is_some()).count()
}

#[test]
fn a_call_is_made_as_often_as_is_said() {
    let mut retries = Retries::new(RetryConfig { attempts: 3, ..RetryConfig::default() }, 0);
    let mut again = |attempts| retries.try_again(NOW, attempts, true, Budget::UNLIMITED, MS).is_some();
    assert_eq!([1, 2, 3, 4].map(&mut again), [true, true, false, false]);
    let mut never = Retries::new(RetryConfig { attempts: 1, ..RetryConfig::default() }, 0);
    assert_eq!(spent(&mut never, NOW, 5), 0);
}

#[test]
fn an_attempt_that_would_be_late_is_not_made_and_not_spent() {
    let mut retries = Retries::new(by_calls(0.0), 0);
    for _ in 0..100 {
        assert_eq!(retries.try_again(NOW, 1, true, Budget::expected(5 * MS), 5 * MS), None);
        // From another server at once, from the same one after a pause.
        assert_eq!(retries.try_again(NOW, 1, false, Budget::expected(6 * MS), 2 * MS), None);
    }
    assert_eq!(retries.try_again(NOW, 1, true, Budget::expected(6 * MS), 5 * MS), Some(Duration::ZERO));
    assert_eq!(spent(&mut retries, NOW, 100) as u64, Retries::BURST - 1);
}

#[test]
fn time_earns_what_it_is_said_to() {
    let mut retries = Retries::new(RetryConfig { ratio: 0.0, per_second: 2.0, ..RetryConfig::default() }, 0);
    assert_eq!(spent(&mut retries, NOW, 100) as u64, Retries::BURST);
    // In steps that each earn less than one.
    let later = (1..=1500).map(|ms| NOW + MS * ms);
    let made: usize = later.map(|now| spent(&mut retries, now, 1)).sum();
    assert!((2..=3).contains(&made), "{made}");
}

proptest! {
    /// A storm of failures makes no more calls than the ratio, and what was saved before.
    #[test]
    fn attempts_stay_within_the_ratio(ratio in 0.0..=1.0_f64, calls in 0..3000_u64, failing in 1..4_usize) {
        let mut retries = Retries::new(by_calls(ratio), 0);
        let mut made = 0;
        for _ in 0..calls {
            retries.on_call();
            made += spent(&mut retries, NOW, failing);
        }
        let most = Retries::BURST as f64 + calls as f64 * (ratio * 1e6).round() / 1e6;
        prop_assert!(made as f64 <= most + 1e-6, "{made} of {most}");
    }

    /// The same over time, whatever the steps.
    #[test]
    fn attempts_stay_within_what_time_earns(per_second in 0.0..=50.0_f64, steps in vec(0..400_u64, 1..200)) {
        let mut retries = Retries::new(RetryConfig { ratio: 0.0, per_second, ..RetryConfig::default() }, 0);
        let (mut now, mut made) = (NOW, spent(&mut retries, NOW, 100));
        for step in &steps {
            now = now + MS * u32::try_from(*step).unwrap();
            made += spent(&mut retries, now, 100);
        }
        let seconds = now.since(NOW).as_secs_f64();
        prop_assert!(made as f64 <= Retries::BURST as f64 + per_second * seconds + 1e-3);
    }

    #[test]
    fn a_pause_is_between_half_and_all_of_a_doubling(pause in 1..1_u64 << 40, seed: u64, attempts in 1..9_u32) {
        let config = RetryConfig { attempts: u32::MAX, pause: Duration::from_nanos(pause), ..by_calls(1.0) };
        let mut retries = Retries::new(config, seed);
        let drawn = retries.try_again(NOW, attempts, false, Budget::UNLIMITED, MS).unwrap();
        let whole = Duration::from_nanos(pause << (attempts - 1).min(6));
        prop_assert!(whole / 2 <= drawn && drawn <= whole, "{drawn:?} of {whole:?}");
    }

    #[test]
    fn any_input_will_do(
        (attempts, ratio, per_second) in (any::<u32>(), any::<f64>(), any::<f64>()),
        (pause, expected) in (any_span(), any_span()),
        times in vec(any_time(), 1..20),
        made: u32,
    ) {
        let mut retries = Retries::new(RetryConfig { attempts, ratio, per_second, pause }, 0);
        for now in times {
            retries.on_call();
            let _ = retries.try_again(now, made, false, Budget::expected(expected), expected);
        }
    }
}
