//! The clock of schedulers: the system's monotonic time, read off the processor's ticks.
//!
//! A quantum is a microsecond, so a reading must cost a few nanoseconds. Between two readings of the system's clock, a
//! millisecond apart at most, time is counted in ticks; their length is measured over all the time since the clock was
//! made. So it stays within a few hundred nanoseconds of `CLOCK_MONOTONIC`, and its times can be compared with those of
//! everybody else on the machine.

use crate::machine;
use crate::preempt::Ticks;
use greenwave_policy::Time;
use std::time::Duration;

/// After how long the system's clock is read again, in nanoseconds.
const RENEW: u64 = 1_000_000;

/// A clock of one thread. Its times never go back.
#[derive(Clone, Debug)]
pub struct Clock {
    first: Reading,
    last: Reading,
    /// Nanoseconds a tick, in 2^-32.
    length: u64,
    renew: u64,
    latest: Time,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    time: Time,
}

impl Clock {
    /// A clock. The first in a process measures the ticks, which takes 2 ms.
    #[must_use]
    pub fn new() -> Self {
        let second = Ticks::of(Duration::from_secs(1)).0.max(1);
        let first = Reading::new();
        let length = ((1_000_000_000_u128 << 32) / u128::from(second)) as u64;
        let mut clock = Self { first, last: first, length, renew: 0, latest: first.time };
        clock.measure(length);
        clock
    }

    /// The time now.
    #[inline]
    pub fn now(&mut self) -> Time {
        let passed = machine::now().wrapping_sub(self.last.ticks);
        if passed > self.renew {
            return self.renew();
        }
        let now = self.last.time + Duration::from_nanos((passed * self.length) >> 32);
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The last time that it said.
    #[inline]
    #[must_use]
    pub(crate) const fn latest(&self) -> Time {
        self.latest
    }

    /// Where ticks went back, on a machine whose processors disagree, the system's clock counts too.
    #[cold]
    fn renew(&mut self) -> Time {
        self.last = Reading::new();
        let (ticks, nanos) =
            (self.last.ticks.wrapping_sub(self.first.ticks), self.last.time.as_nanos() - self.first.time.as_nanos());
        if nanos > 10 * RENEW && ticks > 0 {
            self.measure(u64::try_from((u128::from(nanos) << 32) / u128::from(ticks)).unwrap_or(self.length));
        }
        self.latest = self.latest.max(self.last.time);
        self.latest
    }

    /// `renew` ticks times `length` are about `RENEW << 32`, so the product in `now` fits.
    fn measure(&mut self, length: u64) {
        self.length = length.max(1);
        self.renew = (RENEW << 32) / self.length;
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Reading {
    fn new() -> Self {
        Self { ticks: machine::now(), time: monotonic() }
    }
}

/// The system's monotonic time: about 20 ns, without a system call.
#[inline]
pub(crate) fn monotonic() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time::from_nanos((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_and_keeps_to_the_systems_clock() {
        let mut clock = Clock::new();
        let (mut last, mut renewed) = (clock.now(), 0);
        while renewed < 20 {
            let (before, base) = (monotonic(), clock.last.ticks);
            let now = clock.now();
            let after = monotonic();
            assert!(now >= last);
            // A tenth of the longest stretch between two readings of the system's clock.
            let slack = Duration::from_nanos(RENEW / 10);
            assert!(before - slack <= now && now <= after + slack, "{before:?} {now:?} {after:?}");
            renewed += u32::from(clock.last.ticks != base);
            last = now;
        }
    }
}
