//! What a node takes for the time.

use greenwave_policy::Time;
use std::time::Duration;

/// A clock that goes as the simulation's time does, in parts per thousand.
const TRUE: i128 = 1000;

/// A node's clock: the simulation's time, an offset that jumps when the simulation says so, and a rate.
///
/// It starts an hour ahead, so that it can be put back; a clock that would show less than zero shows zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Since when, in nanoseconds of the simulation, it has gone at its rate, and what it showed then.
    since: i128,
    showed: i128,
    /// Thousandths of a second that it goes in one of the simulation's.
    rate: i128,
}

impl Clock {
    /// A clock that goes an hour ahead of the simulation.
    #[must_use]
    pub fn new() -> Self {
        Self { since: 0, showed: 3_600_000_000_000, rate: TRUE }
    }

    /// What it shows when the simulation's time is `now`.
    #[must_use]
    pub fn shows(&self, now: Time) -> Time {
        time((self.at(now)).max(0))
    }

    /// When it is going to show `local`, if nothing happens to it until then; zero for what lies before the simulation.
    #[must_use]
    pub fn when(&self, local: Time) -> Time {
        if local == Time::MAX {
            return Time::MAX;
        }
        let ahead = i128::from(local.as_nanos()) - self.showed;
        // Not before it shows it.
        time((self.since + (ahead * TRUE).div_euclid(self.rate) + i128::from(ahead * TRUE % self.rate != 0)).max(0))
    }

    /// Jumps forward.
    pub fn forward(&mut self, span: Duration) {
        self.showed = self.showed.saturating_add_unsigned(span.as_nanos());
    }

    /// Jumps back.
    pub fn back(&mut self, span: Duration) {
        self.showed = self.showed.saturating_sub_unsigned(span.as_nanos());
    }

    /// Goes at another rate from `now` on: so many thousandths of a second in a second; at least one.
    pub fn go(&mut self, now: Time, per_mille: u32) {
        (self.showed, self.since) = (self.at(now), i128::from(now.as_nanos()));
        self.rate = i128::from(per_mille.max(1));
    }

    fn at(&self, now: Time) -> i128 {
        self.showed + ((i128::from(now.as_nanos()) - self.since) * self.rate).div_euclid(TRUE)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn time(nanos: i128) -> Time {
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the rate, a timer rings when the clock shows its time, and not before.
    #[test]
    fn a_timer_rings_when_the_clock_shows_its_time() {
        let mut clock = Clock::new();
        for (step, rate) in (1_u64..).zip([1000, 1, 200, 950, 999, 1001, 1050, 5000]) {
            let now = Time::from_nanos(step * 1_000_003);
            let before = clock.shows(now);
            clock.go(now, rate);
            assert_eq!(clock.shows(now), before, "the time doesn't jump");
            for ahead in [0, 1, 7, 999, 10_000_001] {
                let local = before + Duration::from_nanos(ahead);
                let rings = clock.when(local);
                assert!(clock.shows(rings) >= local, "{rate} {ahead}");
                let earlier = Time::from_nanos(rings.as_nanos().saturating_sub(1));
                assert!(ahead == 0 || clock.shows(earlier) < local, "{rate} {ahead}");
            }
            let second = clock.shows(now + Duration::from_secs(1)).since(before);
            assert_eq!(second, Duration::from_millis(rate.into()));
        }
    }
}
