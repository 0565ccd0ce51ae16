//! Appending and syncing take time, one sync at a time; and any of it can fail.

use crate::link::{Bandwidth, Pipe};
use crate::seed::Stream;
use greenwave_policy::Time;
use std::time::Duration;

/// How a disk behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskRule {
    /// How long a sync takes, beside its bytes.
    pub sync: Duration,
    /// How fast bytes are written.
    pub bandwidth: Bandwidth,
    /// Bytes that it holds; a write beyond fails with [`DiskFault::Full`].
    pub capacity: u64,
    /// By what share a sync may take longer or less long than `sync`: 0 to 1.
    pub variation: f64,
}

impl DiskRule {
    /// Takes no time and has no end.
    pub const PERFECT: Self =
        Self { sync: Duration::ZERO, bandwidth: Bandwidth::UNLIMITED, capacity: u64::MAX, variation: 0.0 };

    /// Takes this long for a sync, and no time for bytes.
    #[must_use]
    pub const fn sync(sync: Duration) -> Self {
        Self { sync, ..Self::PERFECT }
    }
}

/// What goes wrong with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskFault {
    /// Writing failed.
    #[error("an error of writing")]
    Write,
    /// Syncing failed. What it should have synced may or may not be there.
    #[error("an error of syncing")]
    Sync,
    /// There is no room.
    #[error("the disk is full")]
    Full,
}

/// What a sync came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// Numbers of the writes that it was for, in their order.
    pub writes: Vec<u64>,
    /// Whether they are durable.
    pub outcome: Result<(), DiskFault>,
    /// Bytes that it was for.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// A disk with a single writer, who appends all that waits and syncs it at once (group commit).
///
/// 1. One sync at a time: what is given meanwhile waits, and all of it is the next sync's.
/// 2. Writes become durable in the order in which they were given, and are told once.
/// 3. A fault is told for all writes of its sync. Whether anything is written after it is the owner's affair.
///
/// It has no bytes: what becomes of the content is for the owner to say, who knows what was given after the last
/// sync that succeeded.
#[derive(Clone, Debug)]
pub struct Disk {
    rule: DiskRule,
    /// When the sync under way ends, and what it comes to.
    syncing: Option<(Time, Synced)>,
    /// Given, and not yet in a sync.
    waiting: Vec<u64>,
    waiting_bytes: u64,
    used: u64,
    fault: Option<DiskFault>,
    pipe: Pipe,
    syncs: u64,
    chance: Stream,
}

impl Disk {
    /// An empty disk, whose syncs vary by `chance`.
    #[must_use]
    pub fn new(rule: DiskRule, chance: Stream) -> Self {
        Self {
            rule,
            syncing: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            used: 0,
            fault: None,
            pipe: Pipe::default(),
            syncs: 0,
            chance,
        }
    }

    /// How it behaves.
    #[must_use]
    pub fn rule(&self) -> DiskRule {
        self.rule
    }

    /// Changes how it behaves, from the next sync on.
    pub fn change(&mut self, rule: DiskRule) {
        self.rule = rule;
    }

    /// Lets the sync fail that ends next.
    pub fn fail_next(&mut self, fault: DiskFault) {
        self.fault = Some(fault);
    }

    /// Takes back what [`Disk::fail_next`] said, if it hasn't come to that yet.
    pub fn mend(&mut self) {
        self.fault = None;
    }

    /// Gives it a write. If it was idle, a sync begins; then [`Disk::finish`] has to be called at the instant that is
    /// returned.
    pub fn write(&mut self, now: Time, number: u64, bytes: u64) -> Option<Time> {
        self.waiting.push(number);
        self.waiting_bytes += bytes;
        if self.syncing.is_none() { self.begin(now) } else { None }
    }

    /// The sync under way has ended: what it came to, and when the next one does, if anything waits. `None` before its
    /// end, or without one.
    pub fn finish(&mut self, now: Time) -> Option<(Synced, Option<Time>)> {
        let (_, mut synced) = self.syncing.take_if(|(end, _)| *end <= now)?;
        let full = self.used > self.rule.capacity;
        let fault = self.fault.take().or(full.then_some(DiskFault::Full));
        synced.outcome = fault.map_or(Ok(()), Err);
        let next = if self.waiting.is_empty() { None } else { self.begin(now) };
        Some((synced, next))
    }

    /// Gives room back, as when old files are removed.
    pub fn release(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Bytes that were written and not released.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Syncs that were begun.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Forgets what is under way and what waits, as a machine that is switched off. What is on it stays.
    pub fn crash(&mut self) {
        self.syncing = None;
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.fault = None;
        self.pipe = Pipe::default();
    }

    fn begin(&mut self, now: Time) -> Option<Time> {
        let bytes = std::mem::take(&mut self.waiting_bytes);
        self.used = self.used.saturating_add(bytes);
        self.syncs += 1;
        let sync = if self.rule.variation > 0.0 {
            let varied = 1.0 + self.rule.variation * (2.0 * self.chance.unit() - 1.0);
            self.rule.sync.mul_f64(varied.max(0.0))
        } else {
            self.rule.sync
        };
        let end = self.pipe.send(now, bytes, self.rule.bandwidth) + sync;
        let writes = std::mem::take(&mut self.waiting);
        self.syncing = Some((end, Synced { writes, outcome: Ok(()), bytes, took: end.since(now) }));
        Some(end)
    }
}
