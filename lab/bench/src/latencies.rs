//! A histogram of durations.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The largest duration that is told apart from longer ones.
pub const LONGEST: Duration = Duration::from_secs(100);

/// Durations from 1 ns to 100 s, each kept to three significant digits. Longer ones count as 100 s.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Self {
        let longest = LONGEST.as_nanos() as u64;
        Self(Histogram::new_with_bounds(1, longest, 3).expect("1 ns < 100 s, and three digits are allowed"))
    }

    /// Adds a duration.
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that a share `q` of all recorded ones stays at or below; `None` if there are none.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_nanos(self.0.value_at_quantile(q)))
    }

    /// The median, p99 and p99.9 in microseconds, under the names that results have for them; not a number if nothing was
    /// recorded.
    pub fn quantiles_us(&self) -> [(&'static str, f64); 3] {
        let us = |q| self.quantile(q).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
        [("p50_us", us(0.5)), ("p99_us", us(0.99)), ("p999_us", us(0.999))]
    }

    /// The mean; `None` if nothing was recorded.
    pub fn mean(&self) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_nanos(self.0.mean() as u64))
    }

    /// The longest; `None` if nothing was recorded.
    pub fn max(&self) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_nanos(self.0.max()))
    }

    /// Adds all durations of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// The recorded durations from short to long, each with how often it occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.0.iter_recorded().map(|step| (Duration::from_nanos(step.value_iterated_to()), step.count_at_value()))
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_three_digits_over_the_whole_range() {
        for nanos in [1, 999, 1_234_567, 98_765_432_100] {
            let mut latencies = Latencies::new();
            latencies.record(Duration::from_nanos(nanos));
            let kept = latencies.quantile(0.5).expect("one was recorded").as_nanos() as f64;
            assert!((kept / nanos as f64 - 1.0).abs() <= 0.001, "{nanos} ns became {kept} ns");
        }
    }

    #[test]
    fn what_takes_longer_than_the_range_is_kept_at_its_end() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::MAX);
        assert_eq!(latencies.count(), 1);
        assert!(latencies.max().expect("one was recorded") >= LONGEST);
    }

    #[test]
    fn nothing_recorded_has_no_quantile() {
        let none = Latencies::new();
        assert_eq!((none.quantile(0.5), none.mean(), none.max()), (None, None, None));
    }
}
