//! Where a call's outcome is put for a thread or a task that waits elsewhere than on the completion queue.

use crate::outcome::Outcome;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;

/// One call's place: empty, then an outcome, then empty again once it was taken.
#[derive(Default)]
pub(crate) struct SharedSlot(Mutex<State>);

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    abandoned: bool,
}

impl SharedSlot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the outcome in and wakes who waits for it.
    pub(crate) fn complete(&self, outcome: Outcome) {
        let mut state = self.state();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn take(&self) -> Option<Outcome> {
        self.state().outcome.take()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state().outcome.is_some()
    }

    /// Takes the outcome, or leaves word whom to wake when it is there.
    pub(crate) fn poll(&self, task: &TaskContext<'_>) -> Poll<Outcome> {
        let mut state = self.state();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Leaves word whom to wake.
    pub(crate) fn wake_with(&self, waker: &Waker) {
        self.state().waker = Some(waker.clone());
    }

    /// Wakes who waits although there is no outcome yet, so that it looks after the completion queue itself.
    pub(crate) fn nudge(&self) -> bool {
        let waker = self.state().waker.take();
        waker.map(Waker::wake).is_some()
    }

    /// Says that nobody will take the outcome.
    pub(crate) fn abandon(&self) {
        self.state().abandoned = true;
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.state().abandoned
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
