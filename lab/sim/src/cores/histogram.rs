//! Many spans in little memory.

use super::load::Sample;

/// How many spans were how long, in nanoseconds: exact below 128 ns, within 1/256 above.
///
/// Buckets grow with the value, 128 an octave (the layout of HdrHistogram). Its memory is 42 KiB, whatever it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    most: u64,
}

const STEP_BITS: u32 = 7;
const STEPS: usize = 1 << STEP_BITS;
const BITS: u32 = 48;
const BUCKETS: usize = (BITS - STEP_BITS + 1) as usize * STEPS;

impl Histogram {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum: 0, most: 0 }
    }

    /// Adds a span; what is longer than three days counts as that.
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        let nanos = nanos.min((1 << BITS) - 1);
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.most = self.most.max(nanos);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.count += other.count;
        self.sum += other.sum;
        self.most = self.most.max(other.most);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in seconds; 0 if there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 / 1e9 }
    }

    /// What a share of `quantile` stays within, in seconds; 0 if there are none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> f64 {
        self.quantile_ns(quantile) as f64 / 1e9
    }

    /// The same in nanoseconds.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = ((self.count as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(bucket).min(self.most);
            }
        }
        0
    }

    /// Which share is at most so long, in seconds: what the [quantile](Self::quantile) is the inverse of; 0 if there are none.
    #[must_use]
    pub fn within(&self, seconds: f64) -> f64 {
        let nanos = seconds * 1e9;
        let upto = self.counts.iter().enumerate().take_while(|(bucket, _)| middle(*bucket) as f64 <= nanos);
        share(upto.map(|(_, count)| count).sum(), self.count)
    }

    /// How far apart this distribution and another are, in seconds: the Wasserstein distance of first order, which is the area
    /// between the two cumulative distribution functions, or by how much a span would have to change on average to make one
    /// of the other. It is at least the difference of the means. Without spans a distribution is all at 0.
    #[must_use]
    pub fn distance(&self, other: &Self) -> f64 {
        let (mut these, mut others, mut area) = (0, 0, 0.0);
        for (bucket, (this, that)) in self.counts.iter().zip(&other.counts).enumerate() {
            these += this;
            others += that;
            let apart = (below(these, self.count) - below(others, other.count)).abs();
            if apart > 0.0 {
                area += apart * (middle(bucket + 1) - middle(bucket)) as f64;
            }
        }
        area / 1e9
    }

    /// The same as lengths to draw from; `None` if there are none.
    #[must_use]
    pub fn sample(&self) -> Option<Sample> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Sample::new(counted.map(|(bucket, count)| (middle(bucket).min(self.most), *count)).collect())
    }

    /// The longest, in seconds.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.most as f64 / 1e9
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn share(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}

fn below(some: u64, all: u64) -> f64 {
    if all == 0 { 1.0 } else { share(some, all) }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let octave = (64 - STEP_BITS).saturating_sub(nanos.leading_zeros());
    // Octave 0 holds what has no further bits; from then on the highest bit is implied.
    if octave == 0 {
        return nanos as usize;
    }
    let step = (nanos >> (octave - 1)) as usize & (STEPS - 1);
    octave as usize * STEPS + step
}

fn middle(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    if octave == 0 {
        return step;
    }
    let width = 1_u64 << (octave - 1);
    (STEPS as u64 + step) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_is_known_within_its_bucket(value in 0..(1_u64 << BITS)) {
            let near = middle(bucket(value));
            prop_assert!(near.abs_diff(value) <= value / 255, "{} for {}", near, value);
        }
    }

    #[test]
    fn quantiles_are_ranks() {
        let mut spans = Histogram::new();
        (1..=100).for_each(|nanos| spans.add(nanos));
        assert_eq!((spans.quantile_ns(0.0), spans.quantile_ns(0.5), spans.quantile_ns(1.0)), (1, 50, 100));
        assert_eq!((spans.count(), spans.mean()), (100, 50.5e-9));
        let twice = {
            let mut twice = spans.clone();
            twice.merge(&spans);
            twice
        };
        assert_eq!((twice.count(), twice.quantile_ns(0.5)), (200, 50));
        assert_eq!(Histogram::new().quantile_ns(0.5), 0);
    }

    #[test]
    fn a_distance_is_the_area_between_two_distributions() {
        let of = |spans: &[u64]| {
            let mut histogram = Histogram::new();
            spans.iter().for_each(|nanos| histogram.add(*nanos));
            histogram
        };
        let near = |this: f64, that: f64| assert!((this - that).abs() < 1e-15, "{this} and not {that}");
        // Moved by 10 ns, spread by 20 ns without another mean, and of unlike counts.
        near(of(&[10, 20]).distance(&of(&[20, 30])), 10e-9);
        near(of(&[50, 50]).distance(&of(&[30, 70])), 20e-9);
        near(of(&[30, 70]).distance(&of(&[50, 50])), 20e-9);
        near(of(&[10]).distance(&of(&[10, 10, 10, 50])), 10e-9);
        assert_eq!(of(&[10, 20]).distance(&of(&[20, 10])), 0.0);
        near(of(&[]).distance(&of(&[10])), 10e-9);
        assert_eq!(of(&[]).distance(&of(&[])), 0.0);
        assert_eq!([9e-9, 10e-9, 19e-9, 20e-9].map(|upto| of(&[10, 20]).within(upto)), [0.0, 0.5, 0.5, 1.0]);
        assert_eq!(of(&[]).within(1.0), 0.0);
    }
}
