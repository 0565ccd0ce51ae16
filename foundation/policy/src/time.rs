//! Instants and spans, as numbers that somebody else read from a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant: nanoseconds on the caller's monotonic clock, whose origin is the caller's affair.
///
/// Only instants of one clock can be compared. Arithmetic saturates at both ends of the range, 584 years apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);

    /// The last instant there is; a [`Deadline`](crate::Deadline) that lies there never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time that has passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The same, for sums that are made for every request.
    #[must_use]
    #[inline]
    pub const fn span_since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// A span of time in nanoseconds, at most 584 years; arithmetic saturates.
///
/// What [`Duration`] is, without the division into seconds and a rest that every step of it costs: on a path of some
/// hundred instructions that is a tenth of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// What is left of it after `other`; zero if that is longer.
    #[must_use]
    #[inline]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::ops::AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Add for Span {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for Span {
    #[inline]
    fn from(span: Duration) -> Self {
        Self(nanos(span))
    }
}

impl From<Span> for Duration {
    #[inline]
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

/// A span in whole nanoseconds; at most 584 years. Without the 128-bit detour of [`Duration::as_nanos`].
pub(crate) const fn nanos(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos() as u64)
}
