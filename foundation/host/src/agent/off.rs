//! How to undo what agents did.

use std::path::Path;
use std::time::{Duration, Instant};

use super::control::{self, Request};
use super::error::AgentError;
use super::record::Folder;
use super::status::Role;
use super::{device, hook};

/// What was undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Agents that were running, and have ended.
    pub agents: Vec<u32>,
    /// Devices from which something was taken away that an agent had left behind.
    pub devices: Vec<String>,
}

/// How long an agent may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the agents of this network namespace and takes away what they have left behind: filters, and a `clsact` that
/// nobody else uses. That there was nothing to undo is no error.
///
/// # Errors
/// If an agent doesn't end, or the system refuses.
pub fn off(state: &Path) -> Result<Undone, AgentError> {
    let folder = Folder::of(state)?;
    let mut undone = Undone::default();
    for socket in folder.sockets()? {
        if let Some(pid) = control::ask(&socket, &Request::End)? {
            await_end(&socket)?;
            undone.agents.push(pid);
        }
    }
    let noted = folder.noted()?;
    let refused = |cause| AgentError::refused("to take away what was left", cause);
    for (name, index) in device::all().map_err(refused)? {
        let mut removed = false;
        for role in Role::ALL {
            // The claim keeps an agent that starts just now from being undone, too.
            let left = noted.iter().find(|note| note.device == name && note.role == role && note.index == index);
            let _claim = if left.is_some() { Some(folder.claim(&name, role)?) } else { None };
            removed |= hook::remove_filters(&name, role).map_err(refused)?;
            if left.is_some_and(|note| note.made_clsact) {
                removed |= hook::remove_unused_clsact(index).map_err(refused)?;
            }
        }
        if removed {
            undone.devices.push(name);
        }
    }
    // Notes of devices that are gone, and sockets of agents that were killed.
    for note in &noted {
        drop(folder.claim(&note.device, note.role)?);
    }
    let mut paths = Vec::new();
    for _ in folder.sockets()? {
        paths.push(folder.socket_path()?);
    }
    drop(paths);
    folder.remove_if_empty();
    Ok(undone)
}

/// Waits until an agent has taken away its socket, which it does last.
fn await_end(socket: &Path) -> Result<(), AgentError> {
    let until = Instant::now() + PATIENCE;
    while socket.exists() {
        if Instant::now() >= until {
            let cause = std::io::Error::new(std::io::ErrorKind::TimedOut, "it was asked to end, and hasn't yet");
            return Err(AgentError::Silent { path: socket.to_owned(), cause });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
