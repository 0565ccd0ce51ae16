//! When a call that failed may be made again.
//!
//! Calls that are made again are load, and come when there is too much of it: where every call is made three times, a
//! server that is a little too slow gets three times the calls. So each call earns a fraction of a second attempt, and
//! time earns a few for those who call rarely; what is earned is kept in a bucket that holds a few
//! (the retry budget of Finagle, and gRPC's retry throttling in proposal A6). Attempts are spaced out by pauses that double, of
//! which half is drawn at random (Brooker, Exponential Backoff and Jitter, AWS 2015), and one that would not be
//! answered in time isn't made.

use crate::deadline::Budget;
use crate::random::XorShift;
use crate::time::{Time, nanos};
use std::time::Duration;

/// How often calls may be made again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryConfig {
    /// How often a call is made at most, the first time included; 1: never again.
    pub attempts: u32,
    /// Second attempts that a call earns, 0 to 1.
    pub ratio: f64,
    /// Second attempts that a second earns, 0 to 1000.
    pub per_second: f64,
    /// The pause before an attempt at a server that was just asked. It doubles with each.
    pub pause: Duration,
}

impl Default for RetryConfig {
    /// Three attempts, one more call in ten, one a second, pauses from 10 ms.
    fn default() -> Self {
        Self { attempts: 3, ratio: 0.1, per_second: 1.0, pause: Duration::from_millis(10) }
    }
}

/// Rations attempts after the first.
#[derive(Clone, Debug)]
pub struct Retries {
    config: RetryConfig,
    /// Millionths of an attempt that a call earns, and a second.
    per_call: u64,
    per_second: u64,
    /// Millionths of an attempt, at most [`Retries::BURST`] attempts.
    saved: u64,
    /// Until when time has earned.
    earned: Time,
    random: XorShift,
}

impl Retries {
    /// How many attempts are saved up at most, and at first.
    pub const BURST: u64 = 10;

    /// Begins with all that can be saved. Settings outside their ranges are taken as the nearest within, what isn't a
    /// number as 0. The same `seed` draws the same pauses.
    #[must_use]
    pub fn new(config: RetryConfig, seed: u64) -> Self {
        let millionths = |share: f64, most: f64| (share.clamp(0.0, most) * ATTEMPT as f64).round() as u64;
        let (per_call, per_second) = (millionths(config.ratio, 1.0), millionths(config.per_second, 1000.0));
        let (saved, random) = (Self::BURST * ATTEMPT, XorShift::new(seed));
        Self { config, per_call, per_second, saved, earned: Time::ZERO, random }
    }

    /// Counts a call, which earns its fraction.
    pub fn on_call(&mut self) {
        self.save(self.per_call);
    }

    /// Whether a call that was made `attempts` times is made once more, and after which pause. Spends an attempt.
    ///
    /// `left` is what is left of its budget, `expected` how long an answer is expected to take. `elsewhere`: another server
    /// will be asked, so that there is nothing to wait for the first time.
    pub fn try_again(
        &mut self,
        now: Time,
        attempts: u32,
        elsewhere: bool,
        left: Budget,
        expected: Duration,
    ) -> Option<Duration> {
        self.pass(now);
        if attempts >= self.config.attempts || self.saved < ATTEMPT {
            return None;
        }
        let pause = if elsewhere && attempts <= 1 { Duration::ZERO } else { self.pause(attempts) };
        if left.laxity(pause.saturating_add(expected)).is_spent() {
            return None;
        }
        self.saved -= ATTEMPT;
        Some(pause)
    }

    /// Half of a pause that doubles, and up to as much again.
    fn pause(&mut self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(crate::backoff::Backoff::DOUBLINGS);
        let whole = nanos(self.config.pause.saturating_mul(1 << doublings));
        let less = self.random.below(usize::try_from(whole / 2).unwrap_or(usize::MAX - 1) + 1);
        Duration::from_nanos(whole - less as u64)
    }

    /// Lets time earn what it does.
    fn pass(&mut self, now: Time) {
        let passed = nanos(now.since(self.earned));
        let earned = u128::from(passed) * u128::from(self.per_second) / 1_000_000_000;
        // What is less than a millionth stays to be earned.
        if earned > 0 {
            self.earned = self.earned.max(now);
            self.save(u64::try_from(earned).unwrap_or(u64::MAX));
        }
    }

    fn save(&mut self, millionths: u64) {
        self.saved = self.saved.saturating_add(millionths).min(Self::BURST * ATTEMPT);
    }
}

/// Millionths.
const ATTEMPT: u64 = 1_000_000;
