//! Where the two threads run.

use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A core for each of the two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The dispatcher's.
    pub dispatcher: usize,
    /// The worker's.
    pub worker: usize,
}

impl Cores {
    /// The first two that this process may use.
    ///
    /// # Errors
    /// When there is one alone: a dispatcher that shares its core with the worker would measure itself.
    pub fn first_two() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("can't tell which cores this process may run on")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        match (cores.next(), cores.next()) {
            (Some(dispatcher), Some(worker)) => Ok(Self { dispatcher, worker }),
            _ => bail!("this process may run on one core alone; it needs two (see `nproc` and `taskset -p $$`)"),
        }
    }
}

/// Pins the calling thread to a core.
///
/// # Errors
/// When the core isn't there, or this process may not use it.
pub fn pin(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("can't run on core {core} (see `taskset -p $$`)"))
}
