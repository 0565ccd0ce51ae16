//! How much longer than its work a request is taken to need, found out while running.
//!
//! What a request needs from its begin to its end is its work, and whatever holds it up: other requests, other
//! processes, the network. Judged by the work alone, those that are let in under overload begin with just too little
//! time, and all of them come too late; judged too carefully, an idle server turns away requests that it should
//! simply try. How much is right depends on the load and on the machine, so the margin follows the outcomes: each
//! begun request that comes too late widens it a little, each that is in time narrows it by less, so that it rests
//! where the chosen share comes too late. A late one that today's margin would have turned away teaches nothing: of a
//! burst that was let in at once the first few say it all. That is online quantile tracking (Gibbs and Candès, Adaptive Conformal
//! Inference, NeurIPS 2021; Angelopoulos, Candès and Tibshirani, Conformal PID Control, NeurIPS 2023, section 2.1),
//! which keeps the share whatever the times' distribution, and however it drifts.

use crate::time::nanos;
use std::time::Duration;

/// A factor on the work of requests, which keeps the share of those that come too late.
///
/// ```
/// use greenwave_policy::Margin;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let mut margin = Margin::new(0.01);
/// assert_eq!(margin.needed(ms(4)), ms(4));
/// // Some that began with 10 ms left were late all the same: the next has to have more than its work.
/// (0..10).for_each(|_| margin.observe(true, ms(4), Some(ms(10))));
/// assert!(margin.needed(ms(4)) > ms(7));
/// ```
#[derive(Clone, Debug)]
pub struct Margin {
    factor: f64,
    late_share: f64,
}

impl Margin {
    /// By how many times the work one late request widens the margin.
    pub const STEP: f64 = 0.1;
    /// The narrowest, the work alone, and the widest.
    pub const RANGE: (f64, f64) = (1.0, 64.0);

    /// Begins with the work alone and keeps the share of late requests at `late_share`, 0 to 1. What is out of range
    /// is taken as the nearest within; what isn't a number as 0, at which a margin never narrows.
    #[must_use]
    pub fn new(late_share: f64) -> Self {
        Self { factor: Self::RANGE.0, late_share: if late_share.is_nan() { 0.0 } else { late_share.clamp(0.0, 1.0) } }
    }

    /// The factor, within [`RANGE`](Self::RANGE).
    #[must_use]
    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// How long a request of this much work is taken to need once it has begun.
    #[must_use]
    pub fn needed(&self, work: Duration) -> Duration {
        // Work of centuries is all the same; a conversion that never fails costs a tenth of one that may.
        Duration::from_nanos((nanos(work) as f64 * self.factor) as u64).max(work)
    }

    /// Takes in a request that had begun, whether it came too late, of how much work it was taken to be, and what it
    /// had left as it began; `None` if it had no deadline.
    pub fn observe(&mut self, late: bool, work: Duration, left: Option<Duration>) {
        if late && left.is_some_and(|left| left < self.needed(work)) {
            return;
        }
        let missed = if late { 1.0 } else { 0.0 };
        let factor = self.factor + Self::STEP * (missed - self.late_share);
        self.factor = factor.clamp(Self::RANGE.0, Self::RANGE.1);
    }
}
