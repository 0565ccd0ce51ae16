//! A replica's directory, in use by this process, and the small file in it that says whose it is.
//!
//! The file is there before the first segment of the log is made, and is replaced as a whole: written under another name,
//! synced, renamed, and the directory synced.

use std::path::{Path, PathBuf};

use super::disk::{Disk, DiskFile, Locking};
use super::error::{Damage, LogError};
use super::segment;
use crate::identity::Identity;

/// A directory that no other process uses, for as long as this is there.
pub struct Claim<D: Disk> {
    pub(super) disk: D,
    pub(super) directory: PathBuf,
    pub(super) lock: D::Lock,
}

/// The file that says whose a directory is. Whoever uses it has the directory's [`Claim`], or the log that was made of it.
#[derive(Clone, Debug)]
pub struct IdentityFile<D> {
    disk: D,
    directory: PathBuf,
}

impl<D: Disk> Claim<D> {
    /// Takes a directory, which is made if there is none.
    ///
    /// # Errors
    /// Another process has it, or the file system fails.
    pub fn take(disk: D, directory: &Path) -> Result<Self, LogError> {
        disk.create_directory(directory).map_err(LogError::io("make", directory))?;
        let path = directory.join("lock");
        match disk.lock(&path).map_err(LogError::io("lock", &path))? {
            Locking::Held(lock) => Ok(Self { disk, directory: directory.to_owned(), lock }),
            Locking::Taken(holder) => Err(LogError::Locked { directory: directory.to_owned(), holder }),
        }
    }

    /// Whether it has segments of a log.
    ///
    /// # Errors
    /// The file system fails.
    pub fn has_log(&self) -> Result<bool, LogError> {
        let names = self.disk.list(&self.directory).map_err(LogError::io("list", &self.directory))?;
        Ok(names.iter().any(|name| segment::number_of(name).is_some()))
    }

    /// The file that says whose it is.
    pub fn identity(&self) -> IdentityFile<D> {
        IdentityFile { disk: self.disk.clone(), directory: self.directory.clone() }
    }
}

impl<D: Disk> IdentityFile<D> {
    /// What it says; nothing if there is no such file.
    ///
    /// # Errors
    /// It isn't what was written, or the file system fails.
    pub fn read(&self) -> Result<Option<Identity>, LogError> {
        let path = self.path();
        let names = self.disk.list(&self.directory).map_err(LogError::io("list", &self.directory))?;
        if !names.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let file = self.disk.open(&path).map_err(LogError::io("open", &path))?;
        let bytes = file.read_from(0, Identity::BYTES_MOST + 1).map_err(LogError::io("read", &path))?;
        let corrupt = |_| LogError::Corrupt { file: path.clone(), offset: 0, damage: Damage::Header };
        Identity::parse(&bytes).map(Some).map_err(corrupt)
    }

    /// Makes it say this, durably. After an error it says this or what it said before.
    ///
    /// # Errors
    /// The file system fails.
    pub fn keep(&self, identity: &Identity) -> Result<(), LogError> {
        let (unfinished, path) = (self.directory.join(UNFINISHED), self.path());
        let mut file = self.disk.create(&unfinished).map_err(LogError::io("make", &unfinished))?;
        file.write_all_at(0, &identity.encode()).map_err(LogError::io("write", &unfinished))?;
        file.sync_data().map_err(LogError::io("sync", &unfinished))?;
        self.disk.rename(&unfinished, &path).map_err(LogError::io("rename", &unfinished))?;
        self.disk.sync_directory(&self.directory).map_err(LogError::io("sync", &self.directory))
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }
}

const NAME: &str = "identity";
const UNFINISHED: &str = "identity-unfinished";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;
    use crate::identity::{GroupId, Incarnation, Roster, Standing};
    use crate::log::faulty::{Fault, FaultyDisk};

    fn identity(standing: Standing) -> Identity {
        let incarnation = Incarnation::of_bits(5).unwrap();
        Identity { number: 7, node: NodeId::new(1).unwrap(), incarnation, standing }
    }

    /// Wherever the process or the machine stops, the file says what it said before or what it was to say.
    #[test]
    fn an_identity_is_replaced_whole_or_not_at_all() {
        let [before, after] = [
            identity(Standing::Apart),
            identity(Standing::Member { group: GroupId::of_bits(9), founders: Roster::default() }),
        ];
        let directory = Path::new("/log");
        let mut seen = [0, 0];
        for seed in 0..40 {
            for operation in 1..=6 {
                let disk = FaultyDisk::new(seed);
                let file = Claim::take(disk.clone(), directory).unwrap().identity();
                assert_eq!(file.read().unwrap(), None);
                file.keep(&before).unwrap();
                disk.fail(Fault::End(operation));
                let kept = file.keep(&after);
                let left = if seed % 2 == 0 { disk.after_power_loss() } else { disk.after_kill() };
                let found = Claim::take(left, directory).unwrap().identity().read().unwrap();
                assert!(
                    found.as_ref() == Some(&before) && kept.is_err() || found.as_ref() == Some(&after),
                    "{found:?}"
                );
                seen[usize::from(found == Some(after.clone()))] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
    }

    #[test]
    fn a_damaged_identity_is_refused_by_name() {
        let disk = FaultyDisk::new(1);
        let file = Claim::take(disk.clone(), Path::new("/log")).unwrap().identity();
        file.keep(&identity(Standing::Apart)).unwrap();
        let path = file.path();
        let mut bytes = disk.contents(&path).unwrap();
        bytes[20] ^= 1;
        disk.put(&path, &bytes);
        assert!(file.read().unwrap_err().to_string().contains("identity is damaged at byte 0"));
    }
}
