//! What a replica leaves for its next start when a write or a sync has failed.
//!
//! After a failed sync the kernel takes what was to be written for written: whoever reads it gets it from memory, and it
//! never reaches the disk. So whatever is read after a new start, without a loss of power in between, can't be told from
//! what is durable. The log writes again what it recovers. A state machine has to be made again from the last snapshot and
//! the log. The mark need not be durable itself: when power is lost, what was in memory alone is lost with it.

use crate::log::RealDisk;
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

    /// Makes the file that [`set`](Self::set) gives another name: a disk that is full has no room for a new one.
    ///
    /// # Errors
    /// It can't be made.
    pub fn prepare(&self) -> io::Result<()> {
        fs::write(self.prepared(), "")
    }

    /// The state machine has been emptied.
    ///
    /// # Errors
    /// The mark is there and can't be removed.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            // A loss of power must not bring it back: all would be made again for nothing.
            Ok(()) => RealDisk.sync_name(&self.0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A write or a sync has failed.
    pub fn set(&self) {
        let set = fs::rename(self.prepared(), &self.0).or_else(|_| fs::write(&self.0, ""));
        if let Err(error) = set {
            tracing::error!(%error, path = %self.0.display(), "this file can't be made; make it before the next start");
        }
    }

    fn prepared(&self) -> PathBuf {
        self.0.with_extension("prepared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_needs_no_new_file_where_one_was_prepared() {
        let directory = tempfile::tempdir().unwrap();
        let mark = FailureMark::of(directory.path());
        for is_prepared in [true, false] {
            if is_prepared {
                mark.prepare().unwrap();
            }
            let files = || fs::read_dir(directory.path()).unwrap().count();
            let before = files();
            assert!(!mark.is_set());
            mark.set();
            assert_eq!((mark.is_set(), files()), (true, 1), "{before} before");
            mark.clear().unwrap();
            mark.clear().unwrap();
            assert!(!mark.is_set());
        }
    }
}
