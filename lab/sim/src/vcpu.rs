//! Guests that share a core, under Xen's credit scheduler.
//!
//! Credits are time on the core. Every [period](CreditRule::period) the core's are given to its guests by weight, and three
//! ticks in a period charge who runs. Who has credits is UNDER and runs before those that are OVER; equals take turns of a
//! period. A guest that wakes while it is UNDER is in BOOST, before all others, until a tick finds it running. Two consequences
//! are what *Small is Better* (Xu, Bailey, Noble, Jahanian; SoCC'13) is about: a guest in BOOST doesn't preempt another, so one
//! that wakes now and then waits behind a neighbour that was woken a moment ago, and a neighbour that sleeps for a while has
//! credits for that. One line lets it preempt ([`CreditRule::preempts`]).
//!
//! As in Xen's `sched_credit.c`, a guest is given credits only while ticks find it running: one that has more than a period's
//! keeps half of them and is left out until a tick finds it again. So a guest that hardly runs leaves the core's credits to
//! its neighbours, and they stay UNDER with much more than their weights' share. And a tick alone doesn't preempt: who runs
//! is decided when a guest sleeps, wakes with a higher priority, or has had its turn.
//!
//! What differs from Xen: one core and one virtual CPU for each guest, so nothing migrates; no caps; and a credit is a
//! nanosecond, not 100 us, so that nothing is rounded away.

mod core;
mod credits;

use std::time::Duration;

pub use self::core::{Core, CoreUse, GuestUse};
pub use credits::Books;

/// How a core is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditRule {
    /// How often credits are given out, and how long a turn among equals is: 30 ms in Xen; 1 ms to a second here. A third of
    /// it is a tick.
    pub period: Duration,
    /// How ticks charge.
    pub charge: Charge,
    /// For how long who has begun to run isn't preempted (Xen's rate limit): up to a period. Zero: it can be at once.
    pub rate_limit: Duration,
    /// What a switch from one guest to another takes of the core before the other goes on: up to a millisecond.
    pub switch: Duration,
    /// Whether who is in BOOST preempts who is: not in Xen.
    pub preempts: bool,
}

/// How running is paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// Each tick charges a whole tick to who runs just then, as Xen did before its commit *Accurate accounting for credit
    /// scheduler*: who runs between ticks pays nothing.
    #[default]
    Sampled,
    /// Everybody pays what it ran, as Xen does since.
    Measured,
}

impl CreditRule {
    /// Xen's values, but that nobody is kept from preempting (by now Xen's rate limit is 1 ms), and that switches are free.
    pub const XEN: Self = Self {
        period: Duration::from_millis(30),
        charge: Charge::Sampled,
        rate_limit: Duration::ZERO,
        switch: Duration::ZERO,
        preempts: false,
    };

    fn validate(&self) -> Result<(), GuestError> {
        const MS: Duration = Duration::from_millis(1);
        if self.period < MS || self.period > 1000 * MS {
            return Err(GuestError::Period(self.period));
        }
        if self.rate_limit > self.period {
            return Err(GuestError::RateLimit(self.rate_limit, self.period));
        }
        if self.switch > MS {
            return Err(GuestError::Switch(self.switch));
        }
        Ok(())
    }
}

impl Default for CreditRule {
    fn default() -> Self {
        Self::XEN
    }
}

/// What weight a guest has of whom nothing else is said.
pub const USUAL_WEIGHT: u32 = 256;

/// A guest that has work of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its part of the credits: 1 to 65535.
    pub weight: u32,
    /// How much work it has each time that it wakes, on average: exponential; 10 us to a minute.
    pub runs: Duration,
    /// How long it sleeps then, on average: exponential; up to a minute. Zero: it never sleeps.
    pub sleeps: Duration,
}

impl Neighbour {
    /// One that would run for this share of the time if it were alone: above 0, up to 1.
    #[must_use]
    pub fn busy(share: f64, runs: Duration) -> Self {
        let sleeps = Duration::try_from_secs_f64(runs.as_secs_f64() * (1.0 - share) / share).unwrap_or(Duration::MAX);
        Self { weight: USUAL_WEIGHT, runs, sleeps }
    }

    fn validate(&self) -> Result<(), GuestError> {
        const MINUTE: Duration = Duration::from_secs(60);
        weighs(self.weight)?;
        if self.runs < Duration::from_micros(10) || self.runs > MINUTE {
            return Err(GuestError::Runs(self.runs));
        }
        if self.sleeps > MINUTE {
            return Err(GuestError::Sleeps(self.sleeps));
        }
        Ok(())
    }
}

/// A guest that is woken from outside, and its neighbours, which are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuRule {
    /// How the core is shared.
    pub credit: CreditRule,
    /// The guest's part of the credits: 1 to 65535.
    pub weight: u32,
    /// How long it runs each time that it is woken, before what it was woken for is done: up to a second.
    pub work: Duration,
    /// How many neighbours it has: up to [`MOST_NEIGHBOURS`].
    pub neighbours: usize,
    /// Each of them.
    pub neighbour: Neighbour,
}

impl VcpuRule {
    pub(crate) fn validate(&self) -> Result<(), GuestError> {
        if self.neighbours > MOST_NEIGHBOURS {
            return Err(GuestError::Neighbours(self.neighbours));
        }
        if self.work > Duration::from_secs(1) {
            return Err(GuestError::Work(self.work));
        }
        weighs(self.weight)?;
        self.neighbour.validate()?;
        self.credit.validate()
    }
}

/// The most neighbours on a core.
pub const MOST_NEIGHBOURS: usize = 63;

/// Guests that can't be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// A period.
    #[error("credits every {0:?}; allowed: 1ms to 1s")]
    Period(Duration),
    /// A rate limit and its period.
    #[error("a rate limit of {0:?}; allowed: up to the period, {1:?}")]
    RateLimit(Duration, Duration),
    /// What a switch takes.
    #[error("a switch of {0:?}; allowed: up to 1ms")]
    Switch(Duration),
    /// A weight.
    #[error("a guest's weight of {0}; allowed: 1 to 65535")]
    Weight(u32),
    /// What a neighbour runs.
    #[error("a neighbour that runs {0:?} at a time; allowed: 10us to 60s")]
    Runs(Duration),
    /// What a neighbour sleeps.
    #[error("a neighbour that sleeps {0:?} at a time; allowed: up to 60s")]
    Sleeps(Duration),
    /// What a guest is woken for.
    #[error("a guest that runs {0:?} each time that it is woken; allowed: up to 1s")]
    Work(Duration),
    /// How many.
    #[error("{0} neighbours on a core; allowed: up to 63")]
    Neighbours(usize),
}

fn weighs(weight: u32) -> Result<(), GuestError> {
    if (1..=65535).contains(&weight) { Ok(()) } else { Err(GuestError::Weight(weight)) }
}
