//! When to try again what did not work.
//!
//! The pause doubles with each failure in a row, up to 64 times the first: a server that restarts is found again soon,
//! and one that is gone isn't pestered. Half of each pause is drawn at random, so that those who lost the same server
//! don't come back to it all at once (equal jitter: Brooker, Exponential Backoff and Jitter, AWS 2015).

use crate::random::XorShift;
use crate::time::{Time, nanos};
use std::time::Duration;

/// The pauses between attempts at one thing.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    /// In a row.
    failures: u32,
    due: Time,
    random: XorShift,
}

impl Backoff {
    /// How often the pause doubles.
    pub const DOUBLINGS: u32 = 6;

    /// A first attempt is due at once; the pause after it is `first`, or down to half of that. The same `seed` draws the
    /// same pauses.
    #[must_use]
    pub const fn new(first: Duration, seed: u64) -> Self {
        Self { first, failures: 0, due: Time::ZERO, random: XorShift::new(seed) }
    }

    /// When the next attempt may be made.
    #[must_use]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// An attempt has failed, or what it brought about was of no use.
    pub fn failed(&mut self, now: Time) {
        let whole = nanos(self.first.saturating_mul(1 << self.failures.min(Self::DOUBLINGS)));
        let less = self.random.below(usize::try_from(whole / 2).unwrap_or(usize::MAX - 1) + 1);
        self.due = now + Duration::from_nanos(whole - less as u64);
        self.failures = self.failures.saturating_add(1);
    }

    /// What was attempted was of use. The next attempt may be made at once.
    pub fn succeeded(&mut self, now: Time) {
        (self.failures, self.due) = (0, now);
    }
}
