//! Systems in turns.
//!
//! What disturbs a machine (its neighbours, its clock rate) changes from minute to minute. So systems don't run one
//! after another, but in rounds that each begin with another one, and the median of the rounds counts. Ratios are taken
//! [within each round](crate::ratios), and then their median.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::Results;

/// What one measurement showed, by the names of the metrics, which say the unit. Infinite is what took longer than could
/// be waited for; what wasn't measured isn't there.
pub type Figures = BTreeMap<String, f64>;

/// Figures under their names, without those that are no numbers.
pub fn figures<N: Into<String>>(named: impl IntoIterator<Item = (N, f64)>) -> Figures {
    named.into_iter().filter(|(_, value)| !value.is_nan()).map(|(name, value)| (name.into(), value)).collect()
}

/// What is measured: a case and a system, by the names that results have for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What is done.
    pub case: String,
    /// By whom.
    pub system: String,
}

impl Cell {
    /// The cell of a case and a system.
    pub fn new(case: impl Into<String>, system: impl Into<String>) -> Self {
        Self { case: case.into(), system: system.into() }
    }

    /// A cell for each system, all of one case.
    pub fn of_case(case: &str, systems: &[impl AsRef<str>]) -> Vec<Self> {
        systems.iter().map(|system| Self::new(case, system.as_ref())).collect()
    }
}

/// What rounds showed of some cells.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    cells: Vec<Cell>,
    /// For each round and cell; `None` where it couldn't be measured.
    rounds: Vec<Vec<Option<Figures>>>,
}

/// What one round showed.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    cells: &'a [Cell],
    figures: &'a [Option<Figures>],
}

impl Round<'_> {
    /// A figure; `None` if it wasn't measured.
    #[must_use]
    pub fn value(&self, case: &str, system: &str, metric: &str) -> Option<f64> {
        let at = self.cells.iter().position(|cell| cell.case == case && cell.system == system)?;
        self.figures[at].as_ref()?.get(metric).copied()
    }
}

/// The indices of so many things in the order of a round: each round begins with another one, so that none always
/// follows the same one.
pub fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |nth| (nth + round) % count)
}

impl Rounds {
    /// No round yet.
    #[must_use]
    pub fn new(cells: Vec<Cell>) -> Self {
        Self { cells, rounds: Vec::new() }
    }

    /// The cells.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Adds what a round showed of a cell.
    pub fn add(&mut self, round: usize, cell: usize, figures: Figures) {
        if self.rounds.len() <= round {
            self.rounds.resize(round + 1, vec![None; self.cells.len()]);
        }
        self.rounds[round][cell] = Some(figures);
    }

    /// Adds to the figures of a cell what `of` makes of each round, where it makes a number of it.
    pub fn derive(&mut self, cell: usize, metric: &str, of: impl Fn(Round<'_>) -> Option<f64>) {
        for figures in &mut self.rounds {
            let found = of(Round { cells: &self.cells, figures }).filter(|value| !value.is_nan());
            if let Some((found, figures)) = found.zip(figures[cell].as_mut()) {
                figures.insert(metric.to_owned(), found);
            }
        }
    }

    /// The metrics that any cell has.
    #[must_use]
    pub fn metrics(&self) -> BTreeSet<String> {
        self.rounds.iter().flatten().flatten().flat_map(Figures::keys).cloned().collect()
    }

    /// The values of a metric in all rounds in which the cell was measured; none if the metric is missing in one of them.
    #[must_use]
    pub fn values(&self, cell: usize, metric: &str) -> Vec<f64> {
        let values = self.rounds.iter().filter_map(|round| round[cell].as_ref()).map(|it| it.get(metric).copied());
        values.collect::<Option<_>>().unwrap_or_default()
    }

    /// Adds the medians to the results, and of the metrics for which `has_range` the least and the most, if there are
    /// several rounds.
    pub fn push(&self, results: &mut Results, has_range: impl Fn(&str) -> bool) {
        for (at, Cell { case, system }) in self.cells.iter().enumerate() {
            let first = self.rounds.iter().find_map(|round| round[at].as_ref());
            for metric in first.into_iter().flat_map(Figures::keys) {
                let values = self.values(at, metric);
                results.push(case, system, metric.as_str(), median(&values));
                if values.len() > 1 && has_range(metric) {
                    let (least, most) = range(&values);
                    results.push(case, system, format!("{metric}_min"), least);
                    results.push(case, system, format!("{metric}_max"), most);
                }
            }
        }
    }
}

/// The middle one of some values, or the mean of the middle two; not a number if there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The values between which the median of all that could be measured lies, at 95 % confidence, given up to
/// 1000 of them: two of them in order, by the binomial distribution. Of less than six values it's the [range].
#[must_use]
pub fn median_interval(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // How likely it is that exactly `below` of them are below the median, and that so many or less are.
    let count = sorted.len();
    let (mut below, mut likely, mut total) = (0, 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX)), 0.0);
    while below < count / 2 && total + likely <= 0.025 {
        total += likely;
        likely *= (count - below) as f64 / (below + 1) as f64;
        below += 1;
    }
    match below.checked_sub(1) {
        Some(at) => (sorted[at], sorted[count - 1 - at]),
        None => range(values),
    }
}

/// The least and the most of some values; infinite if there are none.
#[must_use]
pub fn range(values: &[f64]) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.iter().fold(ends, |(least, most), value| (least.min(*value), most.max(*value)))
}

/// Measures until `disturbance` is no more than `limit`, so many times at most; the least disturbed counts.
///
/// # Errors
/// Those of `measure`.
pub fn calmest<T>(
    tries: usize,
    limit: f64,
    disturbance: impl Fn(&T) -> f64,
    mut measure: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut best = measure()?;
    for _ in 1..tries {
        if disturbance(&best) <= limit {
            break;
        }
        let next = measure()?;
        if disturbance(&next) < disturbance(&best) {
            best = next;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(values: &[[Option<f64>; 2]]) -> Rounds {
        let mut rounds = Rounds::new(Cell::of_case("case", &["one", "other"]));
        for (round, cells) in values.iter().enumerate() {
            for (cell, value) in cells.iter().enumerate() {
                rounds.add(round, cell, value.map(|value| ("p50_us".to_owned(), value)).into_iter().collect());
            }
        }
        rounds
    }

    fn results(rounds: &Rounds) -> Results {
        let mut results = Results::new("t");
        rounds.push(&mut results, |metric| metric == "p50_us");
        results
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_tables() {
        let ranks = |count: u32| {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            median_interval(&values)
        };
        assert_eq!([5, 6, 9, 15, 24].map(ranks), [(1.0, 5.0), (1.0, 6.0), (2.0, 8.0), (4.0, 12.0), (7.0, 18.0)]);
        assert_eq!(median_interval(&[2.0]), (2.0, 2.0));
    }

    #[test]
    fn each_round_begins_with_another_and_leaves_none_out() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| order(round, 3).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(order(5, 0).count(), 0);
    }

    #[test]
    fn medians_and_ranges_are_those_of_the_rounds() {
        let found = results(&rounds(&[[Some(3.0), None], [Some(1.0), None], [Some(2.0), None]]));
        let value = |metric| found.value("case", "one", metric);
        assert_eq!([value("p50_us"), value("p50_us_min"), value("p50_us_max")], [Some(2.0), Some(1.0), Some(3.0)]);
        let found = results(&rounds(&[[Some(3.0), None]]));
        assert_eq!((found.value("case", "one", "p50_us"), found.value("case", "one", "p50_us_min")), (Some(3.0), None));
    }

    #[test]
    fn what_is_missing_in_one_round_is_not_measured() {
        let found = results(&rounds(&[[Some(1.0), Some(1.0)], [Some(1.0), None], [Some(1.0), Some(1.0)]]));
        assert_eq!((found.value("case", "one", "p50_us"), found.value("case", "other", "p50_us")), (Some(1.0), None));
    }

    #[test]
    fn a_round_in_which_a_cell_failed_leaves_it_the_others() {
        let mut rounds = rounds(&[[Some(1.0), Some(2.0)]]);
        rounds.add(1, 0, Figures::from([("p50_us".to_owned(), 3.0)]));
        assert_eq!((rounds.values(0, "p50_us"), rounds.values(1, "p50_us")), (vec![1.0, 3.0], vec![2.0]));
    }

    #[test]
    fn what_took_longer_than_was_waited_is_longer_than_the_median_and_no_figure_by_itself() {
        let endless = Some(f64::INFINITY);
        let found = results(&rounds(&[[Some(1.0), endless], [Some(2.0), endless], [endless, Some(1.0)]]));
        assert_eq!((found.value("case", "one", "p50_us"), found.value("case", "other", "p50_us")), (Some(2.0), None));
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_middle_two() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_least_disturbed_counts_and_the_first_that_is_calm_is_the_last() {
        let mut next = [9.0, 3.0, 5.0, 1.0, 0.0].into_iter();
        let mut measure = || Ok(next.next().unwrap());
        assert_eq!(calmest(3, 2.0, |it| *it, &mut measure).unwrap(), 3.0);
        assert_eq!(calmest(3, 2.0, |it| *it, &mut measure).unwrap(), 1.0);
        assert_eq!(next.next(), Some(0.0));
    }
}
