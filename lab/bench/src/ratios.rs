//! Ratios of systems' figures.
//!
//! What is compared was measured in the same round, so the ratio is taken there, and the median of the rounds' ratios is
//! what counts. Where one of the two figures is missing there is no ratio.

use crate::rounds::{Cell, Rounds};

/// The units with which metrics end.
const UNITS: [&str; 5] = ["_us", "_ms", "_ns", "_mbit", "_per_s"];

/// The name of a ratio: without the unit, which cancels out.
#[must_use]
pub fn name(metric: &str, over: &str) -> String {
    let bare = UNITS.iter().find_map(|unit| metric.strip_suffix(unit)).unwrap_or(metric);
    format!("{bare}_over_{}", over.replace('-', "_"))
}

impl Rounds {
    /// Adds a figure to a cell: its metric over that of another cell.
    pub fn ratio(&mut self, cell: usize, metric: &str, over: &Cell, name: &str) {
        let own = self.cells()[cell].clone();
        self.derive(cell, name, |round| {
            Some(round.value(&own.case, &own.system, metric)? / round.value(&over.case, &over.system, metric)?)
        });
    }

    /// Adds to all systems of a case their metric over that of one of them.
    pub fn ratios(&mut self, metric: &str, over: &str) {
        for at in 0..self.cells().len() {
            let other = Cell::new(&self.cells()[at].case, over);
            if self.cells()[at] != other {
                self.ratio(at, metric, &other, &name(metric, over));
            }
        }
    }

    /// Adds to all systems of a case all that they showed over the same of one of them.
    pub fn all_ratios(&mut self, over: &str) {
        self.metrics().iter().for_each(|metric| self.ratios(metric, over));
    }
}

/// The mean of ratios, by which halves and doubles cancel out; not a number if there are none.
#[must_use]
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Results;
    use crate::rounds::Figures;

    fn results(rounds: &[(Option<f64>, f64)]) -> Results {
        let mut all = Rounds::new(Cell::of_case("put", &["greenwave", "etcd"]));
        for (round, (own, other)) in rounds.iter().enumerate() {
            all.add(round, 0, own.map(|own| ("p99_us".to_owned(), own)).into_iter().collect());
            all.add(round, 1, Figures::from([("p99_us".to_owned(), *other)]));
        }
        all.ratios("p99_us", "etcd");
        let mut results = Results::new("t");
        all.push(&mut results, |_| false);
        results
    }

    #[test]
    fn ratios_are_taken_within_rounds_before_their_median_is() {
        let found = results(&[(Some(10.0), 100.0), (Some(10.0), 50.0), (Some(1.0), 20.0)]);
        let value = |system, metric| found.value("put", system, metric);
        assert_eq!((value("greenwave", "p99_us"), value("greenwave", "p99_over_etcd")), (Some(10.0), Some(0.1)));
        assert_eq!(value("etcd", "p99_over_etcd"), None);
    }

    #[test]
    fn without_both_figures_there_is_no_ratio() {
        let found = results(&[(Some(10.0), 100.0), (None, 50.0)]);
        assert_eq!(found.value("put", "greenwave", "p99_over_etcd"), None);
    }

    #[test]
    fn ratios_have_no_units_in_their_names() {
        assert_eq!(name("neighbour_work_per_s", "beside"), "neighbour_work_over_beside");
        assert_eq!(name("p50_us", "raw-tcp"), "p50_over_raw_tcp");
        assert_eq!(name("missed_share", "fifo"), "missed_share_over_fifo");
    }

    #[test]
    fn the_geometric_mean_of_halves_and_doubles_is_one() {
        assert!((geometric_mean(&[0.5, 2.0, 1.0]) - 1.0).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }
}
