//! The settings of a pool, and its start.

use super::dispatcher::{self, Watch};
use super::thread::{self, Settings};
use super::{Pool, Room, Shared};
use crate::bell::Bell;
use crate::scheduler::Quantum;
use crate::stack::StackSize;
use crate::sync::Padded;
use crate::two_level::two_level;
use crossbeam_queue::ArrayQueue;
use greenwave_policy::{DispatchRule, Order};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use thiserror::Error;

/// The settings of a [`Pool`]. Each has a default that is right for most.
#[derive(Clone, Debug)]
#[must_use = "the pool is there once it is built"]
pub struct PoolBuilder {
    workers: usize,
    quantum: Quantum,
    order: Order,
    dispatch: DispatchRule,
    pin: Vec<usize>,
    name: String,
    capacity: usize,
    stack: StackSize,
    spin: Duration,
    yields: bool,
    stuck_after: Duration,
}

/// Why a pool can't be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Nobody would run the jobs.
    #[error("workers is 0; allowed: 1 or more")]
    NoWorkers,
    /// No job would be taken.
    #[error("capacity is 0; allowed: 1 or more")]
    NoCapacity,
    /// A worker can't be kept on a processor.
    #[error("pin names processor {processor}, which this process can't use; leave it out: {source}")]
    Pin {
        /// The processor's number.
        processor: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no more threads to give.
    #[error("can't start the pool's threads: {0}")]
    Thread(#[from] io::Error),
}

impl PoolBuilder {
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: processors.saturating_sub(1).max(1),
            quantum: Quantum::DEFAULT,
            order: Order::ProcessorSharing,
            dispatch: DispatchRule::JoinShortestQueue,
            pin: Vec::new(),
            name: "quanta".to_owned(),
            capacity: 4096,
            stack: StackSize::DEFAULT,
            spin: Duration::from_micros(20),
            yields: false,
            stuck_after: Duration::from_millis(100),
        }
    }

    /// How many workers. By default one less than there are processors, which is left to the dispatcher and the rest of
    /// the program.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How long a job runs before others have a turn: a [`Duration`] or [`Quantum::NONE`]. By default 5 us. It needs a
    /// program that `cargo quanta` has built; in others it does nothing.
    pub fn quantum(mut self, quantum: impl Into<Quantum>) -> Self {
        self.quantum = quantum.into();
        self
    }

    /// Whose turn it is on a worker. By default everybody's, one after the other, which needs to know nothing of jobs;
    /// [`Order::EarliestDeadline`] and [`Order::LeastLaxity`] go by their [`Terms`](super::Terms).
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Which worker gets a job. By default the one with the shortest queue.
    pub fn dispatch(mut self, dispatch: DispatchRule) -> Self {
        self.dispatch = dispatch;
        self
    }

    /// The processors that the workers stay on, in turn, by the system's numbers; by default the system moves them. The
    /// dispatcher is not pinned.
    pub fn pin(mut self, processors: impl IntoIterator<Item = usize>) -> Self {
        self.pin = processors.into_iter().collect();
        self
    }

    /// What its threads are called, less a number: `quanta` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many unfinished jobs it takes, 4096 by default. Each that has begun has a stack.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    /// How large a job's stack is, 512 KiB by default. Only the part that is used takes memory.
    pub fn stack_size(mut self, stack: StackSize) -> Self {
        self.stack = stack;
        self
    }

    /// How long an idle thread of the pool looks out for work before it sleeps, 20 us by default. Longer saves the next
    /// job a wake, which takes tens of microseconds; zero saves power.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// Whether workers give their processor away after each turn of a job (`sched_yield`), by default not. For programs whose pool
    /// shares its processors with threads that poll and yield as well, an async runtime's for instance: the system's
    /// scheduler would give each of them milliseconds at a time.
    pub fn yields(mut self, yields: bool) -> Self {
        self.yields = yields;
        self
    }

    /// For how long a job may hold its worker before a warning names it, 100 ms by default: one that can't be preempted,
    /// or is in a critical section or a system call.
    pub fn stuck_after(mut self, after: Duration) -> Self {
        self.stuck_after = after;
        self
    }

    /// Starts the pool's threads.
    ///
    /// # Errors
    /// A setting that can't be meant, a processor that can't be used, or what the system said.
    pub fn build(self) -> Result<Pool, BuildError> {
        if self.workers == 0 {
            return Err(BuildError::NoWorkers);
        }
        if self.capacity == 0 {
            return Err(BuildError::NoCapacity);
        }
        let shared = Arc::new(Shared {
            queue: ArrayQueue::new(self.capacity),
            bell: Bell::new(),
            closed: AtomicBool::new(false),
            capacity: self.capacity,
            unfinished: Padded(AtomicUsize::new(0)),
            room: Room::default(),
            stuck: AtomicU64::new(0),
            no_stack: AtomicU64::new(0),
        });
        // Dropped half built, the dispatcher and the pool end the threads that were started.
        let mut pool = Pool { shared: Arc::clone(&shared), threads: Vec::new() };
        let (dispatcher, inboxes) = two_level(self.workers, self.capacity, self.dispatch, 1);
        for (worker, inbox) in inboxes.into_iter().enumerate() {
            let settings = Settings {
                order: self.order,
                quantum: self.quantum,
                stack: self.stack,
                keep: self.capacity.min(KEEP),
                spin: self.spin,
                yields: self.yields,
            };
            let shared = Arc::clone(&shared);
            let processor = self.pin.get(worker % self.pin.len().max(1)).copied();
            let (says, hears) = mpsc::channel();
            let body = move || {
                let pinned = pin(processor);
                let may_run = pinned.is_ok();
                // The one who hears waits for it.
                let _ = says.send(pinned);
                if may_run {
                    thread::run(inbox, &shared, &settings);
                }
            };
            pool.threads.push(std::thread::Builder::new().name(format!("{}-{worker}", self.name)).spawn(body)?);
            hears.recv().unwrap_or(Ok(()))?;
        }
        let watch = Watch::new(self.workers, self.stuck_after);
        let (spin, name) = (self.spin, format!("{}-dispatch", self.name));
        let body = move || dispatcher::run(dispatcher, &shared, watch, spin);
        pool.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        Ok(pool)
    }
}

/// How many free stacks a worker keeps.
const KEEP: usize = 256;

fn pin(processor: Option<usize>) -> Result<(), BuildError> {
    let Some(processor) = processor else { return Ok(()) };
    let failed = |source: io::Error| BuildError::Pin { processor, source };
    if processor >= CpuSet::MAX_CPU {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).map_err(|errno| failed(errno.into()))
}
