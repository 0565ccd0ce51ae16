//! What comes: when, and how much there is to do.

use super::engine::jobs::Job;
use super::load::Load;
use super::plan::{Cores, Plan};
use crate::seed::{Seed, Stream};
use greenwave_policy::{Budget, Deadline, Time};

/// The jobs of a plan, one after the other. Gaps and works have streams of their own, so they are the same for all schemes.
pub(super) struct Arrivals<'a> {
    load: &'a Load,
    gaps: Stream,
    works: Stream,
    /// By how much probes make work longer.
    stretch: f64,
    mean_gap: f64,
    /// How many come after the next, and of how many from the first on times don't count.
    to_come: u64,
    uncounted: u64,
    /// The next one's instant, with what would be lost by whole nanoseconds.
    next: f64,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(cores: &Cores, load: &'a Load, plan: &Plan, seed: Seed) -> Self {
        Self {
            load,
            gaps: seed.stream("gaps", 0),
            works: seed.stream("works", 0),
            stretch: 1.0 + cores.costs.probes,
            mean_gap: 1e9 / plan.per_second(cores, load),
            to_come: plan.jobs,
            uncounted: (plan.jobs as f64 * plan.warmup) as u64,
            next: 0.0,
        }
    }

    /// When the next job comes, in nanoseconds; `None` if there is none.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u64> {
        self.to_come = self.to_come.checked_sub(1)?;
        self.next -= (1.0 - self.gaps.unit()).ln() * self.mean_gap;
        Some(self.next as u64)
    }

    /// What so much work takes with the probes in it.
    #[inline]
    pub(super) fn stretched(&self, work: u64) -> u64 {
        if self.stretch == 1.0 { work } else { (work as f64 * self.stretch).round() as u64 }
    }

    /// The job that comes `now`.
    #[inline]
    pub(super) fn job(&mut self, now: u64) -> Job {
        let (method, work) = self.load.draw(&mut self.works);
        let left = self.stretched(work);
        let at = Time::from_nanos(now);
        let deadline = self.load.methods()[method].deadline;
        let deadline = deadline.map_or(Deadline::NEVER, |span| Deadline::at(at, Budget::expected(span)));
        let counted = self.uncounted == 0;
        self.uncounted = self.uncounted.saturating_sub(1);
        Job { arrived: now, left, had: 0, work, deadline, method: method as u16, counted, quanta: 0, leg: 0 }
    }
}
