//! The thread that writes the log: all writes that wait share one sync.

use super::Event;
use super::inbox::Inbox;
pub(super) use super::stored::Job;
use super::stored::{Written, write_all};
use crate::log::{Log, LogError, RealDisk, Snapshots};
use std::time::Instant;

/// Writes until the inbox is closed, or until something fails: then nothing is acknowledged any more.
pub(super) fn run(mut log: Log<RealDisk>, snapshots: &Snapshots<RealDisk>, jobs: &Inbox<Job>, events: &Inbox<Event>) {
    let mut taken = Vec::new();
    loop {
        jobs.take(&mut taken, None);
        if taken.is_empty() && jobs.is_closed() {
            return;
        }
        if let Err(error) = write(&mut log, taken.drain(..), events) {
            tracing::error!(%error, "the log can't be written; this replica stops");
            let _ = events.push(Event::WriteFailed);
            return jobs.close();
        }
        snapshots.keep_from(log.beginning());
    }
}

fn write(log: &mut Log<RealDisk>, jobs: impl Iterator<Item = Job>, events: &Inbox<Event>) -> Result<(), LogError> {
    let began = Instant::now();
    let Written { number, bytes, compact } = write_all(log, jobs)?;
    if let Some(number) = number {
        let _ = events.push(Event::Written { number, bytes, took: began.elapsed() });
    }
    if let Some(up_to) = compact {
        log.compact(up_to.0)?;
    }
    Ok(())
}
