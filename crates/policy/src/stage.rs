//! Services in sequence: the stage-service model of D2P.
//!
//! ```text
//! elapsed(S_i)  = elapsed(S_{i-1}) + C(S_{i-1}) + L(S_i)      (2)
//! deadline(S_i) = expected_deadline - elapsed(S_i)            (3)
//! ```
//!
//! `L` is the time in a stage, in queue and in service; `C` is the time on the wire that leads to it.
//!
//! A stage that has others behind it should not use up what they need. [`Budget::for_stage`] gives a stage its share
//! of what is left, in proportion to the learned times (GrandSLAm, EuroSys'19).

use crate::deadline::Budget;
use crate::time::nanos;
use std::time::Duration;

/// A request's way through a chain of stages: what it has used up, and so what it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageService {
    expected: Budget,
    elapsed: u64,
}

impl StageService {
    /// A request that is made now and has used up nothing.
    #[must_use]
    pub const fn new(expected: Budget) -> Self {
        Self { expected, elapsed: 0 }
    }

    /// A request that arrives from another node with what it has left and what it has used up since its birth.
    #[must_use]
    pub const fn resume(budget: Budget, elapsed: Duration) -> Self {
        let elapsed = nanos(elapsed);
        if budget.is_unlimited() {
            return Self { expected: Budget::UNLIMITED, elapsed };
        }
        let expected = budget.as_nanos().saturating_add_unsigned(elapsed);
        let longest = Budget::LONGEST.as_nanos();
        Self { expected: Budget::from_nanos(if expected > longest { longest } else { expected }), elapsed }
    }

    /// A request of which the expected deadline is known, and the time since its birth.
    #[must_use]
    pub const fn since_birth(expected: Budget, elapsed: Duration) -> Self {
        Self { expected, elapsed: nanos(elapsed) }
    }

    /// Charges a hop: `wire` to get to a stage, `stage` in it. Equation (2), one step.
    pub const fn pass(&mut self, wire: Duration, stage: Duration) {
        self.elapsed = self.elapsed.saturating_add(nanos(wire)).saturating_add(nanos(stage));
    }

    /// The time since the request's birth, at most 584 years.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed)
    }

    /// What the client asked for.
    #[must_use]
    pub const fn expected(&self) -> Budget {
        self.expected
    }

    /// What is left: equation (3).
    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.expected.after_stage(self.elapsed())
    }
}

impl Budget {
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
}

/// `left * here / (here + ahead)` where 64 bits don't hold the product. At most `left`, so it fits again.
#[cold]
fn wide_share(left: u64, here: u64, ahead: u64) -> u64 {
    let share = u128::from(left) * u128::from(here) / (u128::from(here) + u128::from(ahead));
    u64::try_from(share).unwrap_or(left)
}
