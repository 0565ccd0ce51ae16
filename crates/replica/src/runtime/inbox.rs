//! A queue into a thread, from which it takes all there is at once.
//!
//! # Protocol
//! 1. Who puts something in does so under the lock, and wakes the thread if it has said that it sleeps. The first one
//!    to do so takes the word back, so a burst costs one wake.
//! 2. The thread takes all, or says that it sleeps and waits, under the same lock: nothing is overlooked.
//! 3. Handlers put in from coroutines that may be preempted, so putting in is a critical section: the thread never
//!    waits for one that isn't running.

use greenwave_policy::Time;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Things that may wait when what comes from outside is taken in.
const MOST: usize = 65_536;

/// A queue into a thread.
#[derive(Debug)]
pub(super) struct Inbox<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    awake: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    asleep: bool,
    closed: bool,
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        let state = State { waiting: Vec::new(), asleep: false, closed: false };
        Self(Arc::new(Shared { state: Mutex::new(state), awake: Condvar::new() }))
    }

    /// Puts one in. Back, if the thread is gone.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        self.put(item, usize::MAX)
    }

    /// The same for what comes from outside: back also if too much waits.
    pub(super) fn offer(&self, item: T) -> Result<(), T> {
        self.put(item, MOST)
    }

    fn put(&self, item: T, most: usize) -> Result<(), T> {
        greenwave_quanta::critical(|| {
            let mut state = self.lock();
            if state.closed || state.waiting.len() >= most {
                return Err(item);
            }
            state.waiting.push(item);
            if std::mem::take(&mut state.asleep) {
                drop(state);
                self.0.awake.notify_one();
            }
            Ok(())
        })
    }

    /// Takes all into `into`, which is empty; sleeps until there is something, or until so long.
    pub(super) fn take(&self, into: &mut Vec<T>, patience: Option<Duration>) {
        let mut state = self.lock();
        if state.waiting.is_empty() && !state.closed && patience != Some(Duration::ZERO) {
            state.asleep = true;
            state = match patience {
                None => {
                    let sleeping = |state: &mut State<T>| state.asleep;
                    self.0.awake.wait_while(state, sleeping).unwrap_or_else(PoisonError::into_inner)
                }
                // Once: who comes early looks at the clock.
                Some(patience) => self.0.awake.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0,
            };
            state.asleep = false;
        }
        std::mem::swap(&mut state.waiting, into);
    }

    /// Takes nothing more in; what waits is dropped.
    pub(super) fn close(&self) {
        let left = {
            let mut state = self.lock();
            state.closed = true;
            state.asleep = false;
            std::mem::take(&mut state.waiting)
        };
        self.0.awake.notify_one();
        drop(left);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The time on the clock that deadlines of greenwave-rpc are on: `CLOCK_MONOTONIC`.
pub(super) fn now() -> Time {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time::from_nanos((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}
