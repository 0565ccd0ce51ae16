//! Threads that stay on a core.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The first two cores that this process may run on; the same one twice if there is no other.
pub(crate) fn first_two() -> anyhow::Result<(usize, usize)> {
    let allowed = sched_getaffinity(None).context("can't tell which cores this process may run on")?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let first = cores.next().context("this process may run on no core at all")?;
    Ok((first, cores.next().unwrap_or(first)))
}

/// Pins the calling thread, and those it will start, to a core.
pub(crate) fn this_thread(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    anyhow::ensure!(core < CpuSet::MAX_CPU, "there is no core {core}; choose one below {}", CpuSet::MAX_CPU);
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| {
        format!("can't run on core {core}; choose others with --server-core and --client-core (see `nproc`)")
    })
}
