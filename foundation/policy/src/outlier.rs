//! Which servers of several are left out for a while.
//!
//! A server that fails call after call, or a far larger share of them than the others, gets none for a time that doubles
//! with each time in a row that it is left out. Then one call is given to it: its answer brings the server back, its failure
//! leaves it out again. Never more than a share of the servers is left out for what calls say, as a fault that most
//! have is rather one of the calls, or of something behind all of them (outlier detection as of Envoy). A server that
//! can't be connected to is left out at once, however many there are.

use crate::backoff::Backoff;
use crate::time::Time;
use std::time::Duration;

/// When a server is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutlierConfig {
    /// After so many failures in a row; 0: not for that.
    pub consecutive: u32,
    /// When the share of its calls that failed is larger by this than that of the others, 0 to 1; 1: not for that. Known
    /// after [`Health::ENOUGH`] calls.
    pub excess: f64,
    /// The share of servers that may be left out at the same time for what their calls say, 0 to 1.
    pub share: f64,
    /// For how long the first time. It doubles up to 64 times this, and half of it is drawn at random.
    pub leave_out: Duration,
}

impl Default for OutlierConfig {
    /// Five in a row, three in ten more than the others, half of the servers, a second.
    fn default() -> Self {
        Self { consecutive: 5, excess: 0.3, share: 0.5, leave_out: Duration::from_secs(1) }
    }
}

impl OutlierConfig {
    /// Whether one more of `servers` may be left out, where `out` are.
    #[must_use]
    pub fn allows(&self, servers: usize, out: usize) -> bool {
        ((out + 1) as f64) <= servers as f64 * self.share
    }
}

/// Whether calls go to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They do.
    In,
    /// None, for now.
    Out,
    /// One may, to see whether it is back.
    Due,
}

/// What is known of calls that were answered and of those that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that are over.
    pub calls: u32,
    /// Those of them that failed.
    pub failed: u32,
}

impl Tally {
    /// Both added up.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { calls: self.calls.saturating_add(other.calls), failed: self.failed.saturating_add(other.failed) }
    }

    /// The share that failed; none if there are no calls.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.calls == 0 { 0.0 } else { f64::from(self.failed) / f64::from(self.calls) }
    }
}

/// One server's failures, and what came of them.
#[derive(Clone, Debug)]
pub struct Health {
    /// Of late: both are halved at every [`Health::MEMORY`] calls.
    tally: Tally,
    consecutive: u32,
    /// Answers since it was left out last, as far as they are counted.
    steady: u32,
    out: Option<Trial>,
    backoff: Backoff,
}

/// What a server that is left out waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// The time when it is due.
    Awaited,
    /// The outcome of the call that it was given.
    UnderWay,
}

impl Health {
    /// A share of failures is known after so many calls, and after so many answers a time left out is forgotten.
    pub const ENOUGH: u32 = 20;
    /// After so many calls what is known counts half.
    pub const MEMORY: u32 = 256;

    /// A server of which nothing is known is in. The same `seed` draws the same times.
    #[must_use]
    pub const fn new(config: &OutlierConfig, seed: u64) -> Self {
        let tally = Tally { calls: 0, failed: 0 };
        Self { tally, consecutive: 0, steady: 0, out: None, backoff: Backoff::new(config.leave_out, seed) }
    }

    /// Whether calls go to it.
    #[must_use]
    pub fn standing(&self, now: Time) -> Standing {
        match self.out {
            None => Standing::In,
            Some(Trial::Awaited) if now >= self.backoff.due() => Standing::Due,
            Some(_) => Standing::Out,
        }
    }

    /// Its calls of late.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether it is left out, or tried again.
    #[must_use]
    pub const fn is_out(&self) -> bool {
        self.out.is_some()
    }

    /// Whether it was given a call to see whether it is back, which is not over.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        self.out == Some(Trial::UnderWay)
    }

    /// A call is given to it: its trial, if that is due.
    pub fn begun(&mut self, now: Time) {
        if self.standing(now) == Standing::Due {
            self.out = Some(Trial::UnderWay);
        }
    }

    /// A call was answered, however. That brings it back.
    pub fn answered(&mut self, now: Time) {
        self.count(false);
        self.consecutive = 0;
        if self.out.take().is_some() {
            // What it did before it was left out is not held against it, but that it was.
            (self.tally, self.steady) = (Tally::default(), 0);
        }
        self.steady = self.steady.saturating_add(1);
        if self.steady == Self::ENOUGH {
            self.backoff.succeeded(now);
        }
    }

    /// A call failed. Whether the server is to be left out, if `others`, the calls of all others, fail less, and if it may.
    #[must_use]
    pub fn failed(&mut self, config: &OutlierConfig, others: Tally) -> bool {
        self.count(true);
        self.consecutive = self.consecutive.saturating_add(1);
        let in_a_row = config.consecutive > 0 && self.consecutive >= config.consecutive;
        let known = self.tally.calls >= Self::ENOUGH && others.calls >= Self::ENOUGH;
        in_a_row || (known && self.tally.share() > others.share() + config.excess)
    }

    /// Leaves it out, unless it waits for its trial already. One that fails its trial is left out for longer.
    pub fn leave_out(&mut self, now: Time) {
        if self.out != Some(Trial::Awaited) {
            self.out = Some(Trial::Awaited);
            self.backoff.failed(now);
        }
    }

    /// A call ended in a way that says nothing. If it was the trial, another may be made.
    pub fn undecided(&mut self) {
        if self.is_on_trial() {
            self.out = Some(Trial::Awaited);
        }
    }

    fn count(&mut self, failed: bool) {
        self.tally = self.tally.and(Tally { calls: 1, failed: failed.into() });
        if self.tally.calls >= Self::MEMORY {
            self.tally = Tally { calls: self.tally.calls / 2, failed: self.tally.failed / 2 };
        }
    }
}
