//! Reads what is on the disk, and decides what of it counts.
//!
//! A segment but the last has to be whole: the one after it says where it ends. In the last one, what begins at the
//! first bad block is
//! - *nothing*, if only zeros follow,
//! - *torn*, if it may be the last write: no whole block's header follows, and if its own header is whole, it has the next
//!   number, and nothing but zeros follows its end. The process ended, or the machine did, while it was written. It was never
//!   acknowledged, is cut off, and is reported;
//! - *damage* otherwise, as no block is written before the one ahead of it is durable: what it had may have been
//!   acknowledged. So are records that are whole and of terms that are over, or that take back a vote: they are not what
//!   this log wrote last. Damage is an error, and nothing is changed.
//!
//! One thing can't be told: if the last durable block of all rots, it looks like one that was torn. A replica that
//! loses an acknowledged block in that way may acknowledge another one in its place. Whoever must rule that out needs a
//! file system that checks what it reads.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::block::{self, Found};
use super::disk::{Disk, DiskFile};
use super::error::{Damage, LogError};
use super::header::{Header, Start};
use super::order::follows;
use super::record::{self, Record};
use super::segment::{self, Place};
use super::{Entry, HardState, LogConfig, SnapshotMeta, Torn};

/// The largest segment that is read: more than any that is written.
const SEGMENT_MOST: u64 = 1 << 30;

/// What was read.
pub(super) struct OnDisk<D: Disk> {
    pub(super) hard_state: HardState,
    pub(super) beginning: SnapshotMeta,
    pub(super) entries: Vec<Entry>,
    pub(super) torn: Option<Torn>,
    /// The segments, the last one excepted: their numbers, and the last entry when they ended.
    pub(super) closed: Vec<(u64, u64)>,
    pub(super) place: Place<D::File>,
}

/// Reads all segments of a directory; nothing if there is none.
pub(super) fn read<D: Disk>(disk: &D, config: &LogConfig) -> Result<Option<OnDisk<D>>, LogError> {
    let directory = &config.directory;
    let names = disk.list(directory).map_err(LogError::io("list", directory))?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| segment::number_of(name)).collect();
    numbers.sort_unstable();
    let Some((&first, &last)) = numbers.first().zip(numbers.last()) else { return Ok(None) };
    if let Some((missing, _)) = (first..).zip(&numbers).find(|(wanted, found)| wanted != *found) {
        return Err(LogError::Missing { file: segment::path(directory, missing) });
    }
    let mut replay: Option<Replay> = None;
    let mut before: Option<Read<D::File>> = None;
    let mut closed = Vec::new();
    for number in first..last {
        let read = Read::open(disk, config, number)?;
        let own = continued(&mut replay, &mut closed, before.as_ref(), &read)?;
        before = Some(read.replay(own, false)?.0);
    }
    let read = Read::open(disk, config, last)?;
    let own = continued(&mut replay, &mut closed, before.as_ref(), &read)?;
    let (mut read, torn) = read.replay(own, true)?;
    let Some(replay) = replay else { return Ok(None) };
    if replay.first > replay.beginning.index + 1 {
        return Err(LogError::Missing { file: segment::path(directory, first.saturating_sub(1)) });
    }
    read.settle(torn.as_ref()).map_err(LogError::io("write", &read.path))?;
    disk.sync_directory(directory).map_err(LogError::io("sync", directory))?;
    let place = Place {
        number: last,
        salt: read.header.salt,
        end: read.end as u64,
        size: read.bytes.len() as u64,
        next_block: read.next_block,
        file: read.file,
    };
    let Replay { hard_state, beginning, entries, .. } = replay;
    Ok(Some(OnDisk { hard_state, beginning, entries: entries.into(), torn, closed, place }))
}

/// Checks that a segment goes on where the one before it ended; the first one tells where it does.
fn continued<'a, F>(
    replay: &'a mut Option<Replay>,
    closed: &mut Vec<(u64, u64)>,
    before: Option<&Read<F>>,
    next: &Read<F>,
) -> Result<&'a mut Replay, LogError> {
    let Header { previous_end, first_block, start, .. } = &next.header;
    let replay = replay.get_or_insert_with(|| Replay::new(start));
    if let Some(before) = before {
        if before.end as u64 != *previous_end || before.next_block != *first_block {
            // The later one was made when the earlier one was whole.
            return Err(before.damaged(before.end, Damage::Short));
        }
        if replay.start() != *start {
            return Err(next.damaged(0, Damage::Sequence));
        }
        closed.push((before.header.number, start.last));
    }
    Ok(replay)
}

/// A segment that is read.
struct Read<F> {
    file: F,
    path: PathBuf,
    header: Header,
    bytes: Vec<u8>,
    /// Where the last block begins.
    last_block: usize,
    /// Up to where it was replayed.
    end: usize,
    next_block: u64,
}

impl<F: DiskFile> Read<F> {
    fn open<D: Disk<File = F>>(disk: &D, config: &LogConfig, number: u64) -> Result<Self, LogError> {
        let path = segment::path(&config.directory, number);
        let file = disk.open(&path).map_err(LogError::io("open", &path))?;
        let corrupt = |damage| LogError::Corrupt { file: path.clone(), offset: 0, damage };
        let length = file.length().map_err(LogError::io("read", &path))?;
        if length > SEGMENT_MOST {
            return Err(corrupt(Damage::Length));
        }
        let bytes = file.read_from(0, length as usize).map_err(LogError::io("read", &path))?;
        let (header, end) = Header::parse(&bytes).map_err(corrupt)?;
        if header.owner != config.owner {
            let directory = config.directory.clone();
            return Err(LogError::OtherOwner { directory, found: header.owner, wanted: config.owner });
        }
        if header.number != number {
            return Err(corrupt(Damage::Sequence));
        }
        Ok(Self { file, path, next_block: header.first_block, header, bytes, last_block: end, end })
    }

    /// Makes certain that the disk has what was read, and nothing else.
    ///
    /// The last block may have been read from memory that was never written to the disk, because the process ended
    /// before its sync, or because its sync failed: the system then believes that there is nothing left to write. So it
    /// is written again. The same goes for a torn block that was cut off: the file is left without room behind the cut
    /// until that is durable, and who finds it so cuts again. With room, zeros would be read where the disk has the torn
    /// block still, and it would come back behind a block that is written in its place.
    fn settle(&mut self, torn: Option<&Torn>) -> io::Result<()> {
        if torn.is_some() || self.end == self.bytes.len() {
            self.file.truncate(self.end as u64)?;
        }
        self.file.write_all_at(self.last_block as u64, &self.bytes[self.last_block..self.end])?;
        self.file.sync_data()?;
        if torn.is_some() {
            self.file.allocate(self.bytes.len() as u64)?;
        }
        Ok(())
    }

    /// Reads its blocks.
    fn replay(mut self, replay: &mut Replay, last: bool) -> Result<(Self, Option<Torn>), LogError> {
        loop {
            match block::at(&self.bytes, self.end, self.header.salt) {
                Found::Block { number, .. } if number != self.next_block => {
                    return Err(self.damaged(self.end, Damage::Number));
                }
                Found::Block { records, end, .. } => {
                    let records = record::parse(records).map_err(|_| self.damaged(self.end, Damage::Record))?;
                    for record in records {
                        replay.take(record).ok_or_else(|| self.damaged(self.end, Damage::Order))?;
                    }
                    (self.last_block, self.end, self.next_block) = (self.end, end, self.next_block + 1);
                }
                // Whether that is the end the next segment says.
                _ if !last => return Ok((self, None)),
                Found::Nothing => return Ok((self, None)),
                Found::Records { number, .. } if number != self.next_block => {
                    return Err(self.damaged(self.end, Damage::Number));
                }
                Found::Records { end, .. }
                    if self.bytes.get(end..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0)) =>
                {
                    let another = block::any_after(&self.bytes, self.end, self.header.salt);
                    return Err(self.damaged(self.end, if another { Damage::Block } else { Damage::Followed }));
                }
                Found::Broken if block::any_after(&self.bytes, self.end, self.header.salt) => {
                    return Err(self.damaged(self.end, Damage::Block));
                }
                Found::Broken | Found::Records { .. } => {
                    let tail = &self.bytes[self.end..];
                    let bytes = tail.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1) as u64;
                    let torn = Torn { file: self.path.clone(), offset: self.end as u64, bytes };
                    return Ok((self, Some(torn)));
                }
            }
        }
    }
}

impl<F> Read<F> {
    fn damaged(&self, offset: usize, damage: Damage) -> LogError {
        LogError::Corrupt { file: self.path.clone(), offset: offset as u64, damage }
    }
}

/// What the records so far add up to.
///
/// Entries before `first` were in segments that are gone; that is right if the log turns out to begin after them.
struct Replay {
    hard_state: HardState,
    beginning: SnapshotMeta,
    first: u64,
    entries: VecDeque<Entry>,
}

impl Replay {
    fn new(start: &Start) -> Self {
        let Start { hard_state, beginning, last } = start.clone();
        Self { hard_state, beginning, first: last.saturating_add(1), entries: VecDeque::new() }
    }

    fn last(&self) -> u64 {
        self.first + self.entries.len() as u64 - 1
    }

    /// The term of the last entry, or of the beginning; 0 if that was in a segment that is gone.
    fn last_term(&self) -> u64 {
        let beginning = if self.last() == self.beginning.index { self.beginning.term } else { 0 };
        self.entries.back().map_or(beginning, |entry| entry.term)
    }

    fn start(&self) -> Start {
        Start { hard_state: self.hard_state, beginning: self.beginning.clone(), last: self.last() }
    }

    /// Takes a record, unless it doesn't follow.
    fn take(&mut self, record: Record) -> Option<()> {
        match record {
            Record::HardState(state) if state.commit <= self.last() && follows(&self.hard_state, &state) => {
                self.hard_state = state;
            }
            Record::Entry(entry)
                if entry.index == self.last() + 1 && entry.index < u64::MAX && entry.term >= self.last_term() =>
            {
                self.entries.push_back(entry);
            }
            Record::Truncate(from) if from > self.beginning.index && from <= self.last() => {
                self.entries.truncate(from.saturating_sub(self.first) as usize);
                self.first = self.first.min(from);
            }
            Record::Beginning { meta, keep } if meta.index >= self.beginning.index && meta.index < u64::MAX => {
                if keep && meta.index <= self.last() {
                    let gone = (meta.index + 1).saturating_sub(self.first);
                    self.entries.drain(..gone as usize);
                    self.first += gone;
                } else if keep {
                    return None;
                } else {
                    self.entries.clear();
                    self.first = meta.index + 1;
                }
                self.beginning = meta;
            }
            _ => return None,
        }
        self.hard_state.commit = self.hard_state.commit.max(self.beginning.index);
        Some(())
    }
}

/// Removes a closed segment, durably: one that is older is never there without those after it.
pub(super) fn remove<D: Disk>(disk: &D, directory: &Path, number: u64) -> Result<(), LogError> {
    let path = segment::path(directory, number);
    disk.remove(&path).map_err(LogError::io("remove", &path))?;
    disk.sync_directory(directory).map_err(LogError::io("sync", directory))
}
