//! What became of the jobs.

use super::histogram::Histogram;
use std::fmt;

/// What became of the jobs of a run. Times are from a job's arrival to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// All jobs.
    pub all: Histogram,
    /// Those of each method, in the load's order.
    pub methods: Vec<Histogram>,
    /// How many of each were done after their deadlines.
    pub late: Vec<u64>,
    /// How many times its work a job took, in thousandths.
    pub slowdown: Histogram,
    /// Virtual time of the whole run, in seconds.
    pub seconds: f64,
    /// Jobs that were done in all, the uncounted included.
    pub done: u64,
    /// Which share of the workers' time was jobs' work, until the last arrival.
    pub busy: f64,
    /// Which share of it was costs. Of [heads](super::Scheme::Heads), what looks and posts cost alone counts for as much as they
    /// have to have: they fill what time there is, and bring fewer calls at a time.
    pub overhead: f64,
    /// Turns that ended before their jobs did, for others to go on.
    pub preemptions: u64,
    /// Jobs that another worker took.
    pub stolen: u64,
    /// How often [heads](super::Scheme::Heads) posted.
    pub posts: u64,
    /// For how many seconds they did in all.
    pub posted: f64,
    /// The same of their looks that found something, beyond what one that finds nothing takes.
    pub looked: f64,
    /// How many were unfinished at most.
    pub most_unfinished: usize,
    /// Arrivals, hand-overs and ends of turns.
    pub events: u64,
    /// A hash over all events: two runs with the same are the same.
    pub hash: u64,
    /// Why it ended early, if it did. What is said is of what was done by then.
    pub cut: Option<Cut>,
}

impl Report {
    /// Jobs done a second, over the whole run.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.done as f64 / self.seconds } else { 0.0 }
    }

    /// Whether the workers could go on like this for ever: it wasn't cut, and a fiftieth of their time was left. Orders that put
    /// long jobs last serve short ones well for a while even where more comes than can be served.
    #[must_use]
    pub fn is_sustained(&self) -> bool {
        self.cut.is_none() && self.busy + self.overhead <= 0.98
    }

    /// The number of unfinished jobs on average, by Little's law.
    #[must_use]
    pub fn mean_unfinished(&self) -> f64 {
        self.throughput() * self.all.mean()
    }

    /// The slowdown that a share of `quantile` stays within; 1 is none.
    #[must_use]
    pub fn slowdown(&self, quantile: f64) -> f64 {
        self.slowdown.quantile_ns(quantile) as f64 / 1000.0
    }
}

/// Why a run ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// More jobs came than were served, without an end.
    Overload {
        /// How many were unfinished then.
        unfinished: usize,
    },
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overload { unfinished } => {
                write!(f, "cut at {unfinished} unfinished jobs: more come than can be served")
            }
        }
    }
}
