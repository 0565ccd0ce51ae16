//! What rounds showed, and what becomes of them in the results.
//!
//! What disturbs a machine changes from minute to minute. So systems take turns, in rounds that each begin with another
//! one, and the median of the rounds counts; the least and the most are in the results as well. Ratios are taken within
//! each round, and then their median.

use std::collections::BTreeMap;

use greenwave_bench::capacity::median;
use greenwave_bench::result::Results;

/// What one round showed of one system, by metric.
pub(crate) type Figures = BTreeMap<String, f64>;

/// What all rounds showed of one case, by system, in the order of the rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(BTreeMap<&'static str, Vec<Figures>>);

impl Rounds {
    pub(crate) fn add(&mut self, system: &'static str, figures: Figures) {
        self.0.entry(system).or_default().push(figures);
    }

    /// Adds medians and spreads to the results, and the ratios of each system to the one named, if that took part.
    pub(crate) fn push(&self, case: &str, over: Option<&str>, results: &mut Results) {
        for (system, rounds) in &self.0 {
            for metric in rounds.first().into_iter().flat_map(Figures::keys) {
                let values: Vec<f64> = rounds.iter().filter_map(|round| round.get(metric).copied()).collect();
                results.push(case, system, metric.as_str(), median(&values));
                if rounds.len() > 1 {
                    let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
                    results.push(case, system, format!("{metric}_min"), values.iter().copied().fold(least, f64::min));
                    results.push(case, system, format!("{metric}_max"), values.iter().copied().fold(most, f64::max));
                }
                let Some((over, others)) = over.and_then(|over| Some((over, self.0.get(over)?))) else { continue };
                if *system == over {
                    continue;
                }
                let ratio = |(own, other): (&Figures, &Figures)| Some(own.get(metric)? / other.get(metric)?);
                let ratios: Vec<f64> = rounds.iter().zip(others).filter_map(ratio).collect();
                if !ratios.is_empty() {
                    results.push(case, system, ratio_name(metric, over), median(&ratios));
                }
            }
        }
    }
}

/// The name of a ratio's row: without the units, which cancel out.
pub(crate) fn ratio_name(of: &str, over: &str) -> String {
    let units = ["_us", "_ms", "_per_s"];
    let bare = units.iter().find_map(|unit| of.strip_suffix(unit)).unwrap_or(of);
    format!("{bare}_over_{}", over.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_rounds_before_their_median_is() {
        let mut rounds = Rounds::default();
        for (own, other) in [(10.0, 100.0), (10.0, 50.0), (1.0, 20.0)] {
            rounds.add("greenwave", Figures::from([("p99_us".to_owned(), own)]));
            rounds.add("etcd", Figures::from([("p99_us".to_owned(), other)]));
        }
        let mut results = Results::new("replica");
        rounds.push("put", Some("etcd"), &mut results);
        let value = |metric| results.value("put", "greenwave", metric);
        assert_eq!((value("p99_us"), value("p99_us_min"), value("p99_us_max")), (Some(10.0), Some(1.0), Some(10.0)));
        assert_eq!(value("p99_over_etcd"), Some(0.1));
        assert_eq!(results.value("put", "etcd", "p99_over_etcd"), None);
    }
}
