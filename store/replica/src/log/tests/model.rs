//! What a log should hold, kept in the simplest way.

use proptest::prelude::*;

use crate::log::{Entry, HardState, Recovered, SnapshotMeta, Write};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) hard_state: HardState,
    pub(super) snapshot: SnapshotMeta,
    pub(super) entries: Vec<Entry>,
}

/// What is done to a log.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Entries go where others were, or behind the last.
    Entries {
        back: u64,
        sizes: Vec<usize>,
        term: u64,
    },
    HardState {
        commit: u64,
    },
    /// The log begins so many entries before its end.
    Begin {
        back: u64,
    },
    /// The log begins so far behind its end.
    Restore {
        ahead: u64,
    },
    Sync,
    Compact,
    Open,
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let sizes = prop::collection::vec(prop_oneof![0..40_usize, 0..900_usize], 1..4);
    prop_oneof![
        6 => (prop_oneof![3 => Just(0_u64), 1 => 0..6_u64], sizes, 0..2_u64)
            .prop_map(|(back, sizes, term)| Step::Entries { back, sizes, term }),
        2 => (0..5_u64).prop_map(|commit| Step::HardState { commit }),
        1 => (0..6_u64).prop_map(|back| Step::Begin { back }),
        1 => (1..4_u64).prop_map(|ahead| Step::Restore { ahead }),
        5 => Just(Step::Sync),
        1 => Just(Step::Compact),
        1 => Just(Step::Open),
    ]
}

impl Model {
    pub(super) fn last(&self) -> u64 {
        self.snapshot.index + self.entries.len() as u64
    }

    /// The term of the last entry up to an index.
    fn term(&self, index: u64) -> u64 {
        let at = index.saturating_sub(self.snapshot.index);
        at.checked_sub(1).map_or(self.snapshot.term, |at| self.entries[at as usize].term)
    }

    /// The write that a step makes, if it makes one.
    pub(super) fn write(&self, step: &Step, number: usize) -> Option<Write> {
        Some(match step {
            Step::Entries { back, sizes, term } => {
                let first = self.last().saturating_sub(*back).max(self.snapshot.index) + 1;
                let term = self.term(first - 1).max(1) + term;
                let entry = |(index, size): (u64, &usize)| {
                    let data = (0..*size).map(|at| (number + at) as u8).collect::<Vec<_>>().into();
                    Entry { term, index, kind: (number % 3) as u8, data }
                };
                Write { entries: (first..).zip(sizes).map(entry).collect(), ..Write::default() }
            }
            Step::HardState { commit } => {
                let commit = self.last().saturating_sub(*commit);
                let hard_state = HardState { term: self.hard_state.term + 1, vote: number as u64, commit };
                Write { hard_state: Some(hard_state), ..Write::default() }
            }
            Step::Begin { back } => {
                let index = self.last().saturating_sub(*back).max(self.snapshot.index);
                let membership = number.to_string().into();
                Write { snapshot: Some(SnapshotMeta { index, term: self.term(index), membership }), ..Write::default() }
            }
            Step::Restore { ahead } => {
                let term = self.term(self.last()) + 1;
                let snapshot = SnapshotMeta { index: self.last() + ahead, term, membership: "restored".into() };
                Write { snapshot: Some(snapshot), ..Write::default() }
            }
            Step::Sync | Step::Compact | Step::Open => return None,
        })
    }

    pub(super) fn apply(&mut self, write: &Write) {
        if let Some(meta) = &write.snapshot {
            let held = meta.index <= self.last() && self.term(meta.index) == meta.term;
            self.entries.retain(|entry| held && entry.index > meta.index);
            self.snapshot = meta.clone();
        }
        if let Some(first) = write.entries.first() {
            self.entries.retain(|entry| entry.index < first.index);
            self.entries.extend_from_slice(&write.entries);
        }
        self.hard_state = write.hard_state.unwrap_or(self.hard_state);
    }
}

impl PartialEq<Recovered> for Model {
    fn eq(&self, other: &Recovered) -> bool {
        let commit = self.hard_state.commit.max(self.snapshot.index);
        other.hard_state == HardState { commit, ..self.hard_state }
            && other.snapshot == self.snapshot
            && other.entries == self.entries
    }
}
