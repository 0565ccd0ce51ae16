//! A disk for each replica: a file system of this process, mounted by FUSE, which can be full, slow, failing, cut from power
//! and wiped.
//!
//! The kernel writes through: what a process has written is here when the call returns, and counts as lost in a power cut
//! unless it was synced. Mounts lie in `/run/greenwave-chaos/PID`; those of processes that are gone are cleared away by the
//! next run.

mod mounted;
mod volume;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use greenwave_bench::process::is_gone;

use mounted::Mounted;
use volume::Volume;
pub(crate) use volume::{Ills, Kept};

/// Where all mounts are.
const FOLDER: &str = "/run/greenwave-chaos";

/// How long the kernel may take to be done with a mount that nobody uses.
const CLEARING: Duration = Duration::from_secs(5);

/// The disk of a replica.
pub(crate) struct Disk {
    volume: Arc<Mutex<Volume>>,
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl Disk {
    /// An empty disk, mounted.
    ///
    /// # Errors
    /// When the kernel has no FUSE, or this isn't root's process.
    pub(crate) fn new(number: usize) -> anyhow::Result<Self> {
        let at = own_folder().join(number.to_string());
        fs::create_dir_all(&at).with_context(|| format!("can't make {}", at.display()))?;
        let mut disk = Self { volume: Arc::new(Mutex::new(Volume::new())), at, session: None };
        disk.mount()?;
        Ok(disk)
    }

    /// A folder of it for a replica to keep its data in, which it makes itself.
    pub(crate) fn data(&self) -> PathBuf {
        self.at.join("data")
    }

    /// Changes what is wrong with it.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Ills)) {
        change(&mut held(&self.volume).ills);
    }

    /// Cuts the power. Who had files open has to be gone.
    ///
    /// # Errors
    /// When it can't be mounted again.
    pub(crate) fn cut(&mut self, kept: Kept) -> anyhow::Result<()> {
        self.unmount();
        held(&self.volume).cut(kept);
        self.mount()
    }

    /// Another disk is in its place, an empty one.
    ///
    /// # Errors
    /// When it can't be mounted again.
    pub(crate) fn wipe(&mut self) -> anyhow::Result<()> {
        self.unmount();
        *held(&self.volume) = Volume::new();
        self.mount()
    }

    fn mount(&mut self) -> anyhow::Result<()> {
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("greenwave-chaos".into()), MountOption::RW, MountOption::NoAtime];
        config.acl = SessionACL::Owner;
        let mounted = Mounted::new(Arc::clone(&self.volume));
        let session = fuser::spawn_mount(mounted, &self.at, &config);
        let what = || format!("can't mount {}; the kernel needs FUSE, and /dev/fuse", self.at.display());
        self.session = Some(session.with_context(what)?);
        Ok(())
    }

    fn unmount(&mut self) {
        if let Some(session) = self.session.take() {
            unmount(&self.at);
            // What the kernel still says to the old mount mustn't be taken for the new one's.
            let begun = Instant::now();
            while !session.guard.is_finished() && begun.elapsed() < CLEARING {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
        // Whatever is in the way stays.
        let _ = fs::remove_dir(&self.at);
        let _ = fs::remove_dir(own_folder());
        let _ = fs::remove_dir(FOLDER);
    }
}

/// Unmounts what this process has mounted.
pub(crate) fn end() {
    clear(&own_folder());
}

/// Unmounts what processes have left that are gone.
pub(crate) fn clear_leftovers() {
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let owner = entry.file_name().into_string().ok().and_then(|name| name.parse().ok());
        if owner.is_some_and(is_gone) {
            clear(&entry.path());
        }
    }
}

/// Unmounts what is in a folder, and removes it; files that are no mounts stay.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        unmount(&entry.path());
        let _ = fs::remove_dir(entry.path());
    }
    let _ = fs::remove_dir(folder);
    let _ = fs::remove_dir(FOLDER);
}

/// Also if somebody has it open, or nobody answers there any more.
fn unmount(at: &Path) {
    let _ = Command::new("umount").arg("--lazy").arg(at).stderr(Stdio::null()).status();
}

fn own_folder() -> PathBuf {
    Path::new(FOLDER).join(process::id().to_string())
}

fn held(volume: &Mutex<Volume>) -> MutexGuard<'_, Volume> {
    volume.lock().unwrap_or_else(PoisonError::into_inner)
}
