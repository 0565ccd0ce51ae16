//! The loop: the earliest event, and what follows from it.
//!
//! Sources have at most one event ahead each: the next arrival, the dispatcher's hand-over, the end of each worker's turn. So
//! there is no heap of events, but a tournament among sources ([`Turns`]). Jobs lie in one flat array and are numbers
//! everywhere else; nothing is allocated once there have been as many unfinished jobs as there ever are.

pub(super) mod jobs;
pub(super) mod known;

use super::arrivals::Arrivals;
use super::load::Load;
use super::plan::{Cores, Plan, PlanError, QuantumError, Scheme, Steal};
use super::report::{Cut, Report};

use crate::seed::{Seed, Stream};
use crate::trace::Events;
use crate::turns::{NEVER, Turns};
use greenwave_policy::{Busy, Dispatch, DispatchRule, ReadyQueue, Time, Urgency};
use jobs::Jobs;
use known::Known;
use std::collections::VecDeque;
use std::time::Duration;

const ARRIVALS: usize = 0;
const DISPATCHER: usize = 1;
const WORKERS: usize = 2;

/// No job.
const NONE: u32 = u32::MAX;

/// With as many jobs of its own a worker takes no other's, as in the server.
const ENOUGH: usize = 2;

/// A worker that always has as many takes one in so many turns, likewise.
const EVERY: u32 = 16;

/// Serves jobs of `load` as `plan` says, and reports what became of them.
///
/// # Errors
/// If the plan or the cores can't be meant. A run that is cut is no error: [`Report::cut`].
pub fn run(cores: &Cores, load: &Load, plan: &Plan, seed: Seed) -> Result<Report, PlanError> {
    plan.validate(cores, load)?;
    if let Scheme::Heads { .. } = cores.scheme {
        return Ok(super::heads::run(cores, load, plan, seed));
    }
    let mut engine = Engine::new(cores, load, plan, seed);
    let cut = engine.run();
    Ok(engine.report(cut))
}

struct Worker {
    running: u32,
    /// The work that the running job does in this turn, in nanoseconds.
    slice: u64,
    queue: ReadyQueue<u32>,
    /// Turns in a row in which there was something to do.
    rounds: u32,
    /// Its place among the idle ones.
    idle_at: usize,
}

struct Engine<'a> {
    scheme: Scheme,
    steal: Steal,
    quantum: u64,
    dispatch_ns: u64,
    turn_ns: u64,
    switch_ns: u64,
    preempt_ns: u64,
    io_ns: u64,
    steal_ns: u64,
    inexact: f64,
    error: QuantumError,
    seed: u64,
    arrivals: Arrivals<'a>,
    limit: usize,

    choices: Stream,
    now: u64,
    turns: Turns,
    jobs: Jobs,
    known: Known,
    workers: Vec<Worker>,
    idle: Vec<u32>,
    dispatch: Dispatch,
    loads: Vec<greenwave_policy::Load>,
    /// What waits for the dispatcher.
    inbox: VecDeque<u32>,
    dispatcher_free: u64,
    /// The queue of all in the central scheme.
    central: ReadyQueue<u32>,
    /// What was given away.
    given: VecDeque<u32>,
    /// Jobs in workers' queues that have not begun, so that thieves know whether to look.
    stealable: usize,
    events: u64,
    trace: Events,
    report: Report,
    busy_ns: u128,
    overhead_ns: u128,
    /// The instant of the last arrival, with work and costs until then.
    last_arrival: Option<(u64, u128, u128)>,
}

impl<'a> Engine<'a> {
    fn new(cores: &Cores, load: &'a Load, plan: &Plan, seed: Seed) -> Self {
        let scheme = cores.scheme;
        let (rule, steal) = match scheme {
            Scheme::Central { .. } | Scheme::Heads { .. } => (DispatchRule::JoinShortestQueue, Steal::Never),
            Scheme::TwoLevel { dispatch, steal, .. } => (dispatch, steal),
        };
        let costs = cores.costs;
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let worker =
            |idle_at| Worker { running: NONE, slice: 0, queue: ReadyQueue::new(scheme.order()), rounds: 0, idle_at };
        let methods = load.methods().len();
        let report = Report::empty(methods);
        Self {
            scheme,
            steal,
            quantum: scheme.quantum().map_or(u64::MAX, nanos),
            dispatch_ns: nanos(costs.dispatch),
            turn_ns: nanos(costs.turn.unwrap_or(costs.dispatch)),
            switch_ns: nanos(costs.switch),
            preempt_ns: nanos(costs.preempt),
            io_ns: nanos(costs.io),
            steal_ns: nanos(costs.steal),
            inexact: costs.inexact,
            error: costs.error,
            seed: seed.number(),
            arrivals: Arrivals::new(cores, load, plan, seed),
            limit: plan.most_unfinished,
            choices: seed.stream("choices", 0),
            now: 0,
            turns: Turns::new(WORKERS + cores.workers),
            jobs: Jobs::new(plan.most_unfinished),
            known: Known::new(cores.knowledge, scheme.order(), steal, load),
            workers: (0..cores.workers).map(worker).collect(),
            // The first is taken first.
            idle: (0..cores.workers as u32).rev().collect(),
            dispatch: Dispatch::new(rule, seed.number()),
            loads: vec![greenwave_policy::Load::default(); cores.workers],
            inbox: VecDeque::new(),
            dispatcher_free: 0,
            central: ReadyQueue::new(scheme.order()),
            given: VecDeque::new(),
            stealable: 0,
            events: 0,
            trace: Events::default(),
            report,
            busy_ns: 0,
            overhead_ns: 0,
            last_arrival: None,
        }
    }

    fn run(&mut self) -> Option<Cut> {
        for (place, worker) in self.idle.iter().enumerate() {
            self.workers[*worker as usize].idle_at = place;
        }
        self.plan_arrival();
        loop {
            let (instant, source) = self.turns.first();
            if instant == NEVER {
                return None;
            }
            self.now = instant;
            self.events += 1;
            match source {
                ARRIVALS => {
                    let unfinished = self.jobs.unfinished();
                    if unfinished >= self.limit {
                        return Some(Cut::Overload { unfinished });
                    }
                    self.arrive();
                }
                DISPATCHER => self.hand_over(),
                _ => self.end_turn(source - WORKERS),
            }
        }
    }

    #[inline]
    fn note(&mut self, source: usize, job: u32) {
        self.trace.add(self.now, (source as u64) << 32 | u64::from(job));
    }

    fn plan_arrival(&mut self) {
        let next = self.arrivals.next();
        if next.is_none() {
            self.last_arrival = Some((self.now, self.busy_ns, self.overhead_ns));
        }
        self.turns.set(ARRIVALS, next.unwrap_or(NEVER));
    }

    fn arrive(&mut self) {
        let job = self.jobs.add(self.arrivals.job(self.now));
        self.note(ARRIVALS, job);
        self.plan_arrival();
        match self.scheme {
            Scheme::Central { .. } => match self.idle.pop() {
                Some(worker) => self.begin(worker as usize, job, 0),
                None => {
                    let urgency = self.urgency(job);
                    self.central.push(Time::from_nanos(self.now), urgency, job);
                }
            },
            Scheme::TwoLevel { .. } if self.dispatch_ns == 0 => self.assign(job),
            Scheme::TwoLevel { .. } | Scheme::Heads { .. } => {
                if self.inbox.is_empty() {
                    self.turns.set(DISPATCHER, self.now + self.dispatch_ns);
                }
                self.inbox.push_back(job);
            }
        }
    }

    /// The dispatcher is done with the first that waits for it.
    fn hand_over(&mut self) {
        let Some(job) = self.inbox.pop_front() else { return self.turns.set(DISPATCHER, NEVER) };
        self.note(DISPATCHER, job);
        let next = if self.inbox.is_empty() { NEVER } else { self.now + self.dispatch_ns };
        self.turns.set(DISPATCHER, next);
        self.assign(job);
    }

    /// Gives a job to a worker.
    fn assign(&mut self, job: u32) {
        let chosen = self.dispatch.choose(&self.loads);
        if self.workers[chosen].running == NONE {
            self.leave_idle(chosen);
            self.loads[chosen].unfinished += 1;
            return self.begin(chosen, job, self.io_ns);
        }
        let thief = match self.steal {
            Steal::Never => None,
            Steal::WhenIdle => self.idle.pop(),
            Steal::Given(rule) => {
                let method = self.jobs.of(job).method.into();
                let worker = &self.workers[chosen];
                let busy = Busy {
                    rounds: worker.rounds,
                    ready: worker.queue.len() + 1,
                    work: self.known.work(method),
                    waiting: self.given.len(),
                    others: self.workers.len() - 1,
                };
                if rule.gives(&busy) {
                    let thief = self.idle.pop();
                    if thief.is_none() {
                        return self.given.push_back(job);
                    }
                    thief
                } else {
                    None
                }
            }
        };
        if let Some(thief) = thief.map(|thief| thief as usize) {
            self.loads[thief].unfinished += 1;
            self.report.stolen += 1;
            return self.begin(thief, job, self.io_ns + self.steal_ns);
        }
        self.loads[chosen].unfinished += 1;
        self.stealable += 1;
        let urgency = self.urgency(job);
        self.workers[chosen].queue.push(Time::from_nanos(self.now), urgency, job);
    }

    /// A worker's turn is over, as the job is done or its quantum is.
    fn end_turn(&mut self, at: usize) {
        let (job, slice) = (self.workers[at].running, self.workers[at].slice);
        self.note(WORKERS + at, job);
        self.busy_ns += u128::from(slice);
        let served = self.jobs.serve(job, slice);
        let is_central = matches!(self.scheme, Scheme::Central { .. });
        if !is_central {
            self.loads[at].served += 1;
        }
        let now = Time::from_nanos(self.now);
        if served.left > 0 {
            let urgency = self.urgency(job);
            self.take_given(at);
            let queue = if is_central { &mut self.central } else { &mut self.workers[at].queue };
            if queue.goes_on(now, &urgency) {
                return self.go_on(at, job);
            }
            queue.put_back(now, urgency, job);
            self.report.preemptions += 1;
            self.workers[at].running = NONE;
            return self.begin_next(at, self.preempt_ns);
        }
        self.finish(job);
        if !is_central {
            self.loads[at].unfinished -= 1;
            self.loads[at].served = self.loads[at].served.saturating_sub(served.quanta);
        }
        self.workers[at].running = NONE;
        self.take_given(at);
        self.begin_next(at, 0);
    }

    /// A worker that has little to do takes what was given away; one that always has much, now and then.
    fn take_given(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        worker.rounds = worker.rounds.saturating_add(1);
        if self.given.is_empty() || (worker.queue.len() >= ENOUGH && !worker.rounds.is_multiple_of(EVERY)) {
            return;
        }
        let Some(job) = self.given.pop_front() else { return };
        self.loads[at].unfinished += 1;
        self.report.stolen += 1;
        self.overhead_ns += u128::from(self.steal_ns);
        let urgency = self.urgency(job);
        self.stealable += 1;
        self.workers[at].queue.push(Time::from_nanos(self.now), urgency, job);
    }

    /// A worker that has nothing in its hands begins what goes first, or is idle.
    fn begin_next(&mut self, at: usize, cost: u64) {
        let now = Time::from_nanos(self.now);
        let preemptive = self.quantum != u64::MAX;
        let central = matches!(self.scheme, Scheme::Central { .. });
        let queue = if central { &mut self.central } else { &mut self.workers[at].queue };
        let next = if preemptive { queue.pop_due(now) } else { queue.pop(now) };
        if let Some((_, job)) = next {
            let mut cost = cost;
            if !central && self.jobs.of(job).had == 0 {
                self.stealable -= 1;
                cost += self.io_ns;
            }
            return self.begin(at, job, cost);
        }
        if self.steal == Steal::WhenIdle
            && let Some(job) = self.steal_for(at)
        {
            self.report.stolen += 1;
            return self.begin(at, job, cost + self.steal_ns + self.io_ns);
        }
        let worker = &mut self.workers[at];
        (worker.running, worker.rounds, worker.idle_at) = (NONE, 0, self.idle.len());
        self.idle.push(at as u32);
        self.turns.set(WORKERS + at, NEVER);
    }

    /// A job of another worker's queue that has not begun: of the first from a random one on that has any.
    fn steal_for(&mut self, thief: usize) -> Option<u32> {
        if self.stealable == 0 {
            return None;
        }
        let workers = self.workers.len();
        let from = self.choices.below(workers as u64) as usize;
        for victim in (from..from + workers).map(|victim| victim % workers).filter(|victim| *victim != thief) {
            let now = Time::from_nanos(self.now);
            let Some((urgency, job)) = self.workers[victim].queue.pop(now) else { continue };
            if self.jobs.of(job).had > 0 {
                self.workers[victim].queue.push_first(now, urgency, job);
                continue;
            }
            self.stealable -= 1;
            self.loads[victim].unfinished -= 1;
            self.loads[thief].unfinished += 1;
            return Some(job);
        }
        None
    }

    fn begin(&mut self, at: usize, job: u32, cost: u64) {
        let mut from = self.now;
        if self.dispatch_ns > 0 && matches!(self.scheme, Scheme::Central { .. }) {
            // The dispatcher gives out one turn at a time.
            let takes = if self.jobs.of(job).had == 0 { self.dispatch_ns } else { self.turn_ns };
            from = from.max(self.dispatcher_free) + takes;
            self.dispatcher_free = from;
        }
        let mut cost = cost + self.switch_ns;
        if matches!(self.scheme, Scheme::Central { .. }) && self.jobs.of(job).had == 0 {
            cost += self.io_ns;
        }
        self.overhead_ns += u128::from(cost);
        self.workers[at].running = job;
        self.run_from(at, job, from + cost);
    }

    /// The job that runs keeps its worker for a further quantum.
    fn go_on(&mut self, at: usize, job: u32) {
        self.run_from(at, job, self.now);
    }

    #[inline]
    fn run_from(&mut self, at: usize, job: u32, from: u64) {
        let left = self.jobs.of(job).left;
        let mut quantum = self.quantum;
        if self.inexact > 0.0 && quantum != u64::MAX {
            let unit = match self.error {
                QuantumError::EachQuantum => self.choices.unit(),
                QuantumError::EachJob => self.unit_of(job),
                QuantumError::EachKind => {
                    let last = self.report.methods.len().saturating_sub(1).max(1);
                    f64::from(self.jobs.of(job).method) / last as f64
                }
            };
            let factor = 1.0 + self.inexact * (2.0 * unit - 1.0);
            quantum = ((quantum as f64 * factor) as u64).max(1);
        }
        let slice = left.min(quantum);
        self.workers[at].slice = slice;
        self.turns.set(WORKERS + at, from + slice);
    }

    /// A number from 0 to 1, without 1, that is a job's as long as it lives.
    fn unit_of(&self, job: u32) -> f64 {
        // SplitMix64's last steps, of its arrival and the seed.
        let mixed = self.jobs.of(job).arrived.wrapping_add(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn finish(&mut self, job: u32) {
        let done = *self.jobs.of(job);
        let took = self.now - done.arrived;
        self.known.observe(&done);
        self.report.done += 1;
        if done.counted {
            let method = usize::from(done.method);
            self.report.all.add(took);
            self.report.methods[method].add(took);
            self.report.slowdown.add(took.saturating_mul(1000) / done.work);
            self.report.late[method] += u64::from(done.deadline.is_past(Time::from_nanos(self.now)));
        }
        self.jobs.remove(job);
    }

    #[inline]
    fn urgency(&self, job: u32) -> Urgency {
        let job = self.jobs.of(job);
        let arrived = Time::from_nanos(job.arrived);
        let here = self.known.left(job);
        Urgency { arrived, birth: arrived, deadline: job.deadline, here, ..Urgency::default() }
    }

    /// Takes a worker out of the idle ones, wherever it is among them.
    fn leave_idle(&mut self, worker: usize) {
        let place = self.workers[worker].idle_at;
        self.idle.swap_remove(place);
        if let Some(moved) = self.idle.get(place) {
            self.workers[*moved as usize].idle_at = place;
        }
    }

    fn report(mut self, cut: Option<Cut>) -> Report {
        let mut report = self.report;
        report.seconds = self.now as f64 / 1e9;
        // What workers still do after the last arrival says nothing of the load.
        let (until, busy, overhead) = self.last_arrival.unwrap_or((self.now, self.busy_ns, self.overhead_ns));
        let in_all = until as f64 * self.workers.len() as f64;
        if in_all > 0.0 {
            report.busy = busy as f64 / in_all;
            report.overhead = overhead as f64 / in_all;
        }
        report.most_unfinished = self.jobs.most();
        report.events = self.events;
        report.hash = self.trace.hash();
        report.cut = cut;
        report
    }
}
