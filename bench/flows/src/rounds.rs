//! All systems of a case in turns.
//!
//! What disturbs a machine changes from minute to minute. So systems take turns, in rounds that each begin with another
//! one, and the median of the rounds counts; the least and the most are in the results as well. Ratios are taken within
//! each round, and then their median.

use greenwave_bench::capacity::median;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::bench::{Bench, Case, Length};
use crate::role::Figures;

/// Metrics whose least and most are told too.
const SPREAD: [&str; 4] = ["p50_us", "p99_us", "p999_us", "bulk_mbit"];

/// A run in which a request was sent so late, since others had the processor, is done once more, and the less late one
/// counts; not in quick runs. How late it was is in the results (`max_send_lag_us`).
const TOO_LATE_US: f64 = 5000.0;

/// What one round showed of each system.
type Round = Vec<Figures>;

/// Measures a case.
///
/// # Errors
/// Those of the case.
pub fn measure(
    case: &dyn Case,
    bench: &Bench,
    systems: &[&str],
    length: Length,
    progress: &mut Progress,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut rounds: Vec<Round> = Vec::new();
    for round in 0..length.rounds {
        let mut figures = vec![Figures::new(); systems.len()];
        for turn in 0..systems.len() {
            let index = (turn + round) % systems.len();
            progress.step(format!("{}: round {}, {}", case.name(), round + 1, systems[index]));
            figures[index] = case.run(bench, systems[index], length.time)?;
            // What was asked so late says little of the network. That is judged by the lateness alone, not by what came.
            if length.rounds > 1 && lag_us(&figures[index]) > TOO_LATE_US {
                let again = case.run(bench, systems[index], length.time)?;
                if lag_us(&again) < lag_us(&figures[index]) {
                    figures[index] = again;
                }
            }
        }
        rounds.push(figures);
    }
    push(case, systems, &rounds, results);
    Ok(())
}

fn lag_us(figures: &Figures) -> f64 {
    figures.get("max_send_lag_us").copied().unwrap_or(0.0)
}

/// The name of a ratio's row: without the units, which cancel out.
pub(crate) fn ratio_name(of: &str, over: &str) -> String {
    let units = ["_us", "_ns", "_mbit", "_per_s"];
    let bare = units.iter().find_map(|unit| of.strip_suffix(unit)).unwrap_or(of);
    format!("{bare}_over_{}", over.replace('-', "_"))
}

fn push(case: &dyn Case, systems: &[&str], rounds: &[Round], results: &mut Results) {
    for (index, system) in systems.iter().enumerate() {
        let metrics = rounds.first().map(|round| round[index].keys()).into_iter().flatten();
        for metric in metrics {
            let values: Vec<f64> = rounds.iter().filter_map(|round| round[index].get(metric).copied()).collect();
            results.push(case.name(), system, metric.as_str(), median(&values));
            if rounds.len() > 1 && SPREAD.contains(&metric.as_str()) {
                let (least, most) = (f64::min, f64::max);
                results.push(
                    case.name(),
                    system,
                    format!("{metric}_min"),
                    values.iter().copied().fold(f64::INFINITY, least),
                );
                results.push(case.name(), system, format!("{metric}_max"), values.iter().copied().fold(0.0, most));
            }
        }
        for (metric, over) in case.ratios() {
            let Some(other) = systems.iter().position(|it| it == over).filter(|other| *other != index) else {
                continue;
            };
            let ratio = |round: &Round| Some(round[index].get(*metric)? / round[other].get(*metric)?);
            let values: Vec<f64> = rounds.iter().filter_map(ratio).collect();
            if !values.is_empty() {
                results.push(case.name(), system, ratio_name(metric, over), median(&values));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use greenwave_bench::machine::Machine;

    fn results(rounds: &[[(f64, f64); 2]]) -> Results {
        let cases = cases::all();
        let case = cases.iter().find(|case| case.name() == "switch-queue").expect("there is one");
        let figures =
            |&(p50, bulk): &(f64, f64)| Figures::from([("p50_us".to_owned(), p50), ("bulk_mbit".to_owned(), bulk)]);
        let rounds: Vec<Round> = rounds.iter().map(|round| round.iter().map(figures).collect()).collect();
        let mut results = Results::new("flows");
        results.machine = Machine::default();
        push(case.as_ref(), &["fifo", "greenwave"], &rounds, &mut results);
        results
    }

    #[test]
    fn ratios_are_taken_within_rounds_before_their_median_is() {
        let found = results(&[[(100.0, 1.0), (10.0, 1.0)], [(50.0, 1.0), (10.0, 1.0)], [(20.0, 1.0), (1.0, 0.5)]]);
        let value = |metric| found.value("switch-queue", "greenwave", metric);
        assert_eq!(value("p50_us"), Some(10.0));
        assert_eq!((value("p50_us_min"), value("p50_us_max")), (Some(1.0), Some(10.0)));
        assert_eq!(value("p50_over_fifo"), Some(0.1));
        assert_eq!(value("bulk_over_fifo"), Some(1.0));
        assert_eq!(found.value("switch-queue", "fifo", "p50_over_fifo"), None);
    }

    #[test]
    fn ratios_have_no_units_in_their_names() {
        assert_eq!(ratio_name("neighbour_work_per_s", "beside"), "neighbour_work_over_beside");
        assert_eq!(ratio_name("p50_us", "raw-tcp"), "p50_over_raw_tcp");
    }
}
