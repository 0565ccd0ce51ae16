//! Snapshots of a state machine, as files.
//!
//! `snapshot-INDEX-TERM` (16 hexadecimal digits each) has a header, pieces, and an end. It is written under another
//! name, made durable, and then renamed, so what has the name is whole. All numbers are little-endian.
//!
//! | part | bytes |
//! |---|---|
//! | header | `GWSNAP`, zero, version 1; group, replica, index, term: u64 each; length of the membership: u32; membership; CRC32C of all that |
//! | piece | length: u32, 1 to 1 MiB; CRC32C of the bytes of all pieces up to and with this one; bytes |
//! | end | zero: u32; CRC32C of all pieces; bytes of all pieces: u64 |

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, BufMut, Bytes};
use crc32c::{crc32c, crc32c_append};
use thiserror::Error;

use super::disk::{Disk, DiskFile};
use super::{Owner, SnapshotMeta};

const MAGIC: &[u8; 8] = b"GWSNAP\0\x01";
const FIXED: usize = 8 + 4 * 8 + 4;
const MEMBERSHIP_MOST: usize = 1 << 20;

/// Bytes of the largest piece that is read.
const PIECE_MOST: usize = 1 << 20;

/// Bytes of the pieces that are written.
const PIECE: usize = 256 << 10;

/// Bytes that are written between two syncs, so that the last one doesn't have to write everything.
const SYNC_EVERY: u64 = 16 << 20;

/// Why a snapshot can't be written or read.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// It isn't what was written.
    #[error("{} is damaged at byte {offset}; remove it, and the replica is given another one by its group", file.display())]
    Corrupt {
        /// Which one.
        file: PathBuf,
        /// Where.
        offset: u64,
    },
    /// It is another replica's.
    #[error("{} belongs to {found}, not to {wanted}; name the directory of {wanted}, or an empty one", file.display())]
    OtherOwner {
        /// Which one.
        file: PathBuf,
        /// Whose it is.
        found: Owner,
        /// Who asked for it.
        wanted: Owner,
    },
    /// The disk is full.
    #[error("no room for a snapshot in {}; free some", directory.display())]
    Full {
        /// Where.
        directory: PathBuf,
    },
    /// The file system failed.
    #[error("can't {action} {}: {source}; see to the disk", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
}

/// The snapshots in a directory, which is a log's: whoever uses it holds the log.
#[derive(Clone)]
pub struct Snapshots<D: Disk> {
    disk: D,
    directory: PathBuf,
    owner: Owner,
    /// Those from this index on are kept.
    from: Arc<AtomicU64>,
    /// Those of these indices are kept too.
    held: Arc<Mutex<BTreeSet<u64>>>,
}

/// A snapshot that is being written. Dropping it leaves a file that the next one replaces.
pub struct SnapshotWriter<D: Disk> {
    snapshots: Snapshots<D>,
    file: D::File,
    meta: SnapshotMeta,
    piece: Vec<u8>,
    offset: u64,
    synced: u64,
    sum: u32,
    bytes: u64,
}

/// A snapshot that is being read. Bytes that it gives out were checked; the end of file comes when all were there.
pub struct SnapshotReader<F> {
    file: F,
    path: PathBuf,
    meta: SnapshotMeta,
    piece: Bytes,
    offset: u64,
    sum: u32,
    bytes: u64,
    ended: bool,
}

impl<D: Disk> Snapshots<D> {
    /// How many are kept at least, beside those that [`keep_from`](Self::keep_from) and [`hold`](Self::hold) say.
    pub const KEPT: usize = 2;

    /// Those of a directory; what a crash left half written is removed.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn open(disk: D, directory: &Path, owner: Owner) -> Result<Self, SnapshotError> {
        let from = Arc::new(AtomicU64::new(u64::MAX));
        let snapshots = Self { disk, directory: directory.to_owned(), owner, from, held: Arc::default() };
        for name in snapshots.names()? {
            if name.starts_with("snapshot-") && place_of(&name).is_none() {
                snapshots.remove(&name)?;
            }
        }
        Ok(snapshots)
    }

    /// From now on those from this index on are kept, of all that write to this directory: the log begins there, as it is
    /// durable, and a replica can't start without the snapshot of its log's beginning.
    pub fn keep_from(&self, index: u64) {
        self.from.store(index, Ordering::Release);
    }

    /// That of this index is kept until it is [released](Self::release), wherever the log begins: the state machine is to
    /// be restored from it, which may take longer than it takes for others to come.
    pub fn hold(&self, index: u64) {
        self.held().insert(index);
    }

    /// Those up to this index aren't [held](Self::hold) any more.
    pub fn release(&self, up_to: u64) {
        self.held().retain(|index| *index > up_to);
    }

    /// Index and term of all of them, the oldest first.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn list(&self) -> Result<Vec<(u64, u64)>, SnapshotError> {
        let mut places: Vec<_> = self.names()?.iter().filter_map(|name| place_of(name)).collect();
        places.sort_unstable();
        Ok(places)
    }

    /// Begins to write one. There can be one at a time.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn create(&self, meta: SnapshotMeta) -> Result<SnapshotWriter<D>, SnapshotError> {
        let path = self.unfinished();
        let file = self.disk.create(&path).map_err(self.failed("make", &path))?;
        let mut piece = Vec::with_capacity(PIECE);
        piece.put_slice(MAGIC);
        let Owner { group, replica } = self.owner;
        [group, replica, meta.index, meta.term].into_iter().for_each(|number| piece.put_u64_le(number));
        piece.put_u32_le(meta.membership.len() as u32);
        piece.put_slice(&meta.membership);
        let sum = crc32c(&piece);
        piece.put_u32_le(sum);
        let (snapshots, synced) = (self.clone(), 0);
        let mut writer = SnapshotWriter { snapshots, file, meta, piece, offset: 0, synced, sum: 0, bytes: 0 };
        writer.put()?;
        Ok(writer)
    }

    /// Opens one.
    ///
    /// # Errors
    /// When its header isn't what was written, or says it is another replica's, or the file system fails.
    pub fn read(&self, index: u64, term: u64) -> Result<SnapshotReader<D::File>, SnapshotError> {
        let path = self.path(index, term);
        let file = self.disk.open(&path).map_err(self.failed("open", &path))?;
        let read = |offset, length| file.read_from(offset, length).map_err(self.failed("read", &path));
        let corrupt = || SnapshotError::Corrupt { file: path.clone(), offset: 0 };
        let fixed = read(0, FIXED)?;
        let Some((magic, mut numbers)) = fixed.split_at_checked(MAGIC.len()) else { return Err(corrupt()) };
        let mut number = || numbers.try_get_u64_le().map_err(|_| corrupt());
        let (group, replica, own_index, own_term) = (number()?, number()?, number()?, number()?);
        let length = numbers.try_get_u32_le().map_err(|_| corrupt())? as usize;
        if magic != MAGIC || length > MEMBERSHIP_MOST {
            return Err(corrupt());
        }
        let header = read(0, FIXED + length + 4)?;
        let Some((covered, sum)) = header.split_last_chunk::<4>() else { return Err(corrupt()) };
        if crc32c(covered) != u32::from_le_bytes(*sum) || (own_index, own_term) != (index, term) {
            return Err(corrupt());
        }
        let found = Owner { group, replica };
        if found != self.owner {
            return Err(SnapshotError::OtherOwner { file: path, found, wanted: self.owner });
        }
        let membership = Bytes::copy_from_slice(covered.get(FIXED..).unwrap_or_default());
        let (meta, offset) = (SnapshotMeta { index, term, membership }, header.len() as u64);
        Ok(SnapshotReader { file, path, meta, piece: Bytes::new(), offset, sum: 0, bytes: 0, ended: false })
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Result<Vec<String>, SnapshotError> {
        self.disk.list(&self.directory).map_err(self.failed("list", &self.directory))
    }

    fn remove(&self, name: &str) -> Result<(), SnapshotError> {
        let path = self.directory.join(name);
        self.disk.remove(&path).map_err(self.failed("remove", &path))
    }

    fn path(&self, index: u64, term: u64) -> PathBuf {
        self.directory.join(format!("snapshot-{index:016x}-{term:016x}"))
    }

    fn unfinished(&self) -> PathBuf {
        self.directory.join("snapshot-unfinished")
    }

    fn failed(&self, action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
        let (path, directory) = (path.to_owned(), self.directory.clone());
        move |source| match source.kind() {
            io::ErrorKind::StorageFull => SnapshotError::Full { directory },
            _ => SnapshotError::Io { action, path, source },
        }
    }
}

impl<D: Disk> SnapshotWriter<D> {
    /// Ends the snapshot and makes it durable, and removes the oldest ones.
    ///
    /// # Errors
    /// When the file system fails. There is no such snapshot then.
    pub fn finish(mut self) -> Result<SnapshotMeta, SnapshotError> {
        self.end_piece()?;
        self.piece.put_u32_le(0);
        self.piece.put_u32_le(self.sum);
        self.piece.put_u64_le(self.bytes);
        self.put()?;
        let (snapshots, from) = (self.snapshots.clone(), self.snapshots.unfinished());
        self.file.sync_data().map_err(snapshots.failed("sync", &from))?;
        let to = snapshots.path(self.meta.index, self.meta.term);
        snapshots.disk.rename(&from, &to).map_err(snapshots.failed("rename", &from))?;
        let directory = &snapshots.directory;
        snapshots.disk.sync_directory(directory).map_err(snapshots.failed("sync", directory))?;
        let places = snapshots.list()?;
        let from = snapshots.from.load(Ordering::Acquire);
        let goes = |index: u64| index < from && !snapshots.held().contains(&index);
        for (index, term) in places.iter().rev().skip(Snapshots::<D>::KEPT).filter(|(index, _)| goes(*index)) {
            let path = snapshots.path(*index, *term);
            snapshots.disk.remove(&path).map_err(snapshots.failed("remove", &path))?;
        }
        Ok(self.meta)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE {
                self.end_piece()?;
            }
        }
        Ok(())
    }

    fn end_piece(&mut self) -> Result<(), SnapshotError> {
        if self.piece.is_empty() {
            return Ok(());
        }
        self.sum = crc32c_append(self.sum, &self.piece);
        self.bytes += self.piece.len() as u64;
        let head = [(self.piece.len() as u32).to_le_bytes(), self.sum.to_le_bytes()].concat();
        self.write(&head)?;
        self.put()
    }

    fn put(&mut self) -> Result<(), SnapshotError> {
        let piece = std::mem::take(&mut self.piece);
        self.write(&piece)?;
        self.piece = piece;
        self.piece.clear();
        if self.offset - self.synced >= SYNC_EVERY {
            self.synced = self.offset;
            let path = self.snapshots.unfinished();
            self.file.sync_data().map_err(self.snapshots.failed("sync", &path))?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let path = self.snapshots.unfinished();
        self.file.write_all_at(self.offset, bytes).map_err(self.snapshots.failed("write", &path))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

impl<D: Disk> Write for SnapshotWriter<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map(|()| bytes.len()).map_err(io::Error::other)
    }

    /// Does nothing: it is all or nothing, with [`finish`](Self::finish).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: DiskFile> SnapshotReader<F> {
    /// What it is a snapshot of.
    pub fn meta(&self) -> &SnapshotMeta {
        &self.meta
    }

    /// The next bytes; none when all were read.
    ///
    /// # Errors
    /// When they are not what was written, or end too early, or the file system fails.
    pub fn piece(&mut self) -> Result<Option<Bytes>, SnapshotError> {
        if self.ended {
            return Ok(None);
        }
        let (length, sum) = (self.number()?, self.number()?);
        if length == 0 {
            let bytes = u64::from(self.number()?) | u64::from(self.number()?) << 32;
            if (sum, bytes) != (self.sum, self.bytes) {
                return Err(self.corrupt());
            }
            self.ended = true;
            return Ok(None);
        }
        if length as usize > PIECE_MOST {
            return Err(self.corrupt());
        }
        let piece = self.bytes(length as usize)?;
        self.sum = crc32c_append(self.sum, &piece);
        if self.sum != sum {
            return Err(self.corrupt());
        }
        self.bytes += u64::from(length);
        Ok(Some(piece.into()))
    }

    fn number(&mut self) -> Result<u32, SnapshotError> {
        let bytes = self.bytes(4)?;
        bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(|| self.corrupt())
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, SnapshotError> {
        let read = self.file.read_from(self.offset, length);
        let bytes = read.map_err(|source| SnapshotError::Io { action: "read", path: self.path.clone(), source })?;
        if bytes.len() < length {
            return Err(self.corrupt());
        }
        self.offset += length as u64;
        Ok(bytes)
    }

    fn corrupt(&self) -> SnapshotError {
        SnapshotError::Corrupt { file: self.path.clone(), offset: self.offset }
    }
}

impl<F: DiskFile> Read for SnapshotReader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = self.piece().map_err(io::Error::other)?.unwrap_or_default();
        }
        let count = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

/// Index and term that a name says.
fn place_of(name: &str) -> Option<(u64, u64)> {
    let (index, term) = name.strip_prefix("snapshot-")?.split_once('-')?;
    let number = |digits: &str| (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?;
    number(index).zip(number(term))
}

#[cfg(test)]
mod tests;
