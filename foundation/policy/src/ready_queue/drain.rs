//! How fast a queue drains.
//!
//! What waits is done in the sum of its estimated work only where a core does nothing else. Other processes, a container's
//! quota, other guests and the event loop itself all take their part, and estimates can be wrong. So it is measured: the time from
//! one call's turn to the next, over what it was estimated to take, while others waited.

/// How many calls, and how much time in nanoseconds, is looked at before something is learned. Slices of some processes that
/// share a core are within that.
const CALLS: u32 = 64;
const SPAN: i64 = 100_000_000;

/// A queue that drains more slowly than this stands still.
const MOST: f64 = 1000.0;

#[derive(Clone, Debug)]
pub(super) struct Drain {
    /// How many times its estimate the work of those that wait takes, 1 or more.
    slowdown: f64,
    /// About that: another one only when it has doubled or halved, so that what comes is put in order by the same as what waits.
    stretch: f64,
    /// How long it takes from one decision who goes first to the next, in the mean over the time and not over the decisions: what is
    /// under way at any moment takes so long. With the longest in its place, one pause of the core made all that is urgent go
    /// first from then on.
    gap: i64,
    /// When the call whose turn it is had its turn, if others waited then.
    since: Option<i64>,
    /// Its estimated work.
    doing: i64,
    /// When it was decided last who goes first, if others waited then.
    decided: i64,
    /// Since something was learned: how many calls had their turn, how long that took and was estimated to take, and the
    /// sums of the times between two decisions and of their squares.
    calls: u32,
    elapsed: i64,
    done: i64,
    between: f64,
    squares: f64,
}

impl Drain {
    pub(super) const fn new() -> Self {
        Self {
            slowdown: 1.0,
            stretch: 1.0,
            gap: 0,
            since: None,
            doing: 0,
            decided: i64::MAX,
            calls: 0,
            elapsed: 0,
            done: 0,
            between: 0.0,
            squares: 0.0,
        }
    }

    /// A call with so much work has its turn. `others`: whether others wait.
    #[inline]
    pub(super) fn taken(&mut self, now: i64, work: i64, others: bool) {
        self.passed(now, self.doing);
        self.decides(now);
        (self.since, self.decided) = if others { (Some(now), now) } else { (None, i64::MAX) };
        self.doing = work;
    }

    /// It is asked whether the call whose turn it is goes on. Others wait.
    #[inline]
    pub(super) fn asked(&mut self, now: i64) {
        self.decides(now);
        self.decided = now;
    }

    #[inline]
    fn decides(&mut self, now: i64) {
        let between = now.saturating_sub(self.decided).max(0) as f64;
        self.between += between;
        self.squares += between * between;
    }

    /// The call whose turn it was is put back, with so much work left.
    #[inline]
    pub(super) fn put_back(&mut self, now: i64, left: i64) {
        if left < self.doing {
            self.passed(now, self.doing - left);
        }
        // What it was estimated to take was wrong otherwise, and how much of it is done isn't known.
        (self.since, self.doing) = (self.since.map(|_| now), 0);
    }

    /// Nobody waits.
    pub(super) fn rests(&mut self) {
        (self.since, self.decided) = (None, i64::MAX);
    }

    #[inline]
    fn passed(&mut self, now: i64, done: i64) {
        let Some(since) = self.since else { return };
        self.elapsed = self.elapsed.saturating_add(now.saturating_sub(since).max(0));
        self.done = self.done.saturating_add(done);
        self.calls += 1;
        if self.calls >= CALLS && self.elapsed >= SPAN {
            self.learn();
        }
    }

    #[cold]
    fn learn(&mut self) {
        let seen = (self.elapsed as f64 / self.done.max(1) as f64).clamp(1.0, MOST);
        let is_first = self.gap == 0;
        self.slowdown = if is_first { seen } else { f64::midpoint(self.slowdown, seen) };
        if self.slowdown >= 2.0 * self.stretch || 2.0 * self.slowdown <= self.stretch {
            self.stretch = self.slowdown;
        }
        let gap = (self.squares / self.between.max(1.0)) as i64;
        self.gap = if is_first { gap } else { i64::midpoint(self.gap, gap) };
        (self.calls, self.elapsed, self.done) = (0, 0, 0);
        (self.between, self.squares) = (0.0, 0.0);
    }

    /// How many times its estimate work takes.
    #[inline]
    pub(super) const fn slowdown(&self) -> f64 {
        self.slowdown
    }

    /// About how many times its estimate work takes that waits.
    #[inline]
    pub(super) const fn stretch(&self) -> f64 {
        self.stretch
    }

    /// How long it takes until it is decided again who goes first, in nanoseconds.
    #[inline]
    pub(super) const fn gap(&self) -> i64 {
        self.gap
    }
}
