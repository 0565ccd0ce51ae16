//! How sure one has to be that a request will be in time, found out while running.
//!
//! Whether a request is feasible is judged by a quantile of how long its kind takes. Which one? The median lets half
//! of the doubtful ones begin in vain, which under overload is work taken from others; the 99th percentile turns away
//! requests that an idle server should simply try. So the quantile follows the outcomes: each begun request that comes
//! too late raises it a little, each that is in time lowers it by less, so that it rests where the chosen share comes
//! too late: adaptive conformal inference (Gibbs and Candès, NeurIPS 2021, equation 2), which keeps that share
//! whatever the times' distribution, and however it drifts.

/// A quantile that keeps the share of begun requests that come too late.
#[derive(Clone, Debug)]
pub struct Confidence {
    level: f64,
    late_share: f64,
}

impl Confidence {
    /// How far one late request moves the level.
    pub const STEP: f64 = 0.02;
    /// The least and the greatest level: beyond them a quantile of a few hundred observations says nothing.
    pub const RANGE: (f64, f64) = (0.05, 0.99);

    /// Begins at `level` and keeps the share of late requests at `late_share`, both 0 to 1. What is out of range is
    /// taken as the nearest within; what isn't a number as the least.
    #[must_use]
    pub fn new(level: f64, late_share: f64) -> Self {
        Self { level: level.max(Self::RANGE.0).min(Self::RANGE.1), late_share: late_share.max(0.0).min(1.0) }
    }

    /// The quantile to judge by, within [`RANGE`](Self::RANGE).
    #[must_use]
    pub const fn level(&self) -> f64 {
        self.level
    }

    /// Takes in a request that had begun, and whether it came too late.
    pub fn observe(&mut self, late: bool) {
        let missed = if late { 1.0 } else { 0.0 };
        let level = self.level + Self::STEP * (missed - self.late_share);
        self.level = level.clamp(Self::RANGE.0, Self::RANGE.1);
    }
}
