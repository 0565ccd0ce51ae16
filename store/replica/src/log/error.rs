//! What can go wrong with a log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::Owner;

/// Why a log can't be opened, or doesn't do what it was asked to.
#[derive(Debug, Error)]
pub enum LogError {
    /// Another process has it open.
    #[error("{} is in use by {holder}; stop that one, or give this replica a directory of its own", directory.display())]
    Locked {
        /// Which directory.
        directory: PathBuf,
        /// What is known of who has it.
        holder: String,
    },
    /// It is another replica's.
    #[error("{} belongs to {found}, not to {wanted}; name the directory of {wanted}, or an empty one", directory.display())]
    OtherOwner {
        /// Which directory.
        directory: PathBuf,
        /// Whose it is.
        found: Owner,
        /// Who asked for it.
        wanted: Owner,
    },
    /// Bytes that were once durable are no longer what they were.
    #[error(
        "{} is damaged at byte {offset}: {damage}; restore the file, or remove this replica from its group and add it \
         again with an empty directory",
        file.display()
    )]
    Corrupt {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        damage: Damage,
    },
    /// A file that the others need isn't there.
    #[error(
        "{} is missing; restore it, or remove this replica from its group and add it again with an empty directory",
        file.display()
    )]
    Missing {
        /// Which one.
        file: PathBuf,
    },
    /// The disk is full. Nothing was written, and the log can still be compacted.
    #[error("no room for {needed} more bytes in {}; free some, and start the replica again", directory.display())]
    Full {
        /// Where.
        directory: PathBuf,
        /// How much is needed.
        needed: u64,
    },
    /// More than a log takes at a time.
    #[error("{bytes} bytes are too much for one write; allowed are {most}, in what isn't synced yet all together")]
    TooLarge {
        /// How much it is.
        bytes: u64,
        /// How much it may be.
        most: u64,
    },
    /// What was to be written doesn't follow from what is there. Nothing was written.
    #[error("what is to be written doesn't fit what is there: {0}; this is a mistake of the program")]
    Order(#[from] OrderError),
    /// The file system failed. What is durable is unknown, and the process has to start again.
    #[error("can't {action} {}: {source}; see to the disk, and start the replica again", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The file system failed before, and nothing is written since.
    #[error("nothing is written after a failure ({cause}); start the replica again")]
    Poisoned {
        /// What failed.
        cause: Arc<str>,
    },
}

/// What is wrong at a place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// It doesn't begin as files of a log do.
    #[error("this is no file of a log")]
    Magic,
    /// It was written by a later version.
    #[error("its format has version {0}, and this program knows version 1")]
    Version(u8),
    /// Its first bytes are not what was written.
    #[error("the checksum of its header is wrong")]
    Header,
    /// A header is whole, and says something that can't be.
    #[error("its header doesn't follow from the files before it")]
    Sequence,
    /// A block is not what was written, and a whole one follows, so this was no crash.
    #[error("the block there is not what was written, though what follows it is whole")]
    Block,
    /// A block says it has another number.
    #[error("the block there is not the one that should follow")]
    Number,
    /// A block is not what was written, and something follows it, so it was durable once.
    #[error(
        "the block there is not what was written, and isn't the last that was: what it had may have been acknowledged"
    )]
    Followed,
    /// A checksum is right, and what it covers can't be read.
    #[error("the record there can't be read")]
    Record,
    /// A record can be read, and doesn't follow from those before it.
    #[error("the record there doesn't follow from those before it")]
    Order,
    /// It is larger than any that is written.
    #[error("it has more bytes than any file of a log")]
    Length,
    /// It ends too early.
    #[error("it ends before what was written does")]
    Short,
}

/// How a write doesn't fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// An entry's index isn't the one that is next, nor replaces one.
    #[error("an entry has index {found}, and the next one is {next}")]
    Gap {
        /// The entry's.
        found: u64,
        /// What the log has up to, and one.
        next: u64,
    },
    /// An entry would replace one that was compacted.
    #[error("an entry has index {found}, and all up to {base} are compacted")]
    Compacted {
        /// The entry's.
        found: u64,
        /// Where the log begins.
        base: u64,
    },
    /// An entry's term is less than that of the one before it.
    #[error("entry {index} has term {term}, and the one before it term {before}")]
    Term {
        /// The entry.
        index: u64,
        /// Its term.
        term: u64,
        /// That of the one before.
        before: u64,
    },
    /// A term would go back, or a vote be changed.
    #[error("the term would be {term} with another vote, and it is {before}; votes and terms are for good")]
    HardState {
        /// The term that is said.
        term: u64,
        /// The one there is.
        before: u64,
    },
    /// The log would begin earlier than it does.
    #[error("the log begins after {base}, and is to begin after {found}")]
    Snapshot {
        /// Where it is to begin.
        found: u64,
        /// Where it begins.
        base: u64,
    },
    /// More is said to be committed than the log has.
    #[error("{commit} is said to be committed, and the last entry is {last}")]
    Commit {
        /// What is said.
        commit: u64,
        /// What there is.
        last: u64,
    },
}

impl LogError {
    /// Says what was tried when the file system failed.
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
