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
}

impl Work {
    /// The mean, in nanoseconds. Of [`Normal`](Self::Normal) as if nothing were cut off.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        match *self {
            Self::Fixed(span) | Self::Exponential(span) | Self::Normal { mean: span, .. } => ns(span),
            Self::Uniform { least, most } => f64::midpoint(ns(least), ns(most)),
            Self::Pareto { least, most, alpha } => pareto_moment(ns(least), ns(most), alpha, 1.0),
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
        }
    }

    /// One of them, in nanoseconds: 1 at least.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let span = match *self {
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
}

impl Method {
    /// Without a deadline.
    #[must_use]
    pub fn new(name: &str, share: f64, work: Work) -> Self {
        Self { name: name.to_owned(), share, work, deadline: None }
    }
}

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

    /// The mean work of all, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.methods.iter().map(|method| method.share * method.work.mean_ns()).sum()
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
