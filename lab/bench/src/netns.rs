//! Network namespaces by name, as `ip netns` keeps them.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns` keeps them.
const FOLDER: &str = "/run/netns";

/// The names of all there are.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Where one of this name is, if there is one.
pub fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// The processes in a namespace.
pub fn inhabitants(name: &str) -> Vec<Pid> {
    let said = Command::new("ip").args(["netns", "pids", name]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// Ends the processes in a namespace, but for this one.
pub fn end_inhabitants(name: &str) {
    // This process may be there for a moment, to start another one there; a signal can come just then.
    for pid in inhabitants(name).into_iter().filter(|pid| *pid != getpid()) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Moves the calling thread.
///
/// # Errors
/// When there is no such namespace, or this isn't root's process.
pub fn enter(name: &str) -> io::Result<()> {
    move_to(&File::open(path(name))?)
}

/// Does something with the calling thread in a namespace, and comes back.
///
/// # Errors
/// As [`enter`].
pub fn within<T>(name: &str, job: impl FnOnce() -> T) -> io::Result<T> {
    let home = File::open("/proc/thread-self/ns/net")?;
    enter(name)?;
    let done = job();
    move_to(&home)?;
    Ok(done)
}

/// Runs `ip`, or another tool that takes batches as it does, in a namespace if one is named, with these lines as its batch.
///
/// # Errors
/// When it can't be run.
pub fn batch(tool: &str, namespace: Option<&str>, lines: &[String]) -> io::Result<Output> {
    let mut command = Command::new(tool);
    command.args(namespace.into_iter().flat_map(|name| ["-n", name])).args(["-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // What it doesn't take, it says why.
        let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
    }
    child.wait_with_output()
}

fn move_to(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
