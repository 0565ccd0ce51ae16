//! How many heads a server takes for a load, in which order and by which quantum, to keep latencies within limits.
//!
//! Each combination of order and quantum is tried with as few heads as could do the work, and with more for as long as none is
//! known that does with fewer. A run has to be [sustained](Report::is_sustained). What is found is confirmed under other seeds,
//! and the load is raised until it doesn't hold any more.
//!
//! ```
//! use greenwave_sim::cores::Load;
//! use greenwave_sim::planning::{Limits, Question, plan};
//! use std::time::Duration;
//!
//! let limits = Limits { p999: Some(Duration::from_millis(2)), ..Limits::default() };
//! let mut question = Question::new(Load::named("extreme").expect("a workload's name"), 500_000.0, limits);
//! question.jobs = 20_000;
//! let answer = plan(&question, |_| {})?;
//! assert!(answer.chosen.is_some_and(|chosen| chosen.setup.heads >= 2));
//! # Ok::<(), greenwave_sim::planning::PlanningError>(())
//! ```

pub mod batches;

use crate::cores::{self, Cores, Costs, Load, Plan, PlanError, Report, Scheme};
use crate::seed::Seed;
use greenwave_policy::{Order, StealRule};
use std::time::Duration;

/// What latencies are to stay within; they are those that callers see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Half of all calls.
    pub p50: Option<Duration>,
    /// 99 of 100.
    pub p99: Option<Duration>,
    /// 999 of 1000.
    pub p999: Option<Duration>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The jobs.
    pub load: Load,
    /// How many come in a second.
    pub per_second: f64,
    /// What is to be kept.
    pub limits: Limits,
    /// By which share predictions of p50, p99 and p99.9 are too low at most: what is predicted and this has to be within the
    /// limits.
    pub errors: [f64; 3],
    /// What the server costs.
    pub costs: Costs,
    /// By how much work is stretched where there is a quantum, as a share.
    pub stretch: f64,
    /// The most heads.
    pub most_heads: usize,
    /// What is tried.
    pub orders: Vec<Order>,
    /// What is tried; `None`: each to its end.
    pub quanta: Vec<Option<Duration>>,
    /// Jobs of a run.
    pub jobs: u64,
    /// From which all chance comes.
    pub seed: u64,
}

/// How a server is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Heads, each with a core.
    pub heads: usize,
    /// Whose turn it is.
    pub order: Order,
    /// How long a turn is.
    pub quantum: Option<Duration>,
}

/// Latencies that callers see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// p50, p99 and p99.9.
    pub quantiles: [Duration; 3],
    /// The share of the heads' time that is used.
    pub busy: f64,
    /// Whether it could go on like this for ever.
    pub sustained: bool,
}

/// A setup that keeps the limits.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// It.
    pub setup: Setup,
    /// What it is predicted to do: the median of [`CONFIRMED_BY`] seeds.
    pub predicted: Predicted,
    /// The p99.9 of each of them.
    pub by_seed: Vec<Duration>,
    /// What p50, p99 and p99.9 are of all methods, each by its name.
    pub methods: Vec<(String, [Duration; 3])>,
    /// The highest rate at which it holds, of those tried.
    pub holds_to: f64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The setup with the fewest heads that keeps the limits, and of those the one with the lowest p99.9; `None`: none does.
    pub chosen: Option<Chosen>,
    /// For each order and quantum what was tried last, or came nearest.
    pub tried: Vec<(Setup, Predicted)>,
    /// If none does, why.
    pub why_not: Option<WhyNot>,
}

/// Why nothing keeps the limits.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WhyNot {
    /// The work alone takes longer, whoever does it.
    #[error(
        "calls that wait for nobody have a {name} of {alone:?} already, and with the error of predictions it may be longer; make the work shorter or the limit longer"
    )]
    Alone {
        /// Which of p50, p99 and p99.9.
        name: &'static str,
        /// What it is.
        alone: Duration,
    },
    /// More heads would be needed than may be had.
    #[error(
        "{least} heads have no time for the work, and {most} are the most that were allowed; allow more, or lower the load"
    )]
    Capacity {
        /// The fewest that would have.
        least: usize,
        /// The most that were allowed.
        most: usize,
    },
    /// With as many heads as may be had it still isn't kept.
    #[error("with {most} heads p99.9 is {p999:?} at best; allow more heads, or a longer limit")]
    Limit {
        /// The most that were allowed.
        most: usize,
        /// The best p99.9.
        p999: Duration,
    },
}

/// A question that can't be meant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanningError {
    /// No limit was said.
    #[error("no limit; say one of p50, p99 and p99.9")]
    NoLimit,
    /// Of heads.
    #[error("{0} heads at most; allowed: 1 to 1024")]
    Heads(usize),
    /// No order or quantum.
    #[error("no order or no quantum to try; say one of each")]
    Nothing,
    /// A p99.9 of fewer is none.
    #[error("{0} jobs in a run; allowed: 10,000 to 100,000,000")]
    Jobs(u64),
    /// The run can't be meant.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// How many seeds confirm what was found.
pub const CONFIRMED_BY: u64 = 3;

const NAMES: [&str; 3] = ["p50", "p99", "p99.9"];
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// The rate is raised up to so many times.
const MOST_MORE: f64 = 4.0;
const HALVINGS: u32 = 6;

impl Limits {
    fn each(self) -> [Option<Duration>; 3] {
        [self.p50, self.p99, self.p999]
    }
}

impl Question {
    /// For servers without costs: the orders guarded, fcfs and ps, each to its end and by quanta of 2 to 50 us, with up to 64
    /// heads.
    #[must_use]
    pub fn new(load: Load, per_second: f64, limits: Limits) -> Self {
        let us = Duration::from_micros;
        Self {
            load,
            per_second,
            limits,
            errors: [0.0; 3],
            costs: Costs::default(),
            stretch: 0.0,
            most_heads: 64,
            orders: vec![Order::Guarded, Order::Fcfs, Order::ProcessorSharing],
            quanta: vec![None, Some(us(2)), Some(us(5)), Some(us(10)), Some(us(25)), Some(us(50))],
            jobs: 200_000,
            seed: 1,
        }
    }

    /// Which setups differ from one another: without a quantum all turns are to the end, and whoever is first come goes on.
    fn kinds(&self) -> Vec<(Order, Option<Duration>)> {
        let all = self.orders.iter().flat_map(|order| self.quanta.iter().map(|quantum| (*order, *quantum)));
        all.filter(|(order, quantum)| match order {
            Order::Fcfs => quantum.is_none(),
            Order::ProcessorSharing => quantum.is_some(),
            _ => true,
        })
        .collect()
    }

    fn cores(&self, setup: Setup) -> Cores {
        let Setup { heads, order, quantum } = setup;
        let scheme = Scheme::Heads { order, quantum, steal: Some(StealRule::default()) };
        let probes = if quantum.is_some() { self.stretch } else { 0.0 };
        Cores::new(heads, scheme).with_costs(Costs { probes, ..self.costs })
    }

    /// Simulates a setup.
    ///
    /// # Errors
    /// If it can't be meant.
    pub fn predict(&self, setup: Setup, per_second: f64, jobs: u64, seed: u64) -> Result<Report, PlanError> {
        // Overload is seen long before a million wait.
        let plan = Plan { most_unfinished: 100_000, ..Plan::new(jobs).with_rate(per_second) };
        cores::run(&self.cores(setup), &self.load, &plan, Seed::new(seed))
    }

    fn keeps(&self, predicted: &Predicted) -> bool {
        let limits = self.limits.each().into_iter().zip(predicted.quantiles).zip(self.errors);
        predicted.sustained
            && limits.into_iter().all(|((limit, is), error)| limit.is_none_or(|limit| is.mul_f64(1.0 + error) <= limit))
    }

    fn validate(&self) -> Result<(), PlanningError> {
        if self.limits == Limits::default() {
            return Err(PlanningError::NoLimit);
        }
        if !(1..=1024).contains(&self.most_heads) {
            return Err(PlanningError::Heads(self.most_heads));
        }
        if self.kinds().is_empty() {
            return Err(PlanningError::Nothing);
        }
        if !(10_000..=100_000_000).contains(&self.jobs) {
            return Err(PlanningError::Jobs(self.jobs));
        }
        let setup = Setup { heads: 1, order: self.orders[0], quantum: self.kinds()[0].1 };
        Plan::new(self.jobs).with_rate(self.per_second).validate(&self.cores(setup), &self.load)?;
        Ok(())
    }
}

impl Predicted {
    /// Of a run.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let quantiles = QUANTILES.map(|quantile| Duration::from_nanos(report.all.quantile_ns(quantile)));
        Self { quantiles, busy: report.busy + report.overhead, sustained: report.is_sustained() }
    }
}

/// Finds the setup that takes the fewest heads. Tells `progress` which share of the kinds of setups was tried.
///
/// # Errors
/// If the question can't be meant.
pub fn plan(question: &Question, mut progress: impl FnMut(f64)) -> Result<Answer, PlanningError> {
    question.validate()?;
    let most = question.most_heads;
    let least = (question.per_second * question.load.mean_ns() / 1e9 / 0.98).ceil().max(1.0);
    if least > most as f64 {
        let least = if least < 1e15 { least as usize } else { usize::MAX };
        return Ok(Answer::none(Vec::new(), WhyNot::Capacity { least, most }));
    }
    let kinds = question.kinds();
    // As good as alone: a call in a hundred times its work.
    let alone = Predicted::of(&question.predict(
        Setup { heads: 1, order: kinds[0].0, quantum: None },
        (0.01 * 1e9 / question.load.mean_ns()).min(question.per_second),
        question.jobs,
        question.seed,
    )?);
    for ((limit, is), (name, error)) in
        question.limits.each().into_iter().zip(alone.quantiles).zip(NAMES.into_iter().zip(question.errors))
    {
        if limit.is_some_and(|limit| is.mul_f64(1.0 + error) > limit) {
            return Ok(Answer::none(Vec::new(), WhyNot::Alone { name, alone: is }));
        }
    }
    let (mut best, mut tried): (Option<(Setup, Predicted)>, _) = (None, Vec::new());
    for (at, &(order, quantum)) in kinds.iter().enumerate() {
        progress(at as f64 / kinds.len() as f64);
        let predict = |heads| -> Result<(Setup, Predicted), PlanError> {
            let setup = Setup { heads, order, quantum };
            let report = question.predict(setup, question.per_second, question.jobs, question.seed)?;
            Ok((setup, Predicted::of(&report)))
        };
        // No more than the best so far: it would be none.
        let end = best.map_or(most, |(setup, _)| setup.heads);
        let last = predict(end)?;
        if !question.keeps(&last.1) {
            tried.push(last);
            continue;
        }
        let (mut low, mut found) = (least as usize, last);
        while low < found.0.heads {
            let next = predict(usize::midpoint(low, found.0.heads))?;
            if question.keeps(&next.1) { found = next } else { low = next.0.heads + 1 }
        }
        tried.push(found);
        let p999 = |of: &(Setup, Predicted)| (of.0.heads, of.1.quantiles[2]);
        if best.as_ref().is_none_or(|best| p999(&found) < p999(best)) {
            best = Some(found);
        }
    }
    progress(1.0);
    let Some((setup, _)) = best else {
        let p999 = tried.iter().map(|(_, of)| of.quantiles[2]).min().unwrap_or_default();
        return Ok(Answer::none(tried, WhyNot::Limit { most, p999 }));
    };
    let chosen = confirm(question, setup)?;
    Ok(Answer { chosen: Some(chosen), tried, why_not: None })
}

/// The same under other seeds and at higher rates. A setup that some seeds break has a head more.
fn confirm(question: &Question, setup: Setup) -> Result<Chosen, PlanningError> {
    let mut setup = setup;
    let (reports, predicted) = loop {
        let reports: Result<Vec<Report>, PlanError> = (1..=CONFIRMED_BY)
            .map(|more| question.predict(setup, question.per_second, question.jobs, question.seed.wrapping_add(more)))
            .collect();
        let mut reports = reports?;
        reports.sort_by_key(|report| report.all.quantile_ns(0.999));
        let predicted = Predicted::of(&reports[reports.len() / 2]);
        if question.keeps(&predicted) || setup.heads >= question.most_heads {
            break (reports, predicted);
        }
        setup.heads += 1;
    };
    let (mut low, mut high) = (1.0, MOST_MORE);
    for _ in 0..HALVINGS {
        let more = f64::midpoint(low, high);
        let report = question.predict(setup, more * question.per_second, question.jobs, question.seed)?;
        if question.keeps(&Predicted::of(&report)) { low = more } else { high = more }
    }
    let middle = &reports[reports.len() / 2];
    let of =
        |histogram: &cores::Histogram| QUANTILES.map(|quantile| Duration::from_nanos(histogram.quantile_ns(quantile)));
    let methods = question.load.methods().iter().zip(&middle.methods);
    Ok(Chosen {
        setup,
        predicted,
        by_seed: reports.iter().map(|report| Duration::from_nanos(report.all.quantile_ns(0.999))).collect(),
        methods: methods.map(|(method, histogram)| (method.name.clone(), of(histogram))).collect(),
        holds_to: low * question.per_second,
    })
}

impl Answer {
    fn none(tried: Vec<(Setup, Predicted)>, why: WhyNot) -> Self {
        Self { chosen: None, tried, why_not: Some(why) }
    }
}
