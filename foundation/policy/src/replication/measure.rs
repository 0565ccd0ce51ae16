//! What a group did in a span of time.

use super::estimate::Level;
use super::setting::Aim;
use crate::time::Time;
use std::time::Duration;

/// Adds up what happens, and takes stock at the end of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    since: Time,
    in_system: Level,
    committed: u64,
    /// The sums of the instants of commits, in seconds since the span began, and of their squares.
    instants: [f64; 2],
    late: u64,
    limit: Option<Duration>,
    working: f64,
    syncing: f64,
    /// Batches committed; batches pulled, their commands, and those that were full.
    batches: u64,
    pulled: u64,
    batched: u64,
    full_batches: u64,
}

/// What a group did in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    pub(super) seconds: f64,
    /// Commands committed, in all and a second.
    pub(super) committed: u64,
    pub(super) ops_per_s: f64,
    /// Commands that were submitted and not yet committed, on average.
    pub(super) in_system: f64,
    /// That and two standard deviations, at most those of what comes at random (Poisson): it isn't always as little as
    /// on average.
    pub(super) crowd: f64,
    /// The share of commands that took longer than the aim allows.
    pub(super) late: f64,
    /// The share of time that the leader's core worked, and its disk synced.
    pub(super) working: f64,
    pub(super) syncing: f64,
    /// Commands in a batch, on average.
    pub(super) batch: f64,
    /// The share of batches that had no room for one more command.
    pub(super) full_batches: f64,
}

impl Measure {
    /// How good that was, as a logarithm: a difference of 0.01 is a hundredth.
    ///
    /// Throughput, and a quarter of latency (by Little's law, what is in the system over the rate). Where the clients
    /// wait for answers, both say the same. Where they don't, throughput is theirs to choose, and latency decides.
    pub(super) fn worth(&self) -> f64 {
        let rate = self.ops_per_s.max(f64::MIN_POSITIVE);
        let latency = (self.in_system / rate).max(1e-9);
        let worth = rate.ln() - 0.25 * latency.ln();
        worth - self.lateness()
    }

    /// By how much this was better than what the `other` did under the same load, as a logarithm.
    ///
    /// In a `closed` loop, in which clients wait for answers, the rate says all: how long a command takes *here* is only a
    /// part of what they wait for, and grows where they wait less elsewhere. Where they don't, the rate is theirs to
    /// choose, and latency decides.
    pub(super) fn gain_over(&self, other: &Self, closed: bool) -> f64 {
        let latency = |measure: &Self| (measure.in_system / measure.ops_per_s.max(f64::MIN_POSITIVE)).max(1e-9).ln();
        let sooner = if closed { 0.0 } else { 0.25 * (latency(other) - latency(self)) };
        self.faster(other) + sooner + other.lateness() - self.lateness()
    }

    /// The logarithm of this rate over the other's.
    pub(super) fn faster(&self, other: &Self) -> f64 {
        (self.ops_per_s.max(f64::MIN_POSITIVE) / other.ops_per_s.max(f64::MIN_POSITIVE)).ln()
    }

    /// Whether the rates differ by more than chance makes those of clients that don't wait.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let chance = (2.0 / self.committed.min(other.committed).max(1) as f64).sqrt();
        self.faster(other).abs() > DIFFERENT + 3.0 * chance
    }

    fn lateness(&self) -> f64 {
        10.0 * (self.late - LATE).max(0.0)
    }
}

/// Fewer than these say little.
const ENOUGH_COMMANDS: u64 = 500;
const ENOUGH_BATCHES: u64 = 24;

/// Rates whose logarithms differ by more than this, and by more than chance, aren't the same.
const DIFFERENT: f64 = 0.01;

/// A latency limit is kept if one of a hundred is later.
const LATE: f64 = 0.01;

impl Meter {
    pub(super) const fn new(aim: Aim) -> Self {
        let limit = match aim {
            Aim::Latency(limit) => Some(limit),
            Aim::Throughput => None,
        };
        Self {
            since: Time::ZERO,
            in_system: Level::ZERO,
            committed: 0,
            instants: [0.0; 2],
            late: 0,
            limit,
            working: 0.0,
            syncing: 0.0,
            batches: 0,
            pulled: 0,
            batched: 0,
            full_batches: 0,
        }
    }

    pub(super) fn submitted(&mut self, now: Time, commands: u64) {
        self.in_system.change(now, commands, 0);
    }

    pub(super) fn dropped(&mut self, now: Time, commands: u64) {
        self.in_system.change(now, 0, commands);
    }

    pub(super) fn committed(&mut self, now: Time, commands: u64, longest: Duration) {
        self.in_system.change(now, 0, commands);
        self.committed = self.committed.saturating_add(commands);
        self.batches = self.batches.saturating_add(1);
        let at = now.since(self.since).as_secs_f64();
        self.instants[0] += commands as f64 * at;
        self.instants[1] += commands as f64 * at * at;
        if self.limit.is_some_and(|limit| longest > limit) {
            self.late = self.late.saturating_add(commands);
        }
    }

    pub(super) fn worked(&mut self, took: Duration) {
        self.working += took.as_secs_f64();
    }

    pub(super) fn synced(&mut self, took: Duration) {
        self.syncing += took.as_secs_f64();
    }

    pub(super) fn batched(&mut self, commands: u64, full: bool) {
        self.pulled = self.pulled.saturating_add(1);
        self.batched = self.batched.saturating_add(commands);
        self.full_batches = self.full_batches.saturating_add(u64::from(full));
    }

    /// Commands in the system now.
    pub(super) const fn in_system(&self) -> u64 {
        self.in_system.now()
    }

    /// Whether so much was committed since the span began that chance hardly counts.
    pub(super) const fn has_enough(&self) -> bool {
        self.committed >= ENOUGH_COMMANDS && self.batches >= ENOUGH_BATCHES
    }

    /// How long the span has lasted.
    pub(super) const fn lasted(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Ends the span, and begins the next.
    pub(super) fn take(&mut self, now: Time) -> Measure {
        let seconds = now.since(self.since).as_secs_f64();
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        // The slope of what was committed over time, by least squares. Commits come in bursts, and by chance the span has
        // one more or less: a tenth of them or more where there are few. Here what is at its ends counts little.
        let rate = if self.batches >= 8 && seconds > 0.0 {
            6.0 * (seconds * self.instants[0] - self.instants[1]) / seconds.powi(3)
        } else {
            share(self.committed as f64, seconds)
        };
        let (area, squares) = self.in_system.take_areas(now);
        let in_system = share(area, seconds);
        let variance = share(squares, seconds) - in_system * in_system;
        let measure = Measure {
            seconds,
            ops_per_s: rate,
            committed: self.committed,
            in_system,
            crowd: in_system + 2.0 * variance.clamp(0.0, in_system).sqrt(),
            late: share(self.late as f64, self.committed as f64),
            working: share(self.working, seconds).min(1.0),
            syncing: share(self.syncing, seconds).min(1.0),
            batch: share(self.batched as f64, self.pulled as f64),
            full_batches: share(self.full_batches as f64, self.pulled as f64),
        };
        *self = Self {
            since: now,
            committed: 0,
            batches: 0,
            instants: [0.0; 2],
            late: 0,
            working: 0.0,
            syncing: 0.0,
            pulled: 0,
            batched: 0,
            full_batches: 0,
            ..*self
        };
        measure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve bursts a span or thirteen, as chance has it: the rate is that of all of them.
    #[test]
    fn a_rate_is_that_of_bursts_wherever_a_span_cuts_them() {
        let mut meter = Meter::new(Aim::Throughput);
        let ms = Duration::from_millis(1);
        let mut now = Time::ZERO;
        for span in 1..40_u32 {
            let end = Time::ZERO + 100 * ms * span;
            while now + 8 * ms < end {
                now = now + 8 * ms;
                (0..10).for_each(|_| meter.committed(now, 40, ms));
            }
            let rate = meter.take(end).ops_per_s;
            assert!((rate / 50_000.0 - 1.0).abs() < 0.02, "span {span}: {rate}");
        }
    }

    fn did(ops_per_s: f64, in_system: f64) -> Measure {
        Measure { ops_per_s, in_system, committed: 10_000, ..Measure::default() }
    }

    #[test]
    fn latency_decides_where_rates_are_the_clients_choice_and_rates_where_clients_wait() {
        let (slow, fast) = (did(1000.0, 100.0), did(1000.0, 50.0));
        assert!(fast.gain_over(&slow, false) > 0.1 && !fast.differs(&slow));
        let (more, less) = (did(1100.0, 100.0), did(1000.0, 50.0));
        assert!(more.gain_over(&less, true) > 0.09 && more.differs(&less));
        // As much by chance as those of two spans with so few commands.
        let few = |ops_per_s| Measure { committed: 500, ..did(ops_per_s, 10.0) };
        assert!(!few(1000.0).differs(&few(1080.0)));
    }

    #[test]
    fn who_is_late_is_worse_in_any_loop() {
        let late = Measure { late: 0.05, ..did(1000.0, 10.0) };
        assert!([false, true].iter().all(|&closed| late.gain_over(&did(1000.0, 10.0), closed) < -0.3));
    }
}
