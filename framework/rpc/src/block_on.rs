//! Futures in handlers: polled in the coroutine, which is suspended while they are pending.
//!
//! ```
//! use greenwave_rpc::{Context, block_on};
//! use std::time::Duration;
//!
//! let context = Context::with_deadline(Duration::from_secs(60));
//! // In a handler others are served meanwhile.
//! assert_eq!(block_on(&context, async { 6 * 7 })?, 42);
//! # Ok::<(), greenwave_rpc::Status>(())
//! ```
//!
//! # Protocol
//! The future's waker and whoever polls it share a *bell*. It is quiet from before a poll on, and rung by a wake, from any
//! thread and at any time. Who finds it rung polls; who finds it quiet puts a waiter in, under the same lock. So a wake during
//! a poll is found after it, and a later one finds the waiter; from there on it is as with [promises](crate::promise()).

use crate::context::Context;
use crate::local::{self, Pending};
use crate::status::Status;
use crate::wait::wait;
use crate::waiter::Waiter;
use greenwave_quanta::critical;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::Duration;

/// Polls a future until it is ready. In a handler the coroutine is suspended while it is pending and the thread serves others;
/// elsewhere the thread is blocked. A future that wakes itself is polled again in its turn, and lets others have theirs if it goes
/// on doing so.
///
/// It costs one allocation, for the waker, whose clones are an `Arc`'s. The future is polled on the calling thread alone, so
/// it need not be `Send`. It is dropped before this returns, however it ends.
///
/// A poll is to return soon, as on any executor: what blocks in it, or suspends the coroutine by a blocking call of this crate,
/// does so in the middle of the future's code. What the future needs to be polled in, such as a runtime's context, is for the
/// caller to provide.
///
/// # Errors
/// `DEADLINE_EXCEEDED` when the context's deadline has passed, unless it is [observed](Context::observed) alone, and
/// `CANCELLED` when the context is cancelled; both only while the future is pending. A cancellation is noticed at once if it
/// is the handler's own request that is cancelled, within 10 ms if it is another context.
pub fn block_on<F: Future>(context: &Context, future: F) -> Result<F::Output, Status> {
    let bell = Listener(Arc::new(Bell(Mutex::new(Sound::Rung))));
    let waker = Waker::from(Arc::clone(&bell.0));
    let mut task = TaskContext::from_waker(&waker);
    let (mut future, mut woke_itself) = (pin!(future), 0);
    wait(&bell.0, context, || {
        if !bell.0.hush() {
            return None;
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return Some(Ok(output));
        }
        woke_itself = if bell.0.is_rung() { woke_itself + 1 } else { 0 };
        if woke_itself >= PATIENCE
            && let Some(mailbox) = local::mailbox()
        {
            mailbox.wait_for(Arc::new(Pause), mailbox.resumed() + PAUSE);
        }
        None
    })
}

/// How often in a row a future may wake itself before it pauses between its polls, for those whose turn comes after its own:
/// it may wait for one of them.
const PATIENCE: u32 = 16;
const PAUSE: Duration = Duration::from_micros(50);

/// Nothing but time ends it, and a cancellation.
struct Pause;

impl Pending for Pause {
    fn register(&self, _: Waiter) -> bool {
        true
    }
}

/// What a future's waker rings.
struct Bell(Mutex<Sound>);

enum Sound {
    Rung,
    Quiet(Waiter),
}

impl Bell {
    /// Nothing that is not this module's is run or dropped under the lock.
    fn change(&self, sound: Sound) -> Sound {
        critical(|| std::mem::replace(&mut *self.lock(), sound))
    }

    fn ring(&self) {
        if let Sound::Quiet(waiter) = self.change(Sound::Rung) {
            waiter.wake();
        }
    }

    fn is_rung(&self) -> bool {
        critical(|| matches!(*self.lock(), Sound::Rung))
    }

    fn lock(&self) -> MutexGuard<'_, Sound> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was rung; it is quiet now.
    fn hush(&self) -> bool {
        matches!(self.change(Sound::Quiet(Waiter::Nobody)), Sound::Rung)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

impl Pending for Bell {
    fn register(&self, waiter: Waiter) -> bool {
        let put = |sound: &mut Sound| match sound {
            Sound::Rung => (false, waiter),
            Sound::Quiet(last) => (true, std::mem::replace(last, waiter)),
        };
        let (registered, _dropped) = critical(|| put(&mut self.lock()));
        registered
    }
}

/// Whoever polls. Once it has gone nobody is woken any more.
struct Listener(Arc<Bell>);

impl Drop for Listener {
    fn drop(&mut self) {
        let _nobody = self.0.change(Sound::Rung);
    }
}
