//! The segment that is written to, and the spare one that comes after it.
//!
//! A segment has all its room on the disk before it gets a header, so that a full disk shows when there is still time.
//! But room that was never written to costs the disk a change of its own books with every write (ext4 turns extents
//! from unwritten to written, in its journal). So zeros are written ahead of the blocks, and most syncs then write
//! data alone.
//!
//! Measured with `cargo run --release -p greenwave-replica --example log_sync`.

use std::path::{Path, PathBuf};

use super::block::{self, BLOCK_HEADER};
use super::disk::{Disk, DiskFile};
use super::error::LogError;
use super::header::{Header, Start};
use super::{LogConfig, Owner};

const SPARE: &str = "spare";

/// The room at the end of a segment that entries leave to all else while there is no spare one: enough for some
/// thousand votes, and for the word that the log begins later.
const KEPT_BACK: u64 = 64 << 10;

/// The segments that are written to.
///
/// 1. `end <= written <= size`; from `end` on the file holds zeros, and up to `written` they were written.
/// 2. The spare has no header and no name that recovery reads.
pub(super) struct Tail<D: Disk> {
    disk: D,
    directory: PathBuf,
    owner: Owner,
    file: D::File,
    path: PathBuf,
    number: u64,
    salt: u64,
    /// Where the next block goes.
    end: u64,
    written: u64,
    size: u64,
    next_block: u64,
    spare: Option<Spare<D::File>>,
    segment_bytes: u64,
    ahead_bytes: u64,
}

/// A segment to be, of so many bytes.
struct Spare<F> {
    file: F,
    size: u64,
}

/// Where a segment goes on.
pub(super) struct Place<F> {
    pub(super) file: F,
    pub(super) number: u64,
    pub(super) salt: u64,
    pub(super) end: u64,
    pub(super) size: u64,
    pub(super) next_block: u64,
}

impl<D: Disk> Tail<D> {
    /// Goes on where the last segment ends.
    pub(super) fn at(disk: D, config: &LogConfig, place: Place<D::File>) -> Result<Self, LogError> {
        let Place { file, number, salt, end, size, next_block } = place;
        let mut tail = Self {
            path: path(&config.directory, number),
            directory: config.directory.clone(),
            owner: config.owner,
            disk,
            file,
            number,
            salt,
            end,
            written: end,
            size,
            next_block,
            spare: None,
            segment_bytes: config.segment_bytes,
            ahead_bytes: config.ahead_bytes,
        };
        tail.provide(0)?;
        Ok(tail)
    }

    /// The first segment of a new log.
    pub(super) fn first(disk: D, config: &LogConfig) -> Result<Self, LogError> {
        let directory = &config.directory;
        let header = Header {
            number: 1,
            salt: disk.salt(),
            owner: config.owner,
            previous_end: 0,
            first_block: 1,
            start: Start::default(),
        };
        let mut spare = allocate(&disk, directory, config.segment_bytes)?;
        let end = name(&disk, directory, &mut spare.file, &header)?;
        let place = Place { file: spare.file, number: 1, salt: header.salt, end, size: spare.size, next_block: 1 };
        Self::at(disk, config, place)
    }

    /// The number of the segment that is written to.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether there is room for as many entries as a segment has.
    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// Sees to it that there is room for so many bytes of records, in this segment or in the spare one.
    ///
    /// # Errors
    /// [`LogError::Full`], and nothing has changed. Other errors leave the log as it is as well.
    pub(super) fn reserve(&mut self, records: usize, entries: bool, start: &Start) -> Result<(), LogError> {
        let needed = block::length_of(records) as u64;
        let another = Header::length(start) as u64 + needed;
        let kept_back = if entries { KEPT_BACK } else { 0 };
        if self.spare_bytes() >= another || needed + kept_back <= self.size - self.end {
            return Ok(());
        }
        self.provide(another)?;
        if self.spare_bytes() >= another {
            Ok(())
        } else {
            Err(LogError::Full { directory: self.directory.clone(), needed })
        }
    }

    /// Writes a block, whose records follow [`BLOCK_HEADER`] bytes of room, and makes it durable. What `start` says is
    /// the state before it. Says whether it went to another segment.
    ///
    /// # Errors
    /// When the file system fails; what is durable is then unknown.
    pub(super) fn write(&mut self, buffer: &mut Vec<u8>, start: &Start) -> Result<bool, LogError> {
        let length = block::length_of(buffer.len() - BLOCK_HEADER) as u64;
        let another = length > self.size - self.end;
        if another {
            self.advance(start, length)?;
        }
        block::seal(buffer, self.end, self.next_block, self.salt);
        let end = self.end + length;
        if end > self.written {
            self.written = (end + self.ahead_bytes).next_multiple_of(4096).min(self.size).max(end);
            buffer.resize((self.written - self.end) as usize, 0);
        }
        self.file.write_all_at(self.end, buffer).map_err(LogError::io("write", &self.path))?;
        self.file.sync_data().map_err(LogError::io("sync", &self.path))?;
        self.end = end;
        self.next_block += 1;
        Ok(another)
    }

    /// Makes a spare segment if there is none, or none of so many bytes. On a full disk there is none afterwards.
    pub(super) fn provide(&mut self, bytes: u64) -> Result<(), LogError> {
        if self.has_spare() && self.spare_bytes() >= bytes {
            return Ok(());
        }
        self.spare = None;
        match allocate(&self.disk, &self.directory, self.segment_bytes.max(bytes)) {
            Ok(spare) => self.spare = Some(spare),
            Err(LogError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn spare_bytes(&self) -> u64 {
        self.spare.as_ref().map_or(0, |spare| spare.size)
    }

    /// Goes on to the spare segment, which [`reserve`](Self::reserve) has seen to be large enough.
    fn advance(&mut self, start: &Start, needed: u64) -> Result<(), LogError> {
        let full = || LogError::Full { directory: self.directory.clone(), needed };
        let mut spare = self.spare.take().ok_or_else(full)?;
        if spare.size < Header::length(start) as u64 + needed {
            return Err(full());
        }
        let header = Header {
            number: self.number + 1,
            salt: self.disk.salt(),
            owner: self.owner,
            previous_end: self.end,
            first_block: self.next_block,
            start: start.clone(),
        };
        let end = name(&self.disk, &self.directory, &mut spare.file, &header)?;
        self.file = spare.file;
        self.path = path(&self.directory, header.number);
        (self.number, self.salt) = (header.number, header.salt);
        (self.end, self.written, self.size) = (end, end, spare.size);
        Ok(())
    }
}

/// Where a segment is.
pub(super) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.log"))
}

/// The number of a segment of that name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    plain.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// A new file with so much room, in place of what a crash may have left.
fn allocate<D: Disk>(disk: &D, directory: &Path, bytes: u64) -> Result<Spare<D::File>, LogError> {
    let path = directory.join(SPARE);
    let made = disk.create(&path).and_then(|mut file| file.allocate(bytes).map(|()| file));
    match made {
        Ok(file) => Ok(Spare { file, size: bytes }),
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            // It may hold a part of what was asked for.
            let _gone_if_it_was_there = disk.remove(&path);
            Err(LogError::Full { directory: directory.to_owned(), needed: bytes })
        }
        Err(error) => Err(LogError::io("allocate", path)(error)),
    }
}

/// Makes a segment of the spare file, durably, and says where its first block goes. It has its header before it has its
/// name, so a segment without one is damaged.
fn name<D: Disk>(disk: &D, directory: &Path, file: &mut D::File, header: &Header) -> Result<u64, LogError> {
    let (from, to) = (directory.join(SPARE), path(directory, header.number));
    let encoded = header.encode();
    file.write_all_at(0, &encoded).map_err(LogError::io("write", &from))?;
    file.sync_data().map_err(LogError::io("sync", &from))?;
    disk.rename(&from, &to).map_err(LogError::io("rename", &from))?;
    disk.sync_directory(directory).map_err(LogError::io("sync", directory))?;
    Ok(encoded.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_not() {
        let directory = Path::new("x");
        for number in [0, 1, 0xabc, u64::MAX] {
            let name = path(directory, number).file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(number_of(&name), Some(number));
        }
        for name in ["spare", "lock", "1.log", "000000000000000g.log", "+00000000000000f.log", "000000000000000F.log"] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
