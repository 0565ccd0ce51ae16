//! Where a call's outcome is put for a thread or a task that waits elsewhere than on the completion queue.
//!
//! The leader alone puts something in, once. After that it doesn't touch the oneshot any more, so its maker can use it for
//! the next call.

use crate::waiter::Waiter;
use greenwave_proto::outcome::Outcome;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

/// One call's outcome: pending, then done, then taken.
#[derive(Default)]
pub(crate) struct Oneshot {
    /// What is to be seen of the state without its lock, for those who spin. Written under the lock.
    sign: AtomicU8,
    state: Mutex<State>,
}

const PENDING: u8 = 0;
const LEADS: u8 = 1;
const DONE: u8 = 2;

#[derive(Default)]
struct State {
    stage: Stage,
    waiter: Waiter,
    /// The leader's name for the call, once it was sent.
    token: Option<usize>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Pending,
    Done(Outcome),
    Taken,
}

/// Why a waiting thread goes on.
#[derive(Debug)]
pub(crate) enum Woken {
    Done(Outcome),
    /// It was handed the lead.
    Leads,
}

impl Oneshot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sign(&self) -> u8 {
        self.sign.load(Ordering::Acquire)
    }

    /// Puts the outcome in and wakes who waits for it.
    pub(crate) fn complete(self: Arc<Self>, outcome: Outcome) {
        let mut state = self.state();
        state.stage = Stage::Done(outcome);
        let waiter = std::mem::take(&mut state.waiter);
        self.sign.store(DONE, Ordering::Release);
        drop(state);
        // Before the wake, so that who is woken has the oneshot to itself.
        drop(self);
        waiter.wake();
    }

    /// Whether the outcome is there, or was.
    pub(crate) fn is_done(&self) -> bool {
        self.sign() == DONE
    }

    /// Takes the outcome, or leaves word whom to wake when it is there.
    pub(crate) fn poll(&self, task: &TaskContext<'_>) -> Poll<Outcome> {
        let mut state = self.state();
        match state.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                // Asked again although it has answered: as other futures that are over, it never does.
                if let Stage::Pending = state.stage {
                    state.waiter.becomes(task.waker());
                }
                Poll::Pending
            }
        }
    }

    /// Waits on the calling thread until there is an outcome or a lead to take: spins for as long as its `patience`
    /// lasts (`None`: for ever), then parks.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> Woken {
        spin(patience, || self.sign() != PENDING);
        loop {
            let mut state = self.state();
            if let Some(outcome) = state.take() {
                return Woken::Done(outcome);
            }
            if self.sign() == LEADS {
                self.sign.store(PENDING, Ordering::Release);
                return Woken::Leads;
            }
            state.waiter = Waiter::Thread(std::thread::current());
            drop(state);
            std::thread::park();
        }
    }

    /// Hands the lead to the thread that waits here.
    pub(crate) fn lead(&self) {
        let mut state = self.state();
        let Stage::Pending = state.stage else { return };
        self.sign.store(LEADS, Ordering::Release);
        let waiter = std::mem::take(&mut state.waiter);
        drop(state);
        waiter.wake();
    }

    /// Makes a oneshot that nobody else holds as good as new.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Notes the leader's name for the call.
    pub(super) fn set_token(&self, sent_as: usize) {
        self.state().token = Some(sent_as);
    }

    /// The leader's name for the call, while it is under way.
    pub(super) fn token(&self) -> Option<usize> {
        let state = self.state();
        state.token.filter(|_| matches!(state.stage, Stage::Pending))
    }
}

impl State {
    fn take(&mut self) -> Option<Outcome> {
        let Stage::Done(_) = self.stage else { return None };
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Done(outcome) => Some(outcome),
            Stage::Pending | Stage::Taken => None,
        }
    }
}

/// How many looks at what is waited for come between two at the clock.
const LOOKS: u32 = 64;

/// Spins until something is so, or for as long as the `patience` lasts; `None`: for ever. Others that could run on this
/// core run in between: the one that is waited for may be among them.
pub(super) fn spin(patience: Option<Duration>, is_so: impl Fn() -> bool) {
    if is_so() || patience.is_some_and(|patience| patience.is_zero()) {
        return;
    }
    let begun = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if is_so() {
                return;
            }
            std::hint::spin_loop();
        }
        if patience.is_some_and(|patience| begun.elapsed() >= patience) {
            return;
        }
        std::thread::yield_now();
    }
}
