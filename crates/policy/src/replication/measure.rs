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
    /// The first and the last commit of the span, and how many commands the first had.
    first: Option<(Time, u64)>,
    last: Time,
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
        if self.late > LATE { worth - 10.0 * (self.late - LATE) } else { worth }
    }
}

/// Fewer than these say little.
const ENOUGH_COMMANDS: u64 = 500;
const ENOUGH_BATCHES: u64 = 24;

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
            first: None,
            last: Time::ZERO,
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
        let (first, with_first) = self.first.unwrap_or((now, 0));
        let more = if first == now { commands } else { 0 };
        self.first = Some((first, with_first.saturating_add(more)));
        self.last = now;
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
        // From commit to commit: a span that cuts a large batch's time would otherwise count it by chance.
        let rate = match self.first {
            Some((first, with_first)) if self.batches >= 8 && self.last > first => {
                (self.committed - with_first) as f64 / self.last.since(first).as_secs_f64()
            }
            _ => share(self.committed as f64, seconds),
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
            first: None,
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
