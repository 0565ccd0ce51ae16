//! Applying what is committed, in the thread that drives the core, or in one of its own.
//!
//! What is little and quickly done isn't worth a thread's wake, let alone two: it is applied where it was decided on.
//! All else is for the machine's thread: what is much, what took long of late, snapshots, and whatever comes while that
//! thread has something to do, as the order stays.

use super::Event;
use super::inbox::Inbox;
use super::snapshots::SnapshotJob;
use crate::applier::{Applied, Applier, ApplyError};
use crate::core::Apply;
use crate::log::{RealDisk, Snapshots};
use crate::{SnapshotMeta, StateMachine};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most bytes of entries that are applied by the thread that drives.
const LITTLE: usize = 16 << 10;

/// Who usually takes longer doesn't apply by the thread that drives, in nanoseconds.
const QUICK: u64 = 250_000;

/// What the machine is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    Apply(Apply),
    Restore(SnapshotMeta),
    TakeSnapshot,
}

/// The state machine, as all of its threads see it.
///
/// 1. `open` counts the jobs that its own thread has, and those whose end who drives hasn't heard of. While there are
///    none, that thread doesn't have the lock and won't, as only who drives gives it jobs; and no answers are on their
///    way, which later ones must not overtake.
/// 2. `usual` is how long applying took of late, in nanoseconds.
pub(super) struct Machine<M> {
    applier: Mutex<Applier<M>>,
    jobs: Inbox<Job>,
    open: AtomicUsize,
    usual: AtomicU64,
}

/// The same, as who drives sees it, which doesn't know what kind of machine it is.
pub(super) trait Hand: Send + Sync {
    /// Applies here and now. For who drives, if [`is_free`](Self::is_free).
    fn apply(&self, apply: Apply) -> Result<Applied, ApplyError>;

    /// Has it done by the machine's thread.
    fn push(&self, job: Job);

    /// Who drives has heard that the machine's thread has applied or restored something.
    fn heard(&self);

    /// Whether entries of so many bytes can be applied here and now, and probably soon are.
    fn is_free(&self, bytes: usize) -> bool;

    /// Ends the machine's thread.
    fn close(&self);
}

impl<M: StateMachine> Machine<M> {
    pub(super) fn new(applier: Applier<M>) -> Arc<Self> {
        let (open, usual) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { applier: Mutex::new(applier), jobs: Inbox::new(), open, usual })
    }

    /// Does jobs until the inbox is closed, or until the machine fails.
    pub(super) fn run(&self, snapshots: &Snapshots<RealDisk>, events: &Inbox<Event>, writer: &Inbox<SnapshotJob>) {
        let mut taken = Vec::new();
        loop {
            self.jobs.take(&mut taken, None);
            if taken.is_empty() && self.jobs.is_closed() {
                return;
            }
            self.drop_superseded(&mut taken);
            for job in taken.drain(..) {
                let done = match job {
                    Job::Apply(apply) => self.apply(apply).map(Event::Applied),
                    Job::Restore(meta) => restore(&mut self.applier(), snapshots, meta),
                    Job::TakeSnapshot => {
                        let taken = self.take_snapshot(writer);
                        self.open.fetch_sub(1, Ordering::Release);
                        match taken {
                            Ok(true) => continue,
                            Ok(false) => Ok(Event::SnapshotFailed),
                            Err(error) => Err(error),
                        }
                    }
                };
                let event = done.unwrap_or_else(|error| failed(&error));
                let failed = matches!(event, Event::MachineFailed);
                let _ = events.push(event);
                if failed {
                    return self.jobs.close();
                }
            }
        }
    }

    /// Leaves out what a later snapshot takes the place of: the core hears of that one alone, and says of all before it
    /// that it can't know what came of them.
    fn drop_superseded(&self, jobs: &mut Vec<Job>) {
        let last = jobs.iter().rposition(|job| matches!(job, Job::Restore(_))).unwrap_or(0);
        jobs.drain(..last);
        self.open.fetch_sub(last, Ordering::Release);
    }

    /// Whether there will be one.
    fn take_snapshot(&self, writer: &Inbox<SnapshotJob>) -> Result<bool, ApplyError> {
        match self.applier().snapshot() {
            Ok(view) => Ok(writer.push(SnapshotJob::Take(view)).is_ok()),
            Err(error @ ApplyError::PassingOver { .. }) => {
                tracing::warn!(%error, "no snapshot can be taken; it is tried again later");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn applier(&self) -> MutexGuard<'_, Applier<M>> {
        self.applier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: StateMachine> Hand for Machine<M> {
    fn apply(&self, apply: Apply) -> Result<Applied, ApplyError> {
        let began = Instant::now();
        let applied = self.applier().apply(apply);
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let usual = self.usual.load(Ordering::Relaxed);
        self.usual.store(usual - usual / 4 + took / 4, Ordering::Relaxed);
        applied
    }

    fn push(&self, job: Job) {
        self.open.fetch_add(1, Ordering::Relaxed);
        // What can't be handed on is for a machine that has failed, and has said so.
        drop(self.jobs.push(job));
    }

    fn heard(&self) {
        self.open.fetch_sub(1, Ordering::Release);
    }

    fn is_free(&self, bytes: usize) -> bool {
        bytes <= LITTLE && self.usual.load(Ordering::Relaxed) <= QUICK && self.open.load(Ordering::Acquire) == 0
    }

    fn close(&self) {
        self.jobs.close();
    }
}

/// Says that the machine can't go on.
pub(super) fn failed(error: &ApplyError) -> Event {
    tracing::error!(%error, "the state machine can't go on; this replica stops");
    Event::MachineFailed
}

fn restore<M: StateMachine>(
    applier: &mut Applier<M>,
    snapshots: &Snapshots<RealDisk>,
    meta: SnapshotMeta,
) -> Result<Event, ApplyError> {
    let index = meta.index;
    restore_from(applier, snapshots, meta)?;
    snapshots.release(index.0);
    Ok(Event::Restored(index))
}

/// Gives the machine a snapshot's state.
pub(super) fn restore_from<M: StateMachine>(
    applier: &mut Applier<M>,
    snapshots: &Snapshots<RealDisk>,
    meta: SnapshotMeta,
) -> Result<(), ApplyError> {
    let mut reader = snapshots.read(meta.index.0, meta.term.0).map_err(std::io::Error::other)?;
    applier.restore(meta, &mut reader)
}
