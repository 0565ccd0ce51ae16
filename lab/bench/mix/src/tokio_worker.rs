//! The worker's part played by tokio: one thread, a task for each job.
//!
//! The task that takes jobs from the channel never sleeps, so that no wake-up is counted against tokio: the other
//! systems' worker never sleeps either.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use greenwave_bench::clock;
use greenwave_quanta::Job;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::yield_now;

use crate::window::{QueuedJob, Shared};

pub(crate) fn channel() -> (UnboundedSender<QueuedJob>, UnboundedReceiver<QueuedJob>) {
    unbounded_channel()
}

pub(crate) fn work(mut inbox: UnboundedReceiver<QueuedJob>, shared: &Shared) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().context("tokio doesn't start")?;
    runtime.block_on(async {
        let (mut taken, finished) = (0, Arc::new(AtomicUsize::new(0)));
        loop {
            match inbox.try_recv() {
                Ok(job) => {
                    taken += 1;
                    let finished = Arc::clone(&finished);
                    tokio::spawn(async move {
                        job.run();
                        finished.fetch_add(1, Ordering::Relaxed);
                    });
                }
                Err(TryRecvError::Disconnected) if finished.load(Ordering::Relaxed) == taken => return,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                    yield_now().await;
                    if shared.is_over(clock::now()) {
                        return;
                    }
                }
            }
        }
    });
    Ok(())
}
