//! How much time a request has left, at each hop it passes.
//!
//! A client states the *expected deadline* of a request. From then on every node keeps the *budget*, what is left
//! of it, and sends it on. Budgets travel as durations, not as dates, because clocks of different machines disagree
//! (gRPC's `grpc-timeout` does the same). What a duration can't see is the time spent on the wire and in socket
//! queues; [`Budget::after_wire`] charges an estimate of it. Within a node, where there is one clock, a budget
//! becomes a [`Deadline`], which doesn't have to be counted down.
//!
//! Source: D2P. Of a chain of stages, with L the time in a stage and C that on the wire to it:
//!
//! ```text
//! elapsed(S_i)  = elapsed(S_{i-1}) + C(S_{i-1}) + L(S_i)      (2)
//! deadline(S_i) = expected_deadline - elapsed(S_i)            (3)
//! ```
//!
//! An aggregation waits for the slowest of its branches, equations (4) and (5), so branches have what is left less the
//! time that it takes itself. A stage that has others behind it should not use up what they need: [`Budget::for_stage`]
//! is its share, in proportion to the learned times (GrandSLAm, EuroSys'19).

use crate::time::{Time, nanos};
use std::fmt;
use std::time::Duration;

/// What is left of a request's expected deadline, in nanoseconds. Negative: the request is late by that much.
///
/// ```
/// use greenwave_policy::Budget;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let budget = Budget::expected(ms(30)).after_wire(ms(2)).after_stage(ms(8));
/// assert_eq!(budget.remaining(), Some(ms(20)));
/// // With 25 ms of work still to be done there is less than no time to spare.
/// assert!(budget.laxity(ms(25)).is_spent());
/// assert_eq!(Budget::UNLIMITED.after_stage(ms(8)), Budget::UNLIMITED);
/// ```
///
/// The range is 292 years either way. Its upper end is [`Budget::UNLIMITED`], which stays what it is whatever is
/// charged to it; the smaller of two budgets is [`Ord::min`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget(i64);

impl Budget {
    /// No deadline.
    pub const UNLIMITED: Self = Self(i64::MAX);

    /// The longest budget that isn't unlimited.
    pub(crate) const LONGEST: Self = Self(i64::MAX - 1);

    /// The budget of a request that was made just now. 292 years or more are [unlimited](Self::UNLIMITED).
    #[must_use]
    pub fn expected(deadline: Duration) -> Self {
        Self(i64::try_from(nanos(deadline)).unwrap_or(i64::MAX))
    }

    /// A budget of so many nanoseconds, as it stands on the wire. [`i64::MAX`] is unlimited, the rest is a span.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds, as they stand on the wire.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whether there is no deadline.
    #[must_use]
    pub const fn is_unlimited(self) -> bool {
        self.0 == i64::MAX
    }

    /// What is left after a stage took `spent`, in queue and in service: equation (3), one step.
    #[must_use]
    pub const fn after_stage(self, spent: Duration) -> Self {
        if self.is_unlimited() { self } else { Self(self.0.saturating_sub_unsigned(nanos(spent))) }
    }

    /// What is left on arrival, `forward` being the estimated time on the wire: C in equation (2).
    #[must_use]
    pub const fn after_wire(self, forward: Duration) -> Self {
        self.after_stage(forward)
    }

    /// The share of this budget that a stage may use, which expects to take `here` with `ahead` still to come.
    ///
    /// The whole budget if nothing is ahead or nothing is known, and if it is spent: lateness can't be shared out.
    #[must_use]
    pub fn for_stage(self, here: Duration, ahead: Duration) -> Self {
        let (here, ahead) = (nanos(here), nanos(ahead));
        if self.is_unlimited() || self.is_spent() || ahead == 0 {
            return self;
        }
        let left = self.as_nanos().unsigned_abs();
        let share = match (left.checked_mul(here), here.checked_add(ahead)) {
            (Some(product), Some(whole)) => product / whole,
            _ => wide_share(left, here, ahead),
        };
        Self::from_nanos(i64::try_from(share).unwrap_or(i64::MAX).min(self.as_nanos()))
    }

    /// How long the work may still wait and be in time: the budget less the work that remains.
    #[must_use]
    pub const fn laxity(self, remaining_work: Duration) -> Self {
        self.after_stage(remaining_work)
    }

    /// Whether the expected deadline has passed. A budget of zero is spent: an answer now would be late.
    #[must_use]
    pub const fn is_spent(self) -> bool {
        self.0 <= 0
    }

    /// How long a wait may last: zero once the budget is spent, `None` if it is unlimited.
    #[must_use]
    pub const fn remaining(self) -> Option<Duration> {
        if self.is_unlimited() {
            None
        } else if self.is_spent() {
            Some(Duration::ZERO)
        } else {
            Some(Duration::from_nanos(self.0.unsigned_abs()))
        }
    }

    /// How late the request is; zero while it is in time.
    #[must_use]
    pub const fn late(self) -> Duration {
        if self.is_spent() { Duration::from_nanos(self.0.unsigned_abs()) } else { Duration::ZERO }
    }
}

/// `left * here / (here + ahead)` where 64 bits don't hold the product. At most `left`, so it fits again.
#[cold]
fn wide_share(left: u64, here: u64, ahead: u64) -> u64 {
    let share = u128::from(left) * u128::from(here) / (u128::from(here) + u128::from(ahead));
    u64::try_from(share).unwrap_or(left)
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remaining() {
            None => f.write_str("unlimited"),
            Some(_) if self.is_spent() => write!(f, "late by {:?}", self.late()),
            Some(left) => write!(f, "{left:?} left"),
        }
    }
}

/// What a request carries from node to node: D2P's `(deadline, PU_flag)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeadlineField {
    /// What is left of the expected deadline.
    pub budget: Budget,
    /// Whether the request is a branch of a parallel unit, so that an aggregator waits.
    pub parallel_unit: bool,
}

/// When a request expires, on this node's clock. The earliest sorts first, [`Deadline::NEVER`] last.
///
/// ```
/// use greenwave_policy::{Budget, Deadline, Time};
/// use std::time::Duration;
///
/// let now = Time::from_nanos(1_000_000_000);
/// let deadline = Deadline::at(now, Budget::expected(Duration::from_millis(30)));
/// let later = now + Duration::from_millis(20);
/// assert_eq!(deadline.budget(later), Budget::expected(Duration::from_millis(10)));
/// assert!(!deadline.is_past(later) && deadline.is_past(now + Duration::from_millis(30)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Time);

impl Deadline {
    /// The deadline of a request without one.
    pub const NEVER: Self = Self(Time::MAX);

    /// The deadline of a request that has `budget` left at `now`.
    ///
    /// A negative budget gives a deadline in the past, but not before the clock's origin.
    #[must_use]
    pub const fn at(now: Time, budget: Budget) -> Self {
        if budget.is_unlimited() {
            return Self::NEVER;
        }
        let expires = now.as_nanos().saturating_add_signed(budget.as_nanos());
        Self::before_never(expires)
    }

    /// What is left at `now`.
    #[must_use]
    pub const fn budget(self, now: Time) -> Budget {
        if self.is_never() {
            return Budget::UNLIMITED;
        }
        let (expires, now) = (self.0.as_nanos(), now.as_nanos());
        if expires >= now {
            let left = expires - now;
            if left > Budget::LONGEST.0.unsigned_abs() { Budget::LONGEST } else { Budget(left.cast_signed()) }
        } else {
            Budget(0_i64.saturating_sub_unsigned(now - expires))
        }
    }

    /// The instant, unless it is never.
    #[must_use]
    pub const fn expires(self) -> Option<Time> {
        if self.is_never() { None } else { Some(self.0) }
    }

    /// The earlier of two deadlines: a callee may get less time than its caller has, never more.
    #[must_use]
    pub fn tighten(self, other: Self) -> Self {
        self.min(other)
    }

    /// Whether the deadline has passed at `now`; it has when `now` is the deadline itself, see [`Budget::is_spent`].
    #[must_use]
    pub const fn is_past(self, now: Time) -> bool {
        !self.is_never() && self.0.as_nanos() <= now.as_nanos()
    }

    const fn is_never(self) -> bool {
        self.0.as_nanos() == Time::MAX.as_nanos()
    }

    /// A date so far off that it would read as never is moved a nanosecond nearer.
    const fn before_never(nanos: u64) -> Self {
        Self(Time::from_nanos(if nanos == u64::MAX { u64::MAX - 1 } else { nanos }))
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::NEVER
    }
}
