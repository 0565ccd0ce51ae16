//! What is learned of a running group, one value after another: each step costs a few operations and no memory.

use crate::time::Time;
use std::time::Duration;

/// The least value of a while: exact for at least half of the window, forgotten after the whole of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    half: Duration,
    since: Time,
    /// The least of this half and of the one before.
    halves: [f64; 2],
}

impl Least {
    pub(super) const fn new(window: Duration) -> Self {
        Self {
            half: Duration::from_nanos(crate::time::nanos(window) / 2),
            since: Time::ZERO,
            halves: [f64::INFINITY; 2],
        }
    }

    pub(super) fn observe(&mut self, now: Time, value: f64) {
        let age = now.since(self.since);
        if age >= self.half {
            let before = if age < 2 * self.half { self.halves[0] } else { f64::INFINITY };
            self.halves = [f64::INFINITY, before];
            self.since = now;
        }
        self.halves[0] = self.halves[0].min(value);
    }

    /// The least value stands for another window, although none of the last ones was as low.
    pub(super) fn keep(&mut self, now: Time) {
        self.halves[0] = self.halves[0].min(self.halves[1]);
        self.since = now;
    }

    /// What was before doesn't hold any more.
    pub(super) fn restart(&mut self, now: Time, value: f64) {
        (self.halves, self.since) = ([value, f64::INFINITY], now);
    }

    /// `None` before the first value.
    pub(super) fn value(&self) -> Option<f64> {
        Some(self.halves[0].min(self.halves[1])).filter(|value| value.is_finite())
    }
}

/// A moving average in which the last few values count most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    value: Option<f64>,
    weight: f64,
}

impl Mean {
    /// Each value counts for this share of the average; the first for all of it.
    pub(super) const fn new(weight: f64) -> Self {
        Self { value: None, weight }
    }

    pub(super) fn observe(&mut self, value: f64) {
        let before = self.value.unwrap_or(value);
        self.value = Some(before + (value - before) * self.weight);
    }

    pub(super) const fn value(&self) -> Option<f64> {
        self.value
    }
}

/// A number of things over time, and its average over a span.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    now: u64,
    since: Time,
    /// Things times seconds since the span began, and their squares times seconds.
    area: f64,
    squares: f64,
}

impl Level {
    pub(super) const ZERO: Self = Self { now: 0, since: Time::ZERO, area: 0.0, squares: 0.0 };

    pub(super) fn change(&mut self, now: Time, more: u64, less: u64) {
        self.settle(now);
        self.now = self.now.saturating_add(more).saturating_sub(less);
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Things times seconds since the last call of this, and their squares times seconds.
    pub(super) fn take_areas(&mut self, now: Time) -> (f64, f64) {
        self.settle(now);
        (std::mem::take(&mut self.area), std::mem::take(&mut self.squares))
    }

    fn settle(&mut self, now: Time) {
        let (things, seconds) = (self.now as f64, now.since(self.since).as_secs_f64());
        self.area += things * seconds;
        self.squares += things * things * seconds;
        self.since = self.since.max(now);
    }
}

/// Fits `y = coefficients . x` by least squares, with forgetting, all coefficients from zero up.
///
/// Where the data can't tell coefficients apart (as many bytes as commands, always), they stay near to what they were, and
/// what is new goes to the first of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit<const N: usize> {
    products: [[f64; N]; N],
    targets: [f64; N],
    coefficients: [f64; N],
}

impl<const N: usize> Fit<N> {
    pub(super) const fn new(coefficients: [f64; N]) -> Self {
        Self { products: [[0.0; N]; N], targets: [0.0; N], coefficients }
    }

    pub(super) fn observe(&mut self, x: [f64; N], y: f64) {
        for i in 0..N {
            for j in 0..N {
                self.products[i][j] += x[i] * x[j];
            }
            self.targets[i] += x[i] * y;
        }
    }

    /// Solves for the coefficients; then all that was seen counts for `keep` of what it did.
    pub(super) fn solve(&mut self, keep: f64) -> [f64; N] {
        for _ in 0..SWEEPS {
            (0..N).for_each(|i| self.descend(i));
        }
        self.products.iter_mut().flatten().chain(&mut self.targets).for_each(|sum| *sum *= keep);
        self.coefficients
    }

    pub(super) const fn coefficients(&self) -> [f64; N] {
        self.coefficients
    }

    /// Coordinate descent: one coefficient becomes what the others leave for it, and is never negative.
    fn descend(&mut self, i: usize) {
        // A prior of a thousandth of the data's own weight keeps it where it was if the data has no say.
        let prior = self.products[i][i] * 1e-3;
        let weight = self.products[i][i] + prior;
        if weight > 0.0 && weight.is_finite() {
            let row = self.products[i].iter().zip(&self.coefficients).enumerate();
            let others: f64 = row.filter(|(j, _)| *j != i).map(|(_, (product, other))| product * other).sum();
            let left = self.targets[i] - others + prior * self.coefficients[i];
            self.coefficients[i] = (left / weight).max(0.0);
        }
    }
}

/// Steps of the descent at each solving; the next goes on where this one ended.
const SWEEPS: usize = 16;

/// How long syncs take: near to the median, so that the odd long one doesn't count, and a part for the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syncs {
    fit: Fit<2>,
    usual: Option<f64>,
    samples: u64,
}

impl Syncs {
    pub(super) const fn new() -> Self {
        Self { fit: Fit::new([0.0, 0.0]), usual: None, samples: 0 }
    }

    pub(super) fn observe(&mut self, bytes: u64, took: Duration) {
        let took = took.as_secs_f64();
        // A step up or down of a twentieth each time settles at the median.
        let usual = self.usual.unwrap_or(took);
        let usual = if took > usual { usual * 1.05 } else { usual * 0.95 };
        self.usual = Some(usual.max(1e-9));
        self.fit.observe([1.0, bytes as f64], took.min(4.0 * usual));
        self.samples = self.samples.saturating_add(1);
    }

    pub(super) fn solve(&mut self) {
        self.fit.solve(0.9);
    }

    /// Seconds for a sync, and for each byte.
    pub(super) fn costs(&self) -> [f64; 2] {
        self.fit.coefficients()
    }

    pub(super) const fn samples(&self) -> u64 {
        self.samples
    }
}
