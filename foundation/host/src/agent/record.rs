//! Notes of what agents do, for other agents and for the time after.
//!
//! Each agent has a folder in common with those of its network namespace, `STATE/net-INODE`: a file for each device that
//! is at work, locked while it is, with the agent's process and what was changed; and a socket for each agent, with a
//! lock beside it. Locks end with the process, so whatever isn't locked is left over. Nobody else may write there, nor
//! change the way there: see [`crate::folder`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::error::AgentError;
use super::status::Role;
use crate::folder;

/// The folder of this network namespace's agents.
pub(super) struct Folder(PathBuf);

/// What an agent does at a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) pid: u32,
    pub(super) device: String,
    pub(super) index: u32,
    pub(super) role: Role,
    pub(super) made_clsact: bool,
}

/// A device that is ours, until this is dropped.
pub(super) struct Claim {
    file: File,
    path: PathBuf,
    /// What an agent that didn't clean up had noted.
    pub(super) before: Option<Note>,
}

/// A socket's path that is ours, until this is dropped.
pub(super) struct SocketPath {
    _locked: File,
    lock: PathBuf,
    pub(super) socket: PathBuf,
}

/// More than one agent for a namespace is rare; more than these are a mistake.
const MOST_AGENTS: usize = 64;

impl Folder {
    /// The folder, which need not be there.
    ///
    /// # Errors
    /// If it is there, and others can change what is in it.
    pub(super) fn of(state: &Path) -> Result<Self, AgentError> {
        let path = path_of(state)?;
        match folder::find(&path) {
            Ok(found) => Ok(Self(found)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Self(path)),
            Err(cause) => Err(failed(&path, cause)),
        }
    }

    /// The same, made if need be, for nobody else to look into.
    ///
    /// # Errors
    /// If it can't be, or others can change what is in it.
    pub(super) fn make(state: &Path) -> Result<Self, AgentError> {
        let path = path_of(state)?;
        folder::make(&path).map(Self).map_err(|cause| failed(&path, cause))
    }

    /// Claims a device.
    ///
    /// # Errors
    /// [`AgentError::InUse`] if another agent has it.
    pub(super) fn claim(&self, device: &str, role: Role) -> Result<Claim, AgentError> {
        let path = self.0.join(format!("{}-{device}", role.word()));
        let Some(mut file) = lock(&path).map_err(|cause| failed(&path, cause))? else {
            let pid = File::open(&path).ok().and_then(|mut file| read(&mut file)).map_or(0, |note| note.pid);
            return Err(AgentError::InUse { device: device.to_owned(), pid });
        };
        let before = read(&mut file);
        Ok(Claim { file, path, before })
    }

    /// Takes a path for a socket that no other agent has.
    pub(super) fn socket_path(&self) -> Result<SocketPath, AgentError> {
        for number in 0..MOST_AGENTS {
            let lock_path = self.0.join(format!("agent-{number}.lock"));
            if let Some(locked) = lock(&lock_path).map_err(|cause| failed(&lock_path, cause))? {
                let socket = self.0.join(format!("agent-{number}.sock"));
                match fs::remove_file(&socket) {
                    Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed(&socket, cause)),
                    _ => return Ok(SocketPath { _locked: locked, lock: lock_path, socket }),
                }
            }
        }
        Err(failed(&self.0, io::Error::other(format!("{MOST_AGENTS} agents run already"))))
    }

    /// The sockets of agents, running or not.
    pub(super) fn sockets(&self) -> Result<Vec<PathBuf>, AgentError> {
        self.files(|name| name.starts_with("agent-") && name.ends_with(".sock"))
    }

    /// The devices that agents have noted, at work or not.
    pub(super) fn noted(&self) -> Result<Vec<Note>, AgentError> {
        let of_a_device = |name: &str| Role::ALL.iter().any(|role| name.starts_with(&format!("{}-", role.word())));
        let files = self.files(of_a_device)?;
        Ok(files.iter().filter_map(|path| read(&mut File::open(path).ok()?)).collect())
    }

    /// Removes the folder if nothing is in it.
    pub(super) fn remove_if_empty(&self) {
        let _others_use_it = fs::remove_dir(&self.0);
    }

    fn files(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, AgentError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(failed(&self.0, cause)),
        };
        let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        paths.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted));
        paths.sort();
        Ok(paths)
    }
}

impl Claim {
    /// Notes what is done at the device, before it is done.
    pub(super) fn note(&mut self, note: &Note) -> Result<(), AgentError> {
        let text = serde_json::to_vec(note).map_err(|cause| failed(&self.path, cause.into()))?;
        let written = self.file.set_len(0).and_then(|()| self.file.rewind()).and_then(|()| self.file.write_all(&text));
        written.map_err(|cause| failed(&self.path, cause))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _somebody_else_did = fs::remove_file(&self.path);
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _there_may_be_none = fs::remove_file(&self.socket);
        let _somebody_else_did = fs::remove_file(&self.lock);
    }
}

fn path_of(state: &Path) -> Result<PathBuf, AgentError> {
    let space = fs::metadata("/proc/thread-self/ns/net");
    let space = space.map_err(|cause| AgentError::System { what: "to name its network namespace", cause })?;
    Ok(state.join(format!("net-{}", space.ino())))
}

/// A file, locked; nothing if somebody else has it locked.
fn lock(path: &Path) -> io::Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => (),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // Who had it locked may have removed it meanwhile, and then this is nobody's file any more.
        let there = fs::metadata(path).map(|it| (it.dev(), it.ino()));
        let ours = file.metadata().map(|it| (it.dev(), it.ino()))?;
        if there.is_ok_and(|there| there == ours) {
            return Ok(Some(file));
        }
    }
}

/// A note, unless it was never written, or only in part.
fn read(file: &mut File) -> Option<Note> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(4096).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn failed(path: &Path, cause: io::Error) -> AgentError {
    AgentError::State { path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn note(pid: u32) -> Note {
        Note { pid, device: "tap0".to_owned(), index: 7, role: Role::Guest, made_clsact: true }
    }

    #[test]
    fn a_device_is_one_agent_s_and_the_other_hears_whose() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::make(state.path()).unwrap();
        let mut claim = folder.claim("tap0", Role::Guest).unwrap();
        claim.note(&note(4711)).unwrap();
        let error = folder.claim("tap0", Role::Guest).err().unwrap();
        assert!(matches!(error, AgentError::InUse { pid: 4711, .. }), "{error}");
        assert!(folder.claim("tap1", Role::Guest).is_ok());
        drop(claim);
        assert!(folder.claim("tap0", Role::Guest).unwrap().before.is_none());
        folder.remove_if_empty();
        assert!(fs::read_dir(state.path()).unwrap().next().is_none(), "nothing is left");
    }

    #[test]
    fn what_an_agent_did_not_clean_up_is_told_to_the_next() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::make(state.path()).unwrap();
        fs::write(folder.0.join("guest-tap0"), serde_json::to_vec(&note(1)).unwrap()).unwrap();
        assert_eq!(folder.noted().unwrap().len(), 1);
        assert!(folder.claim("tap0", Role::Guest).unwrap().before.as_ref().unwrap().made_clsact);
        for odd in ["", "{", "null", "{\"pid\": -1}", "\0"] {
            fs::write(folder.0.join("guest-tap0"), odd).unwrap();
            assert!(folder.claim("tap0", Role::Guest).unwrap().before.is_none(), "{odd:?}");
        }
    }

    #[test]
    fn notes_that_others_may_write_are_not_believed() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::make(state.path()).unwrap();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
        for tried in [Folder::of(state.path()), Folder::make(state.path())] {
            let error = tried.err().unwrap().to_string();
            assert!(error.contains("others can change what is in") && error.contains("--state"), "{error}");
        }
    }

    #[test]
    fn agents_of_one_namespace_have_sockets_of_their_own() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::make(state.path()).unwrap();
        let (one, two) = (folder.socket_path().unwrap(), folder.socket_path().unwrap());
        assert_ne!(one.socket, two.socket);
    }
}
