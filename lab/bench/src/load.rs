//! The load generator.
//!
//! One thread, one loop:
//!
//! 1. Send what is due. Requests that became due while the loop was elsewhere are sent now, late, and none is skipped.
//! 2. Take the answers that are there.
//! 3. Wait for the next request that is due or for an answer.
//!
//! A request counts from its scheduled time, also where its deadline is concerned: a user who clicked at 10:00:00.000
//! doesn't care that the generator got to it at 10:00:00.003. Requests due during the warm-up are sent and forgotten.
//! When the measured time is over nothing more is sent, and what is outstanding then gets the drain time to be answered.

use std::time::Duration;

use greenwave_policy::Time;
use slab::Slab;

use crate::arrivals::{Arrivals, Pace, Schedule, Seeded};
use crate::classes::Classes;
use crate::measured::{End, Gathering, Measured, Settled, UNANSWERED, UNSENT};
use crate::progress::Progress;
use crate::stages::Reservoir;
use crate::target::{Payloads, Reply, Request, Target};

/// How many requests are sent in a row before answers are looked for.
const BURST: usize = 32;
/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// What to send, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// What kinds there are.
    pub classes: Classes,
    /// How long load is on before measuring begins.
    pub warm_up: Duration,
    /// How long it's measured.
    pub time: Duration,
    /// How long to wait for outstanding answers after that.
    pub drain: Duration,
    /// The length of an interval of the series.
    pub interval: Duration,
    /// How many whole requests to keep.
    pub samples: usize,
    /// Decides arrivals, classes and samples: runs with the same seed are sent the same requests.
    pub seed: u64,
}

impl Plan {
    /// Load for `time`, after a second of warm-up and with five seconds to drain.
    pub fn new(arrivals: Arrivals, classes: Classes, time: Duration) -> Self {
        Self {
            arrivals,
            classes,
            warm_up: Duration::from_secs(1),
            time,
            drain: Duration::from_secs(5),
            interval: Duration::from_secs(1),
            samples: 256,
            seed: 1,
        }
    }
}

/// Drives `target` as planned.
pub fn run(plan: &Plan, target: &mut dyn Target, payloads: &mut dyn Payloads, progress: &mut Progress) -> Measured {
    let mut generator = Generator::new(plan, target.now());
    let mut tick = Time::ZERO;
    loop {
        generator.send_due(target, payloads);
        target.poll(&mut |reply| generator.settle(reply));
        let now = target.now();
        if generator.is_finished(now) {
            return generator.finish();
        }
        if now >= tick {
            tick = now + TICK;
            progress.show(generator.share_done(now), generator.pending.len());
        }
        let until = generator.next_due(now).min(tick);
        if until > now {
            target.wait(until);
        }
    }
}

struct Generator<'a> {
    plan: &'a Plan,
    begin: Time,
    /// Nothing is due from here on.
    end: Time,
    source: Source,
    classes: Seeded,
    sequence: u64,
    pending: Slab<Pending>,
    gathering: Gathering,
}

/// A request without an answer.
struct Pending {
    sequence: u64,
    class: usize,
    scheduled: Time,
}

impl<'a> Generator<'a> {
    fn new(plan: &'a Plan, begin: Time) -> Self {
        let measure_from = begin + plan.warm_up;
        let samples = Reservoir::new(plan.samples, plan.seed ^ 0x5a);
        Self {
            plan,
            begin,
            end: measure_from + plan.time,
            source: Source::new(plan.arrivals.pace(plan.seed), begin),
            classes: Seeded::new(plan.seed ^ 0xc1a5),
            sequence: 0,
            pending: Slab::new(),
            gathering: Gathering::new(&plan.classes, measure_from, plan.time, plan.interval, samples),
        }
    }

    fn send_due(&mut self, target: &mut dyn Target, payloads: &mut dyn Payloads) {
        for _ in 0..BURST {
            let now = target.now();
            let Some(scheduled) = self.source.take_due(now, self.pending.len()).filter(|&due| due < self.end) else {
                return;
            };
            self.send(target, payloads, scheduled, now);
        }
    }

    fn send(&mut self, target: &mut dyn Target, payloads: &mut dyn Payloads, scheduled: Time, now: Time) {
        let (class, sequence) = self.next_request();
        self.gathering.sent(scheduled, now);
        let pending = Pending { sequence, class, scheduled };
        if now > self.end + self.plan.drain {
            return self.lose(&pending, UNSENT);
        }
        let slot = self.pending.insert(pending);
        let request = Request {
            tag: tag(slot, sequence),
            class: &self.plan.classes.as_slice()[class],
            class_index: class,
            scheduled,
            payload: payloads.payload(class, sequence),
        };
        if let Err(name) = target.submit(&request) {
            let pending = self.pending.remove(slot);
            self.lose(&pending, name);
        }
    }

    fn next_request(&mut self) -> (usize, u64) {
        let sequence = self.sequence;
        self.sequence += 1;
        (self.plan.classes.pick(self.classes.unit()), sequence)
    }

    fn settle(&mut self, reply: Reply<'_>) {
        let slot = slot(reply.tag);
        match self.pending.get(slot) {
            Some(pending) if tag(slot, pending.sequence) == reply.tag => {
                let pending = self.pending.remove(slot);
                self.end_of(&pending, End::Replied(reply));
            }
            _ => self.gathering.measured.strays += 1,
        }
    }

    fn lose(&mut self, pending: &Pending, name: &'static str) {
        self.end_of(pending, End::Lost(name));
    }

    fn end_of(&mut self, pending: &Pending, end: End<'_>) {
        let Pending { class, scheduled, .. } = *pending;
        let deadline = self.plan.classes.as_slice()[class].deadline;
        self.gathering.settle(&Settled { class, deadline, scheduled, end });
    }

    /// When there is something to do other than taking answers.
    fn next_due(&self, now: Time) -> Time {
        match self.source {
            Source::Open { next, .. } if next < self.end => next,
            // An answer has made room, so it is the next one's turn.
            Source::Closed { in_flight } if self.pending.len() < in_flight && now < self.end => now,
            _ => self.end + self.plan.drain,
        }
    }

    fn is_finished(&self, now: Time) -> bool {
        let all_sent = match self.source {
            Source::Open { next, .. } => next >= self.end,
            Source::Closed { .. } => now >= self.end,
        };
        all_sent && (self.pending.is_empty() || now >= self.end + self.plan.drain)
    }

    fn share_done(&self, now: Time) -> f64 {
        now.since(self.begin).as_secs_f64() / self.end.since(self.begin).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn finish(mut self) -> Measured {
        for pending in std::mem::take(&mut self.pending) {
            self.lose(&pending.1, UNANSWERED);
        }
        self.gathering.finish()
    }
}

/// The number of whoever made the request with this tag: the least that nobody had who was still without an answer. In a closed
/// loop these are the clients, each of which has one request at a time.
pub const fn slot(tag: u64) -> usize {
    (tag & u32::MAX as u64) as usize
}

/// The low half is the slot, the high half tells the requests that a slot holds one after another apart.
fn tag(slot: usize, sequence: u64) -> u64 {
    (sequence << 32) | slot as u64
}

/// Where the times of requests come from.
enum Source {
    Open { begin: Time, schedule: Schedule, next: Time },
    Closed { in_flight: usize },
}

impl Source {
    fn new(pace: Pace, begin: Time) -> Self {
        match pace {
            Pace::Open(mut schedule) => Self::Open { begin, next: next_of(&mut schedule, begin), schedule },
            Pace::Closed { in_flight } => Self::Closed { in_flight },
        }
    }

    /// Takes the scheduled time of the next request, if that has come.
    fn take_due(&mut self, now: Time, pending: usize) -> Option<Time> {
        match self {
            Self::Open { begin, schedule, next } if *next <= now => {
                Some(std::mem::replace(next, next_of(schedule, *begin)))
            }
            Self::Closed { in_flight } if pending < *in_flight => Some(now),
            _ => None,
        }
    }
}

fn next_of(schedule: &mut Schedule, begin: Time) -> Time {
    schedule.next().map_or(Time::MAX, |offset| begin + offset)
}
