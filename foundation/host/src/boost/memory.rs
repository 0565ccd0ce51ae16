//! What threads had before they were boosted, in a file, so that another run of the command can put it back.

use std::collections::{HashMap, HashSet};
use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::param::clock_ticks_per_second;
use rustix::process::{RawPid, getuid};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::Error;
use super::thread::{Stat, Thread};
use crate::folder;

/// Where that file is. It is of this boot of the machine: what an earlier one left behind counts for nothing.
#[derive(Clone, Debug)]
pub struct Memory {
    path: PathBuf,
}

/// More than a million threads need.
const LONGEST: u64 = 256 << 20;

impl Memory {
    /// In this file, in a folder to which nobody but root and the caller may write: what is written there says which of the
    /// caller's threads get which slice.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// For root in `/run/greenwave`, for others in `greenwave` in their own `XDG_RUNTIME_DIR`.
    pub fn usual() -> Self {
        let run = if getuid().is_root() {
            PathBuf::from("/run")
        } else {
            let own = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
            own.unwrap_or_else(|| format!("/run/user/{}", getuid().as_raw()).into())
        };
        Self::at(run.join("greenwave/boost.json"))
    }

    /// What is written.
    pub(super) fn read(&self) -> Result<Book, Error> {
        self.parse().map_err(|source| Error::Memory { path: self.path.clone(), source })
    }

    /// What is written, for as long as nobody else may read or change it.
    pub(super) fn open(&self) -> Result<Open<'_>, Error> {
        let lock = || {
            let path = self.within(folder::make)?;
            let lock = File::create(path.with_extension("lock"))?;
            lock.lock()?;
            Ok((path, lock))
        };
        let (path, lock) = lock().map_err(|source| Error::Memory { path: self.path.clone(), source })?;
        Ok(Open { memory: self, path, book: self.read()?, _lock: lock })
    }

    fn parse(&self) -> io::Result<Book> {
        let mut text = Vec::new();
        match self.within(folder::find).and_then(File::open) {
            Ok(file) => file.take(LONGEST).read_to_end(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::new(Vec::new())),
            Err(error) => return Err(error),
        };
        let written: Written = serde_json::from_slice(&text).map_err(io::Error::from)?;
        let current = written.boot == boot()?;
        Ok(Book::new(if current { written.notes } else { Vec::new() }))
    }

    /// The file's path, by what finds its folder.
    fn within(&self, find: fn(&Path) -> io::Result<PathBuf>) -> io::Result<PathBuf> {
        let name = self.path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        Ok(find(self.path.parent().unwrap_or(Path::new("/")))?.join(name))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    boot: String,
    notes: Vec<Note>,
}

/// One thread that was boosted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) process: RawPid,
    process_started: u64,
    pub(super) thread: RawPid,
    started: u64,
    /// The slice that it had, in nanoseconds; 0 is the kernel's own.
    pub(super) before: u64,
    /// The slice that it was given.
    pub(super) set: u64,
    /// When, in the kernel's ticks since the machine began. What is older has inherited nothing.
    since: u64,
}

impl Note {
    /// Whether a thread that nothing is written of can have its slice from the one that this is about.
    pub(super) fn is_inherited(&self, thread: &Thread, slice: u64) -> bool {
        self.set == slice && self.since <= thread.started
    }
}

/// The notes, by thread.
pub(super) struct Book {
    notes: HashMap<(RawPid, u64), Note>,
}

impl Book {
    fn new(notes: Vec<Note>) -> Self {
        Self { notes: notes.into_iter().map(|note| ((note.thread, note.started), note)).collect() }
    }

    /// What is written of this very thread.
    pub(super) fn of(&self, thread: &Thread) -> Option<&Note> {
        self.notes.get(&(thread.thread, thread.started))
    }

    /// Writes down what a thread had. What it had before an earlier boost counts more.
    pub(super) fn note(&mut self, thread: &Thread, before: u64, set: u64) {
        let Some(process) = Stat::of_process(thread.process) else { return };
        let Thread { process: number, thread, started, .. } = *thread;
        let (process_started, since) = (process.started, now());
        let new = Note { process: number, process_started, thread, started, before, set, since };
        self.notes.entry((thread, started)).and_modify(|note| note.set = set).or_insert(new);
    }

    pub(super) fn forget(&mut self, thread: &Thread) {
        self.notes.remove(&(thread.thread, thread.started));
    }

    /// Forgets everything but these threads, by number and start.
    pub(super) fn forget_all_but(&mut self, kept: &HashSet<(RawPid, u64)>) {
        self.notes.retain(|key, _| kept.contains(key));
    }

    /// The processes that still run and of which there are notes, each with one of every kind.
    pub(super) fn processes(&self) -> HashMap<RawPid, Vec<Note>> {
        let mut processes: HashMap<RawPid, Vec<Note>> = HashMap::new();
        for note in self.notes.values() {
            let known = processes.entry(note.process).or_default();
            match known.iter_mut().find(|it| (it.before, it.set) == (note.before, note.set)) {
                Some(first) => first.since = first.since.min(note.since),
                None => known.push(*note),
            }
        }
        processes.retain(|process, notes| {
            let started = Stat::of_process(*process).map(|it| it.started);
            notes.retain(|note| Some(note.process_started) == started);
            !notes.is_empty()
        });
        processes
    }

    /// Of threads that are gone, one note of every kind stays for each process, for those that inherited from them.
    fn prune(&mut self) {
        let running = self.processes();
        let mut kept = HashSet::new();
        self.notes.retain(|_, note| {
            let there = || Thread::find(note.process, note.thread).is_some_and(|it| it.started == note.started);
            let Some(kinds) = running.get(&note.process) else { return false };
            let kind =
                |it: &&Note| (it.process_started, it.before, it.set) == (note.process_started, note.before, note.set);
            let Some(first) = kinds.iter().find(kind) else { return false };
            there() || {
                note.since = first.since;
                kept.insert((note.process, note.before, note.set))
            }
        });
    }
}

/// A memory that is locked.
pub(super) struct Open<'a> {
    memory: &'a Memory,
    /// The file's, without links.
    path: PathBuf,
    pub(super) book: Book,
    _lock: File,
}

impl Open<'_> {
    /// Writes it.
    pub(super) fn save(&mut self) -> Result<(), Error> {
        self.book.prune();
        let mut notes: Vec<_> = self.book.notes.values().copied().collect();
        notes.sort_unstable_by_key(|note| (note.process, note.thread));
        self.write(notes).map_err(|source| Error::Memory { path: self.memory.path.clone(), source })
    }

    fn write(&self, notes: Vec<Note>) -> io::Result<()> {
        let text = serde_json::to_vec(&Written { boot: boot()?, notes })?;
        let new = self.path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, &self.path)
    }
}

/// In the unit in which the kernel says when a thread began.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let ticks = clock_ticks_per_second();
    now.tv_sec as u64 * ticks + now.tv_nsec as u64 * ticks / 1_000_000_000
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn me() -> Thread {
        let process = std::process::id() as RawPid;
        Thread::find(process, process).unwrap()
    }

    #[test]
    fn what_a_thread_had_first_is_kept_through_files_and_further_boosts() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::at(folder.path().join("below/boost.json"));
        for set in [200_000, 300_000] {
            let mut open = memory.open().unwrap();
            open.book.note(&me(), if set == 200_000 { 0 } else { 200_000 }, set);
            open.save().unwrap();
        }
        let book = memory.read().unwrap();
        let note = book.of(&me()).unwrap();
        assert_eq!((note.before, note.set), (0, 300_000));
    }

    #[test]
    fn threads_of_processes_that_are_gone_or_were_others_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::at(folder.path().join("boost.json"));
        let mut open = memory.open().unwrap();
        open.book.note(&me(), 0, 200_000);
        let note = open.book.notes.values_mut().next().unwrap();
        note.process_started += 1;
        open.save().unwrap();
        assert!(memory.read().unwrap().notes.is_empty());
    }

    #[test]
    fn what_an_earlier_boot_left_behind_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::at(folder.path().join("boost.json"));
        let note = r#"{"process":1,"process_started":0,"thread":1,"started":0,"before":0,"set":200000,"since":0}"#;
        fs::write(memory.path(), format!("{{\"boot\":\"another\",\"notes\":[{note}]}}")).unwrap();
        assert!(memory.read().unwrap().notes.is_empty());
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::at(folder.path().join("boost.json"));
        fs::write(memory.path(), "[1, 2").unwrap();
        let refused = memory.open().map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("boost.json") && refused.contains("--memory"), "{refused}");
    }

    proptest! {
        #[test]
        fn whatever_is_in_the_file_it_is_read_or_refused(text in ".*") {
            let folder = tempfile::tempdir().unwrap();
            let memory = Memory::at(folder.path().join("boost.json"));
            fs::write(memory.path(), text).unwrap();
            let _read_or_not = memory.read().is_ok();
        }
    }
}
