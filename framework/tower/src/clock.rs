//! Where time comes from: the system's monotonic clock, or a test's hand.

use greenwave_policy::Time;
use rustix::time::{ClockId, clock_gettime};
#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of monotonic time.
#[derive(Clone, Debug, Default)]
pub(crate) enum Clock {
    /// `CLOCK_MONOTONIC`, the same for all processes of a machine. About 20 ns a reading, without a system call.
    #[default]
    Monotonic,
    /// Nanoseconds that a test sets.
    #[cfg(test)]
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// The time now.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        match self {
            Self::Monotonic => {
                let now = clock_gettime(ClockId::Monotonic);
                Time::from_nanos((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
            }
            #[cfg(test)]
            Self::Virtual(nanos) => Time::from_nanos(nanos.load(Ordering::SeqCst)),
        }
    }
}
