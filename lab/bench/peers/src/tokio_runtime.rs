//! The runtime of the peers that need one: the thread that is pinned, and no other.

use std::future::Future;
use std::sync::{Arc, Mutex};

use crate::harness::{Figures, Shared};
use crate::run::Run;

/// Whether the runtime sleeps when there is nothing to do.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Idle {
    Park,
    /// A task that is always ready keeps it polling: no wake-ups, as in the systems that spin.
    Spin,
}

/// Runs a future on this thread.
pub(crate) fn run<T>(idle: Idle, future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if idle == Idle::Spin {
        runtime.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
    }
    runtime.block_on(future)
}

/// Makes the calls of a run: as many tasks as are to be in flight, each with its number, note theirs in one recorder.
pub(crate) async fn calls<T>(run: &Run, caller: impl Fn(usize, Shared) -> T) -> anyhow::Result<Figures>
where
    T: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let recorder: Shared = Arc::new(Mutex::new(run.recorder()));
    let callers: Vec<_> =
        (0..run.case.in_flight).map(|number| tokio::spawn(caller(number, recorder.clone()))).collect();
    for caller in callers {
        caller.await??;
    }
    recorder.lock().map(|recorder| recorder.figures()).map_err(|_| anyhow::anyhow!("a caller panicked"))
}
