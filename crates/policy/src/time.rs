//! Instants, as numbers that somebody else read from a clock.

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
