//! What jobs there are.

use super::plan::PlanError;
use crate::seed::Stream;
use std::time::Duration;

/// How long a job takes, alone on a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Between these two.
    Uniform {
        /// The least.
        least: Duration,
        /// The most.
        most: Duration,
    },
    /// Normal; what would be below a hundredth of the mean is that.
    Normal {
        /// The mean.
        mean: Duration,
        /// The standard deviation.
        deviation: Duration,
    },
    /// Bounded Pareto: few are long, and take much of the time.
    Pareto {
        /// The least.
        least: Duration,
        /// The most.
        most: Duration,
        /// The exponent, more than 0 and not 1 or 2.
        alpha: f64,
    },
    /// As it was measured. Kept for good, so that works are small: a program has few.
    Measured(&'static Sample),
}

/// What was measured: how many were how long, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Lengths, and how many are as long or shorter.
    upto: Vec<(u64, u64)>,
}

impl Sample {
    /// So many of each length; `None` if there are none, or more than can be counted.
    #[must_use]
    pub fn new(mut spans: Vec<(u64, u64)>) -> Option<Self> {
        spans.sort_unstable();
        let mut all = 0_u64;
        let mut upto = Vec::with_capacity(spans.len());
        for (nanos, count) in spans.into_iter().filter(|(_, count)| *count > 0) {
            all = all.checked_add(count)?;
            upto.push((nanos, all));
        }
        (all > 0).then_some(Self { upto })
    }

    /// The same for good.
    #[must_use]
    pub fn keep(self) -> &'static Self {
        Box::leak(Box::new(self))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.upto.last().map_or(0, |(_, all)| *all)
    }

    /// Lengths in nanoseconds, and how many there are of each.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut before = 0;
        self.upto.iter().map(move |(nanos, all)| (*nanos, all - std::mem::replace(&mut before, *all)))
    }

    /// What a share of `quantile` stays within, in nanoseconds.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.ranked(((self.count() as f64 * quantile).ceil() as u64).saturating_sub(1))
    }

    /// The same, each made another.
    #[must_use]
    pub fn map(&self, make: impl Fn(u64) -> u64) -> Self {
        let mut made: Vec<(u64, u64)> = self.spans().map(|(nanos, count)| (make(nanos), count)).collect();
        made.sort_unstable();
        let mut all = 0;
        made.iter_mut().for_each(|(_, count)| {
            all += *count;
            *count = all;
        });
        Self { upto: made }
    }

    fn ranked(&self, rank: u64) -> u64 {
        let at = self.upto.partition_point(|(_, all)| *all <= rank);
        self.upto.get(at).or(self.upto.last()).map_or(0, |(nanos, _)| *nanos)
    }

    fn moment(&self, power: i32) -> f64 {
        let each = self.spans().map(|(nanos, count)| (nanos as f64).powi(power) * count as f64);
        each.sum::<f64>() / self.count() as f64
    }
}

impl Work {
    /// The mean, in nanoseconds. Of [`Normal`](Self::Normal) as if nothing were cut off.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        match *self {
            Self::Fixed(span) | Self::Exponential(span) | Self::Normal { mean: span, .. } => ns(span),
            Self::Uniform { least, most } => f64::midpoint(ns(least), ns(most)),
            Self::Pareto { least, most, alpha } => pareto_moment(ns(least), ns(most), alpha, 1.0),
            Self::Measured(sample) => sample.moment(1),
        }
    }

    /// The mean of the squares, in square nanoseconds.
    #[must_use]
    pub fn square_ns(&self) -> f64 {
        match *self {
            Self::Fixed(span) => ns(span).powi(2),
            Self::Exponential(span) => 2.0 * ns(span).powi(2),
            Self::Normal { mean, deviation } => ns(mean).powi(2) + ns(deviation).powi(2),
            Self::Uniform { least, most } => (ns(least).powi(2) + ns(least) * ns(most) + ns(most).powi(2)) / 3.0,
            Self::Pareto { least, most, alpha } => pareto_moment(ns(least), ns(most), alpha, 2.0),
            Self::Measured(sample) => sample.moment(2),
        }
    }

    /// One of them, in nanoseconds: 1 at least.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let span = match *self {
            Self::Measured(sample) => return sample.ranked(stream.below(sample.count())).max(1),
            Self::Fixed(span) => ns(span),
            Self::Exponential(mean) => -(1.0 - stream.unit()).ln() * ns(mean),
            Self::Uniform { least, most } => ns(least) + stream.unit() * (ns(most) - ns(least)),
            Self::Normal { mean, deviation } => {
                // Box and Muller; the other of the pair is left, so that a job always draws as many.
                let (radius, angle) =
                    ((-2.0 * (1.0 - stream.unit()).ln()).sqrt(), std::f64::consts::TAU * stream.unit());
                (ns(mean) + ns(deviation) * radius * angle.cos()).max(ns(mean) / 100.0)
            }
            Self::Pareto { least, most, alpha } => {
                let (low, high, unit) = (ns(least).powf(-alpha), ns(most).powf(-alpha), stream.unit());
                (low - unit * (low - high)).powf(-1.0 / alpha)
            }
        };
        (span.round() as u64).max(1)
    }

    pub(crate) fn validate(&self) -> Result<(), PlanError> {
        const DAY: Duration = Duration::from_secs(86_400);
        let in_range = |span: Duration| !span.is_zero() && span <= DAY;
        let fine = match *self {
            Self::Fixed(span) | Self::Exponential(span) => in_range(span),
            Self::Measured(sample) => sample.upto.last().is_some_and(|(most, _)| *most <= ns(DAY) as u64),
            Self::Normal { mean, deviation } => in_range(mean) && deviation <= DAY,
            Self::Uniform { least, most } => in_range(least) && in_range(most) && least <= most,
            Self::Pareto { least, most, alpha } => {
                let usual = alpha.is_finite() && alpha > 0.0 && alpha != 1.0 && alpha != 2.0;
                in_range(least) && in_range(most) && least < most && usual
            }
        };
        if fine { Ok(()) } else { Err(PlanError::Work(*self)) }
    }
}

fn ns(span: Duration) -> f64 {
    span.as_nanos() as f64
}

fn pareto_moment(least: f64, most: f64, alpha: f64, order: f64) -> f64 {
    let norm = 1.0 - (least / most).powf(alpha);
    alpha * least.powf(alpha) / norm * (most.powf(order - alpha) - least.powf(order - alpha)) / (order - alpha)
}

/// Jobs of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// Its name in reports.
    pub name: String,
    /// How many of all jobs are of it, beside the others': more than 0.
    pub share: f64,
    /// How long they take.
    pub work: Work,
    /// Within which time from their arrival they are expected to be done; `None`: whenever.
    pub deadline: Option<Duration>,
    /// How long it waits for other servers, beside that; of [heads](super::Scheme::Heads) alone. It has no core meanwhile.
    pub behind: Option<Work>,
    /// Stages behind it on the same server, of one [head](super::Scheme::Heads) alone, by how long each takes: once its work is
    /// done it calls the first, that one the next, and each replies when it is replied to.
    pub stages: Vec<Work>,
}

impl Method {
    /// Without a deadline.
    #[must_use]
    pub fn new(name: &str, share: f64, work: Work) -> Self {
        Self { name: name.to_owned(), share, work, deadline: None, behind: None, stages: Vec::new() }
    }

    /// What it and its stages take, in nanoseconds.
    fn mean_ns(&self) -> f64 {
        self.work.mean_ns() + self.stages.iter().map(Work::mean_ns).sum::<f64>()
    }
}

/// How many stages may be behind a method.
pub(super) const MOST_STAGES: usize = 8;

/// What jobs there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    methods: Vec<Method>,
}

impl Load {
    /// Jobs of these kinds; shares are made to sum up to one.
    ///
    /// # Errors
    /// If there are none or more than 256, or a share or a work is out of its range.
    pub fn new(mut methods: Vec<Method>) -> Result<Self, PlanError> {
        if methods.is_empty() || methods.len() > 256 {
            return Err(PlanError::Methods(methods.len()));
        }
        for method in &methods {
            method.work.validate()?;
            method.behind.iter().chain(&method.stages).try_for_each(Work::validate)?;
            if method.stages.len() > MOST_STAGES {
                return Err(PlanError::Stages(method.stages.len()));
            }
            if !(method.share.is_finite() && method.share > 0.0) {
                return Err(PlanError::Share(method.share));
            }
        }
        let all: f64 = methods.iter().map(|method| method.share).sum();
        methods.iter_mut().for_each(|method| method.share /= all);
        Ok(Self { methods })
    }

    /// One kind of job, with exponential work.
    #[must_use]
    pub fn exponential(mean: Duration) -> Self {
        let work = Work::Exponential(mean.clamp(Duration::from_nanos(1), Duration::from_secs(3600)));
        Self { methods: vec![Method::new("all", 1.0, work)] }
    }

    /// One of the workloads of TQ (Luo et al., ASPLOS'24), by [its name](Self::NAMES).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let fixed =
            |name: &str, share: f64, nanos: u64| Method::new(name, share, Work::Fixed(Duration::from_nanos(nanos)));
        let methods = match name {
            "extreme" => vec![fixed("short", 0.995, 500), fixed("long", 0.005, 500_000)],
            "high" => vec![fixed("short", 0.5, 1000), fixed("long", 0.5, 100_000)],
            "tpcc" => vec![
                fixed("Payment", 0.44, 5700),
                fixed("OrderStatus", 0.04, 6000),
                fixed("NewOrder", 0.44, 20_000),
                fixed("Delivery", 0.04, 88_000),
                fixed("StockLevel", 0.04, 100_000),
            ],
            "rocksdb-0.5" => vec![fixed("GET", 0.995, 1200), fixed("SCAN", 0.005, 675_000)],
            "rocksdb-50" => vec![fixed("GET", 0.5, 1200), fixed("SCAN", 0.5, 675_000)],
            "exponential" => return Some(Self::exponential(Duration::from_micros(1))),
            _ => return None,
        };
        Some(Self { methods })
    }

    /// The names of the workloads that are known.
    pub const NAMES: [&str; 6] = ["extreme", "high", "tpcc", "rocksdb-0.5", "rocksdb-50", "exponential"];

    /// The kinds of jobs.
    #[must_use]
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// The mean work of all with their stages, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.methods.iter().map(|method| method.share * method.mean_ns()).sum()
    }

    /// The mean of the squares of all works, in square nanoseconds.
    #[must_use]
    pub fn square_ns(&self) -> f64 {
        self.methods.iter().map(|method| method.share * method.work.square_ns()).sum()
    }

    /// A kind and a work, in nanoseconds.
    #[inline]
    pub(super) fn draw(&self, stream: &mut Stream) -> (usize, u64) {
        let mut method = 0;
        if self.methods.len() > 1 {
            let mut rank = stream.unit();
            while method + 1 < self.methods.len() && rank >= self.methods[method].share {
                rank -= self.methods[method].share;
                method += 1;
            }
        }
        (method, self.methods[method].work.draw(stream))
    }
}
