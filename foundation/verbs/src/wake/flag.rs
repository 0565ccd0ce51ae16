//! The flag by which a queue is woken.
//!
//! # Protocol
//!
//! The *flag* is Busy, Waiting or Notified. The queue's thread alone makes it Waiting; any thread makes it Notified.
//!
//! - A waker first publishes whatever it wants seen, then swaps in Notified. If it swapped out Waiting, it also rings
//!   the *bell* (an eventfd, or a condition variable), else it is done: no system call.
//! - A poll that loads Notified swaps in Busy and reports the wake. The swap reads what the last waker wrote, and as
//!   every write to the flag is a read-modify-write, it synchronises with all wakers since the last one; what they
//!   published is visible to the caller.
//! - A wait exchanges Busy for Waiting. If that fails the flag is Notified, and the wait returns at once. Otherwise it
//!   sleeps in the kernel until the bell or something else ends it, and then exchanges Waiting for Busy; if that
//!   fails the flag is Notified, and stays so for the next poll to report.
//!
//! No wake is lost: a waker's swap comes, in the order of all writes to the flag, either before the exchange for
//! Waiting, which fails then, or after it, and then the first such waker sees Waiting and rings; the bell remembers
//! that it was rung. A waker that saw Waiting may ring after the wait ended for another reason. The bell then ends a
//! later wait early, once, which is allowed.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, Ordering};

const BUSY: u8 = 0;
const WAITING: u8 = 1;
const NOTIFIED: u8 = 2;

/// The flag of the protocol.
#[derive(Debug)]
pub(crate) struct WakeFlag(AtomicU8);

impl WakeFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(BUSY))
    }

    /// A waker's step. True: the bell must be rung.
    pub(crate) fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == WAITING
    }

    /// A poll's step: whether there was a wake since the last time.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) == NOTIFIED && self.0.swap(BUSY, Ordering::AcqRel) == NOTIFIED
    }

    /// Whether there is a wake that no poll took yet.
    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::Acquire) == NOTIFIED
    }

    /// The first step of a wait. False: there is a wake to report, don't sleep.
    pub(crate) fn begin_wait(&self) -> bool {
        self.0.compare_exchange(BUSY, WAITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The last step of a wait.
    pub(crate) fn end_wait(&self) {
        // Failure means Notified, which the next poll takes.
        let _ = self.0.compare_exchange(WAITING, BUSY, Ordering::AcqRel, Ordering::Acquire);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wakes_before_a_poll_are_reported_once() {
        let flag = WakeFlag::new();
        assert!(!flag.take());
        assert!(!flag.notify() && !flag.notify(), "nobody waits, nothing to ring");
        assert!(flag.take() && !flag.take());
    }

    #[test]
    fn a_wake_before_the_wait_keeps_it_from_sleeping() {
        let flag = WakeFlag::new();
        flag.notify();
        assert!(!flag.begin_wait());
        assert!(flag.take() && flag.begin_wait());
        assert!(flag.notify(), "the first wake rings");
        assert!(!flag.notify(), "the second need not");
        flag.end_wait();
        assert!(flag.take(), "the wake outlives the wait");
    }
}

/// Built and run by `lab/models`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};

    /// Wakers, each of which publishes and wakes so many times, and a sleeper that needs to see everything published.
    fn no_wake_is_lost(wakers: usize, wakes: u8) {
        let flag = Arc::new(WakeFlag::new());
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let published: Vec<Arc<AtomicU8>> = (0..wakers).map(|_| Arc::new(AtomicU8::new(0))).collect();
        for own in &published {
            let (flag, bell, own) = (flag.clone(), bell.clone(), own.clone());
            loom::thread::spawn(move || {
                for wake in 1..=wakes {
                    own.store(wake, Ordering::Relaxed);
                    if flag.notify() {
                        *bell.0.lock().unwrap() = true;
                        bell.1.notify_one();
                    }
                }
            });
        }
        while published.iter().any(|own| own.load(Ordering::Relaxed) < wakes) {
            if flag.begin_wait() {
                let mut rung = bell.0.lock().unwrap();
                while !*rung {
                    rung = bell.1.wait(rung).unwrap();
                }
                *rung = false;
                drop(rung);
                flag.end_wait();
            }
            flag.take();
        }
    }

    #[test]
    fn no_wake_of_one_thread_is_lost() {
        loom::model(|| no_wake_is_lost(1, 2));
    }

    #[test]
    fn no_wake_of_two_threads_is_lost() {
        let mut model = loom::model::Builder::new();
        // Bounded, as all interleavings of three threads take hours.
        model.preemption_bound = Some(3);
        model.check(|| no_wake_is_lost(2, 1));
    }
}
