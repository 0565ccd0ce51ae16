//! What may follow what: the state that all writes so far add up to.

use super::error::OrderError;
use super::header::Start;
use super::record::{ENTRY_OVERHEAD, write_beginning, write_entry, write_hard_state, write_truncation};
use super::{Entry, HardState, SnapshotMeta, Write};

/// What the log holds, entries' data aside.
///
/// 1. Entries have the indices `beginning.index + 1` to `last`, without a gap.
/// 2. `terms` are the indices at which the term changes, with the term from there on, both rising; the first one is
///    at `beginning.index + 1` if there are entries, and there is none otherwise.
/// 3. `hard_state.commit` is `beginning.index` to `last`: what is compacted was committed.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    hard_state: HardState,
    beginning: SnapshotMeta,
    terms: Vec<(u64, u64)>,
    last: u64,
}

/// How a write changes the state, once it is known that it may.
pub(super) struct Change {
    /// Whether the entries after a new beginning stay.
    keep: bool,
    /// The first index that goes.
    truncate: Option<u64>,
    /// Bytes of its records.
    pub(super) length: usize,
}

/// Whether one hard state may come after another: terms only grow, and a vote stays what it is within its term.
pub(super) fn follows(before: &HardState, next: &HardState) -> bool {
    next.term > before.term || next.term == before.term && (before.vote == 0 || before.vote == next.vote)
}

impl State {
    pub(super) fn new(hard_state: HardState, beginning: SnapshotMeta, entries: &[Entry]) -> Self {
        let mut state = Self { hard_state, last: beginning.index, beginning, terms: Vec::new() };
        entries.iter().for_each(|entry| state.push(entry));
        state
    }

    pub(super) fn start(&self) -> Start {
        Start { hard_state: self.hard_state, beginning: self.beginning.clone(), last: self.last }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn beginning(&self) -> u64 {
        self.beginning.index
    }

    /// Whether a write fits.
    ///
    /// # Errors
    /// How it doesn't.
    pub(super) fn check(&self, write: &Write) -> Result<Change, OrderError> {
        let mut length = 0;
        let (mut base, mut last, mut keep) = (self.beginning.index, self.last, true);
        if let Some(meta) = &write.snapshot {
            if meta.index < base {
                return Err(OrderError::Snapshot { found: meta.index, base });
            }
            keep = self.term(meta.index) == Some(meta.term);
            base = meta.index;
            if !keep {
                last = base;
            }
            length += 22 + meta.membership.len();
        }
        let mut truncate = None;
        if let Some(first) = write.entries.first() {
            if first.index <= base {
                return Err(OrderError::Compacted { found: first.index, base });
            }
            if first.index > last + 1 {
                return Err(OrderError::Gap { found: first.index, next: last + 1 });
            }
            if first.index <= last {
                truncate = Some(first.index);
                length += 9;
            }
            let own = write.snapshot.as_ref().filter(|meta| meta.index + 1 == first.index).map(|meta| meta.term);
            let mut before = own.or_else(|| self.term(first.index - 1)).unwrap_or(0);
            for (next, entry) in (first.index..).zip(&write.entries) {
                if entry.index != next {
                    return Err(OrderError::Gap { found: entry.index, next });
                }
                if entry.term < before {
                    return Err(OrderError::Term { index: next, term: entry.term, before });
                }
                before = entry.term;
                last = next;
                length += ENTRY_OVERHEAD + entry.data.len();
            }
        }
        if let Some(next @ HardState { commit, .. }) = write.hard_state {
            if !follows(&self.hard_state, &next) {
                return Err(OrderError::HardState { term: next.term, before: self.hard_state.term });
            }
            if commit > last {
                return Err(OrderError::Commit { commit, last });
            }
            length += 25;
        }
        Ok(Change { keep, truncate, length })
    }

    /// Takes over a write that was checked, and appends its records.
    pub(super) fn apply(&mut self, write: &Write, change: &Change, out: &mut Vec<u8>) {
        if let Some(meta) = &write.snapshot {
            write_beginning(meta, change.keep, out);
            self.begin_at(meta.clone(), change.keep);
        }
        if let Some(from) = change.truncate {
            write_truncation(from, out);
            self.truncate(from);
        }
        for entry in &write.entries {
            write_entry(entry, out);
            self.push(entry);
        }
        if let Some(hard_state) = write.hard_state {
            write_hard_state(&hard_state, out);
            self.hard_state = hard_state;
        }
        self.hard_state.commit = self.hard_state.commit.max(self.beginning.index);
    }

    /// The term of an entry, or of the log's beginning.
    fn term(&self, index: u64) -> Option<u64> {
        if index == self.beginning.index {
            return Some(self.beginning.term);
        }
        let run = self.terms.partition_point(|(first, _)| *first <= index).checked_sub(1)?;
        (index <= self.last).then(|| self.terms[run].1)
    }

    fn push(&mut self, entry: &Entry) {
        if self.terms.last().is_none_or(|(_, term)| *term != entry.term) {
            self.terms.push((entry.index, entry.term));
        }
        self.last = entry.index;
    }

    fn truncate(&mut self, from: u64) {
        self.terms.retain(|(first, _)| *first < from);
        self.last = from - 1;
    }

    fn begin_at(&mut self, meta: SnapshotMeta, keep: bool) {
        if keep && meta.index < self.last {
            let run = self.terms.partition_point(|(first, _)| *first <= meta.index + 1).saturating_sub(1);
            self.terms.drain(..run);
            self.terms[0].0 = meta.index + 1;
        } else {
            self.terms.clear();
            self.last = meta.index;
        }
        self.beginning = meta;
    }
}
