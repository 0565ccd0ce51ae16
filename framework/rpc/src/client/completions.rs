//! The completion queue of a stream whose connection somebody else polls: filled by the leader, emptied by the stream.

use super::call_queue::Completion;
use super::oneshot::spin;
use crate::waiter::Waiter;
use greenwave_proto::outcome::Outcome;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Calls of one stream that are over. As many at most as the stream has made and not taken.
#[derive(Default)]
pub(super) struct Completions {
    /// How many there are, for those who spin. Written under the lock.
    len: AtomicUsize,
    ready: Mutex<Ready>,
}

#[derive(Default)]
struct Ready {
    completions: VecDeque<Completion>,
    /// Those whose messages came compressed, which is not for whoever polls to change.
    compressed: Vec<(u64, Outcome)>,
    waiter: Waiter,
}

impl Completions {
    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call that is over.
    pub(super) fn push(&self, tag: u64, outcome: Outcome) {
        let mut ready;
        if outcome.is_compressed() {
            ready = self.ready();
            ready.compressed.push((tag, outcome));
        } else {
            let completion = completion(tag, outcome);
            ready = self.ready();
            ready.completions.push_back(completion);
        }
        self.len.store(ready.len(), Ordering::Release);
        let waiter = std::mem::take(&mut ready.waiter);
        drop(ready);
        waiter.wake();
    }

    /// Moves all that there are, at the cost of one lock for all of them.
    pub(super) fn drain_into(&self, taken: &mut VecDeque<Completion>) {
        if self.len.load(Ordering::Acquire) > 0 {
            self.take(self.ready(), taken);
        }
    }

    /// Likewise, and has the task woken by the next one if there are none.
    pub(super) fn drain_or_wake(&self, taken: &mut VecDeque<Completion>, task: &Waker) {
        let mut ready = self.ready();
        if ready.len() == 0 {
            ready.waiter.becomes(task);
        }
        self.take(ready, taken);
    }

    /// Likewise, and waits until there are some or `until` has come: spins while its `patience` lasts, then parks.
    pub(super) fn wait_into(
        &self,
        taken: &mut VecDeque<Completion>,
        patience: Option<Duration>,
        until: Option<Instant>,
    ) {
        let left = || until.map(|until| until.saturating_duration_since(Instant::now()));
        spin(patience.into_iter().chain(left()).min(), || self.len.load(Ordering::Acquire) > 0);
        loop {
            let mut ready = self.ready();
            let left = left();
            if ready.len() > 0 || left.is_some_and(|left| left.is_zero()) {
                ready.waiter = Waiter::Nobody;
                return self.take(ready, taken);
            }
            ready.waiter = Waiter::Thread(std::thread::current());
            drop(ready);
            match left {
                None => std::thread::park(),
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }

    fn take(&self, mut ready: MutexGuard<'_, Ready>, taken: &mut VecDeque<Completion>) {
        taken.append(&mut ready.completions);
        let compressed = std::mem::take(&mut ready.compressed);
        self.len.store(0, Ordering::Release);
        drop(ready);
        taken.extend(compressed.into_iter().map(|(tag, outcome)| completion(tag, outcome)));
    }
}

/// A call that is over, as it is reported.
fn completion(tag: u64, outcome: Outcome) -> Completion {
    let total = outcome.total;
    Completion { tag, result: outcome.into_reply(), total }
}

impl Ready {
    fn len(&self) -> usize {
        self.completions.len() + self.compressed.len()
    }
}
