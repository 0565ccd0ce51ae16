//! How many handlers may be begun and unfinished at once, found out while running.
//!
//! A request that has begun and calls other services waits in *their* queues, where it can no longer be passed over or
//! refused for free. With too many begun, the backlog of an overload stands behind instead of here: requests die there
//! of which half the work is done. With too few, the stages behind run dry.
//!
//! Little's law says how many is right: what is begun on average is the rate times the time from begin to end; the
//! rate times the *work* in that time is what would be begun if nothing queued. A server knows both, as receipts tell
//! queue from work. What comes and goes at random needs a few more to stay busy, by the square root of their number
//! (Halfin and Whitt, Heavy-Traffic Limits for Queues with Many Exponential Servers, 1981), and there is one for the
//! moment between an end and the next begin. So w + sqrt(w) + 1 are enough where w would be begun without queues: the
//! limit falls to that when more are begun on average, and grows to it while it is reached.
//!
//! One limit a method: methods differ in what they call, and one that waits for another of the same server must not
//! keep it from beginning. A method that waits for *itself* further down would; so a limit that is reached gives way by
//! one whenever nothing has finished for a few times the usual work, at least [`BeginLimit::PATIENCE`]. Where others keep
//! the stages behind congested, whatever is begun here queues there, and the limit goes down to one.
//!
//! It is the window of TCP Vegas (Brakmo and Peterson, 1995) and of gradient concurrency limits, with the receipts'
//! work in place of the least round trip seen, which needs no idle moment to be learned and fits mixed methods.

use crate::time::{Span, Time};
use std::time::Duration;

/// Limits how many handlers are begun.
///
/// ```
/// use greenwave_policy::{BeginLimit, Time};
/// use std::time::Duration;
///
/// let (ms, mut now) = (Duration::from_millis, Time::from_nanos(1_000_000_000));
/// let mut limit = BeginLimit::new(64);
/// // 64 are begun, and each works for 1 ms and stands in the queues behind for 15 ms: 4 would be begun without queues.
/// for _ in 0..BeginLimit::REVIEW {
///     now = now + ms(1);
///     limit.observe(now, ms(1), ms(15), 64);
/// }
/// assert_eq!(limit.limit(), 4 + 2 + 1);
/// assert!(limit.may_begin(now, 6) && !limit.may_begin(now, 7));
/// ```
#[derive(Clone, Debug)]
pub struct BeginLimit {
    most: usize,
    limit: f64,
    /// The limit in whole requests, 1 to the most.
    whole: usize,
    window: Window,
    /// A moving average over the last few requests.
    usual_work: Span,
    /// When a request last finished, or one was let in beyond the limit.
    progressed: Time,
}

/// What was seen since the limit was last reviewed.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    finished: u32,
    begun: u64,
    work: Span,
    queued: Span,
    reached: bool,
}

impl BeginLimit {
    /// After how many finished requests the limit is reviewed.
    pub const REVIEW: u32 = 16;

    /// The least time without progress after which one more may begin.
    pub const PATIENCE: Duration = Duration::from_millis(2);

    /// A limit that never exceeds `most` (taken as 1 if it is 0), and begins there.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        let window = Window::default();
        Self { most, limit: most as f64, whole: most, window, usual_work: Span::ZERO, progressed: Time::ZERO }
    }

    /// How many may be begun at once: 1 to the most.
    #[must_use]
    #[inline]
    pub const fn limit(&self) -> usize {
        self.whole
    }

    /// Whether one more may begin while `begun` are; never more than the most.
    pub fn may_begin(&mut self, now: Time, begun: usize) -> bool {
        if begun < self.limit() {
            return true;
        }
        self.window.reached = true;
        let relieved = begun < self.most && now >= self.relief();
        if relieved {
            self.progressed = now;
        }
        relieved
    }

    /// When one more may begin although the limit is reached, if nothing finishes until then.
    #[must_use]
    pub fn relief(&self) -> Time {
        let usual = Duration::from(self.usual_work).min(Duration::from_secs(60));
        self.progressed + (4 * usual).max(Self::PATIENCE)
    }

    /// Takes in a request that has finished: how long it was worked on since it began, here and behind, how long it
    /// stood in the queues behind, and how many were begun, itself included.
    #[inline]
    pub fn observe(&mut self, now: Time, work: impl Into<Span>, queued: impl Into<Span>, begun: usize) {
        let (work, queued) = (work.into(), queued.into());
        let usual = self.usual_work.as_nanos();
        self.progressed = now;
        self.usual_work = Span::from_nanos(usual - usual / 8 + work.as_nanos() / 8);
        let window = &mut self.window;
        window.finished += 1;
        window.begun = window.begun.saturating_add(begun as u64);
        window.work += work;
        window.queued += queued;
        if window.finished >= Self::REVIEW {
            self.review();
        }
    }

    fn review(&mut self) {
        let Window { finished, begun, work, queued, reached } = std::mem::take(&mut self.window);
        let (work, queued) = (work.as_nanos() as f64, queued.as_nanos() as f64);
        // Requests that took no time at all say nothing.
        if work + queued <= 0.0 {
            return;
        }
        let begun = begun as f64 / f64::from(finished);
        let without_queues = begun * (work / (work + queued));
        let enough = without_queues + without_queues.sqrt() + 1.0;
        if begun > enough {
            self.limit = self.limit.min(enough);
        } else if reached {
            self.limit = self.limit.max(enough.min(1.0 + 1.5 * self.limit)).min(self.most as f64);
        }
        self.whole = (self.limit as usize).clamp(1, self.most);
    }
}
