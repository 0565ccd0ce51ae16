//! How often an event loop attends to its own work: looks at its completion queue, and posts replies.
//!
//! Each look and each post has system calls, whose price depends little on how much they find or carry. Too often, and
//! they take the core from handlers; too seldom, and a short call waits unseen while a long one runs, or its reply lies
//! there finished. No constant is right: a look that finds nothing may cost 0.3 us and a post 5 us, on another machine
//! or network the tenth or the tenfold of it.
//!
//! So the loop has an allowance: a [share](Pacing::SHARE) of the time in which handlers run, saved up to a few times the
//! price of a look and a post, as it was measured lately. Whoever has to be waited for decides when it is spent:
//! 1. At the end of a quantum: whoever runs longer than that keeps others waiting, who may be there unseen. A look is due if
//!    there is enough saved for it and for a post. So a lone short call beside a long one is found within a quantum.
//! 2. The post follows when what was found has run and somebody's quantum ends again. A reply that waited for the next look
//!    instead would wait for longer than its call did. Looks and posts take turns, so that neither uses up the allowance.
//! 3. After a call that was done within its quantum: those that came with it are next, and what is found earlier would
//!    wait behind them. A look and a post are due when as much has run since the last look as earns their price, so batches
//!    grow by themselves where calls are short and many; and a post when [so many](Pacing::BATCH) replies wait: their
//!    callers may have nothing else to do.
//! 4. A reply that would be late by then is posted at once.
//! 5. Replies of which more wait than fit into a write are posted even while what was found is looked through: refusals,
//!    of which a full queue makes as many as there are calls.
//!
//! Time in which there is nothing to run costs nobody anything, so it fills the allowance. While handlers could run all the
//! time, what the loop uses stays within the share, but for 4, 5 and the batches of 3.

use crate::time::{Span, Time};
use std::time::Duration;

/// What an event loop is to do before it goes on with handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Post the replies that wait.
    Post,
    /// Look for what has come.
    Look,
    /// Post, then look.
    Both,
}

/// When an event loop looks and posts.
#[derive(Clone, Debug)]
pub struct Pacing {
    look: Price,
    post: Price,
    /// What may be used, in nanoseconds; below zero it was used in advance.
    saved: i64,
    /// What has run since the last look, in nanoseconds.
    ran: u64,
    /// Whether it has posted since the last look.
    has_posted: bool,
    replies: usize,
    /// When the first of the replies that wait would be late.
    due: Time,
}

impl Pacing {
    /// The share of a busy core that looks and posts may take: a tenth.
    pub const SHARE: f64 = 1.0 / (Self::PARTS + 1) as f64;

    /// How many replies wait at most. Fewer, and writing costs as much as serving; more, and clients with a fixed number of
    /// calls under way have nothing to do meanwhile.
    pub const BATCH: usize = 32;

    /// How many replies are as much as a write takes.
    const FULL: usize = 8 * Self::BATCH;

    /// How much has to run for each unit that may be used.
    const PARTS: u64 = 9;

    /// How many looks and posts can be saved up.
    const MOST: i64 = 4;

    /// With nothing measured, and all saved that can be.
    #[must_use]
    pub fn new() -> Self {
        let (look, post) = (Price::FIRST, Price::FIRST);
        let mut new = Self { look, post, saved: 0, ran: 0, has_posted: false, replies: 0, due: Time::MAX };
        new.rested();
        new
    }

    /// The loop looked, which took so long without what was done for what it found.
    #[inline]
    pub fn looked(&mut self, cost: Span) {
        self.look.learn(cost);
        self.spend(self.look.mean);
        (self.ran, self.has_posted) = (0, false);
    }

    /// The loop posted all replies that waited; says whether there were any.
    #[inline]
    pub fn posted(&mut self, cost: Span) -> bool {
        let some = self.replies > 0;
        if some {
            self.post.learn(cost);
            self.spend(self.post.mean);
        }
        (self.replies, self.due, self.has_posted) = (0, Time::MAX, true);
        some
    }

    /// There was nothing to run.
    #[inline]
    pub fn rested(&mut self) {
        self.saved = self.saved.max(self.most());
    }

    /// Handlers ran for so long, and what it takes to run them.
    #[inline]
    pub fn ran(&mut self, span: Span) {
        self.ran = self.ran.saturating_add(span.as_nanos());
        let earned = (span.as_nanos() / Self::PARTS).cast_signed();
        self.saved = self.saved.saturating_add(earned).min(self.most());
    }

    /// A reply waits to be posted that is late at `due`.
    #[inline]
    pub fn replied(&mut self, due: Option<Time>) {
        self.replies += 1;
        self.due = self.due.min(due.unwrap_or(Time::MAX));
    }

    /// Something else waits to be posted, such as credits.
    #[inline]
    pub fn owes(&mut self) {
        self.replies = self.replies.max(1);
    }

    /// What is due at the end of a quantum, by 1, 2 and 4.
    #[inline]
    #[must_use]
    pub fn after_quantum(&self, now: Time) -> Due {
        let may_post = !self.has_posted && self.saved >= self.post.mean.cast_signed();
        if self.replies > 0 && (may_post || self.is_pressing(now)) {
            Due::Post
        } else if self.saved >= self.price().cast_signed() {
            Due::Look
        } else {
            Due::Nothing
        }
    }

    /// What is due after a call that is done or waits, by 3 and 4.
    #[inline]
    #[must_use]
    pub fn after_call(&self, now: Time) -> Due {
        if self.ran >= self.price() * Self::PARTS {
            Due::Both
        } else if self.replies >= Self::BATCH || self.is_pressing(now) {
            Due::Post
        } else {
            Due::Nothing
        }
    }

    /// Whether so many replies wait that they are to be posted whatever else there is to do, by 5.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.replies >= Self::FULL
    }

    /// What a look and a post are expected to cost.
    #[inline]
    fn price(&self) -> u64 {
        self.look.mean + self.post.mean
    }

    /// Whether a reply that waits would be late if it waited until a look and a post have been earned.
    #[inline]
    fn is_pressing(&self, now: Time) -> bool {
        self.due < Time::MAX && self.due.since(now) <= Duration::from_nanos(self.price() * Self::PARTS)
    }

    #[inline]
    fn spend(&mut self, price: u64) {
        self.saved = self.saved.saturating_sub_unsigned(price).max(-self.most());
    }

    #[inline]
    fn most(&self) -> i64 {
        self.price().cast_signed() * Self::MOST
    }
}

impl Default for Pacing {
    fn default() -> Self {
        Self::new()
    }
}

/// What something costs lately, in nanoseconds.
///
/// This is what is spent each time, and not what it took: in the long run that is the same. Where system calls wait for
/// others now and then, for a lock that the peer holds or for the host, who waits here would otherwise wait again while that
/// is made up for.
#[derive(Clone, Debug)]
struct Price {
    mean: u64,
    /// How many the mean is of, at most so many as it remembers.
    count: u64,
}

impl Price {
    /// Before any was measured: 2 us.
    const FIRST: Self = Self { mean: 2000, count: 0 };

    /// How many are remembered.
    const MEMORY: u64 = 8;

    /// None is less or more than this.
    const RANGE: (u64, u64) = (50, 1_000_000);

    /// One that is far above the others is no price but the time for which the thread was kept from running, so it counts for
    /// four times the mean at most.
    #[inline]
    fn learn(&mut self, cost: Span) {
        self.count = (self.count + 1).min(Self::MEMORY);
        let sum = self.mean * (self.count - 1) + cost.as_nanos().min(self.mean * 4);
        let (least, most) = Self::RANGE;
        self.mean = sum.div_ceil(self.count).clamp(least, most);
    }
}
