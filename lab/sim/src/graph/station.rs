//! A queue and its workers: a stage, a unit of one, or who puts parts together.

use super::Graph;
use crate::cores::Work;
use crate::seed::{Seed, Stream};
use greenwave_policy::{Admission, Budget, Order, ReadyQueue, ServiceTimes, Time, Urgency, Verdict};
use std::time::Duration;

/// A part of a request, or the whole, as it stands in a station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) request: u32,
    /// What was left of its budget when it came.
    pub(super) budget: Budget,
}

pub(super) struct Station {
    pub(super) stage: usize,
    /// Which unit of the stage; `None`: who puts together.
    pub(super) unit: Option<usize>,
    work: Work,
    stream: Stream,
    queue: ReadyQueue<Part>,
    most_waiting: usize,
    free: usize,
    /// How long others have a core after a work, as times of that.
    others: f64,
    by_work: bool,
    times: ServiceTimes,
    /// Median and mean, as they were learned last.
    estimate: Option<Duration>,
    admission: Option<Admission>,
}

/// Who begins, and for how long.
pub(super) struct Begun {
    pub(super) part: Part,
    pub(super) arrived: Time,
    pub(super) nanos: u64,
}

impl Station {
    pub(super) fn new(graph: &Graph, stage: usize, unit: Option<usize>, seed: Seed, number: usize) -> Self {
        let of = &graph.stages[stage];
        let (work, free) = match unit {
            Some(unit) => (of.work_of(unit), of.workers),
            None => (of.merge.unwrap_or(of.work), 1),
        };
        let most = graph.admission.map_or(usize::MAX, |admission| admission.max_queue);
        let most = graph.most_waiting.unwrap_or(usize::MAX).min(most);
        Self {
            stage,
            unit,
            work,
            stream: seed.stream("station", number as u64),
            queue: ReadyQueue::new(graph.order).with_most(most),
            most_waiting: graph.most_waiting.unwrap_or(usize::MAX),
            free,
            others: if unit.is_some() { 1.0 / of.share - 1.0 } else { 0.0 },
            by_work: matches!(graph.order, Order::Guarded | Order::LeastLaxity | Order::StageLaxity),
            times: ServiceTimes::new(),
            estimate: None,
            admission: graph.admission.map(Admission::new),
        }
    }

    /// What work here is expected to take.
    pub(super) fn estimate(&self) -> Duration {
        self.estimate.unwrap_or_default()
    }

    /// Takes in a part; whether it is let in.
    pub(super) fn arrive(&mut self, now: Time, urgency: Urgency, part: Part) -> bool {
        if self.queue.len() >= self.most_waiting {
            return false;
        }
        let needed = self.estimate;
        if let Some(admission) = &mut self.admission
            && let Verdict::Refuse(_) = admission.decide(now, part.budget, needed, self.queue.len())
        {
            return false;
        }
        let here = if self.by_work { self.estimate() } else { Duration::ZERO };
        let needed = match &self.admission {
            Some(admission) => admission.config().needed(part.budget, self.estimate),
            None => Duration::ZERO,
        };
        self.queue.push(now, Urgency { here, needed, ..urgency }, part);
        true
    }

    /// Whoever goes first, if there is a worker for it. Those that are refused as they come up go to `refused`.
    pub(super) fn begin(&mut self, now: Time, mut refused: impl FnMut(Part)) -> Option<Begun> {
        while self.free > 0 {
            let (urgency, part) = self.queue.pop(now)?;
            if let Some(admission) = &mut self.admission {
                let left = urgency.deadline.budget(now);
                let waiting = self.queue.len();
                if let Verdict::Refuse(_) = admission.recheck(now, left, part.budget, self.estimate, waiting) {
                    refused(part);
                    continue;
                }
            }
            self.free -= 1;
            let nanos = self.work.draw(&mut self.stream);
            return Some(Begun { part, arrived: urgency.arrived, nanos });
        }
        None
    }

    /// A work that took so long is over. For how long others have its core, if they do; otherwise it is free again.
    pub(super) fn done(&mut self, nanos: u64) -> Option<Duration> {
        self.times.observe(Duration::from_nanos(nanos));
        if self.times.count().is_multiple_of(16) {
            self.estimate = self.times.quantile(0.5);
        }
        if self.others > 0.0 {
            return Some(Duration::from_nanos((nanos as f64 * self.others) as u64));
        }
        self.free += 1;
        None
    }

    /// Others had a core, and it is free again.
    pub(super) fn is_back(&mut self) {
        self.free += 1;
    }
}
