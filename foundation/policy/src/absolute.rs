//! Dates instead of budgets, where clocks are known to be in sync.
//!
//! A date needs no estimate of the wire: the receiver subtracts its own clock and has every nanosecond of the way
//! charged. That holds as far as both clocks agree, so the mode watches them: pings carry the other side's clock, as
//! in NTP (RFC 5905), and each exchange says that the clocks differ by an *offset*, give or take half of the round
//! trip. While offset and doubt together stay under a limit dates count; otherwise the receiver falls back to the
//! budget that travels beside them.
//!
//! The offset is a check and is not corrected for. Half of a round trip is what it is measured with, so a corrected
//! date would be no better than a budget less its [forward delay](crate::forward_delay).

use crate::deadline::Budget;
use crate::time::nanos;
use std::time::Duration;

/// How far another machine's realtime clock is from ours, and whether dates of that machine may be used.
///
/// All instants are nanoseconds of realtime clocks (`CLOCK_REALTIME`).
#[derive(Clone, Debug)]
pub struct AbsoluteClock {
    limit: u64,
    /// The last exchanges, in a ring. All of them agree: no two say that the clocks differ by ranges without overlap.
    exchanges: [Option<Exchange>; EXCHANGES],
    next: usize,
    latest: u64,
}

impl AbsoluteClock {
    /// A clock that nothing is known of, and whose dates count while they are off by at most `limit`.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit: nanos(limit), exchanges: [None; EXCHANGES], next: 0, latest: 0 }
    }

    /// Takes in an exchange: our clock when we `sent`, theirs somewhere in between, ours when we had `received`.
    ///
    /// Ignored if the other side didn't state its clock (0) or if ours was set back meanwhile. An exchange that
    /// contradicts earlier ones means that a clock was set: the earlier ones are forgotten.
    pub fn observe(&mut self, sent: u64, remote: u64, received: u64) {
        if remote == 0 || received < sent {
            return;
        }
        let exchange = Exchange::new(sent, remote, received);
        if self.known().any(|earlier| !earlier.agrees_with(&exchange)) {
            self.exchanges = [None; EXCHANGES];
            self.next = 0;
        }
        self.exchanges[self.next] = Some(exchange);
        self.next = (self.next + 1) % EXCHANGES;
        self.latest = received;
    }

    /// By how many nanoseconds their clock is ahead of ours (negative: behind), by the exchange with the least doubt.
    #[must_use]
    pub fn skew(&self) -> Option<i64> {
        self.best(self.latest).map(|best| best.offset)
    }

    /// By how much the skew may be off, up or down, at the time of the latest exchange.
    #[must_use]
    pub fn doubt(&self) -> Option<Duration> {
        self.best(self.latest).map(|best| Duration::from_nanos(best.doubt_at(self.latest)))
    }

    /// Whether dates could be used at the time of the latest exchange.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.usable_at(self.latest)
    }

    /// What is left of a request that expires at `expires_realtime` on their clock; `None`: use the budget instead.
    ///
    /// Doubt grows with the age of what is known of the clocks, so a connection that stops pinging falls back too.
    #[must_use]
    pub fn budget(&self, expires_realtime: u64, now_realtime: u64) -> Option<Budget> {
        self.usable_at(now_realtime).then(|| {
            let left = difference(expires_realtime, now_realtime);
            Budget::from_nanos(left).min(Budget::LONGEST)
        })
    }

    fn usable_at(&self, now: u64) -> bool {
        self.best(now).is_some_and(|best| best.offset.unsigned_abs().saturating_add(best.doubt_at(now)) <= self.limit)
    }

    fn best(&self, now: u64) -> Option<&Exchange> {
        self.known().min_by_key(|exchange| exchange.doubt_at(now))
    }

    fn known(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter().flatten()
    }
}

/// As many as the clock filter of RFC 5905 keeps.
const EXCHANGES: usize = 8;

/// What one exchange says of two clocks: they differ by `offset`, give or take `doubt` when it was `received`.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    offset: i64,
    doubt: u64,
    received: u64,
}

impl Exchange {
    fn new(sent: u64, remote: u64, received: u64) -> Self {
        let round_trip = received - sent;
        let middle = sent + round_trip / 2;
        Self { offset: difference(remote, middle), doubt: round_trip.div_ceil(2), received }
    }

    /// Disciplined clocks drift apart by up to 15 in a million, PHI in RFC 5905; 1/65536 is near enough.
    fn doubt_at(&self, now: u64) -> u64 {
        self.doubt.saturating_add(now.abs_diff(self.received) >> 16)
    }

    fn agrees_with(&self, later: &Self) -> bool {
        self.offset.abs_diff(later.offset) <= self.doubt_at(later.received).saturating_add(later.doubt)
    }
}

/// `a - b`, saturating.
fn difference(a: u64, b: u64) -> i64 {
    a.checked_signed_diff(b).unwrap_or(if a > b { i64::MAX } else { i64::MIN })
}
