//! Who runs where: the replicas of either system on the same cores, the load generator on one.

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// With fewer cores than this the replicas, which are three, may use the generator's as well.
const ENOUGH: usize = 4;

/// The cores of each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    /// All three replicas'.
    pub(crate) servers: Vec<usize>,
    /// The load generator's.
    pub(crate) generator: usize,
}

impl Cores {
    /// Those that this process may run on, shared out. It is asked before anything is pinned.
    pub(crate) fn of_this_machine() -> anyhow::Result<Self> {
        // The main thread's: it is never pinned itself.
        let main = rustix::process::getpid();
        let allowed = sched_getaffinity(Some(main)).context("can't tell which cores this process may run on")?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        Self::share(all).context("this process may run on no core at all")
    }

    fn share(mut servers: Vec<usize>) -> Option<Self> {
        let generator = *servers.last()?;
        if servers.len() >= ENOUGH {
            servers.pop();
        }
        Some(Self { servers, generator })
    }
}

/// Does something on a thread of its own, which is pinned to the generator's core.
pub(crate) fn generate<T: Send>(job: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let mut cores = CpuSet::new();
    cores.set(Cores::of_this_machine()?.generator);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            sched_setaffinity(None, &cores).context("can't pin the load generator to its core")?;
            job()
        });
        thread.join().map_err(|_| anyhow::anyhow!("the load generator panicked"))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_leave_the_generator_its_core_where_there_are_enough() {
        let shared = |count: usize| Cores::share((3..3 + count).collect());
        assert_eq!(shared(0), None);
        assert_eq!(shared(2), Some(Cores { servers: vec![3, 4], generator: 4 }));
        assert_eq!(shared(4), Some(Cores { servers: vec![3, 4, 5], generator: 6 }));
    }
}
