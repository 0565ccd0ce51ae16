//! What becomes of a job, for whoever wants to know.
//!
//! The outcome is told once, by the job, and taken once, by its task. `state` says whether it was told and whether a
//! thread sleeps for it; what was told lies under a lock, with the waker of the future that was polled last.

use crate::coroutine::in_coroutine;
use crate::preempt::critical;
use crate::wait;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use thiserror::Error;

/// Why a job has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JobError {
    /// It panicked. Other jobs and the worker are unharmed.
    #[error("the job panicked: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// Its deadline had passed when its turn came, so it was not begun.
    #[error("the job was not begun, its deadline had passed {late:?} before; give it more time or the pool less work")]
    Expired {
        /// How long before.
        late: Duration,
    },
    /// The pool was shut down before the job's turn came, so it was not begun.
    #[error("the job was not begun, the pool was shut down")]
    Closed,
}

/// A job's result to come. It can be awaited on any async runtime, or waited for.
///
/// Dropping it doesn't cancel the job, which runs all the same; its result is dropped then.
#[must_use = "the job runs all the same, but nobody learns of its result"]
pub struct Task<T>(Arc<dyn Awaited<T>>);

impl<T> Task<T> {
    pub(super) fn new(job: Arc<dyn Awaited<T>>) -> Self {
        Self(job)
    }

    /// Waits for the result: a thread sleeps, a job of a pool gives way to others meanwhile.
    ///
    /// # Errors
    /// The [`JobError`] why there is none.
    pub fn wait(self) -> Result<T, JobError> {
        let outcome = self.0.outcome();
        loop {
            if let Some(result) = outcome.lock().result.take() {
                return result;
            }
            outcome.wait();
        }
    }

    /// Whether the job has ended, so that waiting takes no time.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.outcome().state.load(Ordering::Acquire) == TOLD
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JobError>;

    /// Once it was ready it is pending for ever.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut told = self.0.outcome().lock();
        match told.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                let other = told.waker.as_ref().is_none_or(|waker| !waker.will_wake(context.waker()));
                let old = if other { told.waker.replace(context.waker().clone()) } else { None };
                // A waker's destructor is somebody else's code, which nobody should run under a lock.
                drop(told);
                drop(old);
                Poll::Pending
            }
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("finished", &self.is_finished()).finish()
    }
}

/// A job, seen from its task.
pub(super) trait Awaited<T>: Send + Sync {
    fn outcome(&self) -> &Outcome<T>;
}

/// Nothing was told.
const OPEN: u32 = 0;
/// Nothing was told, and a thread sleeps for it.
const SLEPT_FOR: u32 = 1;
/// The result is there, or was taken.
const TOLD: u32 = 2;

pub(super) struct Outcome<T> {
    state: AtomicU32,
    told: Mutex<Told<T>>,
}

struct Told<T> {
    result: Option<Result<T, JobError>>,
    waker: Option<Waker>,
}

impl<T> Outcome<T> {
    pub(super) const fn new() -> Self {
        Self { state: AtomicU32::new(OPEN), told: Mutex::new(Told { result: None, waker: None }) }
    }

    pub(super) fn tell(&self, result: Result<T, JobError>) {
        let waker = critical(|| {
            let mut told = self.lock();
            told.result = Some(result);
            told.waker.take()
        });
        if self.state.swap(TOLD, Ordering::Release) == SLEPT_FOR {
            wait::wake(&self.state);
        }
        if let Some(waker) = waker {
            // A waker that panics is its runtime's fault, and must not take the job's end with it.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told<T>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may have been told.
    fn wait(&self) {
        if in_coroutine() {
            // Whoever runs the coroutine looks at the state; no thread has to be woken.
            return wait::wait(&self.state, OPEN, None);
        }
        let _ = self.state.compare_exchange(OPEN, SLEPT_FOR, Ordering::Relaxed, Ordering::Relaxed);
        wait::wait(&self.state, SLEPT_FOR, None);
    }
}
