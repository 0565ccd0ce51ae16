//! Who may begin: permits, those that wait for one, and what is refused. Time comes in as an argument.
//!
//! 1. `running` permits are taken, never more than there are.
//! 2. Nobody waits while a permit is free: whoever gives one back calls [`Limiter::give`] until it gives none.
//! 3. Each key in `queue` is in `calls`, as [`Stage::Waits`] or as [`Stage::Left`]; those are `waiting` and `left`.
//! 4. A permit that was given belongs to the call, whether its task has heard of it or not.

use super::counters::{Counters, Refusals};
use super::learned::{Learned, Methods, Outcome};
use super::settings::Settings;
use greenwave_policy::{AdmissionConfig, Budget, Deadline, Margin, ReadyQueue, Refusal, Time, Urgency, Verdict};
use slab::Slab;
use std::fmt;
use std::mem;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The permits of a server.
pub(super) struct Limiter {
    settings: Settings,
    running: usize,
    waiting: usize,
    left: usize,
    queue: ReadyQueue<usize>,
    calls: Slab<Waiter>,
    methods: Methods,
    /// After how many more requests a full queue is looked through again for some that take longer than so long.
    crowd: (u32, Duration),
    counters: Counters,
}

/// What is known of a request, for as long as it is here.
#[derive(Clone, Debug)]
pub(super) struct Call {
    method: usize,
    /// Of a method that isn't known, while there is room for it.
    path: Option<Box<str>>,
    deadline: Deadline,
    /// The budget that it arrived with.
    whole: Budget,
    reported: bool,
}

/// What becomes of a request that arrives.
#[derive(Debug)]
pub(super) enum Arrival {
    /// It has a permit.
    Begins(Call),
    /// It waits for one, under this key.
    Waits(usize),
    Refused(Refusal),
}

/// How a request that had a permit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Served,
    Failed {
        /// It was given up, here or further on, as the time ran out.
        timed_out: bool,
    },
    /// Nobody waits for the answer any more.
    Dropped,
}

struct Waiter {
    call: Call,
    stage: Stage,
}

enum Stage {
    Waits(Option<Waker>),
    Begins,
    Refused(Refusal),
    /// Its task has gone.
    Left,
}

/// Where none was found, how many more have to come before it is looked for again.
const CROWD: u32 = 128;

/// How many may have left the queue before it is searched for them, at least.
const SWEEP: usize = 64;

/// Who goes away with less than this part of the budget left does so as its time is up: its caller's clock began earlier.
const NEARLY: u32 = 16;

impl Limiter {
    pub(super) fn new(settings: &Settings) -> Self {
        let most = if settings.refuses() { settings.admission.max_queue } else { usize::MAX };
        let learned = Learned::new(settings.work_quantile, Margin::new(settings.late_share));
        Self {
            running: 0,
            waiting: 0,
            left: 0,
            queue: ReadyQueue::new(settings.order).with_most(most),
            calls: Slab::new(),
            methods: Methods::new(settings.methods, settings.admission, learned),
            crowd: (0, Duration::ZERO),
            counters: Counters::default(),
            settings: settings.clone(),
        }
    }

    /// A request comes, which reached the process at `arrived`. The wakers of those that have to make room for it are left in
    /// `turned_away`.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        path: &str,
        arrived: Time,
        deadline: Deadline,
        turned_away: &mut Vec<Waker>,
    ) -> Arrival {
        self.counters.arrived += 1;
        let method = self.methods.find(path);
        let path = (method == Methods::OTHERS && self.methods.has_room()).then(|| path.into());
        let mut call = Call { method, path, deadline, whole: deadline.budget(arrived), reported: false };
        let learned = &self.methods[method].learned;
        let (estimate, needed) = (learned.estimate(), learned.needed());
        if self.waiting >= self.settings.admission.max_queue {
            self.make_room(now, estimate, turned_away);
        }
        let admission = &mut self.methods[method].admission;
        if let Verdict::Refuse(refusal) = admission.decide(now, deadline.budget(now), needed, self.waiting)
            && self.heed(&refusal, &mut call.reported)
        {
            return Arrival::Refused(refusal);
        }
        if self.running < self.settings.permits && self.waiting == 0 {
            self.running += 1;
            return Arrival::Begins(call);
        }
        let here = estimate.unwrap_or_default();
        let needed = match self.settings.refuses() {
            true => self.settings.admission.needed(call.whole, needed),
            false => Duration::ZERO,
        };
        let urgency = Urgency { arrived, birth: arrived, deadline, here, ahead: Duration::ZERO, needed };
        let key = self.calls.insert(Waiter { call, stage: Stage::Waits(None) });
        self.queue.push(now, urgency, key);
        self.waiting += 1;
        Arrival::Waits(key)
    }

    /// Gives a permit to the one that goes first, or refuses it, and so on until there is somebody to wake. `None` if no
    /// permit is free or nobody waits.
    pub(super) fn give(&mut self, now: Time) -> Option<Waker> {
        while self.running < self.settings.permits {
            let (_, key) = self.queue.pop_due(now)?;
            if matches!(self.calls[key].stage, Stage::Left) {
                self.calls.remove(key);
                self.left -= 1;
                continue;
            }
            self.waiting -= 1;
            let Call { method, deadline, whole, mut reported, .. } = self.calls[key].call;
            let method = &mut self.methods[method];
            let (budget, needed) = (deadline.budget(now), method.learned.needed());
            let stage = match method.admission.recheck(now, budget, whole, needed, self.waiting) {
                Verdict::Refuse(refusal) if self.heed(&refusal, &mut reported) => Stage::Refused(refusal),
                _ => {
                    self.running += 1;
                    Stage::Begins
                }
            };
            let waiter = &mut self.calls[key];
            waiter.call.reported = reported;
            if let Stage::Waits(Some(waker)) = mem::replace(&mut waiter.stage, stage) {
                return Some(waker);
            }
        }
        None
    }

    /// Whether one that waits may begin. If not yet, its waker takes the place of the one before, which is left in `waker`;
    /// otherwise the key is free.
    pub(super) fn poll(&mut self, key: usize, waker: &mut Option<Waker>) -> Poll<Result<Call, Refusal>> {
        if let Stage::Waits(last) = &mut self.calls[key].stage {
            mem::swap(last, waker);
            return Poll::Pending;
        }
        let Waiter { call, stage } = self.calls.remove(key);
        Poll::Ready(match stage {
            Stage::Refused(refusal) => Err(refusal),
            _ => Ok(call),
        })
    }

    /// One that waits goes away. Its waker, to be dropped; there may be a permit to [give](Self::give) now.
    pub(super) fn leave(&mut self, key: usize) -> Option<Waker> {
        match mem::replace(&mut self.calls[key].stage, Stage::Left) {
            Stage::Waits(waker) => {
                self.counters.left += 1;
                self.waiting -= 1;
                self.left += 1;
                self.sweep();
                return waker;
            }
            // It was given a permit and hasn't heard of it.
            Stage::Begins => {
                self.counters.left += 1;
                self.running -= 1;
            }
            Stage::Refused(_) | Stage::Left => {}
        }
        self.calls.remove(key);
        None
    }

    /// A request that had a permit since `began` ends. There may be a permit to [give](Self::give) now.
    pub(super) fn finish(&mut self, now: Time, began: Time, call: Call, end: End) {
        self.running -= 1;
        let counters = &mut self.counters;
        let left = call.deadline.budget(now);
        let (counter, outcome) = match end {
            End::Served if left.is_spent() => (&mut counters.late, Some(Outcome::Late)),
            End::Served => (&mut counters.in_time, Some(Outcome::InTime)),
            End::Failed { timed_out } => {
                (&mut counters.failed, (timed_out || left.is_spent()).then_some(Outcome::Expired))
            }
            End::Dropped => {
                let nearly = call.whole.remaining().map(|whole| whole / NEARLY);
                let is_up = nearly.zip(left.remaining()).is_some_and(|(nearly, left)| left <= nearly);
                (&mut counters.abandoned, is_up.then_some(Outcome::Expired))
            }
        };
        *counter += 1;
        let Some(outcome) = outcome else { return };
        let method = match call.path {
            Some(path) if end == End::Served => self.methods.know(path),
            Some(_) => return,
            None => call.method,
        };
        let left = call.deadline.budget(began).remaining();
        self.methods[method].learned.observe(now.since(began), outcome, left);
    }

    pub(super) fn counters(&self) -> Counters {
        let Self { running, waiting, methods, counters, .. } = self;
        Counters { running: *running, waiting: *waiting, methods: methods.len(), ..*counters }
    }

    /// The queue is full, and a request comes that takes about so long, if that is known: those that take longest are turned
    /// away in its place, if they take [much longer](AdmissionConfig::LONGER).
    #[cold]
    fn make_room(&mut self, now: Time, takes: Option<Duration>, turned_away: &mut Vec<Waker>) {
        let Some(takes) = takes.filter(|_| self.settings.refuses()) else { return };
        let (more, least) = &mut self.crowd;
        if *more > 0 && takes >= *least {
            *more -= 1;
            return;
        }
        let (limit, calls) = (self.settings.admission.max_queue, &self.calls);
        let waits = |key: &usize| matches!(calls[*key].stage, Stage::Waits(_));
        let shed = self.queue.shed(limit.div_ceil(AdmissionConfig::SHED), takes * AdmissionConfig::LONGER, waits);
        self.crowd = (if shed.is_empty() { CROWD } else { 0 }, takes);
        for (urgency, key) in shed {
            let refusal = match urgency.deadline.budget(now) {
                left if left.is_spent() => Refusal::Expired { late: left.late() },
                _ => Refusal::QueueFull { limit },
            };
            self.counters.refused.count(&refusal);
            self.waiting -= 1;
            if let Stage::Waits(Some(waker)) = mem::replace(&mut self.calls[key].stage, Stage::Refused(refusal)) {
                turned_away.push(waker);
            }
        }
    }

    /// Takes those out of the queue that have left, when they are more than the others.
    fn sweep(&mut self) {
        if self.left < SWEEP.max(self.waiting) {
            return;
        }
        let calls = &mut self.calls;
        self.queue.retain(|_, key| {
            let stays = matches!(calls[*key].stage, Stage::Waits(_));
            if !stays {
                calls.remove(*key);
            }
            stays
        });
        self.left = 0;
    }

    /// Counts what is held against a request, and says whether it ends here. What is only reported is counted once for each.
    fn heed(&mut self, refusal: &Refusal, reported: &mut bool) -> bool {
        let Counters { refused, report_only, .. } = &mut self.counters;
        let counters: &mut Refusals = if self.settings.report_only { report_only } else { refused };
        if !self.settings.report_only || !mem::replace(reported, true) {
            counters.count(refusal);
        }
        !self.settings.report_only
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
