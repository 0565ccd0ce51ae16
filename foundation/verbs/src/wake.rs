//! Waking a queue from other threads, without a system call while its thread is busy polling.

mod flag;

use std::fmt;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::VerbsError;

pub(crate) use flag::WakeFlag;

/// Ends the wait of a queue from any thread.
///
/// Costs one atomic operation while the queue's thread is polling, one system call when it sleeps. Wakes don't add
/// up: the queue reports [`Event::Woken`](crate::Event::Woken) once, however often it was woken in between.
#[derive(Clone)]
pub struct Waker(Arc<dyn Bell>);

impl Waker {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Self {
        Self(bell)
    }

    /// Makes the queue's wait return, the present one or the next, and its next poll report
    /// [`Event::Woken`](crate::Event::Woken). What this thread wrote before is visible to the queue's thread then.
    pub fn wake(&self) {
        if self.0.flag().notify() {
            self.0.ring();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// A flag and what ends the sleep of the thread that set it to Waiting.
pub(crate) trait Bell: Send + Sync {
    fn flag(&self) -> &WakeFlag;
    fn ring(&self);
}

/// A bell for threads that sleep in the kernel waiting for descriptors.
#[derive(Debug)]
pub(crate) struct EventBell {
    flag: WakeFlag,
    eventfd: OwnedFd,
}

impl EventBell {
    pub(crate) fn new() -> Result<Arc<Self>, VerbsError> {
        let eventfd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|errno| VerbsError::refused("can't make an eventfd", errno))?;
        Ok(Arc::new(Self { flag: WakeFlag::new(), eventfd }))
    }
}

impl AsFd for EventBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

impl Bell for EventBell {
    fn flag(&self) -> &WakeFlag {
        &self.flag
    }

    fn ring(&self) {
        // The only error is a counter at its maximum, and then the bell is ringing already.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Each number is published before a wake; a consumer that sleeps for ever when a wake is lost never sees the last.
    #[test]
    fn every_wake_of_many_threads_reaches_a_sleeper() {
        const ROUNDS: u64 = 20_000;
        let bell = EventBell::new().unwrap();
        let published: Arc<[AtomicU64; 2]> = Arc::default();
        let wakers = [0, 1].map(|which| {
            let (waker, published) = (Waker::new(bell.clone()), published.clone());
            std::thread::spawn(move || {
                for round in 1..=ROUNDS {
                    published[which].store(round, Ordering::Relaxed);
                    waker.wake();
                }
            })
        });
        let mut seen = [0; 2];
        while seen != [ROUNDS; 2] {
            if bell.flag().begin_wait() {
                let mut ready = [rustix::event::PollFd::new(&*bell, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut ready, None).unwrap();
                // The only error of a nonblocking read is that nobody rang.
                let _ = rustix::io::read(&*bell, &mut [0; 8]);
                bell.flag().end_wait();
            }
            if bell.flag().take() {
                for which in [0, 1] {
                    let now = published[which].load(Ordering::Relaxed);
                    assert!(now >= seen[which], "what a waker published is never taken back");
                    seen[which] = now;
                }
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
    }
}
