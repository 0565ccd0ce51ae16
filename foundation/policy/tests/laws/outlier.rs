//! Servers that fail are left out for a while, and come back by a trial.

use crate::strategies::any_time;
use greenwave_policy::{Health, OutlierConfig, Standing, Tally, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const NOW: Time = Time::from_nanos(1 << 40);
const NO_OTHERS: Tally = Tally { calls: 0, failed: 0 };

fn health() -> (OutlierConfig, Health) {
    let config = OutlierConfig::default();
    (config, Health::new(&config, 7))
}

#[test]
fn so_many_failures_in_a_row_are_too_many() {
    let (config, mut health) = health();
    for _ in 0..3 {
        assert!((1..config.consecutive).all(|_| !health.failed(&config, NO_OTHERS)));
        health.answered(NOW);
    }
    let verdicts: Vec<bool> = (0..config.consecutive).map(|_| health.failed(&config, NO_OTHERS)).collect();
    assert_eq!(verdicts, [false, false, false, false, true]);
}

/// Two of three calls fail, never five in a row: that is an outlier among those that are well, and none among its like.
#[test]
fn a_share_of_failures_counts_against_that_of_the_others() {
    let verdict = |others: Tally| {
        let (config, mut health) = health();
        (0..30).fold(false, |is_outlier, call| {
            if call % 3 == 0 {
                health.answered(NOW);
                return is_outlier;
            }
            health.failed(&config, others) || is_outlier
        })
    };
    assert!(verdict(Tally { calls: 100, failed: 5 }));
    assert!(!verdict(Tally { calls: 100, failed: 60 }));
    assert!(!verdict(Tally { calls: 10, failed: 0 }), "too little is known of the others");
}

#[test]
fn one_call_decides_whether_it_is_back() {
    let (_, mut health) = health();
    health.leave_out(NOW);
    assert_eq!(health.standing(NOW), Standing::Out);
    assert_eq!(health.standing(NOW + SECOND), Standing::Due);
    health.begun(NOW + SECOND);
    assert_eq!(health.standing(NOW + 100 * SECOND), Standing::Out, "the one call is under way");
    health.undecided();
    assert_eq!(health.standing(NOW + SECOND), Standing::Due, "it said nothing");
    health.begun(NOW + SECOND);
    health.answered(NOW + SECOND);
    assert_eq!(health.standing(NOW + SECOND), Standing::In);
}

/// How long it is left out for the n-th time in a row, where it answers so many calls in between.
fn times_out(answers: u32) -> Vec<Duration> {
    let (_, mut health) = health();
    let mut now = NOW;
    let time_out = |_| {
        health.leave_out(now);
        let begun = now;
        while health.standing(now) == Standing::Out {
            now = now + SECOND / 100;
        }
        health.begun(now);
        (0..answers).for_each(|_| health.answered(now));
        now.since(begun)
    };
    (0..9).map(time_out).collect()
}

#[test]
fn times_out_double_until_it_has_answered_for_a_while() {
    for (at, time) in times_out(1).into_iter().enumerate() {
        let whole = SECOND * (1 << at.min(6));
        assert!((whole / 2..=whole + SECOND / 100).contains(&time), "{time:?} of {whole:?}");
    }
    assert!(times_out(Health::ENOUGH).iter().all(|time| *time <= SECOND + SECOND / 100));
}

proptest! {
    #[test]
    fn never_more_than_a_share_may_be_left_out(servers in 0..300_usize, share in 0.0..=1.0_f64) {
        let config = OutlierConfig { share, ..OutlierConfig::default() };
        let out = (0..servers).take_while(|out| config.allows(servers, *out)).count();
        prop_assert!(out as f64 <= servers as f64 * share);
        prop_assert!(out as f64 + 1.0 > servers as f64 * share || out == servers);
    }

    #[test]
    fn any_input_will_do(steps in vec((0..6_u8, any_time()), 0..200), calls: u32, failed: u32) {
        let (config, mut health) = health();
        for (step, now) in steps {
            match step {
                0 => health.begun(now),
                1 => health.answered(now),
                2 => {
                    let _ = health.failed(&config, Tally { calls, failed });
                }
                3 => health.leave_out(now),
                4 => health.undecided(),
                _ => {}
            }
            prop_assert_eq!(health.is_out(), health.standing(now) != Standing::In);
            prop_assert!(health.tally().failed <= health.tally().calls && health.tally().calls <= Health::MEMORY);
        }
    }
}
