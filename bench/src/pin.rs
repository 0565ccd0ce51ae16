//! Threads and processes that stay on a core.

use std::process::{Child, Command};

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The first three cores that this process may run on; the last one again where there are fewer.
///
/// # Errors
/// When the kernel doesn't tell.
pub fn first_three() -> anyhow::Result<[usize; 3]> {
    let allowed = sched_getaffinity(None).context("can't tell which cores this process may run on")?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let first = cores.next().context("this process may run on no core at all")?;
    let second = cores.next().unwrap_or(first);
    Ok([first, second, cores.next().unwrap_or(second)])
}

/// Pins the calling thread, and those it will start, to a core.
///
/// # Errors
/// When there is no such core, or this process may not use it.
pub fn this_thread(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    anyhow::ensure!(core < CpuSet::MAX_CPU, "there is no core {core}; choose one below {}", CpuSet::MAX_CPU);
    cores.set(core);
    sched_setaffinity(None, &cores)
        .with_context(|| format!("can't run on core {core}; choose others (see `nproc` and `taskset -p $$`)"))
}

/// Starts a process that is pinned to a core with all its threads: they inherit the core of the thread that starts it.
///
/// # Errors
/// Those of [`this_thread`], and when the process can't be started.
pub fn spawn(command: &mut Command, core: usize) -> anyhow::Result<Child> {
    let before = sched_getaffinity(None).context("can't tell which cores this thread may run on")?;
    this_thread(core)?;
    let child = command.spawn().with_context(|| format!("can't start {}", command.get_program().display()));
    sched_setaffinity(None, &before).context("can't go back to the cores from before")?;
    child
}
