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
    late: u64,
    limit: Option<Duration>,
    working: f64,
    syncing: f64,
    batches: u64,
    batched: u64,
    full_batches: u64,
}

/// What a group did in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    pub(super) seconds: f64,
    pub(super) committed: u64,
    /// Commands that were submitted and not yet committed, on average.
    pub(super) in_system: f64,
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
    /// Commands a second.
    pub(super) fn ops_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.committed as f64 / self.seconds } else { 0.0 }
    }

    /// How good that was, as a logarithm: a difference of 0.01 is a hundredth.
    ///
    /// Throughput, and a quarter of latency (by Little's law, what is in the system over the rate). Where the clients
    /// wait for answers, both say the same. Where they don't, throughput is theirs to choose, and latency decides.
    pub(super) fn worth(&self) -> f64 {
        let rate = self.ops_per_s().max(f64::MIN_POSITIVE);
        let latency = (self.in_system / rate).max(1e-9);
        let worth = rate.ln() - 0.25 * latency.ln();
        if self.late > LATE { worth - 10.0 * (self.late - LATE) } else { worth }
    }
}

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
            late: 0,
            limit,
            working: 0.0,
            syncing: 0.0,
            batches: 0,
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
        self.batches = self.batches.saturating_add(1);
        self.batched = self.batched.saturating_add(commands);
        self.full_batches = self.full_batches.saturating_add(u64::from(full));
    }

    /// Commands in the system now.
    pub(super) const fn in_system(&self) -> u64 {
        self.in_system.now()
    }

    /// Commands committed since the span began.
    pub(super) const fn committed_so_far(&self) -> u64 {
        self.committed
    }

    /// How long the span has lasted.
    pub(super) const fn lasted(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Ends the span, and begins the next.
    pub(super) fn take(&mut self, now: Time) -> Measure {
        let seconds = now.since(self.since).as_secs_f64();
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let measure = Measure {
            seconds,
            committed: self.committed,
            in_system: share(self.in_system.take_area(now), seconds),
            late: share(self.late as f64, self.committed as f64),
            working: share(self.working, seconds).min(1.0),
            syncing: share(self.syncing, seconds).min(1.0),
            batch: share(self.batched as f64, self.batches as f64),
            full_batches: share(self.full_batches as f64, self.batches as f64),
        };
        *self = Self {
            since: now,
            committed: 0,
            late: 0,
            working: 0.0,
            syncing: 0.0,
            batches: 0,
            batched: 0,
            full_batches: 0,
            ..*self
        };
        measure
    }
}
