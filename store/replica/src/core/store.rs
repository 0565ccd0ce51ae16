//! The log in memory, as the engine wants to see it: all entries since the last compaction.

use super::convert::{entry_bytes, hard_state_to_engine, membership_to_engine, snapshot_to_engine};
use crate::{HardState, Index, NodeId, SnapshotMeta, Term};
use raft::eraftpb::{Entry, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, StorageError};
use std::cell::Cell;
use std::collections::VecDeque;

/// The log in memory.
///
/// 1. `entries` have the indices after `base`, without a gap.
/// 2. `base` isn't beyond the snapshot.
/// 3. `bytes` is the sum over `entries`.
#[derive(Debug, Default)]
pub(super) struct Store {
    start: HardState,
    snapshot: SnapshotMeta,
    /// Whether the snapshot can be sent; that of a new group, which is empty, can't.
    sendable: bool,
    base: Index,
    base_term: Term,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The engine wanted a snapshot for somebody and there was none.
    wanted: Cell<bool>,
}

impl Store {
    pub(super) fn new(start: HardState, snapshot: SnapshotMeta, sendable: bool, entries: Vec<Entry>) -> Self {
        let mut store = Self { start, sendable, base: snapshot.index, base_term: snapshot.term, ..Self::default() };
        store.snapshot = snapshot;
        store.append(entries);
        store
    }

    pub(super) const fn snapshot_meta(&self) -> &SnapshotMeta {
        &self.snapshot
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn last(&self) -> Index {
        Index(self.base.0 + self.entries.len() as u64)
    }

    /// Bytes of the entries after this index.
    pub(super) fn bytes_after(&self, index: Index) -> usize {
        let skip = index.0.saturating_sub(self.base.0) as usize;
        self.entries.iter().skip(skip).map(entry_bytes).sum()
    }

    /// Whether a snapshot was wanted and not there, since the last call.
    pub(super) fn take_wanted(&self) -> bool {
        self.wanted.take()
    }

    /// Entries, of which the first may take the place of others; all after the last are gone.
    pub(super) fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first() else { return };
        let keep = first.index.saturating_sub(self.base.0 + 1) as usize;
        while self.entries.len() > keep {
            self.bytes -= self.entries.pop_back().as_ref().map_or(0, entry_bytes);
        }
        self.bytes += entries.iter().map(entry_bytes).sum::<usize>();
        self.entries.extend(entries);
    }

    /// A snapshot came from the leader: all entries are gone.
    pub(super) fn restore(&mut self, meta: SnapshotMeta) {
        (self.base, self.base_term) = (meta.index, meta.term);
        self.snapshot = meta;
        self.sendable = true;
        self.entries.clear();
        self.bytes = 0;
    }

    /// A snapshot of our own is ready. Entries that it stands for go, except for about `retain` bytes of the newest;
    /// up to where they went.
    pub(super) fn compact(&mut self, meta: SnapshotMeta, retain: usize) -> Index {
        while self.base < meta.index && self.bytes > retain {
            let Some(entry) = self.entries.pop_front() else { break };
            self.bytes -= entry_bytes(&entry);
            (self.base, self.base_term) = (Index(entry.index), Term(entry.term));
        }
        self.snapshot = meta;
        self.sendable = true;
        self.base
    }

    fn at(&self, index: u64) -> Option<&Entry> {
        self.entries.get(index.checked_sub(self.base.0 + 1)? as usize)
    }
}

impl raft::Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(hard_state_to_engine(self.start), membership_to_engine(&self.snapshot.membership)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let most = max_size.into().unwrap_or(u64::MAX);
        if low <= self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        if high > self.last().0 + 1 {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let mut size = 0;
        let fits = |entry: &&Entry| {
            let first = size == 0;
            size += entry_bytes(entry) as u64;
            first || size <= most
        };
        let skip = (low - self.base.0 - 1) as usize;
        Ok(self.entries.range(skip..skip + (high - low) as usize).take_while(fits).cloned().collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.0 {
            return Ok(self.base_term.0);
        }
        let missing = if index < self.base.0 { StorageError::Compacted } else { StorageError::Unavailable };
        self.at(index).map(|entry| entry.term).ok_or(Error::Store(missing))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().0)
    }

    fn snapshot(&self, request: u64, to: u64) -> raft::Result<Snapshot> {
        // Who isn't in a snapshot's membership refuses it: one that was added later needs a later one.
        let named = NodeId::new(to).is_some_and(|node| self.snapshot.membership.address(node).is_some());
        if self.sendable && named && self.snapshot.index.0 >= request {
            return Ok(snapshot_to_engine(&self.snapshot));
        }
        self.wanted.set(true);
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
