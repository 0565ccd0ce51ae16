//! A thread's sleep until there is something to do, and what ends it.
//!
//! # Protocol
//! The state is Awake or Asleep. Work is published elsewhere, in a ring for instance.
//!
//! 1. Who has work for the thread publishes it, passes a SeqCst fence, and looks at the state. If it is Asleep it swaps in
//!    Awake, and whoever swapped out Asleep wakes the thread.
//! 2. The thread stores Asleep, passes a SeqCst fence, and looks for work. If there is none it sleeps in the kernel for
//!    as long as the state is Asleep. Then it stores Awake.
//!
//! No work is slept over: one of the two fences comes first. If it is the sleeper's, the other side sees Asleep and wakes.
//! If not, the sleeper sees the work. A wake between the look and the sleep has changed the state, and the kernel
//! doesn't put the thread to sleep then. A late wake finds the thread up and about, or ends its next sleep early: both
//! allowed. While the thread is busy its state stays Awake in everybody's cache, so publishing costs a fence.

use crate::sync::{AtomicU32, Ordering, fence};
use std::time::Duration;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

#[derive(Debug)]
pub(crate) struct Bell(AtomicU32);

impl Bell {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// Step 1, after something was published.
    #[inline]
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.0.load(Ordering::Relaxed) == ASLEEP && self.0.swap(AWAKE, Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    /// Step 2, by the one thread whose bell it is. Returns when it was rung, at `longest` later, or for no reason.
    pub(crate) fn sleep(&self, longest: Option<Duration>, idle: impl FnOnce() -> bool) {
        self.0.store(ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if idle() {
            self.doze(longest);
        }
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Whether the thread sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ASLEEP
    }

    #[cfg(not(loom))]
    fn doze(&self, longest: Option<Duration>) {
        crate::wait::sleep(&self.0, ASLEEP, longest);
    }

    #[cfg(not(loom))]
    #[cold]
    fn wake(&self) {
        crate::wait::wake(&self.0);
    }

    #[cfg(loom)]
    fn doze(&self, _longest: Option<Duration>) {
        while self.is_asleep() {
            loom::thread::yield_now();
        }
    }

    #[cfg(loom)]
    fn wake(&self) {}
}

/// Built and run by `lab/models`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    /// Each ringer publishes once; a sleeper that sleeps over one of them sleeps for ever, which loom notices.
    fn nothing_is_slept_over(ringers: u32) {
        let bell = Arc::new(Bell::new());
        let work: Vec<_> = (0..ringers).map(|_| Arc::new(AtomicU32::new(0))).collect();
        for own in &work {
            let (bell, own) = (bell.clone(), own.clone());
            loom::thread::spawn(move || {
                own.store(1, Ordering::Relaxed);
                bell.ring();
            });
        }
        let mut done = vec![false; work.len()];
        while done.contains(&false) {
            let seen: Vec<_> = done.clone();
            bell.sleep(None, || work.iter().zip(&seen).all(|(own, seen)| *seen || own.load(Ordering::Relaxed) == 0));
            for (own, done) in work.iter().zip(&mut done) {
                *done |= own.load(Ordering::Relaxed) == 1;
            }
        }
    }

    #[test]
    fn the_work_of_one_thread_is_never_slept_over() {
        loom::model(|| nothing_is_slept_over(1));
    }

    #[test]
    fn the_work_of_two_threads_is_never_slept_over() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| nothing_is_slept_over(2));
    }
}
