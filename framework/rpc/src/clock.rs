//! Where time comes from: the system's monotonic clock, or a test's hand.
//!
//! Policies never read a clock; whatever drives them holds one of these and passes the time in.

use greenwave_policy::Time;
use rustix::time::{ClockId, clock_gettime};
#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
            Self::Monotonic => monotonic(),
            #[cfg(test)]
            Self::Virtual(nanos) => Time::from_nanos(nanos.load(Ordering::Relaxed)),
        }
    }

    /// The same clock, for a thread that reads it after every call.
    pub(crate) fn ticking(&self) -> Ticking {
        match self {
            Self::Monotonic => Ticking::Counted(greenwave_quanta::Clock::new()),
            #[cfg(test)]
            Self::Virtual(_) => Ticking::Virtual(self.clone()),
        }
    }
}

/// A clock of one thread, read off the processor's ticks: a few nanoseconds a reading. It stays within some hundred
/// nanoseconds of the [`Clock`] that it is of.
#[derive(Debug)]
pub(crate) enum Ticking {
    Counted(greenwave_quanta::Clock),
    #[cfg(test)]
    Virtual(Clock),
}

impl Ticking {
    /// The time now. It never goes back.
    #[inline]
    pub(crate) fn now(&mut self) -> Time {
        match self {
            Self::Counted(clock) => clock.now(),
            #[cfg(test)]
            Self::Virtual(clock) => clock.now(),
        }
    }
}

/// The system's monotonic time.
#[inline]
pub(crate) fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
}

/// Nanoseconds since the Unix epoch, for the absolute mode and nothing else: this clock may jump. Zero before 1970.
pub(crate) fn realtime() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since: Duration| since.as_nanos() as u64)
}
