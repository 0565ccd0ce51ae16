//! What can go wrong with a store.

use std::path::PathBuf;

use thiserror::Error;

use crate::{Kv, Rows};

/// Why a store can't be opened, or doesn't do what it was asked to.
#[derive(Debug, Error)]
pub enum KvError {
    /// Another process has it open.
    #[error("{} is open in another process; stop that one, or give this one a directory of its own", path.display())]
    Locked {
        /// Which store.
        path: PathBuf,
    },
    /// It was made with other rows, and may hold what was written to it since.
    #[error("{} was made with {found}, not with {wanted}; ask for those, or name another directory", path.display())]
    OtherRows {
        /// Which store.
        path: PathBuf,
        /// What it was made with.
        found: Rows,
        /// What was asked for.
        wanted: Rows,
    },
    /// What it was made with can't be read.
    #[error("{} doesn't say what it was made with; remove it or name another directory", path.display())]
    Unknown {
        /// Which store.
        path: PathBuf,
    },
    /// A key that no row can have.
    #[error("a key has {bytes} bytes; allowed are 1 to {}", Kv::LONGEST_KEY)]
    Key {
        /// How long it is.
        bytes: usize,
    },
    /// A value that no row can have.
    #[error("a value has {bytes} bytes; allowed are 0 to {}", Kv::LONGEST_VALUE)]
    Value {
        /// How long it is.
        bytes: usize,
    },
    /// The store engine failed.
    #[error("store {}: {source}", path.display())]
    Engine {
        /// Which store.
        path: PathBuf,
        /// What it said.
        source: fjall::Error,
    },
}
