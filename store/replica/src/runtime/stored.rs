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
            let log::Write { hard_state, snapshot, mut entries } = write;
            // The term that entries are of goes before them; what is committed is at most what is there.
            let first = log::Write { hard_state: None, snapshot, entries: Vec::new() };
            log.append(&first)?;
            while !entries.is_empty() {
                let rest = entries.split_off(entries.len().div_ceil(2).min(PIECE));
                log.append(&log::Write { hard_state: None, snapshot: None, entries })?;
                log.sync()?;
                entries = rest;
            }
            log.append(&log::Write { hard_state, snapshot: None, entries })
        }
        other => other,
    }
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
