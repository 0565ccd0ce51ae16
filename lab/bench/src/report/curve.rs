//! Distributions, small enough to go into a page.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;

/// Bins per factor of ten: each is 5.9% wide.
pub(super) const PER_DECADE: usize = 40;
const DECADES: usize = 11;

/// How durations are distributed, in bins that are even on a logarithmic scale.
///
/// `of` may be more than all bins hold: requests that never got a result. A share is always one of `of`, so the
/// cumulative curve of a system that refuses a tenth ends at nine tenths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    of: u64,
    first: usize,
    counts: Vec<u64>,
}

impl Curve {
    /// The distribution of `latencies` among `of` requests.
    pub fn new(latencies: &Latencies, of: u64) -> Self {
        let mut bins = vec![0; DECADES * PER_DECADE + 1];
        for (took, count) in latencies.iter() {
            bins[bin(took)] += count;
        }
        let first = bins.iter().position(|&count| count > 0).unwrap_or(0);
        let end = bins.iter().rposition(|&count| count > 0).map_or(first, |last| last + 1);
        Self { of: of.max(latencies.count()), first, counts: bins[first..end].to_vec() }
    }

    /// Whether it holds no duration at all.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Durations in nanoseconds, each with the share of requests that took no longer.
    pub(super) fn cumulative(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let mut points = vec![(edge(self.first), 0.0)];
        for (index, count) in self.counts.iter().enumerate() {
            below += count;
            points.push((edge(self.first + index + 1), self.share(below)));
        }
        points
    }

    /// Durations in nanoseconds, each with the share of requests in the `width` bins around it, smoothed.
    pub(super) fn density(&self, width: usize) -> Vec<(f64, f64)> {
        let width = width.max(1);
        let begin = self.first / width;
        let end = (self.first + self.counts.len()).div_ceil(width);
        let group = |group: usize| -> u64 {
            let bins = (group * width).max(self.first)..((group + 1) * width).min(self.first + self.counts.len());
            bins.map(|bin| self.counts[bin - self.first]).sum()
        };
        let smoothed = |at: usize| {
            let neighbours = [at.checked_sub(1), Some(at), Some(at + 1)];
            let counts = neighbours.map(|at| at.map_or(0, group));
            self.share(counts[0] + 2 * counts[1] + counts[2]) / 4.0
        };
        (begin.saturating_sub(1)..=end).map(|at| (middle(at, width), smoothed(at))).collect()
    }

    /// The duration in nanoseconds that a share `q` of the durations stay below; `None` if there are none.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        let mut below = 0;
        let index = self.counts.iter().position(|count| {
            below += count;
            below as f64 >= q * all as f64
        })?;
        Some(edge(self.first + index + 1))
    }

    /// The share of requests that took no longer than so many nanoseconds, give or take a bin.
    pub(super) fn share_within(&self, nanos: f64) -> f64 {
        let points = self.cumulative();
        points.into_iter().take_while(|point| point.0 <= nanos * 1.001).last().map_or(0.0, |point| point.1)
    }

    fn share(&self, count: u64) -> f64 {
        if self.of == 0 { 0.0 } else { count as f64 / self.of as f64 }
    }
}

fn bin(took: Duration) -> usize {
    let position = (took.as_nanos().max(1) as f64).log10() * PER_DECADE as f64;
    (position as usize).min(DECADES * PER_DECADE)
}

fn edge(bin: usize) -> f64 {
    10f64.powf(bin as f64 / PER_DECADE as f64)
}

fn middle(group: usize, width: usize) -> f64 {
    10f64.powf((group as f64 + 0.5) * width as f64 / PER_DECADE as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(micros: &[u64], of: u64) -> Curve {
        let mut latencies = Latencies::new();
        micros.iter().for_each(|&us| latencies.record(Duration::from_micros(us)));
        Curve::new(&latencies, of)
    }

    #[test]
    fn a_cumulative_curve_ends_at_the_share_that_got_a_result() {
        let points = curve(&[10, 20, 1000], 4).cumulative();
        assert_eq!(points.first().map(|point| point.1), Some(0.0));
        assert_eq!(points.last().map(|point| point.1), Some(0.75));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }

    #[test]
    fn a_density_sums_to_the_share_that_got_a_result() {
        let points = curve(&[10, 20, 20, 1000, 1001, 3], 8).density(2);
        assert!((points.iter().map(|point| point.1).sum::<f64>() - 0.75).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_right_within_a_bin() {
        let curve = curve(&(1..=1000).collect::<Vec<_>>(), 1000);
        let median = curve.quantile(0.5).expect("not empty");
        assert!((median / 500_000.0).ln().abs() < 0.06, "{median}");
        assert_eq!(Curve::default().quantile(0.5), None);
        assert!((curve.share_within(500_000.0) - 0.5).abs() < 0.06);
    }
}
