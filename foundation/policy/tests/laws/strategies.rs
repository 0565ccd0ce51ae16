//! Times and spans as they occur, so that sums can be checked against plain arithmetic, and as they might.

use greenwave_policy::{Budget, Deadline, Time, Urgency};
use proptest::prelude::*;
use std::time::Duration;

/// Up to about 18 minutes, to the nanosecond.
pub(crate) fn span() -> impl Strategy<Value = Duration> {
    (0..1_u64 << 40).prop_map(Duration::from_nanos)
}

/// A year in which no sum of a few spans leaves the clock's range.
pub(crate) fn time() -> impl Strategy<Value = Time> {
    (1_u64 << 50..1 << 55).prop_map(Time::from_nanos)
}

/// As spans, in time or late, and now and then unlimited.
pub(crate) fn budget() -> impl Strategy<Value = Budget> {
    prop_oneof![9 => limited_budget(), 1 => Just(Budget::UNLIMITED)]
}

/// As spans, in time or late.
pub(crate) fn limited_budget() -> impl Strategy<Value = Budget> {
    (-1_i64 << 40..1 << 40).prop_map(Budget::from_nanos)
}

type Parts = (Time, Time, Time, Budget, Duration, Duration, Duration);

fn urgency_of((arrived, birth, now, budget, here, ahead, needed): Parts) -> Urgency {
    Urgency { arrived, birth, deadline: Deadline::at(now, budget), here, ahead, needed }
}

pub(crate) fn urgency() -> impl Strategy<Value = Urgency> {
    (time(), time(), time(), budget(), span(), span(), span()).prop_map(urgency_of)
}

/// All there are, the ends of the range often.
pub(crate) fn any_span() -> impl Strategy<Value = Duration> {
    prop_oneof![any::<Duration>(), any_nanos().prop_map(Duration::from_nanos), Just(Duration::MAX)]
}

/// All there are, the ends of the range often.
pub(crate) fn any_time() -> impl Strategy<Value = Time> {
    any_nanos().prop_map(Time::from_nanos)
}

/// All there are, the ends of the range often.
pub(crate) fn any_budget() -> impl Strategy<Value = Budget> {
    let extreme = prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(i64::MAX - 1), -2_i64..3];
    prop_oneof![any::<i64>(), extreme].prop_map(Budget::from_nanos)
}

/// All there are, the ends of the range often.
pub(crate) fn any_nanos() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0_u64..3, u64::MAX - 2..=u64::MAX, (1_u64 << 63) - 2..(1 << 63) + 2]
}

pub(crate) fn any_urgency() -> impl Strategy<Value = Urgency> {
    (any_time(), any_time(), any_time(), any_budget(), any_span(), any_span(), any_span()).prop_map(urgency_of)
}

/// Nanoseconds, without the end of the range.
pub(crate) fn exact(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).expect("a Duration has under 95 bits of nanoseconds")
}
