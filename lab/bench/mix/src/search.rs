//! The load up to which a system serves well.
//!
//! Some loads were measured anyway. The search goes on between the highest up to which all were served well and the next
//! one, by halving; what lies between two loads that were measured is taken to behave as loads do: the more, the worse.

/// A bound for a figure.
pub(crate) type Limit = f64;

/// The highest load at which `figure` stays within `limit`, found by `halvings` further measurements; 0 if there is none.
///
/// # Errors
/// What `measure` reports.
pub(crate) fn highest<E>(
    measured: &[(f64, f64)],
    limit: Limit,
    halvings: usize,
    mut measure: impl FnMut(f64) -> Result<f64, E>,
) -> Result<f64, E> {
    let (mut good, mut bad) = bounds(measured, limit);
    for _ in 0..halvings {
        let Some(above) = bad else { return Ok(good) };
        let middle = f64::midpoint(good, above);
        if measure(middle)? <= limit {
            good = middle;
        } else {
            bad = Some(middle);
        }
    }
    Ok(good)
}

/// The highest load up to which all were good, and the first that wasn't.
fn bounds(measured: &[(f64, f64)], limit: Limit) -> (f64, Option<f64>) {
    let mut sorted = measured.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let bad = sorted.iter().position(|(_, figure)| *figure > limit || figure.is_nan());
    let good = sorted[..bad.unwrap_or(sorted.len())].last().map_or(0.0, |(load, _)| *load);
    (good, bad.map(|bad| sorted[bad].0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn search(measured: &[(f64, f64)], halvings: usize) -> (f64, Vec<f64>) {
        let mut tried = Vec::new();
        let found = highest(measured, 10.0, halvings, |load| {
            tried.push(load);
            Ok::<_, Infallible>(1.0 / (1.0 - load))
        });
        (found.unwrap(), tried)
    }

    #[test]
    fn it_halves_between_the_last_good_load_and_the_first_bad_one() {
        let (found, tried) = search(&[(0.7, 3.3), (0.5, 2.0), (0.95, 20.0)], 2);
        assert_eq!(tried, [0.825, f64::midpoint(0.825, 0.95)]);
        assert!((found - 0.8875).abs() < 1e-9);
    }

    #[test]
    fn a_good_load_above_a_bad_one_was_luck() {
        assert_eq!(search(&[(0.3, 1.0), (0.5, 11.0), (0.7, 3.0)], 0).0, 0.3);
    }

    #[test]
    fn where_all_are_good_the_highest_that_was_measured_is_the_answer() {
        assert_eq!(search(&[(0.3, 1.0), (0.9, 9.0)], 3), (0.9, vec![]));
    }

    #[test]
    fn where_none_is_good_it_looks_below() {
        assert_eq!(search(&[(0.96, 25.0)], 1).1, [0.48]);
    }
}
