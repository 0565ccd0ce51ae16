//! Where a call's outcome is put for a thread or a task that waits elsewhere than on the completion queue.

use crate::outcome::Outcome;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;

/// One call's place: pending, then done, then taken.
#[derive(Default)]
pub(crate) struct SharedSlot(Mutex<State>);

enum State {
    Pending {
        waker: Option<Waker>,
        /// The leader's name for the call, once it was sent.
        token: Option<usize>,
        /// The lead was handed to who waits here.
        leads: bool,
    },
    Done(Outcome),
    Taken,
}

impl Default for State {
    fn default() -> Self {
        Self::Pending { waker: None, token: None, leads: false }
    }
}

/// Why a waiting thread goes on.
#[derive(Debug)]
pub(crate) enum Turn {
    Done(Outcome),
    /// It was handed the lead.
    Leads,
}

impl SharedSlot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the outcome in and wakes who waits for it.
    pub(crate) fn complete(&self, outcome: Outcome) {
        // Bound to a name first: the lock must not be held while somebody else's code runs.
        let before = std::mem::replace(&mut *self.state(), State::Done(outcome));
        let State::Pending { waker: Some(waker), .. } = before else { return };
        // That code must not take down the thread that polls for everybody.
        if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
            tracing::error!("the waker of a task panicked");
        }
    }

    /// Whether the outcome is there, or was.
    pub(crate) fn is_done(&self) -> bool {
        !matches!(*self.state(), State::Pending { .. })
    }

    /// Takes the outcome, or leaves word whom to wake when it is there.
    pub(crate) fn poll(&self, task: &TaskContext<'_>) -> Poll<Outcome> {
        let mut state = self.state();
        match &mut *state {
            State::Pending { waker, .. } => {
                match waker {
                    Some(waker) => waker.clone_from(task.waker()),
                    None => *waker = Some(task.waker().clone()),
                }
                Poll::Pending
            }
            // Asked again although it has answered: as other futures that are over, it never does.
            State::Taken => Poll::Pending,
            State::Done(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Done(outcome) => Poll::Ready(outcome),
                State::Pending { .. } | State::Taken => Poll::Pending,
            },
        }
    }

    /// Parks the calling thread, which `unpark` wakes, until there is an outcome or a lead to take.
    pub(crate) fn wait(&self, unpark: &Waker) -> Turn {
        let task = TaskContext::from_waker(unpark);
        loop {
            if let Poll::Ready(outcome) = self.poll(&task) {
                return Turn::Done(outcome);
            }
            if let State::Pending { leads, .. } = &mut *self.state()
                && std::mem::take(leads)
            {
                return Turn::Leads;
            }
            std::thread::park();
        }
    }

    /// Hands the lead to the thread that waits here.
    pub(crate) fn lead(&self) {
        let waker = match &mut *self.state() {
            State::Pending { waker, leads, .. } => {
                *leads = true;
                waker.take()
            }
            State::Done(_) | State::Taken => None,
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Notes the leader's name for the call.
    pub(super) fn set_token(&self, sent_as: usize) {
        if let State::Pending { token, .. } = &mut *self.state() {
            *token = Some(sent_as);
        }
    }

    /// The leader's name for the call, while it is under way.
    pub(super) fn token(&self) -> Option<usize> {
        if let State::Pending { token, .. } = &*self.state() { *token } else { None }
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
