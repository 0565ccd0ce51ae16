//! A Fourier transform in six steps, so that all work happens on rows (SPLASH-2 `fft`).
//!
//! The n = m^2 points are a matrix of m rows: transpose, transform the rows, turn each element by a root of one,
//! transpose, transform the rows, transpose.

use std::f64::consts::PI;
use std::ops::{Add, Mul, Sub};

use crate::{Job, Scale, checksum};

const SIDE: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    /// The root of one at this share of the circle.
    fn root(share: f64) -> Self {
        let (im, re) = (-2.0 * PI * share).sin_cos();
        Self { re, im }
    }
}

impl Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// What all transforms of one size share.
struct Plan {
    side: usize,
    /// Roots of one of order `side`, the first half.
    row: Vec<Complex>,
    /// Roots of one of order `side` squared, by row and column.
    whole: Vec<Complex>,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let side = scale.side(SIDE, 2).next_power_of_two();
    let mut random = fastrand::Rng::with_seed(11);
    let points: Vec<_> = (0..side * side).map(|_| Complex { re: random.f64(), im: random.f64() }).collect();
    let plan = Plan::new(side);
    Box::new(move || {
        let transformed = plan.transform(points.clone());
        checksum(transformed.iter().flat_map(|point| [point.re, point.im]).map(f64::to_bits))
    })
}

impl Plan {
    fn new(side: usize) -> Self {
        let order = (side * side) as f64;
        let row = (0..side / 2).map(|k| Complex::root(k as f64 / side as f64)).collect();
        let whole = (0..side * side).map(|at| Complex::root((at / side * (at % side)) as f64 / order)).collect();
        Self { side, row, whole }
    }

    fn transform(&self, points: Vec<Complex>) -> Vec<Complex> {
        let mut turned = self.transposed(&points);
        let mut points = points;
        for (row, roots) in turned.chunks_mut(self.side).zip(self.whole.chunks(self.side)) {
            self.transform_row(row);
            for (point, &root) in row.iter_mut().zip(roots) {
                *point = *point * root;
            }
        }
        self.transpose(&turned, &mut points);
        for row in points.chunks_mut(self.side) {
            self.transform_row(row);
        }
        self.transpose(&points, &mut turned);
        turned
    }

    /// By halves, in place.
    fn transform_row(&self, row: &mut [Complex]) {
        reverse_bits(row);
        let mut half = 1;
        while half < row.len() {
            let stride = self.row.len() / half;
            for block in row.chunks_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for k in 0..half {
                    let turned = high[k] * self.row[k * stride];
                    high[k] = low[k] - turned;
                    low[k] = low[k] + turned;
                }
            }
            half *= 2;
        }
    }

    fn transposed(&self, from: &[Complex]) -> Vec<Complex> {
        let mut to = vec![Complex::default(); from.len()];
        self.transpose(from, &mut to);
        to
    }

    fn transpose(&self, from: &[Complex], to: &mut [Complex]) {
        /// Blocks of this side fit the nearest cache.
        const BLOCK: usize = 8;
        for row in (0..self.side).step_by(BLOCK) {
            for column in (0..self.side).step_by(BLOCK) {
                for i in row..(row + BLOCK).min(self.side) {
                    for j in column..(column + BLOCK).min(self.side) {
                        to[j * self.side + i] = from[i * self.side + j];
                    }
                }
            }
        }
    }
}

fn reverse_bits(row: &mut [Complex]) {
    let bits = row.len().trailing_zeros();
    for at in 0..row.len() {
        let other = at.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0);
        if at < other {
            row.swap(at, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_definition() {
        for side in [1, 2, 8, 16] {
            let count = side * side;
            let points: Vec<_> =
                (0..count).map(|at| Complex { re: (at * at % 13) as f64, im: (at * 5 % 7) as f64 - 3.0 }).collect();
            let transformed = Plan::new(side).transform(points.clone());
            for (k, found) in transformed.iter().enumerate() {
                let expected = points.iter().enumerate().fold(Complex::default(), |sum, (at, &point)| {
                    sum + point * Complex::root((at * k % count) as f64 / count as f64)
                });
                let apart = *found - expected;
                assert!(apart.re.abs() + apart.im.abs() < 1e-9, "side {side}, place {k}: {found:?}, not {expected:?}");
            }
        }
    }
}
