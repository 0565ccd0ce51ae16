//! When each end of a connection is to be looked at.

use greenwave_policy::Time;
use std::collections::BTreeSet;

/// The ends that wait for something, by when they are due: each once, so a sweep visits those that are due and no others.
///
/// What a timer is moved later is not told. Such an end comes up at the earlier time, and is put down again for the later
/// one; so the progress of a connection costs nothing here.
pub(super) struct Agenda(BTreeSet<(Time, usize)>);

/// Stands behind all others, so that the set is never empty: its first memory is kept.
const LAST: (Time, usize) = (Time::MAX, usize::MAX);

impl Agenda {
    pub(super) fn new() -> Self {
        Self(BTreeSet::from([LAST]))
    }

    /// When the first of them is due; [`Time::MAX`] if none is there.
    pub(super) fn next(&self) -> Time {
        self.0.first().map_or(Time::MAX, |(due, _)| *due)
    }

    /// Puts an end down for this time; `noted`: the one that it was put down for, [`Time::MAX`] if for none.
    pub(super) fn put(&mut self, index: usize, noted: Time, due: Time) {
        self.strike(index, noted);
        self.0.insert((due, index));
    }

    /// Strikes an end off.
    pub(super) fn strike(&mut self, index: usize, noted: Time) {
        self.0.remove(&(noted, index));
    }

    /// Takes off an end that is due by now.
    pub(super) fn take(&mut self, now: Time) -> Option<usize> {
        let (_, index) = self.0.first().filter(|(due, _)| *due <= now && *due < Time::MAX).copied()?;
        self.0.pop_first();
        Some(index)
    }
}
