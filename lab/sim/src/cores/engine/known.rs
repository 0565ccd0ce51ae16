//! What is known of jobs' work, as the server learns it.

use super::super::load::Load;
use super::super::plan::{Knowledge, Steal};
use super::jobs::Job;
use greenwave_policy::{Order, ServiceTimes};
use std::time::Duration;

/// After so many jobs of a method its estimate is made anew.
const EVERY: u64 = 16;

pub(in crate::cores) struct Known {
    knowledge: Knowledge,
    /// Whether anybody asks.
    is_asked: bool,
    methods: Vec<Learned>,
}

#[derive(Default)]
struct Learned {
    times: ServiceTimes,
    estimate: Option<Duration>,
}

impl Known {
    pub(in crate::cores) fn new(knowledge: Knowledge, order: Order, steal: Steal, load: &Load) -> Self {
        let by_work = matches!(order, Order::Guarded | Order::LeastLaxity | Order::StageLaxity);
        Self {
            knowledge,
            is_asked: by_work || matches!(steal, Steal::Given(_)),
            methods: load.methods().iter().map(|_| Learned::default()).collect(),
        }
    }

    #[inline]
    pub(in crate::cores) fn observe(&mut self, method: usize, took: u64) {
        if !self.is_asked || self.knowledge != Knowledge::Learned {
            return;
        }
        let learned = &mut self.methods[method];
        learned.times.observe(Duration::from_nanos(took));
        if learned.times.count().is_multiple_of(EVERY) {
            learned.estimate = learned.times.quantile(0.5);
        }
    }

    /// What jobs of a method take.
    pub(in crate::cores) fn work(&self, method: usize) -> Option<Duration> {
        self.methods[method].estimate
    }

    /// What a job is still going to take.
    #[inline]
    pub(in crate::cores) fn left(&self, job: &Job) -> Duration {
        if !self.is_asked {
            return Duration::ZERO;
        }
        match self.knowledge {
            Knowledge::Nothing => Duration::ZERO,
            Knowledge::Exact => Duration::from_nanos(job.left),
            Knowledge::Learned => {
                let learned = &self.methods[usize::from(job.method)];
                let (had, here) = (Duration::from_nanos(job.had), learned.estimate.unwrap_or_default());
                here.checked_sub(had).or_else(|| learned.times.left(had.into())).unwrap_or(had)
            }
        }
    }
}
