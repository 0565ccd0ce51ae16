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
pub(super) use super::stored::Job;
use super::stored::{Written, write_all};
use crate::log::{Log, LogError, RealDisk, Snapshots};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The log, and what is to be done to it.
pub(super) struct Pen {
    jobs: Mutex<Jobs>,
    /// Locked by who has the pen, so never waited for.
    log: Mutex<Log<RealDisk>>,
    snapshots: Snapshots<RealDisk>,
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
    pub(super) fn new(log: Log<RealDisk>, snapshots: Snapshots<RealDisk>) -> Self {
        Self { jobs: Mutex::default(), log: Mutex::new(log), snapshots }
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
            match self.write_once(&mut log, jobs, events) {
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

    /// Makes all of it durable, and returns what is to be said of it, if it hasn't been said.
    fn write_once(
        &self,
        log: &mut Log<RealDisk>,
        jobs: &mut Vec<Job>,
        events: &Inbox<Event>,
    ) -> Result<Option<Event>, LogError> {
        let began = Instant::now();
        let Written { number, bytes, compact } = write_all(log, jobs.drain(..))?;
        let said = number.map(|number| Event::Written { number, bytes, took: began.elapsed() });
        let said = if let Some(up_to) = compact {
            // Nobody waits for files to be removed.
            said.into_iter().for_each(|event| drop(events.push(event)));
            log.compact(up_to.0)?;
            None
        } else {
            said
        };
        self.snapshots.keep_from(log.beginning());
        Ok(said)
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
