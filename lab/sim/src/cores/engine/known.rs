//! What is known of jobs' work, as the server learns it.

use super::super::load::Load;
use super::super::plan::{Knowledge, Steal};
use super::jobs::Job;
use greenwave_policy::{Order, ServiceTimes, Span};
use std::time::Duration;

/// After so many jobs of a method its estimate is made anew.
const EVERY: u64 = 16;

pub(in crate::cores) struct Known {
    knowledge: Knowledge,
    /// Whether anybody asks.
    is_asked: bool,
    /// Those of each method, and behind them those of its stages.
    methods: Vec<Learned>,
    /// Where each method's begin, and behind the last one's.
    first: Vec<usize>,
}

#[derive(Default)]
struct Learned {
    times: ServiceTimes,
    estimate: Option<Duration>,
}

impl Known {
    pub(in crate::cores) fn new(knowledge: Knowledge, order: Order, steal: Steal, load: &Load) -> Self {
        let mut first = vec![0];
        for method in load.methods() {
            first.push(first[first.len() - 1] + 1 + method.stages.len());
        }
        let by_work = matches!(order, Order::Guarded | Order::LeastLaxity | Order::StageLaxity);
        Self {
            knowledge,
            is_asked: by_work || matches!(steal, Steal::Given(_)),
            methods: (0..first[first.len() - 1]).map(|_| Learned::default()).collect(),
            first,
        }
    }

    /// A handler has done its work.
    #[inline]
    pub(in crate::cores) fn observe(&mut self, job: &Job) {
        if !self.is_asked || self.knowledge != Knowledge::Learned {
            return;
        }
        let Some(at) = self.at(job) else { return };
        let learned = &mut self.methods[at];
        learned.times.observe(Duration::from_nanos(job.had));
        if learned.times.count().is_multiple_of(EVERY) {
            learned.estimate = learned.times.quantile(0.5);
        }
    }

    /// Whose times count for a job; `None` if its handler has done its work and was replied to.
    #[inline]
    fn at(&self, job: &Job) -> Option<usize> {
        let method = usize::from(job.method);
        let at = self.first[method] + usize::from(job.leg);
        (at < self.first[method + 1]).then_some(at)
    }

    /// What jobs of a method take.
    pub(in crate::cores) fn work(&self, method: usize) -> Option<Duration> {
        self.methods[self.first[method]].estimate
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
                let Some(at) = self.at(job) else { return Duration::ZERO };
                let learned = &self.methods[at];
                learned.times.remaining(learned.estimate.unwrap_or_default(), Span::from_nanos(job.had))
            }
        }
    }
}
