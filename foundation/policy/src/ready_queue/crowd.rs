//! Whether more waits than is good for who is to be served next, and whether that lasts.
//!
//! What is [much longer](super::backlog) than the mean of what has come lately is no part of a crowd: a server that is busy with
//! short work may have a lot of it waiting.

use super::backlog::Backlog;

/// As many as are crowded, or half as many as may wait. What a server keeps of so many has hardly left its caches, and what it can
/// do falls where more wait.
const CROWD: usize = 512;

/// Which part of a crowd is few: it is one until only so many wait.
const CALM: usize = 4;

/// For how many nanoseconds more there has been a crowd than none where that lasts.
const LASTING: i64 = 50_000_000;

/// How many have come lately, at most.
const LATELY: u32 = 1024;

/// Within how many nanoseconds a crowd has to be served, for others to be kept waiting elsewhere until then: who is urgent waits
/// there like everybody.
const SOON: f64 = 20e6;

#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// How many are one.
    least: usize,
    /// Whether many have waited since few did.
    is_there: bool,
    /// For how long more they have than not, from zero to twice what lasts, until it was told last what time it is.
    there_for: i64,
    seen: i64,
    /// How many have come lately, and the mean of their work.
    came: u32,
    mean: f64,
}

impl Crowd {
    pub(super) const fn new() -> Self {
        Self { least: CROWD, is_there: false, there_for: 0, seen: 0, came: 0, mean: 0.0 }
    }

    /// No more than so many may wait.
    pub(super) fn set_most(&mut self, most: usize, backlog: &Backlog) {
        self.least = CROWD.min(most.div_ceil(2));
        self.is_there = self.short(backlog) >= self.least;
    }

    /// It is so late.
    #[inline]
    pub(super) fn pass(&mut self, now: i64) {
        let passed = now.saturating_sub(self.seen).max(0);
        self.seen += passed;
        self.there_for = match self.is_there {
            true => self.there_for.saturating_add(passed).min(2 * LASTING),
            false => self.there_for.saturating_sub(passed).max(0),
        };
    }

    /// So much work comes.
    #[inline]
    pub(super) fn comes(&mut self, work: i64) {
        self.came = (self.came + 1).min(LATELY);
        self.mean += (work as f64 - self.mean) / f64::from(self.came);
    }

    /// One more waits, so many in all.
    #[inline]
    pub(super) fn grew(&mut self, waiting: usize, backlog: &Backlog) {
        if waiting >= self.least {
            self.is_there |= self.short(backlog) >= self.least;
        }
    }

    /// One less waits.
    #[inline]
    pub(super) fn shrank(&mut self, backlog: &Backlog) {
        if self.is_there {
            self.is_there = self.short(backlog) >= self.least.div_ceil(CALM);
        }
    }

    /// The mean of the work that has come lately.
    #[inline]
    pub(super) const fn mean(&self) -> i64 {
        self.mean as i64
    }

    /// Whether there is a crowd, and has been for a while.
    #[inline]
    pub(super) const fn lasts(&self) -> bool {
        self.is_there && self.there_for >= LASTING
    }

    /// Whether there is one that is served soon, if its work takes so many times what it is estimated to take.
    #[inline]
    pub(super) fn is_soon_over(&self, backlog: &Backlog, slowdown: f64) -> bool {
        self.is_there && backlog.up_to(self.mean()) as f64 * slowdown <= SOON
    }

    /// How many wait that aren't much longer than what has come lately.
    fn short(&self, backlog: &Backlog) -> usize {
        backlog.pieces_up_to(self.mean())
    }
}
