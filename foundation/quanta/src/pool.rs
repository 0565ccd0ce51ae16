//! A pool of threads for work that computes: in place of `spawn_blocking`, with deadlines and without head-of-line
//! blocking.
//!
//! ```
//! use greenwave_quanta::Pool;
//! use std::time::Duration;
//!
//! let pool = Pool::builder().workers(1).build()?;
//! let task = pool.spawn(Duration::from_millis(50), || (1..=20_u64).product::<u64>());
//! assert_eq!(task.wait()?, 2_432_902_008_176_640_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Jobs go through a queue to the pool's dispatcher, a thread that chooses a worker for each
//! ([`two_level`](crate::two_level)); each worker runs its jobs in quanta by an order ([`worker`](crate::worker)). In a
//! program that `cargo quanta` has built a job that computes for seconds holds up nobody; in others jobs give way where
//! they wait for each other or say [`yield_now`](crate::yield_now).
//!
//! # What becomes of a job
//! 1. [`Pool::spawn`] makes it and its [`Task`], one allocation. It counts as unfinished until it has ended, and the pool
//!    takes no more than its capacity.
//! 2. When its turn comes it is begun, unless its deadline has passed or the pool is being shut down; then its task says
//!    so and the closure is dropped unrun. What was begun is never cancelled.
//! 3. It ends by returning or by panicking, and its task is told: whoever waits on a thread, in another job or as a
//!    future. All of that happens in the job's coroutine: wakers and destructors may take locks, and the worker's own
//!    stack must not, see [`worker`](crate::worker).
//!
//! Idle workers look out for work for a few microseconds and then sleep; an idle pool takes no time at all.

mod builder;
mod dispatcher;
mod task;
mod thread;
mod work;

pub use builder::{BuildError, PoolBuilder};
pub use task::{JobError, Task};
pub use work::Terms;

use crate::bell::Bell;
use crate::clock::monotonic;
use crate::sync::Padded;
use crate::wait;
use crossbeam_queue::ArrayQueue;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use work::{Stored, Work};

/// Threads that run jobs in quanta. Dropping it is [`shutdown`](Self::shutdown).
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The pool has as many unfinished jobs as it takes. The closure is in it, to be tried again or run here.
pub struct Full<F>(pub F);

/// What the pool's threads and those who spawn share.
struct Shared {
    queue: ArrayQueue<Arc<dyn Work>>,
    /// The dispatcher's.
    bell: Bell,
    closed: AtomicBool,
    capacity: usize,
    unfinished: Padded<AtomicUsize>,
    room: Room,
    stuck: AtomicU64,
    no_stack: AtomicU64,
}

/// Those who wait for room: how many they are, and a word that changes when there may be some.
#[derive(Default)]
struct Room {
    waiting: AtomicU32,
    freed: AtomicU32,
}

impl Pool {
    /// The settings of a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    /// Gives the pool a job: what to run, and on what terms, which may be a deadline from now or none.
    ///
    /// While the pool is full this waits: on a thread by sleeping, in a job of a pool by giving way. On the threads of an
    /// async runtime use [`try_spawn`](Self::try_spawn).
    pub fn spawn<T, F>(&self, terms: impl Into<Terms>, job: F) -> Task<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let terms = terms.into();
        if !self.shared.claim() {
            self.shared.wait_for_room();
        }
        self.send(terms, job)
    }

    /// [`spawn`](Self::spawn) without waiting.
    ///
    /// # Errors
    /// [`Full`] with the closure, if as many jobs are unfinished as the pool takes.
    pub fn try_spawn<T, F>(&self, terms: impl Into<Terms>, job: F) -> Result<Task<T>, Full<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if !self.shared.claim() {
            return Err(Full(job));
        }
        Ok(self.send(terms.into(), job))
    }

    /// How many jobs haven't ended: those that run, those that wait for their turn.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.shared.unfinished.0.load(Ordering::Relaxed)
    }

    /// How many times a job held its worker for longer than [`PoolBuilder::stuck_after`]. Each was named as a warning.
    #[must_use]
    pub fn stuck(&self) -> u64 {
        self.shared.stuck.load(Ordering::Relaxed)
    }

    /// Finishes what was begun, ends the rest with [`JobError::Closed`], and returns when all threads have ended.
    ///
    /// A job that never ends keeps this from returning. From a job of this same pool it only begins the shutdown: the
    /// threads end by themselves.
    pub fn shutdown(self) {}

    fn send<T, F>(&self, terms: Terms, job: F) -> Task<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let stored = Arc::new(Stored::new(terms.urgency(monotonic()), terms.name, job));
        let mut work: Arc<dyn Work> = Arc::<Stored<T, F>>::clone(&stored);
        // There is room for each that was claimed; a slot that is just being emptied takes an instant.
        while let Err(back) = self.shared.queue.push(work) {
            work = back;
            std::thread::yield_now();
        }
        self.shared.bell.ring();
        Task::new(stored)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.bell.ring();
        let own = std::thread::current().id();
        if self.threads.iter().any(|thread| thread.thread().id() == own) {
            return;
        }
        for thread in self.threads.drain(..) {
            // Its panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Takes a place, if there is one.
    fn claim(&self) -> bool {
        let free = |unfinished| (unfinished < self.capacity).then_some(unfinished + 1);
        self.unfinished.0.fetch_update(Ordering::SeqCst, Ordering::Relaxed, free).is_ok()
    }

    /// Waits until it has taken a place.
    ///
    /// It counts itself first, and reads the word before it tries. A job that ends gives up its place first and then
    /// looks whether anybody waits. Either it sees the count and changes the word, or the claim sees the place.
    #[cold]
    fn wait_for_room(&self) {
        self.room.waiting.fetch_add(1, Ordering::SeqCst);
        loop {
            let freed = self.room.freed.load(Ordering::Acquire);
            if self.claim() {
                break;
            }
            wait::wait(&self.room.freed, freed, None);
        }
        self.room.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A job has ended.
    fn finished(&self) {
        self.unfinished.0.fetch_sub(1, Ordering::SeqCst);
        if self.room.waiting.load(Ordering::SeqCst) > 0 {
            self.room.freed.fetch_add(1, Ordering::Release);
            wait::wake(&self.room.freed);
        }
    }
}

impl<F> fmt::Debug for Full<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

impl<F> fmt::Display for Full<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pool is full: try again later, use `spawn`, which waits, or give it more capacity")
    }
}

impl<F> std::error::Error for Full<F> {}

#[cfg(test)]
mod tests;
