//! What systems are compared by, within each round.

use greenwave_bench::rounds::{Round, Rounds};

use crate::case::Case;

/// How a ratio is made of a round, for a system in a case.
type Ratio = (&'static str, fn(&Of<'_>) -> Option<f64>);

const RATIOS: [Ratio; 6] = [
    ("saturated_over_fcfs", |of| of.over("fcfs", "saturated_per_s")),
    ("p99_over_fcfs", |of| of.over("fcfs", "p99_us")),
    ("short_p99_over_fcfs", |of| of.quantile_over("fcfs", of.classes()?.first()?, "p99_us")),
    ("long_p999_over_ps_5us", |of| of.quantile_over("ps-5us", of.classes()?.last()?, "p999_us")),
    ("missed_points_over_deadline_orders", |of| {
        let missed = |system| Some(100.0 * of.value(system, "missed_share")?);
        Some(missed(of.own)? - missed("least-laxity")?.min(missed("edf")?))
    }),
    ("goodput_over_best", |of| {
        of.case.filter(|case| case.is_overload())?;
        let others = of.systems.iter().filter(|system| *system != of.own);
        let best = others.filter_map(|system| of.value(system, "goodput_per_s")).reduce(f64::max)?;
        Some(of.value(of.own, "goodput_per_s")? / best)
    }),
];

/// Adds to each system's figures those that compare it with others. There is no case where all is saturated.
pub(crate) fn add(rounds: &mut Rounds, case: Option<Case>) {
    let cells = rounds.cells().to_vec();
    let systems: Vec<String> = cells.iter().map(|cell| cell.system.clone()).collect();
    for (at, cell) in cells.iter().enumerate() {
        for (name, ratio) in RATIOS {
            rounds.derive(at, name, |round| {
                ratio(&Of { round, case_name: &cell.case, case, own: &cell.system, systems: &systems })
            });
        }
    }
}

/// Adds under this name how long the shortest class's p99.9 is, over that of another system.
pub(crate) fn add_short(rounds: &mut Rounds, case: Case, over: &str, name: &str) {
    let cells = rounds.cells().to_vec();
    let systems: Vec<String> = cells.iter().map(|cell| cell.system.clone()).collect();
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.system != over) {
        rounds.derive(at, name, |round| {
            let of = Of { round, case_name: &cell.case, case: Some(case), own: &cell.system, systems: &systems };
            of.quantile_over(over, of.classes()?.first()?, "p999_us")
        });
    }
}

struct Of<'a> {
    round: Round<'a>,
    case_name: &'a str,
    case: Option<Case>,
    own: &'a str,
    systems: &'a [String],
}

impl Of<'_> {
    fn value(&self, system: &str, metric: &str) -> Option<f64> {
        self.round.value(self.case_name, system, metric)
    }

    fn over(&self, other: &str, metric: &str) -> Option<f64> {
        Some(self.value(self.own, metric)? / self.value(other, metric)?)
    }

    /// Of a quantile of a class. One that falls on calls that were never answered is longer than any other; where both do,
    /// who has missed no more than the other has waited no longer. So a round in which it can't be said how much longer is
    /// one of the worst, and the median of all rounds is known if it is none of these.
    fn quantile_over(&self, other: &str, class: &str, quantile: &str) -> Option<f64> {
        let of = |system, metric| self.value(system, &format!("{class}/{metric}"));
        let missed = |system| of(system, "missed_share");
        match (of(self.own, quantile), of(other, quantile)) {
            (Some(own), Some(other)) => Some(own / other),
            (Some(_), None) => missed(other).map(|_| 0.0),
            (None, Some(_)) => missed(self.own).map(|_| f64::INFINITY),
            (None, None) => Some(if missed(self.own)? <= missed(other)? { 1.0 } else { f64::INFINITY }),
        }
    }

    /// The classes of the case, the shortest first.
    fn classes(&self) -> Option<Vec<&'static str>> {
        Some(self.case?.mix.workload.classes().iter().map(|class| class.name).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Deadlines;
    use greenwave_bench::rounds::{Cell, Figures};
    use std::collections::BTreeMap;

    fn round(figures: &[(&str, &str, f64)]) -> Rounds {
        let mut systems: BTreeMap<&str, Figures> = BTreeMap::new();
        for (system, metric, value) in figures {
            systems.entry(system).or_default().insert((*metric).to_owned(), *value);
        }
        let mut rounds = Rounds::new(Cell::of_case("case", &systems.keys().collect::<Vec<_>>()));
        systems.into_values().enumerate().for_each(|(at, figures)| rounds.add(0, at, figures));
        rounds
    }

    fn value(rounds: &Rounds, system: &str, metric: &str) -> Option<f64> {
        let at = rounds.cells().iter().position(|cell| cell.system == system)?;
        rounds.values(at, metric).first().copied()
    }

    fn case(load: f64) -> Option<Case> {
        let mix = "kv".parse().expect("there is one");
        Some(Case { mix, deadlines: Deadlines::None, load })
    }

    #[test]
    fn short_calls_are_compared_with_those_of_fcfs_and_long_ones_with_those_of_sharing() {
        let mut round = round(&[
            ("fcfs", "get/p99_us", 100.0),
            ("default", "get/p99_us", 7.0),
            ("default", "scan/p999_us", 9.0),
            ("ps-5us", "scan/p999_us", 3.0),
        ]);
        add(&mut round, case(0.7));
        assert_eq!(value(&round, "default", "short_p99_over_fcfs"), Some(0.07));
        assert_eq!(value(&round, "default", "long_p999_over_ps_5us"), Some(3.0));
        assert_eq!(value(&round, "default", "goodput_over_best"), None);
    }

    #[test]
    fn a_quantile_that_there_is_not_is_longer_than_any() {
        let (of_get, missed) = ("get/p99_us", "get/missed_share");
        let mut answered = round(&[("default", of_get, 7.0), ("fcfs", missed, 0.02)]);
        add(&mut answered, case(0.7));
        assert_eq!(value(&answered, "default", "short_p99_over_fcfs"), Some(0.0));
        assert_eq!(value(&answered, "fcfs", "short_p99_over_fcfs"), Some(1.0));
        let mut unanswered = round(&[("default", missed, 0.02), ("fcfs", of_get, 7.0)]);
        add(&mut unanswered, case(0.7));
        assert_eq!(value(&unanswered, "default", "short_p99_over_fcfs"), Some(f64::INFINITY));
        let mut unmeasured = round(&[("default", "p50_us", 1.0), ("fcfs", of_get, 7.0)]);
        add(&mut unmeasured, case(0.7));
        assert_eq!(value(&unmeasured, "default", "short_p99_over_fcfs"), None);
        for (own, ratio) in [(0.01, 1.0), (0.03, f64::INFINITY)] {
            let mut neither = round(&[("default", missed, own), ("fcfs", missed, 0.02)]);
            add(&mut neither, case(0.7));
            assert_eq!(value(&neither, "default", "short_p99_over_fcfs"), Some(ratio));
        }
    }

    #[test]
    fn misses_are_compared_with_the_better_order_by_deadlines_in_points() {
        let shares = [("default", 0.03), ("least-laxity", 0.02), ("edf", 0.01)];
        let mut round = round(&shares.map(|(system, share)| (system, "missed_share", share)));
        add(&mut round, case(0.9));
        let points = value(&round, "default", "missed_points_over_deadline_orders");
        assert!(points.is_some_and(|points| (points - 2.0).abs() < 1e-9), "{points:?}");
    }

    #[test]
    fn goodput_is_compared_with_the_best_of_the_others_above_capacity() {
        let rates = [("default", 90.0), ("edf", 100.0), ("tonic", 20.0)];
        let mut round = round(&rates.map(|(system, rate)| (system, "goodput_per_s", rate)));
        add(&mut round, case(1.2));
        assert_eq!(value(&round, "default", "goodput_over_best"), Some(0.9));
        assert_eq!(value(&round, "edf", "goodput_over_best"), Some(100.0 / 90.0));
    }
}
