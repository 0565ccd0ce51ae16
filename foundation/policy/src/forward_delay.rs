//! What a budget owes for the wire, learned per connection without comparing clocks.
//!
//! The caller measures a round trip, the callee returns the time it had the request. The difference is what both ways
//! took together. Its minimum over a window is the part that isn't chance, half of it the estimate of one way. The
//! true forward delay of that fastest exchange lies between nothing and the whole, so the estimate is off by at most
//! itself: the bound. A request that queues on the way takes longer than any estimate made of minima; that is for
//! receive timestamps to find, not for this module.

use crate::time::{Time, nanos};
use std::time::Duration;

/// The estimated time from sender to receiver on one connection.
#[derive(Clone, Debug)]
pub struct ForwardDelay {
    /// Half the window: minima are kept for the current half and the one before.
    half: u64,
    /// When the current half began.
    since: Time,
    /// The least time that both ways took, in nanoseconds.
    current: Option<u64>,
    previous: Option<u64>,
    samples: u64,
}

impl ForwardDelay {
    /// How long a minimum counts, unless told otherwise: long enough to hold a quiet moment, short enough to follow
    /// a route that changes (BBR keeps its minimum for as long).
    pub const WINDOW: Duration = Duration::from_secs(10);

    /// An estimator that has seen nothing and forgets after [`ForwardDelay::WINDOW`].
    #[must_use]
    pub const fn new() -> Self {
        Self::with_window(Self::WINDOW)
    }

    /// An estimator in which a sample counts for at least half of `window`, and not for longer than all of it once
    /// there are newer ones. On an idle connection the last estimate stands.
    #[must_use]
    pub const fn with_window(window: Duration) -> Self {
        let half = nanos(window) / 2;
        Self { half, since: Time::ZERO, current: None, previous: None, samples: 0 }
    }

    /// Takes in an exchange that ended at `now`: its `round_trip`, and the time that the `callee` says it used.
    ///
    /// A callee that claims more than the round trip counts as a wire that takes no time.
    #[inline]
    pub fn observe(&mut self, now: Time, round_trip: Duration, callee: Duration) {
        let both_ways = nanos(round_trip).saturating_sub(nanos(callee));
        let age = now.as_nanos().saturating_sub(self.since.as_nanos());
        match self.current {
            Some(current) if age < self.half => self.current = Some(current.min(both_ways)),
            Some(current) if age < self.half.saturating_mul(2) => {
                self.previous = Some(current);
                self.current = Some(both_ways);
                self.since = self.since + Duration::from_nanos(self.half);
            }
            _ => {
                self.previous = None;
                self.current = Some(both_ways);
                self.since = now;
            }
        }
        self.samples = self.samples.saturating_add(1);
    }

    /// The estimated time one way; zero until something was observed.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        Duration::from_nanos(self.both_ways().unwrap_or_default() / 2)
    }

    /// By how much the estimate may be off, up or down, as the way back may have taken all of the time or none.
    #[must_use]
    pub fn bound(&self) -> Duration {
        Duration::from_nanos(self.both_ways().map_or(0, |both_ways| both_ways - both_ways / 2))
    }

    /// How many exchanges were observed.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    fn both_ways(&self) -> Option<u64> {
        match (self.previous, self.current) {
            (Some(previous), Some(current)) => Some(previous.min(current)),
            (previous, current) => previous.or(current),
        }
    }
}

impl Default for ForwardDelay {
    fn default() -> Self {
        Self::new()
    }
}
