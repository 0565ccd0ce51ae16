//! What the log needs of a file system, so that tests and simulations can put a worse one in its place.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

/// A file system. Names in a directory are durable once [`sync_directory`](Self::sync_directory) has returned, bytes of
/// a file once [`sync_data`](DiskFile::sync_data) has.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// Held for as long as a directory is in use.
    type Lock: Send + 'static;

    /// Makes a directory and what leads to it, durably, also if it is there: who made it may have ended before that was
    /// durable.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Takes the lock that a file stands for; it goes with the process.
    ///
    /// # Errors
    /// Whatever the file system says, other than that somebody holds it.
    fn lock(&self, path: &Path) -> io::Result<Locking<Self::Lock>>;

    /// The names in a directory, in any order.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Makes an empty file, in place of the one of this name if there is one.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens a file to read and write.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Renames a file, in place of the one of the new name if there is one.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which names a directory has.
    ///
    /// # Errors
    /// Whatever the file system says. What is durable is then unknown.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// A number that nobody outside can foresee.
    fn salt(&self) -> u64;
}

/// An open file.
pub trait DiskFile: Send + 'static {
    /// Its length in bytes.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn length(&self) -> io::Result<u64>;

    /// Reads from `offset` on, and returns how many bytes; 0 at the end only.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes at `offset`, and returns how many bytes of it.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Makes it so long, with zeros where nothing was written, and takes the room on the disk for it.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if there is none, or whatever the file system says.
    fn allocate(&mut self, length: u64) -> io::Result<()>;

    /// Cuts it off.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes durable what was written and what is needed to read it.
    ///
    /// # Errors
    /// Whatever the file system says. What is durable is then unknown, and asking again tells nothing: Linux forgets
    /// what it could not write.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Writes all of it.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn write_all_at(&mut self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(offset, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads all of the file from `offset` on, `length` bytes of it at most.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    fn read_from(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.read_at(offset + filled as u64, &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// What became of an attempt to lock.
pub enum Locking<L> {
    /// It is held until this is dropped.
    Held(L),
    /// Somebody else holds it, and this is what is known of them.
    Taken(String),
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Makes durable that there is something of this name, or isn't any more.
    ///
    /// # Errors
    /// As [`sync_directory`](Disk::sync_directory).
    pub fn sync_name(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.sync_directory(parent.unwrap_or(Path::new(".")))
    }
}

impl Disk for RealDisk {
    type File = RealFile;
    type Lock = File;

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let all: Vec<_> = path.ancestors().filter(|at| !at.as_os_str().is_empty()).collect();
        for directory in all.into_iter().rev() {
            let made = match fs::create_dir(directory) {
                Ok(()) => true,
                Err(_) if directory.exists() => false,
                Err(error) => return Err(error),
            };
            match self.sync_name(directory) {
                // What others own, and don't let us read, they have made long ago.
                Err(error) if made || error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
                _ => {}
            }
        }
        if path.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    fn lock(&self, path: &Path) -> io::Result<Locking<File>> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                file.set_len(0)?;
                write!(file, "process {}", std::process::id())?;
                Ok(Locking::Held(file))
            }
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let read = (&file).take(64).read_to_string(&mut holder);
                let known = read.is_ok() && !holder.is_empty();
                Ok(Locking::Taken(if known { holder } else { "another process".to_owned() }))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, path: &Path) -> io::Result<RealFile> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).map(RealFile)
    }

    fn open(&self, path: &Path) -> io::Result<RealFile> {
        OpenOptions::new().read(true).write(true).open(path).map(RealFile)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn salt(&self) -> u64 {
        RandomState::new().hash_one(std::process::id())
    }
}

/// A file of this machine.
#[derive(Debug)]
pub struct RealFile(File);

impl DiskFile for RealFile {
    fn length(&self) -> io::Result<u64> {
        self.0.metadata().map(|about| about.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, offset)
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            // Without it writes may find the disk full, which ends the process in good order.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.0.set_len(length),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(()),
        }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_goes_with_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = RealDisk.lock(&path).unwrap();
        assert!(matches!(held, Locking::Held(_)));
        let Locking::Taken(holder) = RealDisk.lock(&path).unwrap() else { panic!("held twice") };
        assert_eq!(holder, format!("process {}", std::process::id()));
        drop(held);
        assert!(matches!(RealDisk.lock(&path).unwrap(), Locking::Held(_)));
    }

    #[test]
    fn a_file_where_a_directory_should_be_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        assert!(RealDisk.create_directory(&path).is_err());
        RealDisk.create_directory(&directory.path().join("a/b/c")).unwrap();
        assert!(directory.path().join("a/b/c").is_dir());
    }

    #[test]
    fn what_is_allocated_reads_as_zeros() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = RealDisk.create(&directory.path().join("file")).unwrap();
        file.allocate(10_000).unwrap();
        file.write_all_at(9_999, b"x").unwrap();
        assert_eq!(file.length().unwrap(), 10_000);
        assert_eq!(file.read_from(9_997, 10).unwrap(), b"\0\0x");
        file.truncate(10).unwrap();
        assert_eq!(file.read_from(0, 100).unwrap(), [0; 10]);
    }
}
