//! How often an event loop attends to its own work: looks at its completion queue, and posts replies.
//!
//! Each look and each post has system calls, whose price depends little on how much they find or carry. Too often, and
//! they take the core from handlers; too seldom, and a short call waits unseen while a long one runs, or its reply lies
//! there finished. No constant is right: a look that finds nothing may cost 0.3 us and a post 5 us, on another machine
//! or network the tenth or the tenfold of it.
//!
//! So the loop has an allowance: a [share](Pacing::SHARE) of the time in which handlers run, and, as it costs nobody
//! anything, [half](Pacing::SPARE) of the time in which lately nothing was to be run; saved up to a few times the price of a
//! look and a post, as it was measured lately. Whoever has to be waited for decides when it is spent:
//! 1. At the end of a quantum: whoever runs longer than that keeps others waiting, who may be there unseen. A look is due if
//!    there is enough saved for it and for a post. So a lone short call beside a long one is found within a quantum.
//! 2. The post follows when what was found has run and somebody's quantum ends again. A reply that waited for the next look
//!    instead would wait for longer than its call did. Looks and posts take turns, so that neither uses up the allowance.
//! 3. After a call that was done within its quantum: those that came with it are next, and what is found earlier would
//!    wait behind them. A look and a post are due when as much has run since the last look as earns their price, so batches
//!    grow by themselves where calls are short and many, though there be time to spare: it's the clients' time, too, that
//!    batches save. And a post when [so many](Pacing::BATCH) replies wait: their callers may have nothing else to do. Where many
//!    calls wait to be run, it is a [part](Pacing::QUEUED) of them: their callers wait for that much longer anyway.
//! 4. A reply that would be late by then is posted at once.
//! 5. Replies of which more wait than fit into a write are posted even while what was found is looked through: refusals,
//!    of which a full queue makes as many as there are calls.
//!
//! Time in which there is nothing to run fills the allowance. While handlers could run all the time, what the loop uses stays
//! within the share, but for 4, 5, the batches of 3, and what each call and reply adds to a look and a post. Where there is time to spare, calls of some 500 us at 0.8 of a core
//! would otherwise keep short ones waiting for nineteen times what a look and a post cost, though the core has nothing else to do
//! soon after.

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
    /// What each nanosecond that runs earns, in parts of [`ONE`](Self::ONE).
    rate: u64,
    /// How long there was something to do lately, and nothing, in nanoseconds.
    busy: u64,
    idle: u64,
    /// Since when there has been nothing to run, if there is nothing.
    rested_at: Option<Time>,
    /// Whether it has posted since the last look.
    has_posted: bool,
    replies: usize,
    /// When the first of the replies that wait would be late.
    due: Time,
}

impl Pacing {
    /// The share of a busy core that looks and posts may take: a twentieth.
    pub const SHARE: f64 = 1.0 / (Self::PARTS + 1) as f64;

    /// How many replies wait at most. Fewer, and writing costs as much as serving; more, and clients with a fixed number of
    /// calls under way have nothing to do meanwhile.
    pub const BATCH: usize = 32;

    /// Which part of the calls that wait to be run is posted at once, if that is more.
    pub const QUEUED: usize = 16;

    /// How many replies are as much as a write takes.
    const FULL: usize = 8 * Self::BATCH;

    /// How much has to run for each unit that may be used, where no time is spare.
    const PARTS: u64 = 19;

    /// How much has to run until a look and a post are due whatever they are for.
    const BATCHES: u64 = 9;

    /// Which part of the time to spare may be used, too.
    pub const SPARE: f64 = 1.0 / Self::SPARED as f64;
    const SPARED: u64 = 2;

    /// A unit that is earned for each that runs. More is never earned.
    const ONE: u64 = 1 << 16;
    /// What is earned where no time is spare.
    const LEAST: u64 = Self::ONE / Self::PARTS;

    /// Over how long it is seen how much time there is to spare, in nanoseconds, and as much again with half the weight, and
    /// so on: some calls of the longest kind.
    const LATELY: u64 = 4_000_000;

    /// Longer spans count as this long: some twenty minutes.
    const LONGEST: u64 = 1 << 40;

    /// How many looks and posts can be saved up.
    const MOST: i64 = 4;

    /// With nothing measured, and all saved that can be.
    #[must_use]
    pub fn new() -> Self {
        let (look, post) = (Price::FIRST, Price::FIRST);
        let mut new = Self {
            look,
            post,
            saved: 0,
            ran: 0,
            rate: Self::LEAST,
            busy: 0,
            idle: 0,
            rested_at: None,
            has_posted: false,
            replies: 0,
            due: Time::MAX,
        };
        new.saved = new.most();
        new
    }

    /// The loop looked, which took so long without what was done for what it found: so many calls, and whatever else.
    #[inline]
    pub fn looked(&mut self, cost: Span, found: usize) {
        self.look.learn(cost, found);
        self.spend(self.look.alone);
        self.busy += self.ran.min(Self::LONGEST);
        if self.rested_at.is_none() {
            self.busy += cost.as_nanos().min(Self::LONGEST);
        }
        if self.busy + self.idle > Self::LATELY {
            self.see_how_much_is_spare();
        }
        (self.ran, self.has_posted) = (0, false);
    }

    /// The loop posted all replies that waited; says whether there were any.
    #[inline]
    pub fn posted(&mut self, cost: Span) -> bool {
        let some = self.replies > 0;
        if some {
            self.post.learn(cost, self.replies);
            self.spend(self.post.alone);
            self.busy += cost.as_nanos().min(Self::LONGEST);
            // What is posted at the end of all work is work.
            self.rested_at = self.rested_at.map(|since| since + Duration::from(cost));
        }
        (self.replies, self.due, self.has_posted) = (0, Time::MAX, true);
        some
    }

    /// There is nothing to run.
    #[inline]
    pub fn rested(&mut self, now: Time) {
        self.saved = self.saved.max(self.most());
        self.rested_at.get_or_insert(now);
    }

    /// There is something to run.
    #[inline]
    pub fn resumed(&mut self, now: Time) {
        if let Some(since) = self.rested_at.take() {
            self.idle += now.span_since(since).as_nanos().min(Self::LONGEST);
        }
    }

    /// Handlers ran for so long, and what it takes to run them.
    #[inline]
    pub fn ran(&mut self, span: Span) {
        self.ran = self.ran.saturating_add(span.as_nanos());
        let earned = (span.as_nanos().min(Self::LONGEST) * self.rate / Self::ONE).cast_signed();
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
        let may_post = !self.has_posted && self.saved >= self.post.alone.cast_signed();
        if self.replies > 0 && (may_post || self.is_pressing(now)) {
            Due::Post
        } else if self.saved >= self.price().cast_signed() {
            Due::Look
        } else {
            Due::Nothing
        }
    }

    /// For how long nothing will be due at the end of a quantum, if nothing is now and no call ends.
    #[must_use]
    pub fn quiet_for(&self, now: Time) -> Duration {
        let earned_in = |price: u64| {
            let missing = price.cast_signed().saturating_sub(self.saved).max(0).cast_unsigned();
            Duration::from_nanos(missing.saturating_mul(Self::ONE) / self.rate)
        };
        let look = earned_in(self.price());
        if self.replies == 0 {
            return look;
        }
        let post = if self.has_posted { look } else { earned_in(self.post.alone) };
        look.min(post).min(self.presses_in(now))
    }

    /// What is due after a call that is done or waits, by 3 and 4. So many others wait to be run.
    #[inline]
    #[must_use]
    pub fn after_call(&self, now: Time, waiting: usize) -> Due {
        let batch = (waiting / Self::QUEUED).clamp(Self::BATCH, Self::FULL);
        if self.ran >= self.whole_price() * Self::BATCHES {
            Due::Both
        } else if self.replies >= batch || self.is_pressing(now) {
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

    #[cold]
    fn see_how_much_is_spare(&mut self) {
        let spare = self.idle.saturating_mul(Self::ONE) / (self.busy.max(1) * Self::SPARED);
        self.rate = (Self::LEAST + spare).min(Self::ONE);
        // However long nothing happened, what is seen from now on counts.
        let most = 2 * Self::LATELY;
        (self.busy, self.idle) = (self.busy.min(most) / 2, self.idle.min(most) / 2);
    }

    /// What a look and a post are expected to cost, whatever they find and carry.
    #[inline]
    fn price(&self) -> u64 {
        self.look.alone + self.post.alone
    }

    /// The same with what they find and carry.
    #[inline]
    fn whole_price(&self) -> u64 {
        self.look.whole + self.post.whole
    }

    /// Whether a reply that waits would be late if it waited until a look and a post have been earned.
    #[inline]
    fn is_pressing(&self, now: Time) -> bool {
        self.presses_in(now).is_zero()
    }

    /// How soon that is so.
    #[inline]
    fn presses_in(&self, now: Time) -> Duration {
        if self.due == Time::MAX {
            return Duration::MAX;
        }
        self.due.since(now).saturating_sub(Duration::from_nanos(self.whole_price() * Self::BATCHES))
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
    /// Of all that it does.
    whole: u64,
    /// Of what it costs though it finds or carries nothing.
    alone: u64,
    /// How many the means are of, at most so many as are remembered.
    count: u64,
}

impl Price {
    /// Before any was measured: 2 us.
    const FIRST: Self = Self { whole: 2000, alone: 2000, count: 0 };

    /// How many are remembered.
    const MEMORY: u64 = 8;

    /// What each reply adds is a part of what a post costs alone, and so it is with the calls that a look finds: over one
    /// connection and over four of TCP, about a sixteenth.
    ///
    /// Only what they cost alone is saved by doing them more seldom. The whole in its place would feed itself: the longer the
    /// next look is put off, the more it finds, and the longer the one after it is put off.
    const PARTS: u64 = 16;

    /// None is less or more than this.
    const RANGE: (u64, u64) = (50, 1_000_000);

    /// One that is far above the others is no price but the time for which the thread was kept from running, so it counts for
    /// four times the mean at most.
    #[inline]
    fn learn(&mut self, cost: Span, carried: usize) {
        let whole = cost.as_nanos().min(self.whole * 4);
        let alone = whole * Self::PARTS / Self::PARTS.saturating_add(carried as u64);
        if self.count < Self::MEMORY {
            self.count += 1;
            self.whole = Self::mean(self.whole, whole, self.count);
            self.alone = Self::mean(self.alone, alone, self.count);
        } else {
            self.whole = Self::mean(self.whole, whole, Self::MEMORY);
            self.alone = Self::mean(self.alone, alone, Self::MEMORY);
        }
    }

    #[inline(always)]
    fn mean(before: u64, new: u64, count: u64) -> u64 {
        let (least, most) = Self::RANGE;
        (before * (count - 1) + new).div_ceil(count).clamp(least, most)
    }
}
