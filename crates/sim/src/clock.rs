//! What a node takes for the time.

use greenwave_policy::Time;
use std::time::Duration;

/// A node's clock: the simulation's time and an offset that jumps when the simulation says so.
///
/// The offset starts at an hour, so that clocks can be put back; a clock that would show less than zero shows zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds that the clock is ahead of the simulation.
    ahead: i128,
}

impl Clock {
    /// A clock that goes an hour ahead of the simulation.
    #[must_use]
    pub fn new() -> Self {
        Self { ahead: 3_600_000_000_000 }
    }

    /// What it shows when the simulation's time is `now`.
    #[must_use]
    pub fn shows(&self, now: Time) -> Time {
        shifted(now, self.ahead)
    }

    /// When it is going to show `local`, if it doesn't jump until then; zero for what lies before the simulation.
    #[must_use]
    pub fn when(&self, local: Time) -> Time {
        if local == Time::MAX { Time::MAX } else { shifted(local, -self.ahead) }
    }

    /// Jumps forward.
    pub fn forward(&mut self, span: Duration) {
        self.ahead = self.ahead.saturating_add_unsigned(span.as_nanos());
    }

    /// Jumps back.
    pub fn back(&mut self, span: Duration) {
        self.ahead = self.ahead.saturating_sub_unsigned(span.as_nanos());
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn shifted(time: Time, by: i128) -> Time {
    let nanos = i128::from(time.as_nanos()).saturating_add(by).max(0);
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
