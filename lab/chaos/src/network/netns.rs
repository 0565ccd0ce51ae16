//! The namespaces of this process's nodes.

use std::process;

use anyhow::{Context as _, ensure};
use greenwave_bench::netns;
use greenwave_bench::process::is_gone;

/// What all names begin with.
const PREFIX: &str = "gwc-";

/// The namespace of a node of this process.
pub(super) fn name(node: usize) -> String {
    format!("{}{node}", own_names())
}

/// Runs `ip`, in a namespace if one is named, with these lines as its batch.
pub(super) fn ip(namespace: Option<&str>, lines: &[String]) -> anyhow::Result<()> {
    let output = netns::batch("ip", namespace, lines).context("`ip` can't be run; install iproute2")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}` failed: {}; root needs CAP_SYS_ADMIN", lines.join("; "), said.trim());
    Ok(())
}

/// Moves the calling thread.
pub(super) fn move_to(name: &str) -> anyhow::Result<()> {
    netns::enter(name).with_context(|| format!("namespace {name} can't be entered"))
}

/// Does something with the calling thread in a namespace, and comes back.
pub(super) fn within<T>(name: &str, job: impl FnOnce() -> T) -> anyhow::Result<T> {
    netns::within(name, job).with_context(|| format!("namespace {name} can't be entered"))
}

/// Removes this process's namespaces, and first ends what runs in them.
pub(super) fn remove_own() {
    let own = own_names();
    netns::names().iter().filter(|name| name.starts_with(&own)).for_each(|name| remove(name));
}

/// Removes the namespaces of processes that are gone.
pub(crate) fn clear_leftovers() {
    let owner = |name: &str| name.strip_prefix(PREFIX)?.split_once('x')?.0.parse().ok();
    netns::names().iter().filter(|name| owner(name).is_some_and(is_gone)).for_each(|name| remove(name));
}

fn own_names() -> String {
    format!("{PREFIX}{}x-", process::id())
}

fn remove(name: &str) {
    netns::end_inhabitants(name);
    if let Err(error) = ip(None, &[format!("netns delete {name}")]) {
        eprintln!("namespace {name} can't be cleared away: {error:#}");
    }
}
