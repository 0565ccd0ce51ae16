//! What an admission has done so far, for whoever watches it.

use greenwave_policy::Refusal;

/// What [`AdmissionLayer`](crate::AdmissionLayer) has done with the requests that came, and what it has at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were refused, by reason.
    pub refused: Refusals,
    /// Requests that were served although they would have been refused, were it not
    /// [report only](crate::Settings::report_only); each counts for the first reason that was found.
    pub report_only: Refusals,
    /// Answered with success, in time or without a deadline.
    pub in_time: u64,
    /// Answered with success, after the deadline.
    pub late: u64,
    /// Answered with an error of the service's own.
    pub failed: u64,
    /// Dropped by their callers, or by a timeout further out, while they waited.
    pub left: u64,
    /// Dropped while they were served.
    pub abandoned: u64,
    /// How many wait now.
    pub waiting: usize,
    /// How many are served now, at most as many as there are permits.
    pub running: usize,
    /// How many method paths are learned apart.
    pub methods: usize,
}

/// Requests by the reason for which they are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusals {
    /// Their deadline had passed.
    pub expired: u64,
    /// They need more time than they had left.
    pub infeasible: u64,
    /// They had waited until too little of their time was left, and others waited too.
    pub waited: u64,
    /// Too many waited.
    pub full: u64,
}

impl Refusals {
    pub(super) fn count(&mut self, refusal: &Refusal) {
        *match refusal {
            Refusal::Expired { .. } => &mut self.expired,
            Refusal::Infeasible { .. } => &mut self.infeasible,
            Refusal::Waited { .. } => &mut self.waited,
            Refusal::QueueFull { .. } => &mut self.full,
        } += 1;
    }

    /// All of them.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.expired + self.infeasible + self.waited + self.full
    }
}
