//! What a call takes beside its handler.

use crate::time::Span;
use std::time::Duration;

/// What a thread spends on a call beside its handler, as a mean of lately: to find it, to judge it, to answer or refuse it.
///
/// It is what a call counts for that is refused, so whoever makes calls only to have them refused pays for those as they are:
/// a constant would be too little on one machine, or by one protocol, and too much on another.
///
/// ```
/// use greenwave_policy::CallOverhead;
/// use std::time::Duration;
///
/// let mut overhead = CallOverhead::default();
/// assert_eq!(overhead.each(), CallOverhead::FIRST);
/// for _ in 0..1000 {
///     // A look, and what it takes to deal with what it found; then the replies are posted.
///     overhead.found(16, Duration::from_micros(40));
///     overhead.spent(Duration::from_micros(8));
/// }
/// assert!(overhead.each().abs_diff(Duration::from_micros(3)) < Duration::from_nanos(100));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOverhead {
    /// In nanoseconds.
    spent: u64,
    calls: u64,
}

impl CallOverhead {
    /// What it is taken to be until something is known of it: 1 us.
    pub const FIRST: Duration = Duration::from_micros(1);
    /// It is never taken to be more than this: beyond, the thread was kept from running.
    pub const MOST: Duration = Duration::from_micros(50);

    /// What counts is about so much, in nanoseconds.
    const LATELY: u64 = 10_000_000;

    /// So many calls were found, and dealt with, in so long.
    #[inline]
    pub fn found(&mut self, calls: usize, took: impl Into<Span>) {
        let calls = calls as u64;
        self.calls = self.calls.saturating_add(calls);
        let most = (Self::MOST.as_nanos() as u64).saturating_mul(calls);
        self.spend(took.into().as_nanos().min(most));
    }

    /// So much was spent on calls that were found before, as on posting their replies.
    #[inline]
    pub fn spent(&mut self, took: impl Into<Span>) {
        self.spend(took.into().as_nanos().min(Self::LATELY / 8));
    }

    #[inline]
    fn spend(&mut self, took: u64) {
        self.spent = self.spent.saturating_add(took);
        while self.spent > Self::LATELY {
            (self.spent, self.calls) = (self.spent / 2, self.calls / 2);
        }
    }

    /// The mean.
    #[must_use]
    #[inline]
    pub fn each(&self) -> Duration {
        match self.spent.checked_div(self.calls) {
            None => Self::FIRST,
            Some(mean) => Duration::from_nanos(mean).min(Self::MOST),
        }
    }
}
