//! Services as graphs: stages in a chain, and stages whose requests are split over parallel units and put together again.
//!
//! Requests carry what is left of their expected deadline from stage to stage, as D2P has it, by the types that do so in the
//! server: [`Budget`](greenwave_policy::Budget) on the wire, [`Deadline`](greenwave_policy::Deadline) at a stage,
//! [`ReadyQueue`](greenwave_policy::ReadyQueue) before its workers, [`Admission`](greenwave_policy::Admission) for who is too
//! late. Works are learned by [`ServiceTimes`](greenwave_policy::ServiceTimes). Who is begun is served to the end.
//!
//! ```
//! use greenwave_policy::Order;
//! use greenwave_sim::Seed;
//! use greenwave_sim::cores::Work;
//! use greenwave_sim::graph::{Class, Graph, Stage, run};
//! use std::time::Duration;
//!
//! let ms = Duration::from_millis;
//! let stage = Stage::new(1, Work::Exponential(ms(5)));
//! let mut graph = Graph::new(vec![stage; 3], Order::Fcfs);
//! graph.classes = vec![Class { name: "all".into(), share: 1.0, deadline: Some(ms(200)) }];
//! let chain = run(&graph, 100.0, 50_000, Seed::new(1))?;
//! // By Jackson's theorem each stage is an M/M/1 queue: 10 ms at half its capacity.
//! assert!((chain.since_birth[2].mean() / 0.030 - 1.0).abs() < 0.05);
//! # Ok::<(), greenwave_sim::graph::GraphError>(())
//! ```

mod births;
mod outcome;
mod requests;
mod run;
mod station;

use crate::cores::{PlanError, Work};
use greenwave_policy::{AdmissionConfig, AdmissionConfigError, Order};
use std::time::Duration;

pub use outcome::{Outcome, Tally};
pub use run::run;
pub(crate) use run::validate;

/// A chain of stages, and the requests that pass through it.
#[derive(Clone, Debug)]
pub struct Graph {
    /// One after the other: 1 to 64.
    pub stages: Vec<Stage>,
    /// Who goes first, at every stage.
    pub order: Order,
    /// Who is refused as it can't be in time; `None`: nobody.
    pub admission: Option<AdmissionConfig>,
    /// How many may wait at a station, 1 or more, whatever their deadlines: who comes to a full one is refused. `None`: any
    /// number.
    pub most_waiting: Option<usize>,
    /// How long a request takes from a stage to the next. Where it is split, each part has a way of its own, there and back.
    pub wire: Option<Work>,
    /// What deadlines requests have, and how many have each.
    pub classes: Vec<Class>,
    /// When more requests come than usual; `None`: never.
    pub bursts: Option<Bursts>,
    /// With so many unfinished requests the run is cut.
    pub most_unfinished: usize,
}

impl Graph {
    /// These stages, for requests without deadlines, on a network that takes no time.
    #[must_use]
    pub fn new(stages: Vec<Stage>, order: Order) -> Self {
        let all = Class { name: "all".to_owned(), share: 1.0, deadline: None };
        Self {
            stages,
            order,
            admission: None,
            most_waiting: None,
            wire: None,
            classes: vec![all],
            bursts: None,
            most_unfinished: 1 << 20,
        }
    }

    /// The share of its time in which the busiest station is, at so many requests a second. Bursts aren't counted.
    #[must_use]
    pub fn busiest(&self, per_second: f64) -> f64 {
        let of = |stage: &Stage| {
            let slowest = (0..stage.units).map(|unit| stage.work_of(unit).mean_ns()).fold(0.0, f64::max);
            let units = per_second * slowest / 1e9 / stage.share / stage.workers as f64;
            let merge = stage.merge.map_or(0.0, |merge| per_second * merge.mean_ns() / 1e9);
            units.max(merge)
        };
        self.stages.iter().map(of).fold(0.0, f64::max)
    }

    fn validate(&self) -> Result<(), GraphError> {
        if !(1..=64).contains(&self.stages.len()) {
            return Err(GraphError::Stages(self.stages.len()));
        }
        for stage in &self.stages {
            if !(1..=1024).contains(&stage.workers) {
                return Err(GraphError::Workers(stage.workers));
            }
            if !(1..=1024).contains(&stage.units) {
                return Err(GraphError::Units(stage.units));
            }
            if !(stage.share.is_finite() && stage.share > 1e-4 && stage.share <= 1.0) {
                return Err(GraphError::Core(stage.share));
            }
            if !stage.each.is_empty() && stage.each.len() != stage.units {
                return Err(GraphError::Each { works: stage.each.len(), units: stage.units });
            }
            stage.work.validate()?;
            stage.each.iter().try_for_each(Work::validate)?;
            stage.merge.map_or(Ok(()), |merge| merge.validate())?;
        }
        self.wire.map_or(Ok(()), |wire| wire.validate())?;
        if let Some(admission) = &self.admission {
            admission.validate().map_err(GraphError::Admission)?;
        }
        self.bursts.map_or(Ok(()), |bursts| bursts.validate())?;
        if self.most_waiting == Some(0) {
            return Err(GraphError::Waiting);
        }
        if !(1..=256).contains(&self.classes.len()) {
            return Err(GraphError::Classes(self.classes.len()));
        }
        match self.classes.iter().find(|class| !(class.share.is_finite() && class.share > 0.0)) {
            Some(class) => Err(GraphError::Share(class.share)),
            None => Ok(()),
        }
    }
}

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Cores of the stage, or of each of its units: 1 to 1024.
    pub workers: usize,
    /// What a request takes here, or each of its parts.
    pub work: Work,
    /// What a part takes at each unit, where that isn't `work` at all of them: as many as there are units, or none.
    pub each: Vec<Work>,
    /// Units that each request is split over, and that each have a queue of their own: 1 to 1024.
    pub units: usize,
    /// What it takes to put a request's parts together, on one core; `None`: no time.
    pub merge: Option<Work>,
    /// The share of its time that each core has for this stage, more than 0 and at most 1: after each work the rest goes to
    /// others, which nobody here knows of. With 1 it is theirs alone.
    pub share: f64,
}

impl Stage {
    /// A stage whose requests aren't split.
    #[must_use]
    pub fn new(workers: usize, work: Work) -> Self {
        Self { workers, work, each: Vec::new(), units: 1, merge: None, share: 1.0 }
    }

    /// A parallel unit: each request is split over so many units of one core, and put together.
    #[must_use]
    pub fn parallel(units: usize, work: Work, merge: Option<Work>) -> Self {
        Self { workers: 1, work, each: Vec::new(), units, merge, share: 1.0 }
    }

    /// What a part takes at this unit.
    fn work_of(&self, unit: usize) -> Work {
        self.each.get(unit).copied().unwrap_or(self.work)
    }
}

/// Times at which more requests come than usual, again and again. They begin and end at the same instants for all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// From the beginning of one to that of the next: more than 0, and a day at most.
    pub every: Duration,
    /// How long each is, after a time as usual that is the rest of `every`: more than 0 and less than `every`.
    pub length: Duration,
    /// How many times as many requests a second come meanwhile: 1 to 1000.
    pub factor: f64,
}

impl Bursts {
    fn validate(&self) -> Result<(), GraphError> {
        let Self { every, length, factor } = *self;
        let fine = !length.is_zero() && length < every && every <= Duration::from_secs(86_400);
        if fine && (1.0..=1000.0).contains(&factor) { Ok(()) } else { Err(GraphError::Bursts(*self)) }
    }
}

/// Requests with the same expected deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name in reports.
    pub name: String,
    /// How many of all requests are of it, beside the others': more than 0.
    pub share: f64,
    /// Within which time they are expected to be answered.
    pub deadline: Option<Duration>,
}

/// A graph that can't be meant.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum GraphError {
    /// Of stages.
    #[error("{0} stages; allowed: 1 to 64")]
    Stages(usize),
    /// Of a stage's cores.
    #[error("{0} workers of a stage; allowed: 1 to 1024")]
    Workers(usize),
    /// Of parallel units.
    #[error("{0} units of a stage; allowed: 1 to 1024")]
    Units(usize),
    /// Of works of units.
    #[error("{works} works for {units} units of a stage; allowed: as many, or none")]
    Each {
        /// How many works.
        works: usize,
        /// Of how many units.
        units: usize,
    },
    /// Of a core's time.
    #[error("a share of {0} of a core's time; allowed: more than 0.0001, and at most 1")]
    Core(f64),
    /// Of how many may wait.
    #[error("0 may wait at a station; allowed: 1 or more")]
    Waiting,
    /// Of bursts.
    #[error(
        "{0:?}; allowed: shorter than from one to the next, that a day at most, and 1 to 1000 times as many requests"
    )]
    Bursts(Bursts),
    /// Of classes.
    #[error("{0} classes; allowed: 1 to 256")]
    Classes(usize),
    /// A class's.
    #[error("a class's share of {0}; allowed: a number that is more than 0")]
    Share(f64),
    /// Requests a second.
    #[error("{0} requests a second; allowed: 0.000001 to 1,000,000,000,000")]
    Rate(f64),
    /// Requests in all, or at a time.
    #[error("requests, and unfinished ones: allowed: 1 or more, and at most 16,777,216 unfinished ones")]
    Requests,
    /// More virtual time than there is.
    #[error("{0:.0} s of virtual time; allowed: 40 days; ask for fewer requests")]
    TooLong(f64),
    /// A work.
    #[error(transparent)]
    Work(#[from] PlanError),
    /// Admission's settings.
    #[error("{0}")]
    Admission(AdmissionConfigError),
}
