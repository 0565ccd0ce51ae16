//! Whether a queue stands: it hasn't been empty for a while.
//!
//! A queue that was empty a short while ago does its work: it evens out bursts, and a pause of the processor. What comes too late
//! there does so for other reasons than that too much is asked for, and to turn others away helps nobody. A queue that stands is
//! that of an overload: what is served in vain is time that another would have been served in.
//!
//! Source: Nichols and Jacobson, Controlling Queue Delay (ACM Queue 10(5), 2012), with the interval that Maurer, Fail at Scale
//! (ACM Queue 13(8), 2015), names for servers.

use crate::time::Time;
use std::time::Duration;

/// When a queue was last empty.
///
/// ```
/// use greenwave_policy::{StandingQueue, Time};
/// use std::time::Duration;
///
/// let (ms, now) = (Duration::from_millis, Time::from_nanos(1_000_000_000));
/// let mut queue = StandingQueue::new(StandingQueue::INTERVAL);
/// queue.emptied(now);
/// assert!(!queue.stands(now + ms(100)));
/// assert!(queue.stands(now + ms(101)));
/// ```
#[derive(Clone, Debug)]
pub struct StandingQueue {
    interval: Duration,
    last_empty: Time,
}

impl StandingQueue {
    /// For how long a server's queue is not empty that stands.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// A queue that was empty at the clock's zero. It stands once it hasn't been for longer than the interval.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self { interval, last_empty: Time::ZERO }
    }

    /// It is empty now.
    #[inline]
    pub fn emptied(&mut self, now: Time) {
        self.last_empty = now;
    }

    /// Whether it hasn't been empty for longer than the interval.
    #[must_use]
    #[inline]
    pub fn stands(&self, now: Time) -> bool {
        now.since(self.last_empty) > self.interval
    }
}
