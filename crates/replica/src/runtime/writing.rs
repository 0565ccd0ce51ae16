//! The thread that writes the log: all writes that wait share one sync.

use super::Event;
use super::inbox::Inbox;
use crate::log::{self, Log, LogError, RealDisk, Snapshots};
use crate::{Entry, HardState, Index, SnapshotMeta, core};
use bytes::Bytes;
use std::time::Instant;

/// What the thread is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    Write(core::Write),
    Compact { up_to: Index, snapshot: SnapshotMeta },
}

/// Writes until the inbox is closed, or until something fails: then nothing is acknowledged any more.
pub(super) fn run(mut log: Log<RealDisk>, snapshots: &Snapshots<RealDisk>, jobs: &Inbox<Job>, events: &Inbox<Event>) {
    let mut taken = Vec::new();
    loop {
        jobs.take(&mut taken, None);
        if taken.is_empty() && jobs.is_closed() {
            return;
        }
        if let Err(error) = write_all(&mut log, taken.drain(..), events) {
            tracing::error!(%error, "the log can't be written; this replica stops");
            let _ = events.push(Event::WriteFailed);
            return jobs.close();
        }
        snapshots.keep_from(log.beginning());
    }
}

fn write_all(log: &mut Log<RealDisk>, jobs: impl Iterator<Item = Job>, events: &Inbox<Event>) -> Result<(), LogError> {
    let began = Instant::now();
    let (mut last, mut bytes, mut compact) = (None, 0, None);
    for job in jobs {
        match job {
            Job::Write(write) => {
                last = Some(write.number);
                bytes += write.entries.iter().map(|entry| entry.data.len() as u64).sum::<u64>();
                append(log, to_log(write))?;
            }
            Job::Compact { up_to, snapshot } => {
                append(log, log::Write { snapshot: Some(meta_to_log(&snapshot)), ..log::Write::default() })?;
                compact = Some(up_to);
            }
        }
    }
    log.sync()?;
    if let Some(number) = last {
        let _ = events.push(Event::Written { number, bytes, took: began.elapsed() });
    }
    if let Some(up_to) = compact {
        log.compact(up_to.0)?;
    }
    Ok(())
}

/// Appends; what is too much for one sync is divided.
fn append(log: &mut Log<RealDisk>, write: log::Write) -> Result<(), LogError> {
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
    log::HardState { term: state.term.0, vote: state.vote.map_or(0, crate::NodeId::number), commit: state.commit.0 }
}

fn entry_to_log(entry: Entry) -> log::Entry {
    log::Entry { term: entry.term.0, index: entry.index.0, kind: entry.kind.code(), data: entry.data }
}

pub(super) fn meta_to_log(meta: &SnapshotMeta) -> log::SnapshotMeta {
    let mut membership = Vec::new();
    meta.membership.write(&mut membership);
    log::SnapshotMeta { index: meta.index.0, term: meta.term.0, membership: Bytes::from(membership) }
}
