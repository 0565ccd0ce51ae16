//! A disk in memory that fails and crashes as it is told to.
//!
//! It keeps two pictures: what processes see, and what would be there after a loss of power. The second one lags behind
//! until a sync. A crash takes over any part of what wasn't synced, sector by sector or up to any byte, and any of the
//! directories' changes. A failed sync forgets what it was to write, as Linux does: the next one succeeds.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile, Locking};

/// What disks write as a whole, at most.
const SECTOR: usize = 512;

/// What is to go wrong. Counts are of operations from now on, the next one being 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write fails, having written a part.
    Write(u64),
    /// A sync of a file or a directory fails, and what it was to write is lost.
    Sync(u64),
    /// The process ends in the middle of a change of any kind, a sync included.
    End(u64),
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<State>>);

/// A file on it.
pub struct FaultyFile {
    disk: FaultyDisk,
    file: usize,
}

/// Held until it is dropped, or the disk has crashed.
pub struct FaultyLock {
    disk: FaultyDisk,
    path: PathBuf,
}

#[derive(Default)]
struct State {
    random: u64,
    files: Vec<Image>,
    seen: BTreeMap<PathBuf, usize>,
    kept: BTreeMap<PathBuf, usize>,
    renamings: Vec<Naming>,
    locks: Vec<PathBuf>,
    faults: Vec<Fault>,
    capacity: Option<u64>,
    short_writes: bool,
    ended: bool,
    operations: u64,
    syncs: u64,
}

/// A file's bytes, as they are seen and as they are kept.
#[derive(Clone, Default)]
struct Image {
    seen: Vec<u8>,
    kept: Vec<u8>,
    unsynced: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Write(usize, Vec<u8>),
    Length(usize),
}

/// A change of names that isn't synced.
enum Naming {
    Made(PathBuf, usize),
    Moved(PathBuf, PathBuf, usize),
    Gone(PathBuf),
}

impl FaultyDisk {
    /// An empty disk; what is left to chance follows from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { random: seed, ..State::default() })))
    }

    /// Lets something go wrong later.
    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// How many bytes all files together may have.
    pub fn limit(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// How many bytes all files together may have.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.state().capacity
    }

    /// Whether writes write a part of what they are given, mostly.
    pub fn write_short(&self, short: bool) {
        self.state().short_writes = short;
    }

    /// How many changes there were, syncs included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// How many syncs there were, of files and directories.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Whether [`Fault::End`] has come.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// The disk after a loss of power. Whoever used it until now gets errors alone.
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        let mut state = self.state();
        state.ended = true;
        let mut random = state.random;
        let mut files = state.files.clone();
        files.iter_mut().for_each(|image| image.lose_power(&mut random));
        let mut kept = state.kept.clone();
        for naming in &state.renamings {
            if next(&mut random).is_multiple_of(2) {
                naming.apply(&mut kept);
            }
        }
        Self(Arc::new(Mutex::new(State { random, files, seen: kept.clone(), kept, ..State::default() })))
    }

    /// The disk after the process was killed: what was written is there. Whoever used it gets errors alone.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let mut state = self.state();
        state.ended = true;
        let files = state.files.clone();
        let renamings = std::mem::take(&mut state.renamings);
        let (random, seen, kept) = (state.random, state.seen.clone(), state.kept.clone());
        Self(Arc::new(Mutex::new(State { random, files, seen, kept, renamings, ..State::default() })))
    }

    /// All files.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.state().seen.keys().cloned().collect()
    }

    /// What a file holds.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.seen.get(path).map(|file| state.files[*file].seen.clone())
    }

    /// Makes a file hold something else, durably, or makes it.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let file = state.files.len();
        state.files.push(Image { seen: bytes.to_vec(), kept: bytes.to_vec(), unsynced: Vec::new() });
        state.seen.insert(path.to_owned(), file);
        state.kept.insert(path.to_owned(), file);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.ended { Err(gone()) } else { Ok(state) }
    }
}

impl Disk for FaultyDisk {
    type File = FaultyFile;
    type Lock = FaultyLock;

    fn create_directory(&self, _path: &Path) -> io::Result<()> {
        self.alive().map(drop)
    }

    fn lock(&self, path: &Path) -> io::Result<Locking<FaultyLock>> {
        let mut state = self.alive()?;
        if state.locks.iter().any(|held| held == path) {
            return Ok(Locking::Taken("another process".to_owned()));
        }
        state.locks.push(path.to_owned());
        Ok(Locking::Held(FaultyLock { disk: self.clone(), path: path.to_owned() }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let state = self.alive()?;
        let own = state.seen.keys().filter(|path| path.parent() == Some(directory));
        Ok(own.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn create(&self, path: &Path) -> io::Result<FaultyFile> {
        let mut state = self.alive()?;
        let file = state.files.len();
        state.files.push(Image::default());
        state.change(Naming::Made(path.to_owned(), file))?;
        Ok(FaultyFile { disk: self.clone(), file })
    }

    fn open(&self, path: &Path) -> io::Result<FaultyFile> {
        let state = self.alive()?;
        let file = state.known(path)?;
        Ok(FaultyFile { disk: self.clone(), file })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        let file = state.known(from)?;
        state.change(Naming::Moved(from.to_owned(), to.to_owned(), file))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.known(path)?;
        state.change(Naming::Gone(path.to_owned()))
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.sync()?;
        state.kept = state.seen.clone();
        state.renamings.clear();
        Ok(())
    }

    fn salt(&self) -> u64 {
        next(&mut self.state().random)
    }
}

impl DiskFile for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.alive()?.files[self.file].seen.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.alive()?;
        let rest = state.files[self.file].seen.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.alive()?;
        let ended = state.step();
        let failed = ended.is_err() || state.due(|fault| matches!(fault, Fault::Write(_)));
        let some = if failed || state.short_writes && bytes.len() > 1 {
            1 + next(&mut state.random) as usize % bytes.len()
        } else {
            bytes.len()
        };
        let more = (offset as usize + some).saturating_sub(state.files[self.file].seen.len());
        state.room(more as u64)?;
        state.files[self.file].step(Step::Write(offset as usize, bytes[..some].to_vec()));
        ended?;
        if failed { Err(io::Error::other("the disk failed")) } else { Ok(some) }
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.disk.alive()?;
        state.step()?;
        let now = state.files[self.file].seen.len() as u64;
        state.room(length.saturating_sub(now))?;
        if length > now {
            state.files[self.file].step(Step::Length(length as usize));
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.disk.alive()?;
        state.step()?;
        state.files[self.file].step(Step::Length(length as usize));
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut state = self.disk.alive()?;
        let synced = state.sync();
        let image = &mut state.files[self.file];
        match &synced {
            Ok(()) => image.sync(),
            // A process that ended in a sync leaves everything open.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(_) => image.unsynced.clear(),
        }
        synced
    }
}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.locks.retain(|held| *held != self.path);
    }
}

impl State {
    /// Counts a change, and ends the process if that is due.
    fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        if self.due(|fault| matches!(fault, Fault::End(_))) {
            self.ended = true;
            return Err(gone());
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        self.step()?;
        if self.due(|fault| matches!(fault, Fault::Sync(_))) {
            return Err(io::Error::other("the disk failed"));
        }
        Ok(())
    }

    /// Counts down the faults of a kind.
    fn due(&mut self, kind: impl Fn(&Fault) -> bool) -> bool {
        let mut due = false;
        for fault in self.faults.iter_mut().filter(|fault| kind(fault)) {
            let (Fault::Write(left) | Fault::Sync(left) | Fault::End(left)) = fault;
            *left -= 1;
            due |= *left == 0;
        }
        self.faults.retain(|fault| !matches!(fault, Fault::Write(0) | Fault::Sync(0) | Fault::End(0)));
        due
    }

    fn change(&mut self, naming: Naming) -> io::Result<()> {
        let ended = self.step();
        naming.apply(&mut self.seen);
        self.renamings.push(naming);
        ended
    }

    fn known(&self, path: &Path) -> io::Result<usize> {
        self.seen.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn used(&self) -> u64 {
        self.seen.values().map(|file| self.files[*file].seen.len() as u64).sum()
    }

    fn room(&self, more: u64) -> io::Result<()> {
        match self.capacity {
            Some(capacity) if more > 0 && self.used() + more > capacity => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }
}

impl Image {
    fn step(&mut self, step: Step) {
        step.apply(&mut self.seen);
        self.unsynced.push(step);
    }

    fn sync(&mut self) {
        self.unsynced.drain(..).for_each(|step| step.apply(&mut self.kept));
    }

    fn lose_power(&mut self, random: &mut u64) {
        for step in std::mem::take(&mut self.unsynced) {
            match step {
                Step::Length(_) if next(random).is_multiple_of(2) => {}
                Step::Length(_) => step.apply(&mut self.kept),
                Step::Write(offset, bytes) if next(random).is_multiple_of(2) => {
                    let some = next(random) as usize % (bytes.len() + 1);
                    Step::Write(offset, bytes[..some].to_vec()).apply(&mut self.kept);
                }
                Step::Write(offset, bytes) => {
                    let first = SECTOR - offset % SECTOR;
                    let (head, rest) = bytes.split_at(first.min(bytes.len()));
                    let starts = (0..).map(|sector| offset + first + sector * SECTOR);
                    let sectors = std::iter::once((offset, head)).chain(starts.zip(rest.chunks(SECTOR)));
                    for (offset, sector) in sectors {
                        if next(random).is_multiple_of(2) {
                            Step::Write(offset, sector.to_vec()).apply(&mut self.kept);
                        }
                    }
                }
            }
        }
        self.seen = self.kept.clone();
    }
}

impl Step {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Write(_, written) if written.is_empty() => {}
            Self::Write(offset, written) => {
                let end = offset + written.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset..end].copy_from_slice(written);
            }
        }
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Made(path, file) => {
                names.insert(path.clone(), *file);
            }
            Self::Moved(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Gone(path) => {
                names.remove(path);
            }
        }
    }
}

/// What a process that has ended sees, were there anybody to see it.
fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
