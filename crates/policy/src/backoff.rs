//! When to try again what did not work.
//!
//! The pause doubles with each failure in a row, up to 64 times the first: a server that restarts is found again soon,
//! and one that is gone isn't pestered.

use crate::time::Time;
use std::time::Duration;

/// The pauses between attempts at one thing.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    /// In a row.
    failures: u32,
    due: Time,
}

impl Backoff {
    /// How often the pause doubles.
    pub const DOUBLINGS: u32 = 6;

    /// A first attempt is due at once; the pause after it is `first`.
    #[must_use]
    pub const fn new(first: Duration) -> Self {
        Self { first, failures: 0, due: Time::ZERO }
    }

    /// When the next attempt may be made.
    #[must_use]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// An attempt has failed, or what it brought about was of no use.
    pub fn failed(&mut self, now: Time) {
        self.due = now + self.first.saturating_mul(1 << self.failures.min(Self::DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
    }

    /// What was attempted was of use. The next attempt may be made at once.
    pub fn succeeded(&mut self, now: Time) {
        (self.failures, self.due) = (0, now);
    }
}
