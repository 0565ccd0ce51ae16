//! This process on one core, so that what is compared runs on the same.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The last core that this process may run on: the first ones have most of the machine's interrupts.
pub(crate) fn last() -> anyhow::Result<usize> {
    let allowed = sched_getaffinity(None).context("can't tell which cores this process may run on")?;
    (0..CpuSet::MAX_CPU).rev().find(|&core| allowed.is_set(core)).context("this process may run on no core at all")
}

/// Pins the calling thread, and those it will start, to a core.
pub(crate) fn this_thread(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    anyhow::ensure!(core < CpuSet::MAX_CPU, "there is no core {core}; choose one below {}", CpuSet::MAX_CPU);
    cores.set(core);
    let remedy = || format!("can't run on core {core}; choose another with --core (see `nproc`)");
    sched_setaffinity(None, &cores).with_context(remedy)
}
