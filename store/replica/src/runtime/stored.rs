//! What the core wants durable, in the log's types, and back again. A simulation writes its logs through the same code.

use super::ReplicaStartError;
use crate::core::{self, Recovered};
use crate::log::{self, Disk, Log, LogError};
use crate::{Entry, EntryKind, HardState, Index, Membership, NodeId, SnapshotMeta, Term};
use bytes::Bytes;

/// What the log is asked to do.
#[derive(Clone, Debug)]
pub enum Job {
    /// To take what the core wants durable.
    Write(core::Write),
    /// To begin after a snapshot, and to forget the entries up to `up_to` if it can.
    Compact {
        /// The last entry that may go.
        up_to: Index,
        /// What the log begins after.
        snapshot: SnapshotMeta,
    },
}

/// What is durable now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of the last write, if there was one.
    pub number: Option<u64>,
    /// Bytes of entries.
    pub bytes: u64,
    /// Up to where the log may be made shorter.
    pub compact: Option<Index>,
}

/// Does all jobs with one sync.
///
/// # Errors
/// When the log can't take them: nothing of them may be acknowledged.
pub fn write_all<D: Disk>(log: &mut Log<D>, jobs: impl Iterator<Item = Job>) -> Result<Written, LogError> {
    let mut written = Written::default();
    for job in jobs {
        match job {
            Job::Write(write) => {
                written.number = Some(write.number);
                written.bytes += write.entries.iter().map(|entry| entry.data.len() as u64).sum::<u64>();
                append(log, to_log(write))?;
            }
            Job::Compact { up_to, snapshot } => {
                append(log, log::Write { snapshot: Some(meta_to_log(&snapshot)), ..log::Write::default() })?;
                written.compact = Some(up_to);
            }
        }
    }
    log.sync()?;
    Ok(written)
}

/// Appends; what is too much for one sync is divided.
fn append<D: Disk>(log: &mut Log<D>, write: log::Write) -> Result<(), LogError> {
    match log.append(&write) {
        Err(LogError::TooLarge { .. }) => {
            log.sync()?;
            append_divided(log, write)
        }
        other => other,
    }
}

/// Appends in parts, all but the last durable afterwards. Whatever of them is there after a crash, no entry is without the term
/// that it is of, nor is more committed than is there.
fn append_divided<D: Disk>(log: &mut Log<D>, write: log::Write) -> Result<(), LogError> {
    let log::Write { hard_state, snapshot, mut entries } = write;
    // Of what is there now, the entries to come may take the place of some, which are not what is committed.
    let stays = entries.first().map_or(u64::MAX, |first| first.index.saturating_sub(1));
    let there = snapshot.as_ref().map_or(log.last(), |meta| meta.index).min(stays);
    let term = hard_state.map(|state| log::HardState { commit: state.commit.min(there), ..state });
    log.append(&log::Write { hard_state: term, snapshot, entries: Vec::new() })?;
    log.sync()?;
    while !entries.is_empty() {
        let rest = entries.split_off(entries.len().div_ceil(2).min(PIECE));
        log.append(&log::Write { hard_state: None, snapshot: None, entries })?;
        log.sync()?;
        entries = rest;
    }
    log.append(&log::Write { hard_state, snapshot: None, entries })
}

/// Entries that are written at a time when there are too many: each has at most some MiB.
const PIECE: usize = 16;

fn to_log(write: core::Write) -> log::Write {
    log::Write {
        hard_state: write.hard_state.map(hard_state_to_log),
        snapshot: write.snapshot.as_ref().map(meta_to_log),
        entries: write.entries.into_iter().map(entry_to_log).collect(),
    }
}

fn hard_state_to_log(state: HardState) -> log::HardState {
    log::HardState { term: state.term.0, vote: state.vote.map_or(0, NodeId::number), commit: state.commit.0 }
}

fn entry_to_log(entry: Entry) -> log::Entry {
    log::Entry { term: entry.term.0, index: entry.index.0, kind: entry.kind.code(), data: entry.data }
}

/// A snapshot's metadata as the log has them.
#[must_use]
pub fn meta_to_log(meta: &SnapshotMeta) -> log::SnapshotMeta {
    let mut membership = Vec::new();
    meta.membership.write(&mut membership);
    log::SnapshotMeta { index: meta.index.0, term: meta.term.0, membership: Bytes::from(membership) }
}

/// What a log had, for a core to begin with.
///
/// # Errors
/// Something in it is of a later version.
pub fn from_log(recovered: log::Recovered) -> Result<Recovered, ReplicaStartError> {
    let log::Recovered { hard_state, snapshot, entries, torn: _ } = recovered;
    let entry = |entry: log::Entry| {
        let kind = EntryKind::of(entry.kind)?;
        Some(Entry { index: Index(entry.index), term: Term(entry.term), kind, data: entry.data })
    };
    let entries: Option<Vec<Entry>> = entries.into_iter().map(entry).collect();
    let snapshot = match snapshot {
        log::SnapshotMeta { index: 0, .. } => None,
        log::SnapshotMeta { index, term, mut membership } => {
            let membership = Membership::read(&mut membership);
            let membership = membership.map_err(|_| ReplicaStartError::Unknown { what: "membership" })?;
            Some(SnapshotMeta { index: Index(index), term: Term(term), membership })
        }
    };
    Ok(Recovered {
        hard_state: HardState {
            term: Term(hard_state.term),
            vote: NodeId::new(hard_state.vote),
            commit: Index(hard_state.commit),
        },
        snapshot,
        entries: entries.ok_or(ReplicaStartError::Unknown { what: "entries" })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::faulty::{Fault, FaultyDisk};
    use crate::log::{LogConfig, Owner};

    /// Wherever a crash divides what was too much for one sync, entries have their term and what is committed is there.
    #[test]
    fn what_is_written_in_parts_begins_with_the_term() {
        let config = LogConfig { segment_bytes: 4096, ..LogConfig::new("/log", Owner { group: 1, replica: 1 }) };
        let entry = |term, index| log::Entry { term, index, kind: 0, data: Bytes::from_static(b"a command") };
        let mut seen = std::collections::BTreeSet::new();
        for (seed, operation) in (0..20).flat_map(|seed| (1..40).map(move |operation| (seed, operation))) {
            let disk = FaultyDisk::new(seed);
            let (mut log, _) = Log::open(disk.clone(), &config).unwrap();
            let old = log::HardState { term: 1, vote: 1, commit: 0 };
            // A tail that the new entries take the place of.
            let tail = (1..=10).map(|index| entry(1, index)).collect();
            log.append(&log::Write { hard_state: Some(old), entries: tail, ..log::Write::default() }).unwrap();
            log.sync().unwrap();
            disk.fail(Fault::End(operation));
            let new = log::HardState { term: 5, vote: 2, commit: 40 };
            let entries = (2..=40).map(|index| entry(5, index)).collect();
            let write = log::Write { hard_state: Some(new), entries, ..log::Write::default() };
            let _ends_somewhere = append_divided(&mut log, write).and_then(|()| log.sync());
            drop(log);
            let (_, found) = Log::open(disk.after_power_loss(), &config).unwrap();
            let newest = found.entries.last().map_or(0, |entry| entry.term);
            assert!(found.hard_state.term >= newest, "{:?} with entries of term {newest}", found.hard_state);
            let committed = found.entries.iter().take(found.hard_state.commit as usize);
            assert_eq!(committed.clone().count() as u64, found.hard_state.commit);
            assert!(committed.skip(1).all(|entry| entry.term == 5), "what was to be replaced is committed");
            seen.insert(found.entries.len());
        }
        assert!(seen.len() > 3 && seen.contains(&40), "{seen:?}");
    }
}
