//! The scheduler of one thread: jobs, each in a coroutine, run in quanta by the order of a ready queue.
//!
//! A [`Worker`] runs on the thread that made it and starts none. Who owns it decides when: it adds jobs, and says
//! [`run_one`](Worker::run_one) again and again. Each time the most urgent job runs for one quantum, and the
//! [`Event`] says how that ended. In between the owner can look at its queues and sockets; that is how a pool's
//! threads, a benchmark and a cluster head use the same scheduler.
//!
//! What it costs: a job takes a stack from a pool and puts its function on it, no allocation; a quantum takes two
//! switches, a pop and a push, two readings of the processor's clock, and no allocation.
//!
//! The worker's own code runs on the thread's own stack and is never preempted, because only a coroutine has a quantum. It
//! takes no lock and drops nothing of a job's, for one of its preempted jobs may hold that lock, and would never be
//! resumed. All that is a job's happens in its coroutine, to the end.

mod waiting;

use crate::clock::Clock;
use crate::coroutine::{Back, Coroutine};
use crate::overflow::name_overflows;
use crate::preempt::Ticks;
use crate::stack::{StackPool, StackSize};
use greenwave_policy::{Order, ReadyQueue, Time, Urgency};
use std::io;
use std::time::Duration;
use waiting::Waiting;

/// How long a job may run before others have their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum(Option<Duration>);

impl Quantum {
    /// No end: jobs give way where they wait or say so.
    pub const NONE: Self = Self(None);
    /// 5 us, which costs a few percent; 1 us is the shortest that pays.
    pub const DEFAULT: Self = Self(Some(Duration::from_micros(5)));

    /// A quantum of so long.
    #[must_use]
    pub const fn of(span: Duration) -> Self {
        Self(Some(span))
    }

    /// The time, unless there is no end.
    #[must_use]
    pub const fn span(self) -> Option<Duration> {
        self.0
    }
}

impl Default for Quantum {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl From<Duration> for Quantum {
    fn from(span: Duration) -> Self {
        Self::of(span)
    }
}

/// What a worker runs. Every `FnOnce()` is one; a type of its own can have a name and needs no box.
pub trait Job: 'static {
    /// The work, which runs in a coroutine.
    fn run(self);

    /// What it is called where somebody has to be told of it: a stack's overflow, a job that doesn't return.
    fn name(&self) -> &'static str {
        ""
    }
}

impl<F: FnOnce() + 'static> Job for F {
    fn run(self) {
        self();
    }
}

/// A job of one worker, for as long as it isn't finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId {
    place: u32,
    generation: u32,
}

/// How a turn ended.
#[derive(Debug)]
pub enum Event {
    /// There was nobody to run. Jobs may wait, see [`Worker::waiting`].
    Idle,
    /// Its quantum ended. It is in the queue again.
    Preempted(JobId),
    /// It suspended itself. It is out of the queue until [`Worker::resume`].
    Suspended(JobId),
    /// It waits for a lock or the like and comes back by itself.
    Waits(JobId),
    /// It returned.
    Finished(JobId),
    /// It panicked with this message.
    Panicked(JobId, String),
    /// There was no stack for it: memory or mappings (`vm.max_map_count`) ran out. It is in the queue again.
    NoStack(JobId, io::Error),
}

/// What a worker publishes for who dispatches, counted without end; both wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that returned or panicked.
    pub finished: u32,
    /// Quanta that the jobs which are there now were served.
    pub served: u32,
}

/// The jobs of one thread and whose turn it is.
///
/// 1. A job is in `ready` or in `waiting`, or it is `preempted`, or it was handed to the owner as suspended; never in two of
///    them.
/// 2. `counts.served` is the sum of the quanta of all jobs that are there.
pub struct Worker<J: Job> {
    ready: ReadyQueue<u32>,
    /// Whose quantum ended last, if it was the first all the same. It goes on unless somebody comes who goes before it.
    preempted: Option<u32>,
    /// Whether somebody has come to the queue since.
    has_come: bool,
    waiting: Waiting,
    places: Vec<Place<J>>,
    free: Vec<u32>,
    stacks: StackPool,
    clock: Clock,
    now: Time,
    quantum: Option<Ticks>,
    counts: Counts,
}

struct Place<J> {
    progress: Progress<J>,
    urgency: Urgency,
    /// How long it ran so far.
    had: Duration,
    quanta: u32,
    generation: u32,
}

enum Progress<J> {
    Free,
    Fresh(J),
    Begun(Coroutine),
}

impl<J: Job> Worker<J> {
    /// A worker without jobs, on this thread. It keeps up to `keep` stacks of `size` that are free.
    #[must_use]
    pub fn new(order: Order, quantum: Quantum, size: StackSize, keep: usize) -> Self {
        name_overflows();
        let mut clock = Clock::new();
        Self {
            ready: ReadyQueue::new(order),
            preempted: None,
            has_come: false,
            waiting: Waiting::new(),
            places: Vec::new(),
            free: Vec::new(),
            stacks: StackPool::new(size, keep),
            now: clock.now(),
            clock,
            quantum: quantum.span().map(Ticks::of),
            counts: Counts::default(),
        }
    }

    /// The time by this worker's clock, which is the system's monotonic one.
    pub fn clock(&mut self) -> Time {
        self.now = self.clock.now();
        self.now
    }

    /// The time when the last turn ended, without reading the clock.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Adds a job to the queue. Nothing of it runs before its turn.
    pub fn add(&mut self, now: Time, urgency: Urgency, job: J) -> JobId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::free());
            (self.places.len() - 1) as u32
        });
        let there = &mut self.places[place as usize];
        (there.urgency, there.had, there.quanta) = (urgency, Duration::ZERO, 0);
        there.progress = Progress::Fresh(job);
        let id = JobId { place, generation: there.generation };
        self.ready.push(now, urgency, place);
        self.has_come = true;
        id
    }

    /// Gives the most urgent job a turn of one quantum, which begins at `now`; afterwards [`now`](Self::now) is the
    /// time of its end.
    pub fn run_one(&mut self, now: Time) -> Event {
        self.run_announced(now, |_| ())
    }

    /// [`run_one`](Self::run_one), with the name of the job told beforehand.
    pub fn run_announced(&mut self, now: Time, announce: impl FnOnce(&'static str)) -> Event {
        if !self.waiting.is_empty() {
            let Self { waiting, ready, places, has_come, .. } = self;
            waiting.look(now, |place| {
                ready.put_back(now, places[place as usize].urgency_now(), place);
                *has_come = true;
            });
        }
        let Some(place) = self.next(now) else {
            self.now = now;
            return Event::Idle;
        };
        let there = &mut self.places[place as usize];
        let id = JobId { place, generation: there.generation };
        if let Err(error) = there.begin(&mut self.stacks) {
            self.ready.put_back(now, there.urgency, place);
            self.now = now;
            return Event::NoStack(id, error);
        }
        let Progress::Begun(coroutine) = &mut there.progress else { return Event::Idle };
        announce(coroutine.name());
        let back = coroutine.run(self.quantum);
        let after = self.clock.now();
        self.now = after;
        there.had += after.since(now);
        there.quanta = there.quanta.wrapping_add(1);
        self.counts.served = self.counts.served.wrapping_add(1);
        match back {
            Back::Preempted => {
                let urgency = there.urgency_now();
                if self.ready.goes_on(after, &urgency) {
                    (self.preempted, self.has_come) = (Some(place), false);
                } else {
                    self.ready.put_back(after, urgency, place);
                }
                Event::Preempted(id)
            }
            Back::Suspended => Event::Suspended(id),
            Back::Waits(wait) => {
                self.waiting.add(after, wait, place);
                Event::Waits(id)
            }
            Back::Finished => {
                self.remove(place);
                Event::Finished(id)
            }
            Back::Panicked(message) => {
                self.remove(place);
                Event::Panicked(id, message)
            }
        }
    }

    /// Whose turn it is.
    #[inline]
    fn next(&mut self, now: Time) -> Option<u32> {
        if let Some(place) = self.preempted.take() {
            if !self.has_come {
                return Some(place);
            }
            self.ready.push_first(now, self.places[place as usize].urgency_now(), place);
        }
        self.ready.pop_due(now).map(|(_, place)| place)
    }

    /// Puts a job that suspended itself back into the queue; one that isn't there any more is left alone.
    pub fn resume(&mut self, now: Time, job: JobId) {
        let Some(there) = self.places.get(job.place as usize) else { return };
        if there.generation == job.generation {
            self.has_come = true;
            self.ready.put_back(now, there.urgency_now(), job.place);
        }
    }

    /// How many jobs are ready to run.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len() + usize::from(self.preempted.is_some())
    }

    /// How many jobs wait for locks and the like.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many jobs aren't finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// When a job that waits has to be resumed at the latest, whatever happens; `None` if nobody waits.
    #[must_use]
    pub fn wakes_by(&self) -> Option<Time> {
        self.waiting.wakes_by()
    }

    /// What it publishes.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// What a job is called; "" if it has no name or isn't there any more.
    #[must_use]
    pub fn name(&self, job: JobId) -> &'static str {
        match self.places.get(job.place as usize).map(|there| &there.progress) {
            Some(Progress::Fresh(job)) => job.name(),
            Some(Progress::Begun(coroutine)) => coroutine.name(),
            Some(Progress::Free) | None => "",
        }
    }

    fn remove(&mut self, place: u32) {
        let there = &mut self.places[place as usize];
        if let Progress::Begun(coroutine) = std::mem::replace(&mut there.progress, Progress::Free) {
            self.stacks.put(coroutine.into_stack());
        }
        there.generation = there.generation.wrapping_add(1);
        self.counts.finished = self.counts.finished.wrapping_add(1);
        self.counts.served = self.counts.served.wrapping_sub(there.quanta);
        self.free.push(place);
    }
}

/// Jobs that weren't begun are dropped, and those that have suspended themselves or wait for a task are unwound. Those that
/// wait for locks or were preempted can't be unwound where they are: all go on until none of them is at such a place.
impl<J: Job> Drop for Worker<J> {
    fn drop(&mut self) {
        let Self { ready, places, .. } = self;
        ready.retain(|_, place| matches!(places[*place as usize].progress, Progress::Begun(_)));
        let is_amid = |there: &Place<J>| matches!(&there.progress, Progress::Begun(coroutine) if coroutine.is_amid());
        while self.places.iter().any(is_amid) {
            if let Event::Idle = self.run_one(self.now) {
                self.clock();
            }
        }
    }
}

impl<J: Job> Place<J> {
    const fn free() -> Self {
        let urgency = Urgency {
            arrived: Time::ZERO,
            birth: Time::ZERO,
            deadline: greenwave_policy::Deadline::NEVER,
            here: Duration::ZERO,
            ahead: Duration::ZERO,
        };
        Self { progress: Progress::Free, urgency, had: Duration::ZERO, quanta: 0, generation: 0 }
    }

    fn urgency_now(&self) -> Urgency {
        self.urgency.after(self.had)
    }

    fn begin(&mut self, stacks: &mut StackPool) -> io::Result<()> {
        if !matches!(self.progress, Progress::Fresh(_)) {
            return Ok(());
        }
        let stack = stacks.take()?;
        if let Progress::Fresh(job) = std::mem::replace(&mut self.progress, Progress::Free) {
            self.progress = Progress::Begun(Coroutine::named(stack, job.name(), move || job.run()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
