//! The runtime of the peers that need one: the thread that is pinned, and no other.

use std::future::Future;

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
