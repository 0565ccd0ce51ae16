//! What systems are compared by, within each round.

use std::collections::BTreeMap;

use crate::case::Case;
use crate::cell::Figures;
use crate::system::System;

/// What the systems showed in a round.
pub(crate) type Round = BTreeMap<&'static str, Figures>;

/// How a ratio is made.
struct Ratio {
    name: &'static str,
    /// The systems that it takes beside its own: all of them, or if there are none any.
    others: &'static [System],
    of: fn(&Round, own: &str, case: Option<Case>) -> Option<f64>,
}

const RATIOS: [Ratio; 6] = [
    Ratio {
        name: "saturated_over_fcfs",
        others: &[System::Fcfs],
        of: |round, own, _| over(round, own, System::Fcfs, "saturated_per_s"),
    },
    Ratio {
        name: "p99_over_fcfs",
        others: &[System::Fcfs],
        of: |round, own, _| over(round, own, System::Fcfs, "p99_us"),
    },
    Ratio {
        name: "short_p99_over_fcfs",
        others: &[System::Fcfs],
        of: |round, own, case| of_quantiles(round, own, System::Fcfs, shortest(case?)?, "p99_us"),
    },
    Ratio {
        name: "long_p999_over_ps_5us",
        others: &[System::Sharing5],
        of: |round, own, case| of_quantiles(round, own, System::Sharing5, longest(case?)?, "p999_us"),
    },
    Ratio {
        name: "missed_points_over_deadline_orders",
        others: &[System::LeastLaxity, System::Edf],
        of: |round, own, _| {
            let missed = |system: &str| Some(100.0 * value(round, system, "missed_share")?);
            let best = missed(System::LeastLaxity.name())?.min(missed(System::Edf.name())?);
            Some(missed(own)? - best)
        },
    },
    Ratio {
        name: "goodput_over_best",
        others: &[],
        of: |round, own, case| {
            case.filter(|case| case.is_overload())?;
            let others = round.keys().filter(|system| **system != own);
            let best = others.filter_map(|system| value(round, system, "goodput_per_s")).reduce(f64::max)?;
            Some(value(round, own, "goodput_per_s")? / best)
        },
    },
];

/// Adds to each system's figures those that compare it with others.
pub(crate) fn add(round: &mut Round, case: Option<Case>) {
    let systems: Vec<&'static str> = round.keys().copied().collect();
    for system in systems {
        for ratio in &RATIOS {
            let found = (ratio.of)(round, system, case);
            if let Some((found, figures)) = found.zip(round.get_mut(system)) {
                figures.insert(ratio.name.to_owned(), found);
            }
        }
    }
}

/// Whether these systems are all that it takes.
pub(crate) fn can_be_had(ratio: &str, system: &str, systems: &[System]) -> bool {
    let others = RATIOS.iter().find(|one| one.name == ratio).map_or(&[][..], |one| one.others);
    let all = if others.is_empty() { &System::ALL[..] } else { others };
    systems.iter().any(|one| one.name() == system) && all.iter().all(|other| systems.contains(other))
}

fn value(round: &Round, system: &str, metric: &str) -> Option<f64> {
    round.get(system)?.get(metric).copied()
}

fn over(round: &Round, own: &str, other: System, metric: &str) -> Option<f64> {
    Some(value(round, own, metric)? / value(round, other.name(), metric)?)
}

/// Of a quantile of a class. One that falls on calls that were never answered is longer than any other; where both do, who
/// has missed no more than the other has waited no longer.
fn of_quantiles(round: &Round, own: &str, other: System, class: &str, quantile: &str) -> Option<f64> {
    let of = |system, metric| value(round, system, &format!("{class}/{metric}"));
    let missed = |system| of(system, "missed_share");
    match (of(own, quantile), of(other.name(), quantile)) {
        (Some(own), Some(other)) => Some(own / other),
        (Some(_), None) => missed(other.name()).map(|_| 0.0),
        (None, Some(_)) => None,
        (None, None) => (missed(own)? <= missed(other.name())?).then_some(1.0),
    }
}

fn shortest(case: Case) -> Option<&'static str> {
    case.mix.workload().classes().first().map(|class| class.name)
}

fn longest(case: Case) -> Option<&'static str> {
    case.mix.workload().classes().last().map(|class| class.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Deadlines, Mix};

    fn round(figures: &[(System, &str, f64)]) -> Round {
        let mut round = Round::new();
        for (system, metric, value) in figures {
            round.entry(system.name()).or_default().insert((*metric).to_owned(), *value);
        }
        round
    }

    fn case(load: f64) -> Option<Case> {
        Some(Case { mix: Mix::Kv, deadlines: Deadlines::None, load })
    }

    #[test]
    fn short_calls_are_compared_with_those_of_fcfs_and_long_ones_with_those_of_sharing() {
        let mut round = round(&[
            (System::Fcfs, "get/p99_us", 100.0),
            (System::Default, "get/p99_us", 7.0),
            (System::Default, "scan/p999_us", 9.0),
            (System::Sharing5, "scan/p999_us", 3.0),
        ]);
        add(&mut round, case(0.7));
        assert_eq!(value(&round, "default", "short_p99_over_fcfs"), Some(0.07));
        assert_eq!(value(&round, "default", "long_p999_over_ps_5us"), Some(3.0));
        assert_eq!(value(&round, "default", "goodput_over_best"), None);
    }

    #[test]
    fn a_quantile_that_there_is_not_is_longer_than_any() {
        let (of_get, missed) = ("get/p99_us", "get/missed_share");
        let mut answered = round(&[(System::Default, of_get, 7.0), (System::Fcfs, missed, 0.02)]);
        add(&mut answered, case(0.7));
        assert_eq!(value(&answered, "default", "short_p99_over_fcfs"), Some(0.0));
        assert_eq!(value(&answered, "fcfs", "short_p99_over_fcfs"), Some(1.0));
        for (own, ratio) in [(0.01, Some(1.0)), (0.03, None)] {
            let mut neither = round(&[(System::Default, missed, own), (System::Fcfs, missed, 0.02)]);
            add(&mut neither, case(0.7));
            assert_eq!(value(&neither, "default", "short_p99_over_fcfs"), ratio);
        }
    }

    #[test]
    fn misses_are_compared_with_the_better_order_by_deadlines_in_points() {
        let shares = [(System::Default, 0.03), (System::LeastLaxity, 0.02), (System::Edf, 0.01)];
        let mut round = round(&shares.map(|(system, share)| (system, "missed_share", share)));
        add(&mut round, case(0.9));
        let points = value(&round, "default", "missed_points_over_deadline_orders");
        assert!(points.is_some_and(|points| (points - 2.0).abs() < 1e-9), "{points:?}");
    }

    #[test]
    fn goodput_is_compared_with_the_best_of_the_others_above_capacity() {
        let rates = [(System::Default, 90.0), (System::Edf, 100.0), (System::Tonic, 20.0)];
        let mut round = round(&rates.map(|(system, rate)| (system, "goodput_per_s", rate)));
        add(&mut round, case(1.2));
        assert_eq!(value(&round, "default", "goodput_over_best"), Some(0.9));
        assert_eq!(value(&round, "edf", "goodput_over_best"), Some(100.0 / 90.0));
    }
}
