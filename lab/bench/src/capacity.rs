//! What a target can serve.
//!
//! Capacity is the rate at which results come back while enough requests are always outstanding to keep the target
//! busy. The classes are mixed as in the benchmark, since their work may differ, but all get a deadline that is out of
//! reach: capacity is about work, and a target that refuses would be measured at the speed of its refusals.

use std::time::Duration;

use crate::arrivals::Arrivals;
use crate::classes::Classes;
use crate::load::{self, Plan};
use crate::measured::{Measured, Tally, UNANSWERED, UNSENT};
use crate::progress::Progress;
pub use crate::rounds::median;
use crate::target::{Payloads, Target};

/// A deadline that no request of a working target misses.
pub const OUT_OF_REACH: Duration = Duration::from_secs(60);
/// The share of requests that may fail for the rate of the others to be called a capacity.
const TOLERATED: f64 = 0.01;

/// How capacity is measured.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How many requests are outstanding at any time.
    pub in_flight: usize,
    /// How long load is on before measuring begins.
    pub warm_up: Duration,
    /// How many windows are measured, one after another; the median counts.
    pub windows: usize,
    /// How long each is.
    pub window: Duration,
    /// Decides the sequence of classes.
    pub seed: u64,
}

impl Default for Trial {
    /// 64 requests in flight, five windows of a second.
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { in_flight: 64, warm_up: second, windows: 5, window: second, seed: 1 }
    }
}

/// A measured capacity.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Results per second: the median of the windows.
    pub per_second: f64,
    /// Results per second in each window.
    pub windows: Vec<f64>,
    /// Everything else that the closed loop showed.
    pub measured: Measured,
}

/// Why a capacity couldn't be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CapacityError {
    /// Nothing was answered, not even with an error.
    #[error("the target answered nothing within {within:?}; is it running, and does it have this method?")]
    Silent {
        /// How long it had.
        within: Duration,
    },
    /// Too much failed.
    #[error(
        "{share:.1}% of the requests failed, mostly as {mostly}; remove the cause, or measure with fewer in flight"
    )]
    Failing {
        /// The share that failed, in percent.
        share: f64,
        /// The most frequent failure.
        mostly: &'static str,
    },
}

impl CapacityError {
    /// Why there is no result among some requests.
    pub(crate) fn without_results(total: &Tally, within: Duration) -> Self {
        let is_answer = |name: &str| ![UNANSWERED, UNSENT].contains(&name);
        Self::failing(total, is_answer).unwrap_or(Self::Silent { within })
    }

    /// That some requests failed, by the most frequent of the failures that count.
    fn failing(total: &Tally, counts: impl Fn(&str) -> bool) -> Option<Self> {
        let misses = total.misses.iter().filter(|(name, _)| counts(name));
        let (mostly, _) = misses.max_by_key(|(_, count)| **count)?;
        Some(Self::Failing { share: total.missed_share() * 100.0, mostly })
    }
}

/// Measures the capacity of `target` for this mix of classes.
pub fn measure(
    trial: &Trial,
    classes: &Classes,
    target: &mut dyn Target,
    payloads: &mut dyn Payloads,
    progress: &mut Progress,
) -> Result<Capacity, CapacityError> {
    let plan = Plan {
        warm_up: trial.warm_up,
        interval: trial.window,
        samples: 0,
        seed: trial.seed,
        ..Plan::new(
            Arrivals::Closed { in_flight: trial.in_flight },
            classes.with_deadline(OUT_OF_REACH),
            trial.window * trial.windows as u32,
        )
    };
    let measured = load::run(&plan, target, payloads, progress);
    if measured.total.results.count() == 0 {
        let within = plan.warm_up + plan.time + plan.drain;
        return Err(CapacityError::without_results(&measured.total, within));
    }
    if measured.total.missed_share() > TOLERATED
        && let Some(failing) = CapacityError::failing(&measured.total, |_| true)
    {
        return Err(failing);
    }
    let mut windows: Vec<f64> =
        measured.series.iter().map(|one| one.good as f64 / trial.window.as_secs_f64()).collect();
    windows.resize(trial.windows, 0.0);
    Ok(Capacity { per_second: median(&windows), windows, measured })
}
