//! When a second attempt may be made.
//!
//! A request that isn't answered after the time within which most are is sent once more, to another server; the first
//! answer counts (Dean and Barroso, The Tail at Scale, CACM 2013). Attempts are load, and load is what makes answers
//! late, so they are rationed: each request earns a fraction of an attempt, which accumulates to a few at most. And an
//! attempt that couldn't be answered in time isn't made.

use crate::deadline::Budget;
use crate::service_time::ServiceTimes;
use std::time::Duration;

/// Rations second attempts.
///
/// ```
/// use greenwave_policy::{Budget, Hedge, ServiceTimes};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let (mut hedge, mut times) = (Hedge::new(0.05, 0.95, ms(1)), ServiceTimes::new());
/// (0..20).for_each(|_| {
///     hedge.on_request();
///     times.observe(ms(4));
/// });
/// assert!(hedge.delay(&times).is_some_and(|delay| delay <= ms(5)));
/// // Twenty requests have earned one attempt.
/// let left = Budget::expected(ms(20));
/// assert!(hedge.try_hedge(left, ms(4)) && !hedge.try_hedge(left, ms(4)));
/// ```
#[derive(Clone, Debug)]
pub struct Hedge {
    /// Millionths of an attempt that a request earns.
    earned: u64,
    quantile: f64,
    min_delay: Duration,
    /// Millionths of an attempt, at most [`Hedge::BURST`] attempts.
    saved: u64,
}

impl Hedge {
    /// How many attempts a calm time may save up for a bad one.
    pub const BURST: u64 = 10;

    /// Allows `ratio` attempts a request (0 to 1, in steps of a millionth; 0 never hedges), each made once a request
    /// has waited for the `quantile` (0 to 1, 0.95 for instance) of its method's times and for `min_delay`.
    ///
    /// Values outside their ranges are taken as the nearest within; a ratio that isn't a number as 0.
    #[must_use]
    pub fn new(ratio: f64, quantile: f64, min_delay: Duration) -> Self {
        let earned = (ratio.clamp(0.0, 1.0) * ATTEMPT as f64).round() as u64;
        Self { earned, quantile: quantile.clamp(0.0, 1.0), min_delay, saved: 0 }
    }

    /// Counts a request, which earns its fraction.
    pub fn on_request(&mut self) {
        self.saved = (self.saved + self.earned).min(Self::BURST * ATTEMPT);
    }

    /// How long to wait for an answer before trying again.
    ///
    /// `None` if hedging is off, or while too little was observed to know the quantile: 20 times for 0.95.
    #[must_use]
    pub fn delay(&self, times: &ServiceTimes) -> Option<Duration> {
        let observed_beyond = times.count() as f64 * (1.0 - self.quantile);
        if self.earned == 0 || observed_beyond + ROUNDING < 1.0 {
            return None;
        }
        times.quantile(self.quantile).map(|delay| delay.max(self.min_delay))
    }

    /// Whether to try again now, with `budget_left` and an answer `expected` to take that long. Spends an attempt.
    pub fn try_hedge(&mut self, budget_left: Budget, expected: Duration) -> bool {
        let allowed = self.saved >= ATTEMPT && !budget_left.laxity(expected).is_spent();
        if allowed {
            self.saved -= ATTEMPT;
        }
        allowed
    }
}

/// Millionths.
const ATTEMPT: u64 = 1_000_000;

/// 20 * (1 - 0.95) falls short of 1 by less than this.
const ROUNDING: f64 = 1e-9;
