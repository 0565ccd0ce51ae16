//! What became of requests.

use crate::cores::Histogram;

/// What became of the requests of a run; the first tenth isn't counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From a request's birth until it left each stage: what accumulates along the chain.
    pub since_birth: Vec<Histogram>,
    /// From its arrival at each stage until it left: queue, work, and the wait for all parts.
    pub at_stage: Vec<Histogram>,
    /// Of each unit of each stage: from a part's arrival until it was done.
    pub units: Vec<Vec<Histogram>>,
    /// How many came to each stage after one that was born later.
    pub overtaken: Vec<u64>,
    /// Of each class, in the graph's order.
    pub classes: Vec<Tally>,
    /// Virtual time, in seconds.
    pub seconds: f64,
    /// Arrivals at stations, ends of works and of ways.
    pub events: u64,
    /// A hash over all events.
    pub hash: u64,
    /// How many requests were unfinished when the run was cut, as more came than could be served.
    pub cut_at: Option<usize>,
}

/// What became of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answered before their deadlines.
    pub in_time: u64,
    /// Answered after them.
    pub late: u64,
    /// Refused on the way.
    pub refused: u64,
}

impl Tally {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.in_time + self.late + self.refused
    }

    /// Which share was answered in time: the goodput, as a share of what was asked for; 1 if there were none.
    #[must_use]
    pub fn good(&self) -> f64 {
        if self.all() == 0 { 1.0 } else { self.in_time as f64 / self.all() as f64 }
    }
}

impl Outcome {
    /// D2P's variability range of a stage, (Tmax - Tmin) / Tavg, with the least and the most but for one in a thousand in
    /// place of the extremes, which say more of how many were counted than of anything else.
    #[must_use]
    pub fn variability(&self, stage: usize) -> f64 {
        let spans = &self.since_birth[stage];
        let range = spans.quantile(0.999) - spans.quantile(0.001);
        if spans.mean() > 0.0 { range / spans.mean() } else { 0.0 }
    }

    /// Answered in time, of all classes.
    #[must_use]
    pub fn good(&self) -> f64 {
        let sum = self.classes.iter().fold(Tally::default(), |sum, class| Tally {
            in_time: sum.in_time + class.in_time,
            late: sum.late + class.late,
            refused: sum.refused + class.refused,
        });
        sum.good()
    }
}
