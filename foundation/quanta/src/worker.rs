//! A scheduler with a clock, for owners who give one turn after another: the threads of a pool, and benchmarks.

use crate::clock::Clock;
use crate::scheduler::{Counts, Event, Job, JobId, Quantum, Scheduler, Turn};
use crate::stack::StackSize;
use greenwave_policy::{Order, ReadyQueue, Span, Time, Urgency};

/// A [`Scheduler`], and its clock. After each quantum its owner looks around.
pub struct Worker<J: Job> {
    scheduler: Scheduler<J>,
    clock: Clock,
    now: Time,
}

/// A turn of a worker's.
struct Timed<'a>(&'a mut Clock);

impl Turn for Timed<'_> {
    #[inline]
    fn now(&mut self) -> Time {
        self.0.now()
    }

    #[inline]
    fn ran(&mut self, _now: Time, _span: Span) -> bool {
        false
    }
}

impl<J: Job> Worker<J> {
    /// A worker without jobs, on this thread. It keeps up to `keep` coroutines, with stacks of `size`, that are free.
    #[must_use]
    pub fn new(order: Order, quantum: Quantum, size: StackSize, keep: usize) -> Self {
        let mut clock = Clock::new();
        let scheduler = Scheduler::new(ReadyQueue::new(order), quantum, size, keep);
        Self { scheduler, now: clock.now(), clock }
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
        self.scheduler.add(now, urgency, (), job)
    }

    /// Gives the most urgent job a turn of one quantum, which begins at `now`; afterwards [`now`](Self::now) is the
    /// time of its end. A job for which there was no stack is in the queue again.
    #[inline]
    pub fn run_one(&mut self, now: Time) -> Event {
        self.run(now, |_, _| ())
    }

    /// [`run_one`](Self::run_one), with the name of the job told beforehand.
    pub fn run_announced(&mut self, now: Time, announce: impl FnOnce(&'static str)) -> Event {
        self.run(now, |scheduler, id| announce(scheduler.name(id)))
    }

    #[inline]
    fn run(&mut self, now: Time, before: impl FnOnce(&Scheduler<J>, JobId)) -> Event {
        let Some((id, _)) = self.scheduler.next(now) else {
            self.now = now;
            return Event::Idle;
        };
        before(&self.scheduler, id);
        let event = self.scheduler.run(now, id, &mut Timed(&mut self.clock));
        self.now = self.clock.latest().max(now);
        if let Event::NoStack(id, _) = event {
            self.scheduler.resume(now, id);
        }
        event
    }

    /// Puts a job that suspended itself back into the queue; one that isn't there any more is left alone.
    pub fn resume(&mut self, now: Time, job: JobId) {
        self.scheduler.resume(now, job);
    }

    /// Puts a job back that has suspended itself to let others run, see [`Scheduler::give_way`].
    pub fn give_way(&mut self, now: Time, job: JobId) {
        self.scheduler.give_way(now, job);
    }

    /// How many jobs are ready to run.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.scheduler.ready()
    }

    /// How many jobs wait for locks and the like, or sleep.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.scheduler.waiting()
    }

    /// How many jobs aren't finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.scheduler.unfinished()
    }

    /// When a job that waits has to be resumed at the latest, whatever happens; `None` if nobody waits.
    #[must_use]
    pub fn wakes_by(&self) -> Option<Time> {
        self.scheduler.wakes_by()
    }

    /// What it publishes.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    /// What a job is called; "" if it has no name or isn't there any more.
    #[must_use]
    pub fn name(&self, job: JobId) -> &'static str {
        self.scheduler.name(job)
    }
}

#[cfg(test)]
mod tests;
