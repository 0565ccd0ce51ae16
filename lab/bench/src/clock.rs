//! The monotonic clock of this machine, as the policies want it.

use greenwave_policy::Time;
use rustix::time::{ClockId, clock_gettime};

/// The time now on `CLOCK_MONOTONIC`.
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    Time::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
