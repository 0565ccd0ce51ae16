//! When calls have to be looked at, as they may be late or cancelled by then.
//!
//! Most calls are answered long before. So a call that is over leaves what was noted of it behind, to be found stale: the note of
//! a call costs the same however many are under way, and so does its deadline.

use greenwave_policy::{Sorted, Time};
use std::cmp::Reverse;

/// The notes of one end, and stale ones, of which there are hardly more than of others.
pub(super) struct Looks {
    /// The earliest is the greatest.
    noted: Sorted<Reverse<(Time, Call)>>,
    /// How many more are noted until it is asked how many of them are stale.
    until_sweep: usize,
}

/// A call while it is in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// Open in this slot, which has had so many.
    Open { slot: u16, generation: u16 },
    /// Queued under this number.
    Queued(u64),
}

/// So many may be stale however few there are.
const FEW: usize = 64;

impl Looks {
    pub(super) const fn new() -> Self {
        Self { noted: Sorted::new(), until_sweep: FEW }
    }

    /// Notes that a call is to be looked at then. Whether it is time to [sweep](Self::sweep).
    #[inline]
    #[must_use]
    pub(super) fn note(&mut self, at: Time, call: Call) -> bool {
        self.noted.push(Reverse((at, call)));
        self.until_sweep = self.until_sweep.saturating_sub(1);
        self.until_sweep == 0
    }

    /// Forgets those that are stale.
    #[cold]
    pub(super) fn sweep(&mut self, is_there: impl Fn(Call) -> bool) {
        self.noted.retain(|Reverse((_, call))| is_there(*call));
        self.until_sweep = self.noted.len() + FEW;
    }

    /// Takes out a call that is to be looked at by now; it may be over.
    pub(super) fn take(&mut self, now: Time) -> Option<Call> {
        let Reverse((at, call)) = *self.noted.peek()?;
        if at > now {
            return None;
        }
        self.noted.pop();
        Some(call)
    }

    /// When the next one is to be looked at; it may be over by then.
    pub(super) fn next(&self) -> Option<Time> {
        self.noted.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn calls_come_up_when_they_are_to_be_looked_at_and_not_before() {
        let mut looks = Looks::new();
        let open = |slot| Call::Open { slot, generation: 1 };
        for (nanos, call) in [(30, open(3)), (10, open(1)), (20, Call::Queued(7)), (20, open(2))] {
            assert!(!looks.note(at(nanos), call));
        }
        assert_eq!((looks.next(), looks.take(at(9))), (Some(at(10)), None));
        let taken: Vec<Call> = std::iter::from_fn(|| looks.take(at(20))).collect();
        assert_eq!(taken, [open(1), open(2), Call::Queued(7)]);
        assert_eq!(looks.next(), Some(at(30)));
    }

    #[test]
    fn notes_of_calls_that_are_over_are_no_more_than_of_others() {
        let (mut looks, mut most) = (Looks::new(), 0);
        // A hundred are under way at any time, each of them for as long as a hundred others need to come.
        for number in 0..100_000 {
            if looks.note(at(1_000_000_000 + number), Call::Queued(number)) {
                looks.sweep(|call| matches!(call, Call::Queued(other) if other + 100 > number));
            }
            most = most.max(looks.noted.len());
        }
        assert!(most <= 2 * 100 + 2 * FEW, "{most}");
    }
}
