//! Network namespaces by name, as `ip netns` keeps them.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{self, Command, Stdio};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns` keeps them.
const FOLDER: &str = "/run/netns";

/// What all names begin with.
const PREFIX: &str = "gwc-";

/// The namespace of a node of this process.
pub(super) fn name(node: usize) -> String {
    format!("{PREFIX}{}x-{node}", process::id())
}

/// Runs `ip`, in a namespace if one is named, with these lines as its batch.
pub(super) fn ip(namespace: Option<&str>, lines: &[String]) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(namespace.into_iter().flat_map(|name| ["-n", name])).args(["-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("`ip` can't be run; install iproute2")?;
    if let Some(mut stdin) = child.stdin.take() {
        // What it doesn't take, it says why.
        let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}` failed: {}; root needs CAP_SYS_ADMIN", lines.join("; "), said.trim());
    Ok(())
}

/// Moves the calling thread.
pub(super) fn move_to(name: &str) -> anyhow::Result<()> {
    let there = File::open(Path::new(FOLDER).join(name)).with_context(|| format!("there is no namespace {name}"))?;
    move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("namespace {name} can't be entered"))
}

/// Does something with the calling thread in a namespace, and comes back.
pub(super) fn within<T>(name: &str, job: impl FnOnce() -> T) -> anyhow::Result<T> {
    let home = File::open("/proc/thread-self/ns/net").context("can't tell where this thread is")?;
    move_to(name)?;
    let done = job();
    move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network)).context("can't come back")?;
    Ok(done)
}

/// Removes this process's namespaces, and first ends what runs in them.
pub(super) fn remove_own() {
    let own = format!("{PREFIX}{}x-", process::id());
    names().iter().filter(|name| name.starts_with(&own)).for_each(|name| remove(name));
}

/// Removes the namespaces of processes that are gone.
pub(crate) fn clear_leftovers() {
    for name in names() {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('x')?.0.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            remove(&name);
        }
    }
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn remove(name: &str) {
    let pids = Command::new("ip").args(["netns", "pids", name]).stderr(Stdio::null()).output();
    let pids = pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for pid in pids.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)) {
        if pid != getpid() {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    if let Err(error) = ip(None, &[format!("netns delete {name}")]) {
        eprintln!("namespace {name} can't be cleared away: {error:#}");
    }
}
