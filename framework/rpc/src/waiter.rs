//! Whom to wake when what is waited for has come.

use greenwave_quanta::critical;
use greenwave_quanta::scheduler::WaitId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;

/// Who is told that something happened.
#[derive(Default)]
pub(crate) enum Waiter {
    #[default]
    Nobody,
    Thread(Thread),
    Task(Waker),
    /// A handler, by the head that runs it.
    Handler(Arc<dyn Resume>, WaitId),
}

/// A thread that runs handlers, as seen by others.
pub(crate) trait Resume: Send + Sync {
    /// Has a handler go on, if it is still in that wait.
    fn resume(&self, wait: WaitId);
}

impl Waiter {
    pub(crate) fn wake(self) {
        match self {
            Self::Nobody => {}
            Self::Thread(thread) => thread.unpark(),
            Self::Handler(head, wait) => critical(|| head.resume(wait)),
            // Somebody else's code, which must not take down the thread that polls for everybody.
            Self::Task(waker) => {
                if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
                    tracing::error!("the waker of a task panicked");
                }
            }
        }
    }

    pub(crate) fn becomes(&mut self, task: &Waker) {
        match self {
            Self::Task(waker) => waker.clone_from(task),
            _ => *self = Self::Task(task.clone()),
        }
    }
}

/// Wakes a parked thread.
pub(crate) struct Unpark(Thread);

impl Unpark {
    /// A waker of the calling thread.
    pub(crate) fn current() -> Waker {
        Waker::from(Arc::new(Self(std::thread::current())))
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
