//! How long a commit takes, at the least.

use greenwave_policy::{Span, Time};
use std::time::Duration;

/// Instances that a minimum is taken over, twice.
const SAMPLES: u32 = 32;

/// Older measurements count for nothing: if all is refused as infeasible, nothing is measured, and one has to try.
const FRESH: Duration = Duration::from_secs(1);

/// The least time from proposal to answer of the last 32 to 64 instances.
///
/// The least, not the usual one: to refuse a command is to be sure that it would have come too late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    before: Option<Span>,
    current: Option<Span>,
    samples: u32,
    measured: Time,
}

impl Pace {
    pub(super) fn record(&mut self, now: Time, took: Span) {
        self.current = Some(self.current.map_or(took, |least| least.min(took)));
        self.measured = now;
        self.samples += 1;
        if self.samples >= SAMPLES {
            (self.before, self.current, self.samples) = (self.current, None, 0);
        }
    }

    /// What a command needs if so many batches go before it and `window` of them are on their way at a time. Zero if
    /// it isn't known.
    pub(super) fn needed(&self, now: Time, batches: usize, window: usize) -> Span {
        let least = [self.before, self.current].into_iter().flatten().min();
        let Some(least) = least.filter(|_| now.since(self.measured) <= FRESH) else { return Span::ZERO };
        let rounds = 1 + (batches / window.max(1)) as u64;
        Span::from_nanos(least.as_nanos().saturating_mul(rounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_last_instances_counts_and_only_while_it_is_fresh() {
        let mut pace = Pace::default();
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let span = |millis: u64| Span::from_nanos(millis * 1_000_000);
        assert_eq!(pace.needed(at(0), 0, 1), Span::ZERO);
        pace.record(at(10), span(5));
        pace.record(at(20), span(9));
        assert_eq!(pace.needed(at(20), 0, 4), span(5));
        // Nine batches go first, four at a time: three rounds.
        assert_eq!(pace.needed(at(20), 9, 4), span(15));
        (0..2 * SAMPLES).for_each(|_| pace.record(at(30), span(9)));
        assert_eq!(pace.needed(at(30), 0, 4), span(9));
        assert_eq!(pace.needed(at(1031), 0, 4), Span::ZERO);
    }
}
