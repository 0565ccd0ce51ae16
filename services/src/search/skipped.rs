//! Files that are left out of the corpus, and why.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Files that can't be searched, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The first of them by name; at most [`Skipped::NAMED`].
    pub named: Vec<(PathBuf, Skip)>,
    more: usize,
}

impl Skipped {
    /// How many are remembered by name.
    pub const NAMED: usize = 1000;

    /// How many there are.
    pub fn count(&self) -> usize {
        self.named.len() + self.more
    }

    /// Takes note of one.
    pub fn add(&mut self, path: PathBuf, why: Skip) {
        if self.named.len() < Self::NAMED { self.named.push((path, why)) } else { self.more += 1 }
    }

    /// Adds what another walk, or another thread, skipped.
    pub fn append(&mut self, other: Self) {
        self.more += other.more;
        for (path, why) in other.named {
            self.add(path, why);
        }
    }
}

/// Why a file isn't searched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Skip {
    /// The system refused to read it.
    #[error("unreadable ({0})")]
    Unreadable(io::ErrorKind),
    /// It is not text.
    #[error("not UTF-8 from byte {at}")]
    NotUtf8 {
        /// Where the first bad byte is.
        at: usize,
    },
    /// It is larger than the configuration allows.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// What is allowed.
        limit: u64,
    },
    /// It was there when the directory was walked, and gone when it was to be read.
    #[error("vanished")]
    Vanished,
}

impl Skip {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Vanished,
            kind => Self::Unreadable(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_skipped_files_are_named_but_all_are_counted() {
        let mut skipped = Skipped::default();
        for i in 0..Skipped::NAMED + 5 {
            skipped.add(PathBuf::from(i.to_string()), Skip::Vanished);
        }
        let mut all = Skipped::default();
        all.append(skipped);
        assert_eq!(all.count(), Skipped::NAMED + 5);
        assert_eq!(all.named.len(), Skipped::NAMED);
    }
}
