//! Writing the log: one thread at a time does it, and all writes that wait share one sync.
//!
//! Which one? The thread that drives the core gives up driving and writes what it has just decided on; another one drives
//! while there is something to do. So a lone write wakes nobody, and a busy replica has one thread that writes and one
//! that drives.
//!
//! # Protocol
//! Who has the *pen* takes all that waits, makes it durable, says so, and looks again. It gives the pen back under the
//! lock under which it has seen that nothing waits, so who adds something later finds the pen free. After a failure
//! nobody gets it any more.

use super::Event;
use super::inbox::Inbox;
use crate::log::{self, Log, LogError, RealDisk};
use crate::{Entry, HardState, Index, SnapshotMeta, core};
use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What is to be done to the log.
#[derive(Debug)]
pub(super) enum Job {
    Write(core::Write),
    Compact { up_to: Index, snapshot: SnapshotMeta },
}

/// The log, and what is to be done to it.
pub(super) struct Pen {
    jobs: Mutex<Jobs>,
    /// Locked by who has the pen, so never waited for.
    log: Mutex<Log<RealDisk>>,
}

#[derive(Default)]
struct Jobs {
    waiting: Vec<Job>,
    /// Somebody writes, or nobody may any more.
    held: bool,
}

/// Where the pen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// There is nothing to write.
    Nothing,
    /// There is, and nobody does it yet.
    Wanted,
    /// Somebody does it.
    UnderWay,
}

impl Pen {
    pub(super) fn new(log: Log<RealDisk>) -> Self {
        Self { jobs: Mutex::default(), log: Mutex::new(log) }
    }

    pub(super) fn push(&self, job: Job) {
        self.jobs().waiting.push(job);
    }

    pub(super) fn state(&self) -> Writing {
        let jobs = self.jobs();
        match (jobs.held, jobs.waiting.is_empty()) {
            (true, _) => Writing::UnderWay,
            (false, true) => Writing::Nothing,
            (false, false) => Writing::Wanted,
        }
    }

    /// Takes the pen and what waits, which goes into `jobs`, if there is something and nobody has the pen.
    pub(super) fn take(&self, jobs: &mut Vec<Job>) -> bool {
        let mut all = self.jobs();
        let takes = !all.held && !all.waiting.is_empty();
        if takes {
            all.held = true;
            std::mem::swap(&mut all.waiting, jobs);
        }
        takes
    }

    /// Writes until nothing waits, and gives the pen back. The last that this says is for the thread itself, which is
    /// to look at the events next.
    pub(super) fn write(&self, jobs: &mut Vec<Job>, events: &Inbox<Event>) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match write_all(&mut log, jobs, events) {
                Err(error) => {
                    tracing::error!(%error, "the log can't be written; this replica stops");
                    return events.leave_for_me(Event::WriteFailed);
                }
                Ok(written) => {
                    let mut all = self.jobs();
                    if all.waiting.is_empty() {
                        all.held = false;
                        return written.into_iter().for_each(|event| events.leave_for_me(event));
                    }
                    std::mem::swap(&mut all.waiting, jobs);
                    drop(all);
                    written.into_iter().for_each(|event| drop(events.push(event)));
                }
            }
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes all of it durable, and returns what is to be said of it, if it hasn't been said.
fn write_all(log: &mut Log<RealDisk>, jobs: &mut Vec<Job>, events: &Inbox<Event>) -> Result<Option<Event>, LogError> {
    let began = Instant::now();
    let (mut last, mut bytes, mut compact) = (None, 0, None);
    for job in jobs.drain(..) {
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
    let written = last.map(|number| Event::Written { number, bytes, took: began.elapsed() });
    let Some(up_to) = compact else { return Ok(written) };
    // Nobody waits for files to be removed.
    written.into_iter().for_each(|event| drop(events.push(event)));
    log.compact(up_to.0)?;
    Ok(None)
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
