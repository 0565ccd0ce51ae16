//! What is on a replica's disk, and what of it is left when its power fails.

use crate::seed::Stream;
use greenwave_replica::core::{Recovered, Write};
use greenwave_replica::{Entry, HardState, Index, SnapshotMeta};
use std::collections::{BTreeMap, VecDeque};

/// A replica's disk: what is durable, and what was written and isn't yet.
///
/// 1. A crash keeps everything durable, and of the rest some first part: whole writes, and of the one after them
///    perhaps some first entries, but not its vote. That is what a log with checksums finds behind a torn write.
/// 2. A snapshot's state is there before the log begins after it.
#[derive(Clone, Debug, Default)]
pub struct Store {
    hard_state: HardState,
    /// Where the log begins.
    base: Option<SnapshotMeta>,
    entries: BTreeMap<Index, Entry>,
    /// States of snapshots, by where they stand: the base's, and newer ones.
    states: BTreeMap<Index, (SnapshotMeta, Vec<u8>)>,
    written: VecDeque<Write>,
}

impl Store {
    /// Takes a write, which is not durable yet.
    pub fn write(&mut self, write: Write) {
        self.written.push_back(write);
    }

    /// The first so many writes are durable.
    pub fn synced(&mut self, writes: usize) {
        for _ in 0..writes {
            let Some(write) = self.written.pop_front() else { return };
            if let Some(meta) = write.snapshot {
                self.entries.clear();
                self.begin_after(meta);
            }
            if let Some(first) = write.entries.first() {
                self.entries.split_off(&first.index);
                self.entries.extend(write.entries.into_iter().map(|entry| (entry.index, entry)));
            }
            self.hard_state = write.hard_state.unwrap_or(self.hard_state);
        }
    }

    /// A snapshot's state is durable.
    pub fn keep(&mut self, meta: SnapshotMeta, state: Vec<u8>) {
        self.states.insert(meta.index, (meta, state));
    }

    /// The newest snapshot that is durable.
    #[must_use]
    pub fn newest(&self) -> Option<&(SnapshotMeta, Vec<u8>)> {
        self.states.last_key_value().map(|(_, kept)| kept)
    }

    /// The state of this snapshot.
    #[must_use]
    pub fn state(&self, meta: &SnapshotMeta) -> Option<&[u8]> {
        self.states.get(&meta.index).map(|(_, state)| state.as_slice())
    }

    /// The log may forget what the snapshot stands for.
    pub fn compact(&mut self, up_to: Index, snapshot: SnapshotMeta) {
        self.entries = self.entries.split_off(&up_to.next());
        self.begin_after(snapshot);
    }

    /// Up to here the state has everything, so older snapshots than the log's beginning aren't needed any more.
    pub fn prune(&mut self, applied: Index) {
        let base = self.base.as_ref().map_or(Index::ZERO, |base| base.index);
        self.states = self.states.split_off(&base.min(applied));
    }

    /// Loses what isn't durable, or not all of it.
    pub fn crash(&mut self, stream: &mut Stream) {
        let whole = stream.below(self.written.len() as u64 + 1) as usize;
        self.synced(if stream.chance(0.5) { 0 } else { whole });
        if let Some(torn) = self.written.pop_front()
            && torn.snapshot.is_none()
            && stream.chance(0.5)
        {
            let kept = stream.below(torn.entries.len() as u64 + 1) as usize;
            let entries = torn.entries.into_iter().take(kept).collect();
            self.written.clear();
            self.written.push_back(Write { number: torn.number, hard_state: None, entries, snapshot: None });
            self.synced(1);
        }
        self.written.clear();
    }

    /// Loses what is durable as well: the last entry. No disk may do that; a test has to notice if one does.
    pub fn forget(&mut self) {
        self.entries.pop_last();
    }

    /// What is read at the start.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        let after = self.base.as_ref().map_or(Index::ZERO, |base| base.index);
        let entries = self.entries.range(after.next()..).map(|(_, entry)| entry.clone()).collect();
        Recovered { hard_state: self.hard_state, snapshot: self.base.clone(), entries }
    }

    fn begin_after(&mut self, meta: SnapshotMeta) {
        self.base = Some(meta);
    }
}
