//! Network namespaces by name, as `ip netns` keeps them.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command};

use greenwave_bench::pin;
use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Problem, tool};

/// Where `ip netns` keeps them.
const FOLDER: &str = "/run/netns";

/// The names of all there are.
pub(super) fn names() -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Whether there is one of this name.
pub(super) fn exists(name: &str) -> bool {
    Path::new(FOLDER).join(name).exists()
}

/// Removes namespaces, and first ends what still runs in them; none of them need exist.
pub(super) fn remove<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), Problem> {
    let mut failed = Ok(());
    for name in names {
        if !exists(name) {
            continue;
        }
        // This process may be there for a moment, to start another one there; a signal can come just then.
        for pid in inhabitants(name).into_iter().filter(|pid| *pid != getpid()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        failed = failed.and(tool::ip(None, &[format!("netns delete {name}")]));
    }
    failed
}

/// The processes in a namespace.
pub(super) fn inhabitants(name: &str) -> Vec<Pid> {
    let said = tool::read("ip", &["netns", "pids", name]).unwrap_or_default();
    said.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// Starts a process in a namespace, pinned to a core with all its threads if one is given.
///
/// Both are passed on by the thread that starts it, so no code has to run between fork and exec.
pub(super) fn spawn(name: &str, core: Option<usize>, command: &mut Command) -> Result<Child, Problem> {
    let cores = core.as_slice();
    let child = pin::with(cores, || within(name, || command.spawn()))
        .map_err(|why| Problem::Cores { name: name.to_owned(), why: format!("{why:#}") })?;
    let program = || command.get_program().to_string_lossy().into_owned();
    child?.map_err(|source| Problem::Start { program: program(), name: name.to_owned(), source })
}

/// Does something with the calling thread in a namespace, and comes back.
pub(super) fn within<T>(name: &str, job: impl FnOnce() -> T) -> Result<T, Problem> {
    let fail = |source: io::Error| Problem::Namespace { name: name.to_owned(), source };
    let home = File::open("/proc/thread-self/ns/net").map_err(fail)?;
    let there = File::open(Path::new(FOLDER).join(name)).map_err(fail)?;
    let enter = |file: &File| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    enter(&there).map_err(|error| fail(error.into()))?;
    let done = job();
    enter(&home).map_err(|error| fail(error.into()))?;
    Ok(done)
}
