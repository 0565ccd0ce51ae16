//! What a replica leaves for its next start when a write or a sync has failed.
//!
//! After a failed sync the kernel takes what was to be written for written: whoever reads it gets it from memory, and it
//! never reaches the disk. So whatever is read after a new start, without a loss of power in between, can't be told from
//! what is durable. The log writes again what it recovers. A state machine has to be made again from the last snapshot and
//! the log. The mark need not be durable itself: when power is lost, what was in memory alone is lost with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The mark in a replica's directory that a write or a sync has failed since its state machine was last made anew.
#[derive(Clone, Debug)]
pub struct FailureMark(PathBuf);

impl FailureMark {
    /// That of a replica's directory.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        Self(directory.join("failed"))
    }

    /// Whether the state machine has to be made again.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.exists()
    }

    /// The state machine has been emptied.
    ///
    /// # Errors
    /// The mark is there and can't be removed.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A write or a sync has failed.
    pub(super) fn set(&self) {
        if let Err(error) = fs::write(&self.0, "") {
            tracing::error!(%error, path = %self.0.display(), "this file can't be made; make it before the next start");
        }
    }
}
