//! What must never be, seen from above: two leaders in a term, two entries in a place.

use greenwave_replica::applier::ApplyError;
use greenwave_replica::core::{Role, Status};
use greenwave_replica::{Entry, Index, Term};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Watches all replicas at once.
///
/// 1. A term has one leader at most (election safety, figure 3 of the Raft paper).
/// 2. What is applied at an index is the same everywhere and for ever (state machine safety).
/// 3. A read finds everything applied that its core says is.
/// 4. No machine fails.
#[derive(Debug, Default)]
pub(super) struct Watch {
    leaders: BTreeMap<Term, usize>,
    /// Who leads, by its own account.
    leading: BTreeMap<usize, Term>,
    entries: BTreeMap<Index, (Term, u64)>,
    violation: Option<Violation>,
}

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Two leaders.
    #[error("replicas {one} and {other} both lead in term {term}")]
    Leaders {
        /// The term.
        term: u64,
        /// One of them.
        one: usize,
        /// The other.
        other: usize,
    },
    /// Two entries.
    #[error("replica {node} applies another entry at {index} than was applied before")]
    Entries {
        /// The replica.
        node: usize,
        /// The place.
        index: Index,
    },
    /// A read that came too early.
    #[error("replica {node} lets somebody read at {index}, and has applied up to {applied}")]
    Read {
        /// The replica.
        node: usize,
        /// What it says.
        index: Index,
        /// What there is.
        applied: Index,
    },
    /// A machine that can't go on.
    #[error("replica {node}'s machine failed: {cause}")]
    Machine {
        /// The replica.
        node: usize,
        /// Why.
        cause: String,
    },
    /// A replica that can't start on what its disk has.
    #[error("replica {node} can't start: {cause}")]
    Start {
        /// The replica.
        node: usize,
        /// Why.
        cause: String,
    },
}

impl Watch {
    pub(super) fn role(&mut self, node: usize, status: &Status) {
        if status.role != Role::Leader {
            self.leading.remove(&node);
            return;
        }
        self.leading.insert(node, status.term);
        let one = *self.leaders.entry(status.term).or_insert(node);
        if one != node {
            self.found(Violation::Leaders { term: status.term.0, one, other: node });
        }
    }

    pub(super) fn stopped(&mut self, node: usize) {
        self.leading.remove(&node);
    }

    pub(super) fn leads(&self, node: usize) -> bool {
        self.leading.contains_key(&node)
    }

    pub(super) fn leader(&self) -> Option<usize> {
        self.leading.iter().max_by_key(|&(_, term)| term).map(|(&node, _)| node)
    }

    pub(super) fn apply(&mut self, node: usize, entries: &[Entry]) {
        for entry in entries {
            let seen = (entry.term, xxh3_64(&entry.data));
            if *self.entries.entry(entry.index).or_insert(seen) != seen {
                self.found(Violation::Entries { node, index: entry.index });
            }
        }
    }

    pub(super) fn read(&mut self, node: usize, index: Index, applied: Index) {
        if applied < index {
            self.found(Violation::Read { node, index, applied });
        }
    }

    pub(super) fn failed(&mut self, node: usize, error: &ApplyError) {
        self.found(Violation::Machine { node, cause: error.to_string() });
    }

    pub(super) fn unable(&mut self, node: usize, cause: String) {
        self.found(Violation::Start { node, cause });
    }

    pub(super) fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// The first thing that was found.
    pub(super) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn found(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }
}
