//! The thread that owns the state machine.

use super::Event;
use super::inbox::Inbox;
use super::snapshots::SnapshotJob;
use crate::applier::{Applier, ApplyError};
use crate::core::Apply;
use crate::log::{RealDisk, Snapshots};
use crate::{SnapshotMeta, StateMachine};

/// What the thread is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    Apply(Apply),
    Restore(SnapshotMeta),
    TakeSnapshot,
}

/// Applies until the inbox is closed, or until the machine fails.
pub(super) fn run<M: StateMachine>(
    mut applier: Applier<M>,
    snapshots: &Snapshots<RealDisk>,
    jobs: &Inbox<Job>,
    events: &Inbox<Event>,
    writer: &Inbox<SnapshotJob>,
) {
    let mut taken = Vec::new();
    loop {
        jobs.take(&mut taken, None);
        if taken.is_empty() && jobs.is_closed() {
            return;
        }
        for job in taken.drain(..) {
            let done = match job {
                Job::Apply(apply) => applier.apply(apply).map(Event::Applied),
                Job::Restore(meta) => restore(&mut applier, snapshots, meta),
                Job::TakeSnapshot => match applier.snapshot() {
                    Ok(view) => match writer.push(SnapshotJob::Take(view)) {
                        Ok(()) => continue,
                        Err(_) => Ok(Event::SnapshotFailed),
                    },
                    Err(error) => {
                        tracing::warn!(%error, "no snapshot can be taken; it is tried again later");
                        Ok(Event::SnapshotFailed)
                    }
                },
            };
            let event = done.unwrap_or_else(|error| {
                tracing::error!(%error, "the state machine can't go on; this replica stops");
                Event::MachineFailed
            });
            let failed = matches!(event, Event::MachineFailed);
            let _ = events.push(event);
            if failed {
                return jobs.close();
            }
        }
    }
}

fn restore<M: StateMachine>(
    applier: &mut Applier<M>,
    snapshots: &Snapshots<RealDisk>,
    meta: SnapshotMeta,
) -> Result<Event, ApplyError> {
    let index = meta.index;
    restore_from(applier, snapshots, meta)?;
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
