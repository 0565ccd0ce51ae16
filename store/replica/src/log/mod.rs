//! The durable log of a replica: what consensus must not forget, and nothing else.
//!
//! [`Log::append`] takes what is to be written, [`Log::sync`] makes all of it durable with one write and one
//! `fdatasync`: group commit is the caller's turn. After a crash [`Log::open`] returns what was durable, in order, and
//! at most what the sync that was under way would have added, all of it or nothing.
//!
//! ```
//! use greenwave_replica::log::{Entry, HardState, Log, LogConfig, Owner, RealDisk, Write};
//!
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let config = LogConfig::new(directory, Owner { group: 7, replica: 1 });
//! let (mut log, recovered) = Log::open(RealDisk, &config)?;
//! assert!(recovered.entries.is_empty());
//! let entries = vec![Entry { term: 1, index: 1, kind: 0, data: "a command".into() }];
//! log.append(&Write { hard_state: Some(HardState { term: 1, vote: 1, commit: 0 }), entries, ..Write::default() })?;
//! log.sync()?;
//! drop(log);
//!
//! let (_log, recovered) = Log::open(RealDisk, &config)?;
//! assert_eq!(recovered.hard_state.vote, 1);
//! assert_eq!(&recovered.entries[0].data[..], b"a command");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//! | name | what |
//! |---|---|
//! | `lock` | held by the process that has the log open, whose number it says |
//! | `identity` | whose log it is, and of which group: see [`Identity`](crate::Identity) |
//! | `0000000000000001.log`, ... | segments: a header and blocks of records, each with a checksum |
//! | `spare` | the room for the next segment |
//! | `snapshot-...` | see [`Snapshots`] |
//!
//! # What is written first
//! At the first start, each step durable before the next one begins: the directory and what leads to it, `identity`, and the
//! first segment, which has its header before it has its name; then its name. Then blocks follow. Within a block all is written
//! or nothing. What is more than a block holds is written in several, the term and the vote first and the commit last, so that
//! no entry is there without the term that it is of.
//!
//! # Failures
//! - *A crash* in the middle of a sync leaves a torn block at the end, with nothing behind it. It was never acknowledged; it
//!   is cut off and reported ([`Recovered::torn`]).
//! - *Damage* anywhere else, and anything at the end that can't be a torn write, is an error that names file and place. Nothing is repaired by guessing: the group has other
//!   copies.
//! - *An error of write or fsync* poisons the log: every later call fails. Linux marks pages clean that it could not
//!   write, so a second fsync says that all is well when it isn't (Rebello et al., "Can Applications Recover from fsync
//!   Failures?", USENIX ATC 2020). Only what is read back after a restart counts.
//! - *A full disk* shows one segment ahead, as room is taken before it is needed: [`Log::append`] then refuses entries
//!   with [`LogError::Full`] and stays in order, so that votes can still be written and the log be compacted, also after
//!   a restart.
//!
//! # Why not an existing engine
//! raft-engine stores the same things. It retries after a failed fsync and can't be told not to, its files can't be put
//! on a disk that fails on purpose, it needs a C compiler, and keeps an index of entries in memory that a replica has
//! there anyway. What is needed here is less: append, sync, read all once, forget the oldest.

mod block;
mod claim;
pub mod disk;
mod error;
#[cfg(any(test, feature = "faults", feature = "fuzzing"))]
pub mod faulty;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod order;
mod record;
mod recovery;
mod segment;
mod snapshots;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

pub use claim::{Claim, IdentityFile};
pub use disk::{Disk, DiskFile, Locking, RealDisk, RealFile};
pub use error::{Damage, LogError, OrderError};
pub use snapshots::{SnapshotError, SnapshotReader, SnapshotWriter, Snapshots};

use block::{BLOCK_HEADER, BLOCK_MOST};
use header::Start;
use order::State;
use segment::Tail;

/// What consensus must remember of its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The latest term that was heard of.
    pub term: u64,
    /// Whom this replica voted for in it; 0 if nobody.
    pub vote: u64,
    /// The last entry known to be committed.
    pub commit: u64,
}

/// An entry of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The term in which it was proposed.
    pub term: u64,
    /// Its place in the log; the first one has 1.
    pub index: u64,
    /// What its data are; the log doesn't look.
    pub kind: u8,
    /// What it says.
    pub data: Bytes,
}

/// What a log says of its beginning: all up to there is in the state machine, or in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The last entry that is no longer in the log; 0 if all are there.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Who belongs to the group at that entry; the log doesn't look.
    pub membership: Bytes,
}

/// What is to be written together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The hard state from now on.
    pub hard_state: Option<HardState>,
    /// Where the log begins from now on. Comes before `entries`. The entries after it stay if the log has an entry of
    /// this index and term, and go otherwise. What it stands for has to be durable already.
    pub snapshot: Option<SnapshotMeta>,
    /// Entries, one after another, behind the last one or in place of it and those before it.
    pub entries: Vec<Entry>,
}

/// Whose log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The group's number.
    pub group: u64,
    /// The replica's number in it.
    pub replica: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replica {} of group {:x}", self.replica, self.group)
    }
}

/// How a log is opened.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Its directory, which is made if there is none.
    pub directory: PathBuf,
    /// Whose it is.
    pub owner: Owner,
    /// Bytes of a segment: how much is removed at a time, and how much room is held ready.
    pub segment_bytes: u64,
    /// How many bytes are filled with zeros ahead of what is written.
    pub ahead_bytes: u64,
}

impl LogConfig {
    /// 32 MiB: at a hundred thousand entries of 256 bytes a second, a segment a second.
    pub const SEGMENT_BYTES: u64 = 32 << 20;

    /// 256 KiB: some hundred microseconds of writing, once in so many bytes.
    pub const AHEAD_BYTES: u64 = 256 << 10;

    /// A log in `directory` with the sizes above.
    pub fn new(directory: impl Into<PathBuf>, owner: Owner) -> Self {
        let directory = directory.into();
        Self { directory, owner, segment_bytes: Self::SEGMENT_BYTES, ahead_bytes: Self::AHEAD_BYTES }
    }
}

/// What was durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The hard state. What lies before the log's beginning counts as committed.
    pub hard_state: HardState,
    /// Where the log begins.
    pub snapshot: SnapshotMeta,
    /// All entries after that.
    pub entries: Vec<Entry>,
    /// What was cut off at the end.
    pub torn: Option<Torn>,
}

/// A write that a crash had cut short, and that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// In which file.
    pub file: PathBuf,
    /// Where it began.
    pub offset: u64,
    /// How many bytes of it there were.
    pub bytes: u64,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, bytes } = self;
        write!(f, "{}: cut off {bytes} bytes at {offset} that were written when the process ended", file.display())
    }
}

/// A replica's log.
///
/// 1. `durable` is what the disk has for certain; `state` is that and what `pending` adds.
/// 2. `pending` is room for a block's header and the records of all appends since the last sync.
/// 3. Once `poisoned`, nothing is written any more.
pub struct Log<D: Disk> {
    disk: D,
    directory: PathBuf,
    tail: Tail<D>,
    /// Segments before the one that is written to: number, and the last entry when it ended.
    closed: Vec<(u64, u64)>,
    durable: Start,
    state: State,
    pending: Vec<u8>,
    poisoned: Option<Arc<str>>,
    _lock: D::Lock,
}

impl<D: Disk> Log<D> {
    /// The most bytes of records that may wait for a sync.
    pub const PENDING_MOST: usize = BLOCK_MOST;

    /// Opens a log, and makes it if the directory has none.
    ///
    /// # Errors
    /// When another process has it open, it is another replica's, it is damaged, or the file system fails.
    pub fn open(disk: D, config: &LogConfig) -> Result<(Self, Recovered), LogError> {
        Claim::take(disk, &config.directory)?.open(config)
    }
}

impl<D: Disk> Claim<D> {
    /// Opens the log of this directory, as [`Log::open`] does. `config` has to name the same directory.
    ///
    /// # Errors
    /// The log is another replica's, it is damaged, or the file system fails.
    pub fn open(self, config: &LogConfig) -> Result<(Log<D>, Recovered), LogError> {
        let Self { disk, directory: _, lock } = self;
        let (tail, closed, recovered) = match recovery::read(&disk, config)? {
            None => (Tail::first(disk.clone(), config)?, Vec::new(), Recovered::default()),
            Some(found) => {
                let recovery::OnDisk { hard_state, beginning, entries, torn, closed, place } = found;
                let recovered = Recovered { hard_state, snapshot: beginning, entries, torn };
                (Tail::at(disk.clone(), config, place)?, closed, recovered)
            }
        };
        let state = State::new(recovered.hard_state, recovered.snapshot.clone(), &recovered.entries);
        let directory = config.directory.clone();
        let (durable, pending) = (state.start(), vec![0; BLOCK_HEADER]);
        let log = Log { disk, directory, tail, closed, durable, state, pending, poisoned: None, _lock: lock };
        Ok((log, recovered))
    }
}

impl<D: Disk> Log<D> {
    /// Takes what the next [`sync`](Self::sync) is to write. Nothing is taken if this fails.
    ///
    /// # Errors
    /// When it doesn't follow from what is there, is too much, or there is no room for it; the log can be used on then.
    /// When the file system fails or has failed before.
    pub fn append(&mut self, write: &Write) -> Result<(), LogError> {
        self.sound()?;
        let change = self.state.check(write)?;
        let length = self.pending.len() - BLOCK_HEADER + change.length;
        if length > Self::PENDING_MOST {
            return Err(LogError::TooLarge { bytes: length as u64, most: Self::PENDING_MOST as u64 });
        }
        match self.tail.reserve(length, !write.entries.is_empty(), &self.durable) {
            Err(LogError::Full { directory, needed }) => return Err(LogError::Full { directory, needed }),
            other => self.noted(other)?,
        }
        self.state.apply(write, &change, &mut self.pending);
        Ok(())
    }

    /// Makes durable all that was appended. Does nothing if nothing was.
    ///
    /// # Errors
    /// When the file system fails or has failed before: nothing that was appended since the last sync may be
    /// acknowledged, now or ever.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.sound()?;
        if self.pending.len() == BLOCK_HEADER {
            return Ok(());
        }
        let number = self.tail.number();
        let written = self.tail.write(&mut self.pending, &self.durable);
        if self.noted(written)? {
            self.closed.push((number, self.durable.last));
        }
        self.pending.truncate(BLOCK_HEADER);
        self.pending.shrink_to(PENDING_KEPT);
        self.durable = self.state.start();
        // The spare one was taken, or the disk was full.
        if !self.tail.has_spare() {
            let provided = self.tail.provide(0);
            self.noted(provided)?;
        }
        Ok(())
    }

    /// Removes the segments of which nothing is needed any more: all of whose entries are at or before `up_to`, and
    /// before the log's beginning as it is durable. Returns how many.
    ///
    /// # Errors
    /// When the file system fails or has failed before.
    pub fn compact(&mut self, up_to: u64) -> Result<usize, LogError> {
        self.sound()?;
        let up_to = up_to.min(self.durable.beginning.index);
        let count = self.closed.iter().take_while(|(_, last)| *last <= up_to).count();
        for _ in 0..count {
            let removed = recovery::remove(&self.disk, &self.directory, self.closed[0].0);
            self.noted(removed)?;
            self.closed.remove(0);
        }
        if count > 0 {
            let provided = self.tail.provide(0);
            self.noted(provided)?;
        }
        Ok(count)
    }

    /// Index of the last entry, or of the beginning if there is none. Counts what isn't durable yet.
    pub fn last(&self) -> u64 {
        self.state.last()
    }

    /// Where the log begins: the first entry it has is the one after. Counts what isn't durable yet.
    pub fn beginning(&self) -> u64 {
        self.state.beginning()
    }

    /// Whether the disk had no room for another segment: soon entries will be refused unless the log is compacted.
    pub fn is_short_of_room(&self) -> bool {
        !self.tail.has_spare()
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.closed.len() + 1
    }

    fn sound(&self) -> Result<(), LogError> {
        match &self.poisoned {
            None => Ok(()),
            Some(cause) => Err(LogError::Poisoned { cause: cause.clone() }),
        }
    }

    /// Whatever fails, nothing is written after it.
    fn noted<T>(&mut self, done: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error) = &done {
            self.poisoned = Some(error.to_string().into());
        }
        done
    }
}

/// Bytes of a buffer that is kept from one sync to the next.
const PENDING_KEPT: usize = 4 << 20;
