//! The servers: each echoes bytes that nobody looks into, which is less work than protobuf would be, and the same for all.

pub(crate) mod go;
pub(crate) mod greenwave;
pub(crate) mod tonic;
#[cfg(feature = "volo")]
pub(crate) mod volo;

use crate::system::Idle;

/// Windows that the messages of no case ever fill.
const WINDOW: u32 = 4 << 20;
/// The largest message in few frames.
const FRAME: u32 = 1 << 20;
/// As many streams as any case has in flight.
const STREAMS: u32 = 1024;

/// Runs a future on this thread. Without sleep it is kept polling by a task that is always ready.
fn on_tokio<T>(idle: Idle, future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
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
