//! The scheduler of one thread: jobs, each in a coroutine, run in quanta by the order of a ready queue.
//!
//! A [`Scheduler`] runs on the thread that made it and starts none. Who owns it decides when: it adds jobs, asks whose turn
//! it [is](Scheduler::next), and [runs](Scheduler::run) that one for a quantum. In between the owner can look at its queues
//! and sockets, or keep a job from beginning. A cluster head of the server and the [`Worker`](crate::Worker) of a pool or
//! a benchmark are such owners. Which of the jobs goes first, and whether the one whose quantum ended goes on, is decided by
//! [`ReadyQueue`], by which simulations decide too.
//!
//! What it costs: a job takes a coroutine that rests, no allocation; a quantum takes two switches, a pop and a push, two
//! readings of the processor's clock, and no allocation; none of pop and push where the same job goes on. One of which
//! it is known for how long it stays the next, with an owner who has nothing else to see to for that long, is given that many
//! quanta at once.
//!
//! A job is *in* the queue, or *out* of it: being run, in its owner's hands, or waiting. Its owner resumes it from there;
//! a wait with a time ends by itself as well, and so does one for a word of memory, such as a lock.
//!
//! The scheduler's own code runs on the thread's own stack and is never preempted, because only a coroutine has a quantum. It
//! takes no lock and drops nothing of a job's, for one of its preempted jobs may hold that lock, and would never be
//! resumed. All that is a job's happens in its coroutine, to the end.

mod runners;
mod waiting;

use crate::coroutine::{Back, Nearby};
use crate::machine::prefetch;
use crate::overflow::name_overflows;
use crate::preempt::Ticks;
use crate::stack::StackSize;
use greenwave_policy::{ReadyQueue, Span, Time, Urgency};
use runners::{Runner, Runners};
use std::io;
use std::ptr;
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

/// What is run. Every `FnOnce()` is one; a type of its own can have a name and needs no box.
pub trait Job: 'static {
    /// The work, which runs in a coroutine.
    fn run(self);

    /// What it is called where somebody has to be told of it: a stack's overflow, a job that doesn't return.
    fn name(&self) -> &'static str {
        ""
    }

    /// What kind of job it is, if that is known: a small number, the same for jobs whose code is about as fast. The first quanta
    /// of jobs of a known kind take fewer looks at the clock.
    fn kind(&self) -> Option<usize> {
        None
    }
}

impl<F: FnOnce() + 'static> Job for F {
    fn run(self) {
        self();
    }
}

/// A job of one scheduler, for as long as it isn't finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId {
    place: u32,
    generation: u32,
}

/// A wait of a job's. It ends once; ending it again does nothing, whatever has become of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitId {
    place: u32,
    wait: u32,
}

/// How a turn ended.
#[derive(Debug)]
pub enum Event {
    /// There was nobody to run. Jobs may wait, see [`Scheduler::waiting`].
    Idle,
    /// Its quantum ended. It is in the queue again.
    Preempted(JobId),
    /// It suspended itself. It is out of the queue until it is resumed.
    Suspended(JobId),
    /// It waits for a lock or the like, or sleeps, and comes back by itself.
    Waits(JobId),
    /// It returned.
    Finished(JobId),
    /// It panicked with this message.
    Panicked(JobId, String),
    /// There was no stack for it: memory or mappings (`vm.max_map_count`) ran out. It hasn't begun.
    NoStack(JobId, io::Error),
}

/// What a scheduler publishes for who dispatches, counted without end; both wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that returned or panicked.
    pub finished: u32,
    /// Quanta that the jobs which are there now were served.
    pub served: u32,
}

/// What an owner knows of the job that it gives a turn.
pub trait Turn {
    /// The time now.
    fn now(&mut self) -> Time;

    /// The work that is left of a job that was given with this urgency and has had so much.
    #[inline]
    fn left(&self, given: &Urgency, had: Span) -> Duration {
        given.after(had.into()).here
    }

    /// It ran for so long, until `now`. Whether it may go on at once, if its quantum has ended and it is the next: the owner
    /// wants to see to nothing else before.
    fn ran(&mut self, now: Time, span: Span) -> bool;

    /// For how long its owner would want to see to nothing else if it goes on.
    #[inline]
    fn quiet_for(&mut self, _now: Time) -> Duration {
        Duration::ZERO
    }
}

/// The jobs of one thread and whose turn it is. `K` is what the owner calls them.
///
/// 1. A job is in `ready` if and only if its situation is `In`, and then once.
/// 2. A job that waits for a word is in `waiting`'s list, once, and nobody but that ends the wait: the word is borrowed by
///    the job until it runs again, and looked at from there.
/// 3. `counts.served` is the sum of the quanta of all jobs that are there.
pub struct Scheduler<J: Job, K = ()> {
    ready: ReadyQueue<u32>,
    waiting: Waiting,
    places: Vec<Place<J, K>>,
    free: Vec<u32>,
    runners: Runners<J>,
    quantum: Option<Slice>,
    counts: Counts,
}

/// How long a quantum is, in both clocks.
#[derive(Clone, Copy)]
struct Slice {
    ticks: Ticks,
    span: Duration,
}

struct Place<J, K> {
    progress: Progress<J>,
    situation: Situation,
    key: K,
    /// As it was added.
    given: Urgency,
    /// The work that is left.
    left: Duration,
    /// How long it ran so far.
    had: Span,
    /// Since when it has been where it is.
    since: Time,
    quanta: u32,
    /// Times in a row that it gave way.
    yields: u32,
    generation: u32,
    /// Its last wait, or that of the one before it.
    wait: u32,
    /// What its coroutine needs first, if it was preempted.
    nearby: Nearby,
}

enum Progress<J> {
    Free,
    Fresh(J),
    Begun(Box<Runner<J>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    In,
    Out,
    /// Until somebody ends the wait.
    Waits,
    /// For a word of memory.
    WaitsForWord,
}

/// How often in a row a job may give way before it has to pause, and for how long then: whom it waits for may be less
/// urgent than it is.
const POLITE: u32 = 2;
const PAUSE: Duration = Duration::from_micros(50);

/// So many jobs that wait, of a kilobyte or two with what their owner knows of them, and a cache for one core is full.
const DEEP: usize = 256;

/// How many quanta one that is known to stay the next is given at once.
const AT_ONCE: u32 = 32;

impl<J: Job, K: Copy> Scheduler<J, K> {
    /// One without jobs, on this thread, for whom this queue says who goes first. It keeps up to `keep` coroutines, with
    /// stacks of `size`, that are free. Only code that has probes gives way at a quantum's end, see
    /// [`is_instrumented`](crate::is_instrumented).
    #[must_use]
    pub fn new(ready: ReadyQueue<u32>, quantum: Quantum, size: StackSize, keep: usize) -> Self {
        name_overflows();
        Self {
            ready,
            waiting: Waiting::new(),
            places: Vec::new(),
            free: Vec::new(),
            runners: Runners::new(size, keep),
            quantum: quantum.span().map(|span| Slice { ticks: Ticks::of(span), span }),
            counts: Counts::default(),
        }
    }

    /// Adds a job to the queue. Nothing of it runs before its turn.
    #[inline]
    pub fn add(&mut self, now: Time, urgency: Urgency, key: K, job: J) -> JobId {
        let progress = Progress::Fresh(job);
        let place = match self.free.pop() {
            Some(place) => {
                let there = &mut self.places[place as usize];
                (there.progress, there.situation, there.key) = (progress, Situation::In, key);
                (there.given, there.left, there.had, there.since) = (urgency, urgency.here, Span::ZERO, now);
                (there.quanta, there.yields) = (0, 0);
                place
            }
            None => {
                self.places.push(Place {
                    progress,
                    situation: Situation::In,
                    key,
                    given: urgency,
                    left: urgency.here,
                    had: Span::ZERO,
                    since: now,
                    quanta: 0,
                    yields: 0,
                    generation: 0,
                    wait: 0,
                    nearby: Nearby::default(),
                });
                (self.places.len() - 1) as u32
            }
        };
        self.ready.push(now, urgency, place);
        JobId { place, generation: self.places[place as usize].generation }
    }

    /// Takes out whose turn it is, and says since when it has waited for that.
    #[inline(always)]
    pub fn next(&mut self, now: Time) -> Option<(JobId, Time)> {
        if !self.waiting.is_empty() {
            self.look(now);
        }
        // Without a quantum whoever is begun was found to be in time, and soon gives way or ends.
        let next = if self.quantum.is_some() { self.ready.pop_due(now) } else { self.ready.pop(now) };
        let (_, place) = next?;
        self.prefetch();
        let there = &mut self.places[place as usize];
        there.situation = Situation::Out;
        Some((JobId { place, generation: there.generation }, there.since))
    }

    /// Has the processor fetch what those need whose turn comes soon, while one runs. Where [many](Self::is_deep) wait it has left
    /// the cache meanwhile, and one thing says where the next is: so for each of those to come it is another. The owner goes on
    /// with [what is its own](Self::key_behind). Where few wait those that take turns have what is theirs fetched.
    #[inline(always)]
    fn prefetch(&self) {
        let is_deep = self.is_deep();
        if is_deep && let Some((address, bytes)) = self.ready.behind_first_at(4) {
            prefetch(address, bytes);
        }
        if let Some(place) = self.ready.behind_first(if is_deep { 3 } else { 1 }) {
            prefetch(ptr::from_ref(&self.places[*place as usize]).addr(), size_of::<Place<J, K>>());
        }
        if let Some(there) = self.behind_first(0)
            && let Progress::Begun(runner) = &there.progress
        {
            prefetch(ptr::from_ref::<Runner<J>>(runner).addr(), size_of::<Runner<J>>());
            there.nearby.prefetch();
        }
    }

    /// Whether so many wait that what is theirs can't all be in the cache.
    #[must_use]
    #[inline]
    pub fn is_deep(&self) -> bool {
        self.ready.len() >= DEEP
    }

    /// Whether who asks for work should be kept from sending more ([`ReadyQueue::is_crowded`]).
    #[inline]
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.ready.is_crowded()
    }

    #[inline]
    fn behind_first(&self, by: usize) -> Option<&Place<J, K>> {
        self.ready.behind_first(by).map(|place| &self.places[*place as usize])
    }

    /// A guess at what the owner calls the job that comes so many after the first if nobody comes meanwhile, see
    /// [`ReadyQueue::behind_first`]. Where [many](Self::is_deep) wait, that of the first three is near the processor when a turn
    /// begins.
    #[must_use]
    #[inline]
    pub fn key_behind(&self, by: usize) -> Option<K> {
        self.behind_first(by).map(|there| there.key)
    }

    /// Puts those back whose waits are over.
    #[inline(never)]
    fn look(&mut self, now: Time) {
        let Self { waiting, ready, places, .. } = self;
        waiting.look(now, |id| {
            let there = &mut places[id.place as usize];
            if there.wait == id.wait && matches!(there.situation, Situation::Waits | Situation::WaitsForWord) {
                (there.situation, there.since) = (Situation::In, now);
                ready.put_back(now, there.urgency(), id.place);
            }
        });
    }

    /// Gives a job that was [taken out](Self::next) a turn, which begins at `now`: a quantum, and further ones for as long
    /// as it is the next and `turn` lets it go on.
    #[inline]
    pub fn run(&mut self, mut now: Time, id: JobId, turn: &mut impl Turn) -> Event {
        let there = &mut self.places[id.place as usize];
        if let Err(error) = there.begin(&mut self.runners) {
            return Event::NoStack(id, error);
        }
        let Progress::Begun(runner) = &mut there.progress else { return Event::Idle };
        let mut quanta = 1;
        loop {
            let back = runner.run(self.quantum.map(|quantum| quantum.times(quanta)));
            let after = turn.now();
            let span = after.span_since(now);
            there.had += span;
            there.quanta = there.quanta.wrapping_add(quanta);
            self.counts.served = self.counts.served.wrapping_add(quanta);
            let may_go_on = turn.ran(after, span);
            match back {
                Back::Preempted => {
                    there.left = turn.left(&there.given, there.had);
                    let urgency = Urgency { here: there.left, ..there.given };
                    if may_go_on && self.ready.goes_on(after, &urgency) {
                        now = after;
                        quanta = match self.quantum {
                            Some(quantum) => {
                                let sure = there.given.here.saturating_sub(there.had.into());
                                let stays = self.ready.goes_on_for(after, &urgency, sure);
                                quantum.within(stays.min(turn.quiet_for(after)))
                            }
                            None => 1,
                        };
                        continue;
                    }
                    (there.situation, there.since, there.yields) = (Situation::In, after, 0);
                    there.nearby = runner.nearby();
                    self.ready.preempted(after, urgency, id.place);
                    return Event::Preempted(id);
                }
                // Before anything else: a runner that is done rests.
                Back::Suspended if runner.is_done() => {
                    self.remove(id.place);
                    return Event::Finished(id);
                }
                Back::Suspended => {
                    there.left = turn.left(&there.given, there.had);
                    there.since = after;
                    return Event::Suspended(id);
                }
                Back::Waits(wait) => {
                    there.left = turn.left(&there.given, there.had);
                    (there.since, there.yields, there.wait) = (after, 0, there.wait.wrapping_add(1));
                    there.situation = if wait.is_pause() { Situation::Waits } else { Situation::WaitsForWord };
                    self.waiting.add(after, wait, WaitId { place: id.place, wait: there.wait });
                    return Event::Waits(id);
                }
                // One whose coroutine has ended was begun by none.
                Back::Finished => {
                    self.remove(id.place);
                    return Event::Finished(id);
                }
                Back::Panicked(message) => {
                    self.remove(id.place);
                    return Event::Panicked(id, message);
                }
            }
        }
    }

    /// Puts a job that is out of the queue back, behind its equals; it may have suspended itself, wait, or not have begun. One
    /// that waits for a word, is in the queue, or isn't there any more is left alone.
    pub fn resume(&mut self, now: Time, id: JobId) {
        if let Some((urgency, place)) = self.take_back(now, id) {
            self.ready.put_back(now, urgency, place);
        }
    }

    /// [`resume`](Self::resume), before its equals.
    pub fn resume_first(&mut self, now: Time, id: JobId) {
        if let Some((urgency, place)) = self.take_back(now, id) {
            self.ready.push_first(now, urgency, place);
        }
    }

    /// Puts a job back that has suspended itself to let others run. One that does so again and again has to pause, for whom
    /// it waits for may be less urgent than it is.
    pub fn give_way(&mut self, now: Time, id: JobId) {
        let Some(there) = self.there(id).filter(|there| there.situation == Situation::Out) else { return };
        there.yields = there.yields.saturating_add(1);
        if there.yields <= POLITE || self.quantum.is_none() {
            return self.resume(now, id);
        }
        if let Some(wait) = self.wait(id) {
            self.end_at(now + PAUSE, wait);
        }
    }

    /// Lets a job wait that has suspended itself, until somebody [ends](Self::end) the wait or resumes it.
    pub fn wait(&mut self, id: JobId) -> Option<WaitId> {
        let there = self.there(id).filter(|there| there.situation == Situation::Out)?;
        (there.situation, there.wait) = (Situation::Waits, there.wait.wrapping_add(1));
        Some(WaitId { place: id.place, wait: there.wait })
    }

    /// A wait ends at this time at the latest.
    pub fn end_at(&mut self, time: Time, wait: WaitId) {
        let Self { waiting, places, .. } = self;
        waiting.set_timer(time, wait, places.len(), |wait| {
            let there = &places[wait.place as usize];
            there.wait == wait.wait && there.situation == Situation::Waits
        });
    }

    /// Ends a wait, unless it has ended or is one for a word.
    pub fn end(&mut self, now: Time, wait: WaitId) {
        let Some(there) = self.places.get(wait.place as usize) else { return };
        if there.wait == wait.wait && there.situation == Situation::Waits {
            self.resume(now, JobId { place: wait.place, generation: there.generation });
        }
    }

    /// Takes out of the queue up to `most` of the jobs that haven't begun: those for which `by` is greatest, of those for which it
    /// is `Some`. See [`ReadyQueue::shed_by`]. Only those are looked at whose urgency `may` be one of theirs: to look at thousands
    /// takes ten times as long as to look through the queue.
    pub fn shed<O: Ord>(
        &mut self,
        most: usize,
        may: impl Fn(&Urgency) -> bool,
        by: impl Fn(&Urgency, K) -> Option<O>,
    ) -> Vec<JobId> {
        let Self { ready, places, .. } = self;
        let shed = ready.shed_by(most, |urgency, place| {
            if !may(urgency) {
                return None;
            }
            let there = &places[*place as usize];
            if there.is_fresh() { by(urgency, there.key) } else { None }
        });
        let out = shed.into_iter().map(|(_, place)| {
            let there = &mut places[place as usize];
            there.situation = Situation::Out;
            JobId { place, generation: there.generation }
        });
        out.collect()
    }

    /// Takes away a job that is out of the queue and hasn't begun; `None` if it isn't such a one.
    pub fn withdraw(&mut self, id: JobId) -> Option<J> {
        let there = self.there(id).filter(|there| there.situation == Situation::Out && there.is_fresh())?;
        let Progress::Fresh(job) = std::mem::replace(&mut there.progress, Progress::Free) else { return None };
        self.remove(id.place);
        Some(job)
    }

    /// How many jobs are ready to run.
    #[must_use]
    #[inline]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many jobs wait for words, and how many timers are set.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many jobs wait for words of memory, which nobody tells the thread of.
    #[must_use]
    pub fn waiting_for_words(&self) -> usize {
        self.waiting.words()
    }

    /// How many jobs aren't finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// When a job that waits has to be resumed at the latest, whatever happens; `None` if nobody waits for a word or a time.
    #[must_use]
    pub fn wakes_by(&self) -> Option<Time> {
        self.waiting.wakes_by()
    }

    /// What it publishes.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// What the owner calls a job that is there.
    #[must_use]
    #[inline]
    pub fn key(&self, id: JobId) -> K {
        self.places[id.place as usize].key
    }

    /// What a job is called; "" if it has no name or isn't there any more.
    #[must_use]
    pub fn name(&self, id: JobId) -> &'static str {
        match self.places.get(id.place as usize).map(|there| &there.progress) {
            Some(Progress::Fresh(job)) => job.name(),
            Some(Progress::Begun(runner)) => runner.name(),
            Some(Progress::Free) | None => "",
        }
    }

    fn there(&mut self, id: JobId) -> Option<&mut Place<J, K>> {
        self.places.get_mut(id.place as usize).filter(|there| there.generation == id.generation)
    }

    /// A job that somebody resumes is in the queue from here on.
    fn take_back(&mut self, now: Time, id: JobId) -> Option<(Urgency, u32)> {
        let there = self.there(id)?;
        match there.situation {
            Situation::In | Situation::WaitsForWord => return None,
            Situation::Out => {}
            Situation::Waits => there.since = now,
        }
        there.situation = Situation::In;
        Some((there.urgency(), id.place))
    }

    fn remove(&mut self, place: u32) {
        let there = &mut self.places[place as usize];
        if let Progress::Begun(runner) = std::mem::replace(&mut there.progress, Progress::Free) {
            self.runners.put(runner);
        }
        there.situation = Situation::Out;
        there.generation = there.generation.wrapping_add(1);
        self.counts.finished = self.counts.finished.wrapping_add(1);
        self.counts.served = self.counts.served.wrapping_sub(there.quanta);
        self.free.push(place);
    }
}

/// Jobs that weren't begun are dropped, and those that have suspended themselves or wait for a task are unwound. Those that
/// wait for locks or were preempted can't be unwound where they are: all go on until none of them is at such a place. What is
/// unwound first may have what the others wait for.
impl<J: Job, K> Drop for Scheduler<J, K> {
    fn drop(&mut self) {
        while !self.unwind() {
            for there in &mut self.places {
                if let Progress::Begun(runner) = &mut there.progress {
                    runner.run(self.quantum.map(|quantum| quantum.ticks));
                }
            }
        }
    }
}

impl<J: Job, K> Scheduler<J, K> {
    /// Drops what can be dropped; whether that is all.
    fn unwind(&mut self) -> bool {
        let mut is_all = true;
        for there in &mut self.places {
            match &there.progress {
                Progress::Begun(runner) if runner.is_amid() => is_all = false,
                _ => drop(std::mem::replace(&mut there.progress, Progress::Free)),
            }
        }
        is_all
    }
}

impl Slice {
    fn times(self, quanta: u32) -> Ticks {
        Ticks(self.ticks.0 * u64::from(quanta))
    }

    /// How many of them end within so long; one at least.
    fn within(self, span: Duration) -> u32 {
        if span < self.span.saturating_mul(2) {
            return 1;
        }
        let most = span.min(self.span.saturating_mul(AT_ONCE));
        (most.as_nanos() / self.span.as_nanos().max(1)).clamp(1, AT_ONCE.into()) as u32
    }
}

impl<J: Job, K> Place<J, K> {
    fn urgency(&self) -> Urgency {
        Urgency { here: self.left, ..self.given }
    }

    fn is_fresh(&self) -> bool {
        matches!(self.progress, Progress::Fresh(_))
    }

    #[inline(always)]
    fn begin(&mut self, runners: &mut Runners<J>) -> io::Result<()> {
        if !self.is_fresh() {
            return Ok(());
        }
        let mut runner = runners.take()?;
        // Nobody refuses it any more.
        self.given.needed = Duration::ZERO;
        if let Progress::Fresh(job) = std::mem::replace(&mut self.progress, Progress::Free) {
            runner.assign(runners, job);
            self.progress = Progress::Begun(runner);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
