//! Which cores threads and processes run on.

use std::process::{Child, Command};

use anyhow::{Context, ensure};
use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// With fewer cores than this several servers run on the client's core as well.
const ENOUGH: usize = 4;

/// A core for each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The server's.
    pub server: usize,
    /// The client's; the server's if there is no other.
    pub client: usize,
    /// A third one; the client's if there is no other.
    pub spare: usize,
}

impl Cores {
    /// The first ones that this process may run on.
    ///
    /// # Errors
    /// When the kernel doesn't tell.
    pub fn choose() -> anyhow::Result<Self> {
        let cores = allowed()?;
        let nth = |nth: usize| cores[nth.min(cores.len() - 1)];
        Ok(Self { server: nth(0), client: nth(1), spare: nth(2) })
    }

    /// [`choose`](Self::choose), where both sides never sleep.
    ///
    /// # Errors
    /// When the two would share a core.
    pub fn two() -> anyhow::Result<Self> {
        let cores = Self::choose()?;
        ensure!(cores.server != cores.client, "this process may run on one core alone; it needs two (see `nproc`)");
        Ok(cores)
    }
}

/// The last core that this process may run on: the first ones have most of the machine's interrupts.
///
/// # Errors
/// When the kernel doesn't tell.
pub fn last() -> anyhow::Result<usize> {
    Ok(several_servers()?.1)
}

/// The cores of several servers, and the one of their client.
///
/// # Errors
/// When the kernel doesn't tell.
pub fn several_servers() -> anyhow::Result<(Vec<usize>, usize)> {
    Ok(divide(allowed()?))
}

fn divide(mut servers: Vec<usize>) -> (Vec<usize>, usize) {
    let client = servers.last().copied().unwrap_or_default();
    if servers.len() >= ENOUGH {
        servers.pop();
    }
    (servers, client)
}

/// Pins the calling thread, and those it will start, to a core.
///
/// # Errors
/// When there is no such core, or this process may not use it.
pub fn this_thread(core: usize) -> anyhow::Result<()> {
    to(&[core])
}

/// Runs a job with the calling thread, and all that it starts, on these cores; on those from before if there are none.
///
/// # Errors
/// Those of [`this_thread`].
pub fn with<T>(cores: &[usize], job: impl FnOnce() -> T) -> anyhow::Result<T> {
    let before = sched_getaffinity(None).context("can't tell which cores this thread may run on")?;
    if !cores.is_empty() {
        to(cores)?;
    }
    let done = job();
    sched_setaffinity(None, &before).context("can't go back to the cores from before")?;
    Ok(done)
}

/// Starts a process on these cores, on any if there are none.
///
/// # Errors
/// Those of [`this_thread`], and when the process can't be started.
pub fn spawn(command: &mut Command, cores: &[usize]) -> anyhow::Result<Child> {
    with(cores, || command.spawn())?.with_context(|| format!("can't start {}", command.get_program().display()))
}

/// The cores of the main thread.
fn allowed() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Some(getpid())).context("can't tell which cores this process may run on")?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    ensure!(!cores.is_empty(), "this process may run on no core at all");
    Ok(cores)
}

fn to(cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        ensure!(core < CpuSet::MAX_CPU, "there is no core {core}; choose one below {}", CpuSet::MAX_CPU);
        set.set(core);
    }
    sched_setaffinity(None, &set)
        .with_context(|| format!("can't run on core {cores:?}; choose others (see `nproc` and `taskset -p $$`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_leave_the_client_its_core_where_there_are_enough() {
        let divided = |count: usize| divide((3..3 + count).collect());
        assert_eq!(divided(2), (vec![3, 4], 4));
        assert_eq!(divided(4), (vec![3, 4, 5], 6));
    }

    #[test]
    fn a_thread_is_back_on_its_cores_after_a_job() {
        let (before, last) = (sched_getaffinity(None).unwrap(), last().unwrap());
        let inside = with(&[last], || sched_getaffinity(None).unwrap()).unwrap();
        assert!(inside.count() == 1 && inside.is_set(last));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert!(this_thread(CpuSet::MAX_CPU).is_err());
    }
}
