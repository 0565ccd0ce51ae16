//! The line that fits points best (Phoenix `linear_regression`).

use crate::{Job, Scale, checksum};

const POINTS: usize = 80_000_000;

/// Coordinates of one byte each, as in the original.
type Point = [i8; 2];

#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    slope: f64,
    at_zero: f64,
    /// How much of the variance it explains.
    fit: f64,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(3);
    let points: Vec<Point> = (0..scale.of(POINTS))
        .map(|_| {
            let bytes = random.u32(..);
            let x = bytes as i8;
            [x, x / 2 + ((bytes >> 8) as i8) / 4]
        })
        .collect();
    Box::new(move || {
        let Line { slope, at_zero, fit } = fit(&points);
        checksum([slope, at_zero, fit].map(f64::to_bits))
    })
}

fn fit(points: &[Point]) -> Line {
    let (mut sx, mut sxx, mut sy, mut syy, mut sxy) = (0_i64, 0_i64, 0_i64, 0_i64, 0_i64);
    for &[x, y] in points {
        let (x, y) = (i64::from(x), i64::from(y));
        sx += x;
        sxx += x * x;
        sy += y;
        syy += y * y;
        sxy += x * y;
    }
    let n = points.len() as f64;
    let [sx, sxx, sy, syy, sxy] = [sx, sxx, sy, syy, sxy].map(|sum| sum as f64);
    let slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
    let at_zero = (sy - slope * sx) / n;
    let fit = (n * sxy - sx * sy).powi(2) / ((n * sxx - sx * sx) * (n * syy - sy * sy));
    Line { slope, at_zero, fit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line() {
        let points: Vec<Point> = (-20..20).map(|x| [x, 3 * x - 7]).collect();
        assert_eq!(fit(&points), Line { slope: 3.0, at_zero: -7.0, fit: 1.0 });
    }

    #[test]
    fn no_other_line_is_nearer_to_scattered_points() {
        let points: Vec<Point> = (0..100).map(|x: i8| [x, (x / 3).wrapping_add(x.wrapping_mul(57) / 8)]).collect();
        let error = |slope: f64, at_zero: f64| -> f64 {
            points.iter().map(|&[x, y]| (f64::from(y) - slope * f64::from(x) - at_zero).powi(2)).sum()
        };
        let Line { slope, at_zero, .. } = fit(&points);
        for (by, up) in [(0.01, 0.0), (-0.01, 0.0), (0.0, 0.1), (0.0, -0.1), (0.01, -0.5)] {
            assert!(error(slope + by, at_zero + up) > error(slope, at_zero));
        }
    }
}
