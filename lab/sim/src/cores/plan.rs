//! How a server is run, and for how long.

use super::load::{Load, MOST_STAGES, Work};
use super::pauses::Pauses;
use crate::turns;
use greenwave_policy::{DispatchRule, Order, Pacing, StealRule};
use std::time::Duration;

/// The workers of a server and who gives them jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cores {
    /// How many workers: 1 to 4094. A dispatcher is beside them.
    pub workers: usize,
    /// Who gives them jobs.
    pub scheme: Scheme,
    /// What that costs.
    pub costs: Costs,
    /// What is known of a job's work when it arrives.
    pub knowledge: Knowledge,
}

impl Cores {
    /// Workers without any cost, where methods' works are learned.
    #[must_use]
    pub fn new(workers: usize, scheme: Scheme) -> Self {
        Self { workers, scheme, costs: Costs::default(), knowledge: Knowledge::Learned }
    }

    /// With these costs.
    #[must_use]
    pub fn with_costs(self, costs: Costs) -> Self {
        Self { costs, ..self }
    }
}

/// Who gives jobs to workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// One queue before all workers: whoever is free takes what goes first. Who is preempted goes back there.
    Central {
        /// Who goes first.
        order: Order,
        /// How long a turn is; `None`: to the job's end.
        quantum: Option<Duration>,
    },
    /// Each job is given to a worker, which has a queue of its own.
    TwoLevel {
        /// To which.
        dispatch: DispatchRule,
        /// Whose turn it is there.
        order: Order,
        /// How long a turn is; `None`: to the job's end.
        quantum: Option<Duration>,
        /// Whether workers take others' jobs.
        steal: Steal,
    },
    /// As a server has them: each is a head with connections of its own, which looks at them, runs calls in place and posts
    /// replies, when [`Pacing`] says so.
    Heads {
        /// Whose turn it is.
        order: Order,
        /// How long a turn is; `None`: to the job's end.
        quantum: Option<Duration>,
        /// When calls are given away for other heads to take.
        steal: Option<StealRule>,
    },
}

impl Scheme {
    /// Whose turn it is.
    #[must_use]
    pub fn order(&self) -> Order {
        match *self {
            Self::Central { order, .. } | Self::TwoLevel { order, .. } | Self::Heads { order, .. } => order,
        }
    }

    /// How long a turn is; `None`: to the job's end.
    #[must_use]
    pub fn quantum(&self) -> Option<Duration> {
        match *self {
            Self::Central { quantum, .. } | Self::TwoLevel { quantum, .. } | Self::Heads { quantum, .. } => quantum,
        }
    }
}

impl LoopCosts {
    /// None, and heads that never sleep.
    pub const NONE: Self = Self {
        look: Duration::ZERO,
        look_each: Duration::ZERO,
        look_empty: Duration::ZERO,
        round: Duration::ZERO,
        post: Duration::ZERO,
        post_each: Duration::ZERO,
        own: Duration::ZERO,
        look_end: Duration::ZERO,
        post_end: Duration::ZERO,
        spin: None,
        wake: Duration::ZERO,
        wire: None,
        caller: None,
    };
}

/// How jobs go from a worker to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Steal {
    /// They stay where they were given to.
    #[default]
    Never,
    /// Who has nothing to do takes a job that has not begun from another's queue (Caladan).
    WhenIdle,
    /// Who has too much gives new jobs away, and who has little to do takes them, by the server's rule.
    Given(StealRule),
}

/// What is known of a job's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// What its method's jobs took so far: their median, as the server learns it.
    #[default]
    Learned,
    /// All: an oracle.
    Exact,
    /// Nothing.
    Nothing,
}

/// What running jobs costs beside their work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// The dispatcher's time for each job it gives to a worker, and in the central scheme for each turn. Zero: there is no
    /// dispatcher.
    pub dispatch: Duration,
    /// In the central scheme, the dispatcher's time for each turn of a job but its first; `None`: as for the first.
    pub turn: Option<Duration>,
    /// A worker's time to begin a turn of another job.
    pub switch: Duration,
    /// A worker's time to end a turn before the job's end, beside that.
    pub preempt: Duration,
    /// A worker's time for each job's request and reply.
    pub io: Duration,
    /// A head's time for a call that a handler makes, beside that for the call itself: to send it, and to go on once it is replied
    /// to.
    pub ask: Duration,
    /// A worker's time for a job that it takes from another.
    pub steal: Duration,
    /// How much longer work takes for the probes in it, as a share: 0.02 is 2 %.
    pub probes: f64,
    /// By how much a quantum is too long or too short at most, as a share of it: uniform.
    pub inexact: f64,
    /// Whose the error is.
    pub error: QuantumError,
    /// When others have a core of [heads](Scheme::Heads), or their caller's.
    pub pauses: Option<Pauses>,
    /// What the event loop of a head costs; nothing to others.
    pub event_loop: LoopCosts,
}

impl Costs {
    /// What a call of so many stages, of which each but the last calls the next, takes of a head beside its work, where looks and
    /// posts find and carry as many as they ever do ([`Pacing::BATCH`]): in nanoseconds.
    #[must_use]
    pub fn call_ns(&self, stages: u32) -> f64 {
        let LoopCosts { look, round, post, own, look_end, post_end, look_each, post_each, .. } = self.event_loop;
        let turn = self.switch + look_each + post_each;
        let replied = stages.saturating_sub(1);
        let ends = if replied > 0 { (look_end + post_end) * 2 + own } else { Duration::ZERO };
        let batch = (look + round + post + ends) / Pacing::BATCH as u32;
        ((turn + batch + self.io) * stages + (turn + batch + self.ask) * replied).as_nanos() as f64
    }
}

/// What the event loop of a head costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoopCosts {
    /// A look at the connections that finds something, whatever that is, and what each call adds that it finds.
    pub look: Duration,
    /// See [`look`](Self::look).
    pub look_each: Duration,
    /// A look that finds nothing.
    pub look_empty: Duration,
    /// What a look that finds something costs beside that, whatever it finds: what is begun after it finds caches cold.
    pub round: Duration,
    /// A post of replies, whatever it carries, and what each reply adds.
    pub post: Duration,
    /// See [`post`](Self::post).
    pub post_each: Duration,
    /// What a look takes longer that finds something by the server's own connection, by which handlers call its
    /// [stages](super::Method::stages).
    pub own: Duration,
    /// What it adds to a look and to a post that something comes or goes by one more end of a connection: those of the server's
    /// own are two.
    pub look_end: Duration,
    /// See [`look_end`](Self::look_end).
    pub post_end: Duration,
    /// How long a head that has nothing to do looks on before it sleeps; `None`: for ever.
    pub spin: Option<Duration>,
    /// How long it takes until one that sleeps looks again.
    pub wake: Duration,
    /// The way from a caller to the server and back, with what it takes of the caller if that isn't simulated; it is a part of
    /// what a job takes.
    pub wire: Option<Work>,
    /// The caller, if all calls come from one thread with one connection, to one head.
    pub caller: Option<CallerCosts>,
}

/// What calls take of a caller that is one thread with one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallerCosts {
    /// Writing calls, however many, and what each adds.
    pub send: Duration,
    /// See [`send`](Self::send).
    pub send_each: Duration,
    /// Reading replies, however many, and what each adds.
    pub receive: Duration,
    /// See [`receive`](Self::receive).
    pub receive_each: Duration,
}

/// Whose the error of a quantum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuantumError {
    /// Each quantum's, so that those of a job are right on average.
    #[default]
    EachQuantum,
    /// A job's, as where its code has too few probes or too many: all its quanta are as much too long or too short.
    EachJob,
    /// A kind's: all quanta of the load's first kind are too short by the whole share, those of its last too long by as much, and
    /// those of others evenly between. With one kind they are too short.
    EachKind,
}

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How many jobs arrive.
    pub jobs: u64,
    /// Which share of them, the first, is not counted.
    pub warmup: f64,
    /// How many arrive in a second, at random.
    pub rate: Rate,
    /// With more unfinished jobs than this the run is cut: it would never end.
    pub most_unfinished: usize,
}

/// How many jobs arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many a second.
    PerSecond(f64),
    /// This share of what the workers could do without any cost.
    Share(f64),
}

impl Plan {
    /// So many jobs at half the capacity, of which the first tenth isn't counted; cut at a million unfinished ones.
    #[must_use]
    pub fn new(jobs: u64) -> Self {
        Self { jobs, warmup: 0.1, rate: Rate::Share(0.5), most_unfinished: 1 << 20 }
    }

    /// At this share of what the workers could do without any cost.
    #[must_use]
    pub fn with_share(self, share: f64) -> Self {
        Self { rate: Rate::Share(share), ..self }
    }

    /// With so many jobs a second.
    #[must_use]
    pub fn with_rate(self, per_second: f64) -> Self {
        Self { rate: Rate::PerSecond(per_second), ..self }
    }

    /// Jobs a second.
    #[must_use]
    pub fn per_second(&self, cores: &Cores, load: &Load) -> f64 {
        match self.rate {
            Rate::PerSecond(rate) => rate,
            Rate::Share(share) => share * cores.workers as f64 * 1e9 / load.mean_ns(),
        }
    }

    pub(crate) fn validate(&self, cores: &Cores, load: &Load) -> Result<(), PlanError> {
        if !(1..=turns::MOST - 2).contains(&cores.workers) {
            return Err(PlanError::Workers(cores.workers));
        }
        if cores.scheme.quantum().is_some_and(|quantum| quantum.is_zero() || quantum > MOST_COST) {
            return Err(PlanError::Quantum);
        }
        let costs = &cores.costs;
        let of_loop = &costs.event_loop;
        let all = [
            costs.dispatch,
            costs.turn.unwrap_or_default(),
            costs.switch,
            costs.preempt,
            costs.io,
            costs.ask,
            costs.steal,
        ];
        let LoopCosts { look, look_each, look_empty, round, post, post_each, own, look_end, post_end, wake, .. } =
            *of_loop;
        let loops = [look, look_each, look_empty, round, post, post_each, own, look_end, post_end, wake];
        let caller = of_loop.caller.unwrap_or_default();
        let callers = [caller.send, caller.send_each, caller.receive, caller.receive_each];
        for span in all.into_iter().chain(loops).chain(callers) {
            if span > MOST_COST {
                return Err(PlanError::Cost(span));
            }
        }
        for share in [costs.probes, costs.inexact] {
            if !(0.0..=1.0).contains(&share) {
                return Err(PlanError::CostShare(share));
            }
        }
        of_loop.wire.map_or(Ok(()), |wire| wire.validate())?;
        if let Some(pauses) = costs.pauses {
            pauses.length.validate()?;
            // Others have less than nine tenths of a core.
            let share = pauses.per_second * pauses.length.mean_ns() / 1e9;
            if !(pauses.per_second > 0.0 && share <= 9.0) {
                return Err(PlanError::Pauses(pauses.per_second));
            }
        }
        let stages = load.methods().iter().map(|method| method.stages.len()).max().unwrap_or_default();
        if stages > 0 && (cores.workers > 1 || !matches!(cores.scheme, Scheme::Heads { .. })) {
            return Err(PlanError::Stages(stages));
        }
        if of_loop.caller.is_some() && (cores.workers > 1 || !matches!(cores.scheme, Scheme::Heads { .. })) {
            return Err(PlanError::Caller);
        }
        if !(0.0..1.0).contains(&self.warmup) {
            return Err(PlanError::Warmup(self.warmup));
        }
        if self.jobs == 0 || self.most_unfinished == 0 || self.most_unfinished > MOST_UNFINISHED {
            return Err(PlanError::Jobs);
        }
        let rate = self.per_second(cores, load);
        if !(rate.is_finite() && (1e-6..=1e12).contains(&rate)) {
            return Err(PlanError::Rate(rate));
        }
        if let Some(seconds) = turns::too_long(self.jobs, rate) {
            return Err(PlanError::TooLong(seconds));
        }
        Ok(())
    }
}

const MOST_COST: Duration = Duration::from_secs(60);
const MOST_UNFINISHED: usize = 1 << 26;

/// A run that can't be meant.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Of workers.
    #[error("{0} workers; allowed: 1 to 4094")]
    Workers(usize),
    /// Of methods.
    #[error("{0} methods; allowed: 1 to 256")]
    Methods(usize),
    /// A method's.
    #[error("a share of {0}; allowed: a number that is more than 0")]
    Share(f64),
    /// A method's.
    #[error("{0} stages behind a method; allowed: up to {MOST_STAGES}, of one head alone")]
    Stages(usize),
    /// A method's.
    #[error("a work of {0:?}; allowed: times of 1ns to 1 day, least below most, alpha above 0 and neither 1 nor 2")]
    Work(Work),
    /// Of a core.
    #[error("{0} pauses a second; allowed: more than 0, with a tenth of the time at least between them")]
    Pauses(f64),
    /// One that calls one head.
    #[error("a caller of more than one head")]
    Caller,
    /// A turn's length.
    #[error("a quantum that is 0 or longer than a minute")]
    Quantum,
    /// One of the costs that are times.
    #[error("a cost of {0:?}; allowed: up to a minute")]
    Cost(Duration),
    /// One of the costs that are shares.
    #[error("a cost of {0}, as a share; allowed: 0 to 1")]
    CostShare(f64),
    /// The share that isn't counted.
    #[error("a warm-up of {0}; allowed: 0 to 1, without 1")]
    Warmup(f64),
    /// How much is simulated.
    #[error("jobs and unfinished jobs: 1 at least, and at most 67,108,864 unfinished ones, which take 5 GB")]
    Jobs,
    /// Arrivals.
    #[error("{0} jobs a second; allowed: 0.000001 to 1,000,000,000,000")]
    Rate(f64),
    /// More virtual time than there is.
    #[error("{0:.0} s of virtual time; allowed: 40 days; ask for fewer jobs")]
    TooLong(f64),
}
