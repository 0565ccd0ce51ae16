//! Waiting in a handler for what another thread brings about: a commit, a write to disk, an answer of another library.
//!
//! ```
//! use greenwave_rpc::{Context, promise};
//! use std::time::Duration;
//!
//! let (promise, awaited) = promise::<u64>();
//! let worker = std::thread::spawn(move || promise.keep(42));
//! // In a handler this suspends the coroutine, and the head serves others meanwhile.
//! assert_eq!(awaited.wait(&Context::with_deadline(Duration::from_secs(60)))?, 42);
//! # worker.join().unwrap();
//! # Ok::<(), greenwave_rpc::Status>(())
//! ```
//!
//! # Protocol
//! Promise and awaited share a *stage* under a lock: pending, kept, broken, or over. It leaves pending once.
//! 1. Who waits takes what is there, or else puts a waiter in, under the same lock. So whoever ends the pending stage
//!    finds the waiter, or the waiter finds that it has ended.
//! 2. A handler doesn't put its waiter in itself. It asks its head to, by a command, and suspends; the head marks the task
//!    as waiting, with a number that no other of its waits has, and then puts in a waiter with that number. If the stage has
//!    ended by then, the task goes on.
//! 3. Who ends the stage sends the number to the head's inbox: a push to a queue, and a wake. That costs a system call if
//!    the head sleeps and nobody else has woken it since, so once for a burst; see `greenwave_verbs::Waker` for why no wake
//!    is lost. The head wakes the task if it still waits under that number.
//! 4. A wait may end early: by its time, by the request's cancellation, by the number of a wait of a dead head's. Who
//!    waits looks at the stage, and begins again.
//! 5. Who no longer waits makes it over, and no wake is sent any more.
//!
//! A handler holds the lock, or is about to push, in critical sections alone: who wants the lock, or the queue, never waits
//! for one that was preempted.

use crate::context::Context;
use crate::local::Pending;
use crate::status::{Code, Status};
use crate::wait::wait;
use crate::waiter::Waiter;
use greenwave_quanta::critical;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};

/// A promise, and what awaits it.
///
/// Costs one allocation. Either half can go to any thread.
pub fn promise<T: Send + 'static>() -> (Promise<T>, Awaited<T>) {
    let shared = Arc::new(Shared(Mutex::new(Stage::Pending(Waiter::Nobody))));
    (Promise(Some(Arc::clone(&shared))), Awaited(shared))
}

/// What is owed to whoever has the [`Awaited`]. Dropping it breaks it: who waits is told so.
#[must_use = "it is broken when it is dropped"]
pub struct Promise<T>(Option<Arc<Shared<T>>>);

/// What a [`Promise`] will bring. It is waited for, or polled as a future. Dropping it is no harm to who keeps the promise.
#[must_use = "nobody hears of it otherwise"]
pub struct Awaited<T>(Arc<Shared<T>>);

/// The promise was dropped before it was kept: who was to keep it has given up, or panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what the handler waited for won't come: the promise of it was dropped; see the log of the thread that had it")]
pub struct Broken;

impl From<Broken> for Status {
    fn from(broken: Broken) -> Self {
        Self::new(Code::Internal, broken.to_string())
    }
}

impl<T> Promise<T> {
    /// Gives the value, and wakes who waits for it. If nobody does any more, the value is dropped. Never blocks.
    pub fn keep(mut self, value: T) {
        if let Some(shared) = self.0.take() {
            shared.end(Stage::Kept(value));
        }
    }
}

impl<T> Promise<T> {
    /// Whether somebody may still wait for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| !shared.is_over())
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.end(Stage::Broken);
        }
    }
}

impl<T: Send + 'static> Awaited<T> {
    /// Waits until the promise is kept. In a handler that suspends the coroutine, elsewhere it blocks the thread.
    ///
    /// What has been kept already is given at once, whatever the context says. A cancellation is noticed at once if it is
    /// the handler's own request that is cancelled, within 10 ms if it is another context.
    ///
    /// # Errors
    /// - `INTERNAL` if the promise was dropped ([`Broken`]);
    /// - `DEADLINE_EXCEEDED` when the context's deadline has passed, unless it is [observed](Context::observed) alone;
    /// - `CANCELLED` when the context is cancelled.
    ///
    /// Whatever the promise stands for may come about all the same after the last two.
    pub fn wait(self, context: &Context) -> Result<T, Status> {
        wait(&self.0, context, || Some(self.0.take()?.map_err(Status::from)))
    }
}

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// For executors of futures. It has no deadline but its task's; once it was ready it never is again.
impl<T: Send> Future for Awaited<T> {
    type Output = Result<T, Broken>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(kept) = self.0.take() {
                return Poll::Ready(kept);
            }
            if self.0.is_over() || self.0.register(Waiter::Task(task.waker().clone())) {
                return Poll::Pending;
            }
        }
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Promise")
    }
}

impl<T> std::fmt::Debug for Awaited<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Awaited")
    }
}

struct Shared<T>(Mutex<Stage<T>>);

enum Stage<T> {
    Pending(Waiter),
    Kept(T),
    Broken,
    /// The value was taken, or nobody waits for it any more.
    Over,
}

impl<T> Shared<T> {
    /// Ends the pending stage.
    fn end(&self, end: Stage<T>) {
        let (waiter, _dropped) = self.change(|stage| match std::mem::replace(stage, Stage::Over) {
            Stage::Pending(waiter) => {
                *stage = end;
                (waiter, None)
            }
            // Nobody waits any more.
            _ => (Waiter::Nobody, Some(end)),
        });
        waiter.wake();
    }

    /// What the promise came to, once.
    fn take(&self) -> Option<Result<T, Broken>> {
        self.change(|stage| match stage {
            Stage::Pending(_) | Stage::Over => None,
            Stage::Kept(_) | Stage::Broken => match std::mem::replace(stage, Stage::Over) {
                Stage::Kept(value) => Some(Ok(value)),
                _ => Some(Err(Broken)),
            },
        })
    }

    fn leave(&self) {
        let _dropped = self.change(|stage| std::mem::replace(stage, Stage::Over));
    }

    fn is_over(&self) -> bool {
        self.change(|stage| matches!(stage, Stage::Over))
    }

    /// Nothing that is not this module's is run or dropped meanwhile.
    fn change<R>(&self, change: impl FnOnce(&mut Stage<T>) -> R) -> R {
        critical(|| change(&mut self.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, Stage<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> Pending for Shared<T> {
    fn register(&self, waiter: Waiter) -> bool {
        let (registered, _dropped) = self.change(|stage| match stage {
            Stage::Pending(last) => (true, std::mem::replace(last, waiter)),
            _ => (false, waiter),
        });
        registered
    }
}
