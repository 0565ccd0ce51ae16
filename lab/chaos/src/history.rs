//! What clients asked and were answered, in the order of a clock that all of them share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A call to the store, from when it was made to when it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Who made it.
    pub(crate) client: usize,
    /// When it was made, in ns since the run began.
    pub(crate) called: u64,
    /// When its outcome was known, in ns since the run began.
    pub(crate) ended: u64,
    /// What was asked.
    pub(crate) ask: Ask,
    /// What came of it.
    pub(crate) outcome: Outcome,
}

/// What is asked of the store. A value is the name of one write, and no two writes have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// The value of a key.
    Get {
        /// Which.
        key: String,
    },
    /// A key gets a value.
    Put {
        /// Which.
        key: String,
        /// Its value.
        value: String,
    },
    /// A key loses its value.
    Delete {
        /// Which.
        key: String,
    },
    /// A key gets a value if it has the one that is expected.
    Swap {
        /// Which.
        key: String,
        /// What it has to have; it must have none if that is `None`.
        expected: Option<String>,
        /// Its value then.
        value: String,
    },
    /// All rows of some keys.
    Scan {
        /// Which keys may be among them.
        keys: Vec<String>,
    },
}

impl Ask {
    /// Whether it asks for a key, or for what may be there.
    pub(crate) fn concerns(&self, of: &str) -> bool {
        match self {
            Self::Get { key } | Self::Put { key, .. } | Self::Delete { key } | Self::Swap { key, .. } => key == of,
            Self::Scan { keys } => keys.iter().any(|key| key == of),
        }
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The write is done.
    Written,
    /// The value that was read.
    Value(Option<String>),
    /// There was something to delete, or not.
    Deleted(bool),
    /// It was swapped.
    Swapped,
    /// It was not swapped; this is what was found.
    NotSwapped(Option<String>),
    /// The rows that there are.
    Rows(Vec<(String, String)>),
    /// Nothing was done, the client was told.
    Failed(String),
    /// It may be done, or be done later, or never; the client was told.
    Unknown(String),
}

/// How many calls came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// They were answered.
    pub(crate) answered: u64,
    /// Nothing was done.
    pub(crate) failed: u64,
    /// Nobody knows.
    pub(crate) unknown: u64,
}

impl Count {
    /// One more.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Unknown(_) => self.unknown += 1,
            _ => self.answered += 1,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        let Self { client, called, ended, ask, outcome } = self;
        write!(f, "{:>12.3} to {:>12.3} ms, client {client}: {ask:?} -> {outcome:?}", ms(*called), ms(*ended))
    }
}
