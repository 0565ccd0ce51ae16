//! Whether a request is let in.
//!
//! Under overload, deadline order without dropping is worse than first come, first served: every request is served a
//! moment too late. So what can't be answered in time is refused, at once and with a reason: it has *expired*, it is
//! *infeasible* (it needs more than it has left), it has *waited* too long, or the queue is *full*. It is asked twice,
//! on arrival and when the request comes up to run.
//!
//! Who has waited for most of the budget is turned away, if others wait, although the rest might do. Where more is
//! asked for than can be served, everybody in a queue by deadlines drifts to the edge of what is feasible: those with
//! seconds to spare wait until they are as urgent as those with milliseconds, and all of them begin with hardly enough.
//! With a share of the budget kept in *reserve*, those who are in no hurry have to begin while they are in none, and so
//! they are the ones who are turned away; those in a hurry go before them, and what has begun is done in time. It is
//! the idea of Robust Earliest Deadline (Buttazzo and Stankovic, 1993), that under overload the least important is
//! rejected, with urgency in the place of importance.
//!
//! That something is infeasible is an estimate, learned from the requests that ran. An estimate that is too high
//! would refuse them all and never learn better. So refusals for that reason are capped: at every moment of a window,
//! at most a share of its requests was refused as infeasible. Its requests are those that arrived in it or those that
//! came up to run in it, whichever are more; expired, surplus and overdue ones don't count, as expiry, a full
//! queue and long waits are facts, and exempt.
//!
//! Keep one [`Admission`] for each method whose times are learned apart. With one for all, a method whose estimate is
//! wrong could stay shut out within the cap. Where one thread decides on arrival and another when the request comes
//! up, each has its own and keeps the cap by itself.

use crate::deadline::Budget;
use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// How much may be refused.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdmissionConfig {
    /// Whether what can't be answered in time is refused; otherwise everything is admitted.
    pub enabled: bool,
    /// The longest queue, in requests: 1 or more. Who comes to a full one is refused, unless a server finds others to refuse
    /// in its place ([`ReadyQueue::shed`](crate::ReadyQueue::shed)).
    pub max_queue: usize,
    /// The largest share of requests that may be refused as infeasible within a window: 0 to 1.
    pub reject_cap: f64,
    /// The share of the budget it arrived with that a request must still have when it begins while others wait, 0 to
    /// less than 1; 0 turns nobody away for having waited.
    pub reserve: f64,
    /// The length of a window, more than zero. A window starts with the first decision after the one before ended.
    pub window: Duration,
}

impl AdmissionConfig {
    /// Which part of a full queue is turned away at once where it can be, so that it isn't looked through for each that comes.
    pub const SHED: usize = 16;

    /// More than how many times as long as a request that comes to a full queue those take that are turned away in its place. By
    /// less, estimates differ that are of the same method at different times: then many would be turned away for nothing.
    pub const LONGER: u32 = 4;

    /// Sets [`enabled`](Self#structfield.enabled), by default true.
    #[must_use]
    pub const fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Sets [`max_queue`](Self#structfield.max_queue), by default 4096.
    #[must_use]
    pub const fn max_queue(mut self, requests: usize) -> Self {
        self.max_queue = requests;
        self
    }

    /// Sets [`reject_cap`](Self#structfield.reject_cap), by default 0.5.
    #[must_use]
    pub const fn reject_cap(mut self, share: f64) -> Self {
        self.reject_cap = share;
        self
    }

    /// Sets [`reserve`](Self#structfield.reserve), by default 0.3.
    #[must_use]
    pub const fn reserve(mut self, share: f64) -> Self {
        self.reserve = share;
        self
    }

    /// Sets [`window`](Self#structfield.window), by default 10 s.
    #[must_use]
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// What has to be left of a request that came with a `whole` budget when it begins while others wait, or it is refused, if it is
    /// estimated to need so much then. Zero where nothing is refused.
    #[must_use]
    #[inline]
    pub fn needed(&self, whole: Budget, needed: Option<Duration>) -> Duration {
        if !self.enabled {
            return Duration::ZERO;
        }
        let needed = needed.unwrap_or_default();
        if self.reserve == 0.0 || whole.is_unlimited() {
            return needed;
        }
        needed.max(Duration::from_nanos(self.reserved(whole) as u64))
    }

    /// What is kept in reserve of a budget that isn't unlimited, in nanoseconds.
    #[inline]
    fn reserved(&self, whole: Budget) -> f64 {
        self.reserve * whole.as_nanos().max(0) as f64
    }

    /// Whether every value is in its range.
    ///
    /// # Errors
    /// The first one that isn't, with what is allowed.
    pub fn validate(&self) -> Result<(), AdmissionConfigError> {
        if self.max_queue == 0 {
            return Err(AdmissionConfigError::MaxQueue);
        }
        if !(0.0..=1.0).contains(&self.reject_cap) {
            return Err(AdmissionConfigError::RejectCap { given: self.reject_cap });
        }
        if !(0.0..1.0).contains(&self.reserve) {
            return Err(AdmissionConfigError::Reserve { given: self.reserve });
        }
        if self.window.is_zero() {
            return Err(AdmissionConfigError::Window);
        }
        Ok(())
    }
}

impl Default for AdmissionConfig {
    /// On, 4096 requests, half of them, 30 % of the budget, 10 seconds.
    fn default() -> Self {
        Self { enabled: true, max_queue: 4096, reject_cap: 0.5, reserve: 0.3, window: Duration::from_secs(10) }
    }
}

/// A value of [`AdmissionConfig`] that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdmissionConfigError {
    /// A queue without room refuses everything.
    MaxQueue,
    /// A share is a number from 0 to 1.
    RejectCap {
        /// What was configured.
        given: f64,
    },
    /// Who is served at once has all of the budget, and no more.
    Reserve {
        /// What was configured.
        given: f64,
    },
    /// A share of nothing can't be kept.
    Window,
}

impl fmt::Display for AdmissionConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxQueue => f.write_str("admission.max_queue is 0, which refuses every request; allowed: 1 or more"),
            Self::RejectCap { given } => write!(f, "admission.reject_cap is {given}; allowed: 0 to 1"),
            Self::Reserve { given } => write!(f, "admission.reserve is {given}; allowed: 0 to less than 1"),
            Self::Window => f.write_str("admission.window is 0; allowed: any longer time, such as 10s"),
        }
    }
}

impl std::error::Error for AdmissionConfigError {}

/// Why a request isn't served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its deadline has passed.
    Expired {
        /// How long ago.
        late: Duration,
    },
    /// It needs at least as much time as it has left, so that its answer would be late.
    Infeasible {
        /// What it is estimated to need.
        needed: Duration,
        /// What it has left.
        left: Duration,
    },
    /// It waited until less was left than the share of its budget that it must have when it begins.
    Waited {
        /// What it has left.
        left: Duration,
        /// What it arrived with.
        whole: Duration,
    },
    /// Too many wait already.
    QueueFull {
        /// As many as may.
        limit: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { late } => write!(f, "the deadline passed {late:?} ago"),
            Self::Infeasible { needed, left } => write!(f, "it needs about {needed:?} and has {left:?} left"),
            Self::Waited { left, whole } => write!(f, "it waited until only {left:?} of its {whole:?} were left"),
            Self::QueueFull { limit } => write!(f, "the queue is full, {limit} requests wait"),
        }
    }
}

/// What admission decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Serve it.
    Admit,
    /// Answer at once that it won't be served.
    Refuse(Refusal),
}

/// What admission did so far, in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounters {
    /// Admitted on arrival. Those refused when they came up to run are counted again as what they were refused for.
    pub admitted: u64,
    /// Refused as expired, on arrival or later.
    pub expired: u64,
    /// Refused as infeasible, on arrival or later.
    pub infeasible: u64,
    /// Refused as it came up to run, for having waited too long.
    pub waited: u64,
    /// Refused as the queue was full.
    pub full: u64,
    /// Infeasible, but served as the cap was reached.
    pub capped: u64,
}

/// Decides who is let in, and counts.
///
/// ```
/// use greenwave_policy::{Admission, AdmissionConfig, Budget, Refusal, Time, Verdict};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let mut admission = Admission::new(AdmissionConfig::default().max_queue(100));
/// let now = Time::from_nanos(1_000_000_000);
/// let budget = Budget::expected(ms(30));
/// assert_eq!(admission.decide(now, budget, Some(ms(4)), 7), Verdict::Admit);
/// // It comes up with less left than the reserve, 30 % of what it came with, while others wait.
/// let left = Budget::expected(ms(8));
/// let waited = Refusal::Waited { left: ms(8), whole: ms(30) };
/// assert_eq!(admission.recheck(now + ms(22), left, budget, Some(ms(4)), 7), Verdict::Refuse(waited));
/// assert_eq!(admission.decide(now, budget, None, 100), Verdict::Refuse(Refusal::QueueFull { limit: 100 }));
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    config: AdmissionConfig,
    /// When this window ends; none has begun before the first decision.
    window_ends: Time,
    began: bool,
    /// Requests that arrived in this window, less those that were expired or too many.
    arrived: u64,
    /// Requests that came up to run in this window, less those that were expired or had waited too long.
    came_up: u64,
    /// Requests refused as infeasible in this window, at most `reject_cap` of the more of those two.
    rejected: u64,
    counters: AdmissionCounters,
}

impl Admission {
    /// An admission that has decided nothing yet. Whether `config` makes sense is for
    /// [`validate`](AdmissionConfig::validate) to say; here anything goes, and a cap that isn't a number caps all.
    #[must_use]
    pub fn new(config: AdmissionConfig) -> Self {
        let counters = AdmissionCounters::default();
        Self { config, window_ends: Time::ZERO, began: false, arrived: 0, came_up: 0, rejected: 0, counters }
    }

    /// Decides on arrival.
    ///
    /// `needed` is the estimated time until the answer, waiting included as far as the caller can tell; `None` if it
    /// isn't known, in which case nothing is infeasible. `queued` is how many wait already.
    #[inline(always)]
    pub fn decide(&mut self, now: Time, budget: Budget, needed: Option<Duration>, queued: usize) -> Verdict {
        let refusal = match self.config.enabled {
            false => None,
            true => self.refuse_on_arrival(now, budget, needed, queued),
        };
        let verdict = self.settle(refusal);
        if verdict == Verdict::Admit {
            self.counters.admitted += 1;
        }
        verdict
    }

    /// Decides when a request that was admitted comes up to run: it may have waited too long.
    ///
    /// `whole` is the budget that it arrived with, and `queued` how many others wait: where nobody does, there is
    /// nobody to make room for.
    #[inline(always)]
    pub fn recheck(
        &mut self,
        now: Time,
        budget: Budget,
        whole: Budget,
        needed: Option<Duration>,
        queued: usize,
    ) -> Verdict {
        if !self.config.enabled {
            return Verdict::Admit;
        }
        self.turn_window(now);
        let fact = expired(budget).or_else(|| if queued > 0 { self.waited(budget, whole) } else { None });
        let refusal = fact.or_else(|| {
            self.came_up += 1;
            self.infeasible(budget, needed)
        });
        self.settle(refusal)
    }

    /// What was decided so far.
    #[must_use]
    pub const fn counters(&self) -> AdmissionCounters {
        self.counters
    }

    /// What it was made with.
    #[must_use]
    pub const fn config(&self) -> &AdmissionConfig {
        &self.config
    }

    fn refuse_on_arrival(
        &mut self,
        now: Time,
        budget: Budget,
        needed: Option<Duration>,
        queued: usize,
    ) -> Option<Refusal> {
        self.turn_window(now);
        if let Some(refusal) = expired(budget) {
            return Some(refusal);
        }
        if queued >= self.config.max_queue {
            return Some(Refusal::QueueFull { limit: self.config.max_queue });
        }
        self.arrived += 1;
        self.infeasible(budget, needed)
    }

    fn infeasible(&mut self, budget: Budget, needed: Option<Duration>) -> Option<Refusal> {
        let needed = needed?;
        if !budget.laxity(needed).is_spent() {
            return None;
        }
        let allowed = self.config.reject_cap * self.arrived.max(self.came_up) as f64;
        if allowed.is_nan() || (self.rejected + 1) as f64 > allowed {
            self.counters.capped += 1;
            return None;
        }
        self.rejected += 1;
        Some(Refusal::Infeasible { needed, left: budget.remaining().unwrap_or(Duration::MAX) })
    }

    fn waited(&self, budget: Budget, whole: Budget) -> Option<Refusal> {
        if budget.is_unlimited() || whole.is_unlimited() {
            return None;
        }
        if budget.as_nanos().max(0) as f64 >= self.config.reserved(whole) {
            return None;
        }
        let (left, whole) = budget.remaining().zip(whole.remaining())?;
        Some(Refusal::Waited { left, whole })
    }

    fn turn_window(&mut self, now: Time) {
        if now >= self.window_ends || !self.began {
            self.begin_window(now);
        }
    }

    #[cold]
    fn begin_window(&mut self, now: Time) {
        (self.window_ends, self.began) = (now + self.config.window, true);
        (self.arrived, self.came_up, self.rejected) = (0, 0, 0);
    }

    /// Counts a refusal.
    fn settle(&mut self, refusal: Option<Refusal>) -> Verdict {
        let Some(refusal) = refusal else { return Verdict::Admit };
        *match refusal {
            Refusal::Expired { .. } => &mut self.counters.expired,
            Refusal::Infeasible { .. } => &mut self.counters.infeasible,
            Refusal::Waited { .. } => &mut self.counters.waited,
            Refusal::QueueFull { .. } => &mut self.counters.full,
        } += 1;
        Verdict::Refuse(refusal)
    }
}

fn expired(budget: Budget) -> Option<Refusal> {
    budget.is_spent().then(|| Refusal::Expired { late: budget.late() })
}
