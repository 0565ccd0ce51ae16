//! How long a method takes, learned while it runs.
//!
//! Admission, laxity and hedging need the quantiles of service times, which nobody can state beforehand and which
//! change. A histogram with buckets that grow with the value answers within 1/32 of it (HdrHistogram's layout, 16
//! buckets an octave). It forgets: at every 4096 observations' worth of weight all weights are halved, so what was
//! seen 2048 observations ago counts for about half.

use crate::time::Span;
use std::fmt;
use std::time::Duration;

/// Under how many times its first estimate what a call has left is about as much.
const ALIKE: u32 = 2;

/// The distribution of one method's service times, the recent ones foremost.
///
/// ```
/// use greenwave_policy::ServiceTimes;
/// use std::time::Duration;
///
/// let mut times = ServiceTimes::new();
/// (1..=100).for_each(|ms| times.observe(Duration::from_millis(ms)));
/// let median = times.quantile(0.5).expect("some were observed");
/// assert!(median.abs_diff(Duration::from_millis(50)) <= Duration::from_millis(50) / 32);
/// ```
///
/// 1. `octaves[o]` is the sum of `buckets[o]`, and `weight` is the sum of `octaves`.
/// 2. `weight` is under `FULL`, so no weight overflows 32 bits.
/// 3. `sum` stands for about as many times up to `LONGEST`, so it is under 2^53 and `ONE` times it fits into 64 bits.
#[derive(Clone)]
pub struct ServiceTimes {
    buckets: Box<[[u32; STEPS]; OCTAVES]>,
    octaves: [u32; OCTAVES],
    weight: u32,
    /// Nanoseconds, of as many observations as the weight stands for.
    sum: u64,
    count: u64,
}

impl ServiceTimes {
    /// After so many observations weights are halved, so those further back than twice as many hardly count.
    pub const MEMORY: u64 = (FULL / ONE) as u64;

    /// Nothing is known. The only allocation, of 2.5 KiB.
    #[must_use]
    pub fn new() -> Self {
        Self { buckets: Box::new([[0; STEPS]; OCTAVES]), octaves: [0; OCTAVES], weight: 0, sum: 0, count: 0 }
    }

    /// Takes in a service time. 18 minutes or more count as 18 minutes.
    #[inline]
    pub fn observe(&mut self, took: impl Into<Span>) {
        let took = took.into().as_nanos().min(LONGEST);
        let (octave, step) = place(took);
        self.buckets[octave][step] += ONE;
        self.octaves[octave] += ONE;
        self.weight += ONE;
        self.sum += took;
        self.count = self.count.saturating_add(1);
        if self.weight >= FULL {
            self.halve();
        }
    }

    /// The time that a share of `quantile` of the calls stays within, 0.99 for instance; within 1/32 of it.
    ///
    /// `None` before the first observation. Quantiles outside 0 to 1 are taken as the nearest of the two.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        if self.weight == 0 {
            return None;
        }
        let mut rank = rank(quantile, self.weight);
        let octave = skip(&self.octaves, &mut rank);
        let step = skip(&self.buckets[octave], &mut rank);
        Some(Duration::from_nanos(middle(octave, step)))
    }

    /// How long a call that has taken `had` so far is still going to take: the median of those that took longer. `None` if
    /// there was none.
    ///
    /// Of times that are all about the same it is what is left of them, of exponential ones always the same, and of those
    /// that vary widely the more the longer it takes already.
    #[must_use]
    pub fn left(&self, had: Span) -> Option<Duration> {
        let (octave, step) = place(had.as_nanos().min(LONGEST));
        let shorter = self.octaves[..octave].iter().sum::<u32>() + self.buckets[octave][..=step].iter().sum::<u32>();
        let longer = self.weight.checked_sub(shorter).filter(|longer| *longer > 0)?;
        let mut rank = shorter + longer.div_ceil(2);
        let octave = skip(&self.octaves, &mut rank);
        let step = skip(&self.buckets[octave], &mut rank);
        Some(Duration::from_nanos(middle(octave, step).saturating_sub(had.as_nanos())))
    }

    /// How long a call is still going to take that was estimated to take `given` and has had so much: what it hasn't had of it, and
    /// beyond that what is [left](Self::left) of such, or as much again if none was seen. Who has about as much left as it was
    /// given at first, less than twice that, has no more than that: it would give way to the next that comes, and that one to
    /// its next, and all be done later.
    #[must_use]
    #[inline]
    pub fn remaining(&self, given: Duration, had: Span) -> Duration {
        let spent: Duration = had.into();
        given.checked_sub(spent).unwrap_or_else(|| self.beyond(given, had))
    }

    fn beyond(&self, given: Duration, had: Span) -> Duration {
        let left = self.left(had).unwrap_or(had.into());
        if left < given.saturating_mul(ALIKE) { left.min(given) } else { left }
    }

    /// The mean; `None` before the first observation.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let mean = (self.sum * u64::from(ONE)).checked_div(u64::from(self.weight))?;
        Some(Duration::from_nanos(mean))
    }

    /// How many were observed, the forgotten ones included.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    #[cold]
    fn halve(&mut self) {
        self.weight = 0;
        for (octave, buckets) in self.octaves.iter_mut().zip(self.buckets.iter_mut()) {
            buckets.iter_mut().for_each(|weight| *weight /= 2);
            *octave = buckets.iter().sum();
            self.weight += *octave;
        }
        self.sum /= 2;
    }
}

impl Default for ServiceTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ServiceTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceTimes")
            .field("count", &self.count)
            .field("mean", &self.mean())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .finish()
    }
}

/// What an observation weighs at first. It is halved ten times before it is gone, so that rare values fade as common
/// ones do.
const ONE: u32 = 1 << 10;

/// When weights are halved.
const FULL: u32 = 4096 * ONE;

/// Buckets in an octave, and the bits that tell them apart.
const STEPS: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 4;

/// Times have 40 bits. The first octave holds 0 to 15 ns in buckets of 1 ns, as the second does for 16 to 31.
const BITS: u32 = 40;
const OCTAVES: usize = (BITS - STEP_BITS + 1) as usize;
const LONGEST: u64 = (1 << BITS) - 1;

/// The bucket of a time up to `LONGEST`.
const fn place(nanos: u64) -> (usize, usize) {
    let octave = (u64::BITS - (nanos >> STEP_BITS).leading_zeros()) as usize;
    let step = nanos >> octave.saturating_sub(1);
    (octave, (step as usize) % STEPS)
}

/// The middle of a bucket.
const fn middle(octave: usize, step: usize) -> u64 {
    match octave.checked_sub(1) {
        None => step as u64,
        Some(shift) => (((STEPS + step) as u64) << shift) + ((1 << shift) / 2),
    }
}

/// Which observation to look for, by weight: at least the first, at most the last.
fn rank(quantile: f64, weight: u32) -> u32 {
    ((quantile * f64::from(weight)).ceil() as u32).clamp(1, weight)
}

/// The first place at which the weights add up to `rank`, which is left as the rank within that place.
fn skip(weights: &[u32], rank: &mut u32) -> usize {
    let mut place = 0;
    while place + 1 < weights.len() && weights[place] < *rank {
        *rank -= weights[place];
        place += 1;
    }
    place
}
