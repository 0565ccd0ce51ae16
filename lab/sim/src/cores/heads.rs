//! Heads as a server has them: each looks at its connections, runs what it found in place, and posts the replies.
//!
//! When a head looks and when it posts is decided by [`Pacing`], who goes first by [`ReadyQueue`], and what is given away by
//! [`StealRule`], all as in the server. A look and a post cost what they cost alone and what each call adds
//! ([`LoopCosts`]), so batches grow with the load by themselves, and a reply waits until it is posted. A connection has one
//! head, and connections are many: a call comes to any head alike. What a handler calls on the same server is posted as replies
//! are, and found by the next look; so is what it is replied to.
//!
//! A head does one thing at a time, and what comes next is known when that is over. So a head is a source with one event.

use super::arrivals::Arrivals;
use super::caller::{Caller, Calling};
use super::ends::Ends;
use super::engine::jobs::Jobs;
use super::engine::known::Known;
use super::histogram::Histogram;
use super::load::Load;
use super::pauses::Paused;
use super::plan::{Cores, LoopCosts, Plan, Scheme, Steal};
use super::report::{Cut, Report};
use crate::seed::{Seed, Stream};
use crate::trace::Events;
use crate::turns::{NEVER, Turns};
use greenwave_policy::{Busy, Due, Pacing, ReadyQueue, Span, StealRule, Time, Urgency};
use std::collections::VecDeque;
use std::time::Duration;

const ARRIVALS: usize = 0;
const HEADS: usize = 1;

/// With as many calls of its own a head takes no other's, as in the server.
const ENOUGH: usize = 2;

/// A head that always has as many takes one in so many rounds, likewise.
const EVERY: u32 = 16;

/// What a head is doing; it is over at its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing, since then.
    Nothing { since: u64 },
    /// Looking for what has come, and beginning with it.
    Look { cost: u64 },
    /// Running a job.
    Run { job: u32, slice: u64, cost: u64 },
    /// Posting replies, to look or to run on after that.
    Post { cost: u64, then_look: bool },
}

struct Head {
    doing: Doing,
    /// What came and was not looked at.
    socket: VecDeque<u32>,
    /// What the look under way finds.
    found: Vec<u32>,
    queue: ReadyQueue<u32>,
    pacing: Pacing,
    replies: Vec<u32>,
    posting: Vec<u32>,
    /// Rounds in a row in which there was something to do, and all.
    busy_rounds: u32,
    rounds: u32,
}

struct Run<'a> {
    load: &'a Load,
    costs: LoopCosts,
    quantum: u64,
    switch: u64,
    preempt: u64,
    io: u64,
    ask: u64,
    steal_ns: u64,
    steal: Option<StealRule>,
    arrivals: Arrivals<'a>,
    limit: usize,
    choices: Stream,
    wires: Stream,
    stages: Stream,
    now: u64,
    turns: Turns,
    jobs: Jobs,
    known: Known,
    heads: Vec<Head>,
    caller: Option<Caller>,
    /// Of each head, and of the caller.
    pauses: Vec<Paused>,
    given: VecDeque<u32>,
    trace: Events,
    report: Report,
    busy_ns: u128,
    overhead_ns: u128,
    /// What looks and posts took whatever they found and carried.
    fixed_ns: u128,
    /// What posts took, and looks beyond what one takes that finds nothing.
    posted_ns: u128,
    looked_ns: u128,
    last_arrival: Option<(u64, u128, u128, u128)>,
}

/// Serves jobs by heads.
pub(super) fn run(cores: &Cores, load: &Load, plan: &Plan, seed: Seed) -> Report {
    let mut run = Run::new(cores, load, plan, seed);
    let cut = run.run();
    run.report(cut)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Run<'a> {
    fn new(cores: &Cores, load: &'a Load, plan: &Plan, seed: Seed) -> Self {
        let (scheme, costs) = (cores.scheme, cores.costs);
        let steal = match scheme {
            Scheme::Heads { steal, .. } => steal.filter(|_| cores.workers > 1),
            _ => None,
        };
        let head = |_| Head {
            doing: Doing::Nothing { since: 0 },
            socket: VecDeque::new(),
            found: Vec::new(),
            queue: ReadyQueue::new(scheme.order()),
            pacing: Pacing::new(),
            replies: Vec::new(),
            posting: Vec::new(),
            busy_rounds: 0,
            rounds: 0,
        };
        Self {
            load,
            costs: costs.event_loop,
            quantum: scheme.quantum().map_or(u64::MAX, nanos),
            switch: nanos(costs.switch),
            preempt: nanos(costs.preempt),
            io: nanos(costs.io),
            ask: nanos(costs.ask),
            steal_ns: nanos(costs.steal),
            steal,
            arrivals: Arrivals::new(cores, load, plan, seed),
            limit: plan.most_unfinished,
            choices: seed.stream("choices", 0),
            wires: seed.stream("wires", 0),
            stages: seed.stream("stages", 0),
            now: 0,
            turns: Turns::new(HEADS + cores.workers + 1),
            jobs: Jobs::new(plan.most_unfinished),
            known: Known::new(cores.knowledge, scheme.order(), steal.map_or(Steal::Never, Steal::Given), load),
            heads: (0..cores.workers).map(head).collect(),
            caller: costs.event_loop.caller.map(Caller::new),
            pauses: (0..=cores.workers as u64).map(|at| Paused::new(costs.pauses, seed.stream("pauses", at))).collect(),
            given: VecDeque::new(),
            trace: Events::default(),
            report: Report::empty(load.methods().len()),
            busy_ns: 0,
            overhead_ns: 0,
            fixed_ns: 0,
            posted_ns: 0,
            looked_ns: 0,
            last_arrival: None,
        }
    }

    fn run(&mut self) -> Option<Cut> {
        self.plan_arrival();
        loop {
            let (instant, source) = self.turns.first();
            if instant == NEVER {
                return None;
            }
            self.now = instant;
            self.report.events += 1;
            if source == ARRIVALS {
                let unfinished = self.jobs.unfinished();
                if unfinished >= self.limit {
                    return Some(Cut::Overload { unfinished });
                }
                self.arrive();
            } else if source - HEADS == self.heads.len() {
                self.has_called();
            } else {
                self.is_over(source - HEADS);
            }
        }
    }

    fn note(&mut self, source: usize, what: u32) {
        self.trace.add(self.now, (source as u64) << 32 | u64::from(what));
    }

    fn plan_arrival(&mut self) {
        let next = self.arrivals.next();
        if next.is_none() {
            self.last_arrival = Some((self.now, self.busy_ns, self.overhead_ns, self.fixed_ns));
        }
        self.turns.set(ARRIVALS, next.unwrap_or(NEVER));
    }

    fn arrive(&mut self) {
        let job = self.jobs.add(self.arrivals.job(self.now));
        self.note(ARRIVALS, job);
        self.plan_arrival();
        if let Some(caller) = &mut self.caller {
            caller.is_due(job);
            return self.call(Calling::Nothing, Vec::new());
        }
        self.come(job);
    }

    /// A call is there for its head.
    fn come(&mut self, job: u32) {
        let at = if self.heads.len() > 1 { self.choices.below(self.heads.len() as u64) as usize } else { 0 };
        self.heads[at].socket.push_back(job);
        self.rouse(at);
    }

    /// The caller, which `had` been doing that, begins what is next, if it has nothing in its hands.
    fn call(&mut self, had: Calling, memory: Vec<u32>) {
        let Some(caller) = self.caller.as_mut().filter(|caller| caller.doing == Calling::Nothing) else { return };
        let at = self.heads.len();
        let instant = caller.begin(had, memory).map_or(NEVER, |takes| self.pauses[at].end(self.now, takes));
        self.turns.set(HEADS + at, instant);
    }

    /// What the caller was doing is over.
    fn has_called(&mut self) {
        let Some(caller) = &mut self.caller else { return };
        let (had, mut jobs) = caller.is_over();
        for job in jobs.drain(..) {
            self.note(HEADS + self.heads.len(), job);
            match had {
                Calling::Write => self.come(job),
                Calling::Nothing | Calling::Read => self.is_done(job),
            }
        }
        self.call(had, jobs);
    }

    /// A head that has nothing to do looks; one that sleeps is woken before.
    fn rouse(&mut self, at: usize) {
        let Doing::Nothing { since } = self.heads[at].doing else { return };
        let sleeps = self.costs.spin.is_some_and(|spin| self.now - since > nanos(spin));
        let wake = if sleeps { nanos(self.costs.wake) } else { 0 };
        self.look(at, wake);
    }

    /// A round begins: the head takes what others gave away, and looks at its connections.
    fn look(&mut self, at: usize, after: u64) {
        let head = &mut self.heads[at];
        head.rounds = head.rounds.wrapping_add(1);
        let mut cost = 0;
        if !self.given.is_empty()
            && (head.queue.len() < ENOUGH || head.rounds.is_multiple_of(EVERY))
            && let Some(job) = self.given.pop_front()
        {
            self.report.stolen += 1;
            cost += self.steal_ns;
            let urgency = urgency(&self.jobs, &self.known, job);
            head.queue.push(Time::from_nanos(self.now), urgency, job);
        }
        head.found.extend(head.socket.drain(..));
        let found = head.found.len() as u64;
        let ends = Ends::of(head.found.iter().map(|job| self.load.came_by(self.jobs.of(*job))));
        head.busy_rounds = if found > 0 || !head.queue.is_empty() { head.busy_rounds.saturating_add(1) } else { 0 };
        let fixed = match found {
            0 => nanos(self.costs.look_empty),
            _ => nanos(self.costs.look) + ends.beyond_one() * nanos(self.costs.look_end),
        };
        let look = fixed + found * nanos(self.costs.look_each);
        head.doing = Doing::Look { cost: look };
        // The rest of a round is neither a look's nor a handler's.
        let own = if ends.has_own() { nanos(self.costs.own) } else { 0 };
        let rest = if found == 0 { 0 } else { nanos(self.costs.round) + own };
        self.fixed_ns += u128::from(fixed + rest);
        self.looked_ns += u128::from(look.saturating_sub(nanos(self.costs.look_empty)));
        self.overhead_ns += u128::from(cost + look - fixed);
        self.takes(at, after + cost + look + rest);
    }

    /// What a head was doing is over.
    fn is_over(&mut self, at: usize) {
        match self.heads[at].doing {
            Doing::Nothing { .. } => self.turns.set(HEADS + at, NEVER),
            Doing::Look { cost } => {
                self.note(HEADS + at, u32::MAX);
                self.has_looked(at, cost);
            }
            Doing::Run { job, slice, cost } => {
                self.note(HEADS + at, job);
                self.has_run(at, job, slice, cost);
            }
            Doing::Post { cost, then_look } => {
                self.note(HEADS + at, u32::MAX - 1);
                self.has_posted(at, cost);
                let head = &self.heads[at];
                // With nothing to run it looks until something comes.
                let rests = head.socket.is_empty() && head.queue.is_empty() && self.given.is_empty();
                if then_look && !rests { self.look(at, 0) } else { self.go_on(at) }
            }
        }
    }

    /// What a head has begun takes so long, and for as long as others have its core.
    fn takes(&mut self, at: usize, takes: u64) {
        let end = self.pauses[at].end(self.now, takes);
        self.turns.set(HEADS + at, end);
    }

    fn has_looked(&mut self, at: usize, cost: u64) {
        let now = Time::from_nanos(self.now);
        let found = std::mem::take(&mut self.heads[at].found);
        self.heads[at].pacing.looked(Span::from_nanos(cost), found.len());
        for &job in &found {
            if let Some(rule) = self.steal {
                let head = &self.heads[at];
                let busy = Busy {
                    rounds: head.busy_rounds,
                    ready: head.queue.len(),
                    work: self.known.work(self.jobs.of(job).method.into()),
                    waiting: self.given.len(),
                    others: self.heads.len() - 1,
                };
                if rule.gives(&busy) {
                    self.given.push_back(job);
                    self.overhead_ns += u128::from(self.steal_ns);
                    if let Some(idle) = self.heads.iter().position(|head| matches!(head.doing, Doing::Nothing { .. })) {
                        self.rouse(idle);
                    }
                    continue;
                }
            }
            let urgency = urgency(&self.jobs, &self.known, job);
            self.heads[at].queue.push(now, urgency, job);
        }
        let mut found = found;
        found.clear();
        self.heads[at].found = found;
        if !self.heads[at].queue.is_empty() {
            self.heads[at].pacing.resumed(now);
        }
        self.go_on(at);
    }

    /// Runs what goes first; with nothing to run the head posts, looks again, or rests.
    fn go_on(&mut self, at: usize) {
        let now = Time::from_nanos(self.now);
        let head = &mut self.heads[at];
        let next = if self.quantum == u64::MAX { head.queue.pop(now) } else { head.queue.pop_due(now) };
        if let Some((_, job)) = next {
            let of = self.jobs.of(job);
            let once = if of.had > 0 {
                0
            } else if usize::from(of.leg) > self.load.methods()[usize::from(of.method)].stages.len() {
                self.ask
            } else {
                self.io
            };
            return self.run_job(at, job, self.switch + once);
        }
        head.pacing.rested(now);
        if !head.replies.is_empty() {
            return self.post(at, true);
        }
        if !head.socket.is_empty() || !self.given.is_empty() {
            return self.look(at, 0);
        }
        head.busy_rounds = 0;
        head.doing = Doing::Nothing { since: self.now };
        self.turns.set(HEADS + at, NEVER);
    }

    fn run_job(&mut self, at: usize, job: u32, cost: u64) {
        let slice = self.jobs.of(job).left.min(self.quantum);
        self.overhead_ns += u128::from(cost);
        self.heads[at].doing = Doing::Run { job, slice, cost };
        self.takes(at, cost + slice);
    }

    fn has_run(&mut self, at: usize, job: u32, slice: u64, cost: u64) {
        let now = Time::from_nanos(self.now);
        self.busy_ns += u128::from(slice);
        let served = self.jobs.serve(job, slice);
        let head = &mut self.heads[at];
        // The switch counts as the handler's, what else a call costs doesn't, as in the server.
        head.pacing.ran(Span::from_nanos(slice + cost.min(self.switch)));
        let due = if served.left > 0 {
            let urgency = urgency(&self.jobs, &self.known, job);
            let due = head.pacing.after_quantum(now);
            if due == Due::Nothing && head.queue.goes_on(now, &urgency) {
                return self.run_job(at, job, 0);
            }
            head.queue.preempted(now, urgency, job);
            self.report.preemptions += 1;
            self.overhead_ns += u128::from(self.preempt);
            self.now += self.preempt;
            due
        } else {
            let of = self.jobs.of(job);
            self.known.observe(of);
            head.pacing.replied(of.deadline.expires());
            head.replies.push(job);
            head.pacing.after_call(now, head.queue.len())
        };
        match due {
            Due::Post | Due::Both if !self.heads[at].replies.is_empty() => self.post(at, due == Due::Both),
            Due::Look | Due::Both => self.look(at, 0),
            _ => self.go_on(at),
        }
    }

    fn post(&mut self, at: usize, then_look: bool) {
        let head = &mut self.heads[at];
        self.report.posts += 1;
        std::mem::swap(&mut head.replies, &mut head.posting);
        let ends = Ends::of(head.posting.iter().map(|job| self.load.goes_by(self.jobs.of(*job))));
        let each = head.posting.len() as u64 * nanos(self.costs.post_each);
        let cost = nanos(self.costs.post) + ends.beyond_one() * nanos(self.costs.post_end) + each;
        head.doing = Doing::Post { cost, then_look };
        self.fixed_ns += u128::from(cost - each);
        self.posted_ns += u128::from(cost);
        self.overhead_ns += u128::from(each);
        self.takes(at, cost);
    }

    fn has_posted(&mut self, at: usize, cost: u64) {
        self.heads[at].pacing.posted(Span::from_nanos(cost));
        let mut posted = std::mem::take(&mut self.heads[at].posting);
        for job in posted.drain(..) {
            if self.goes_further(job) {
                // The connection is this server's own.
                self.heads[at].socket.push_back(job);
                continue;
            }
            match &mut self.caller {
                Some(caller) => caller.is_replied(job),
                None => self.is_done(job),
            }
        }
        self.heads[at].posting = posted;
        self.call(Calling::Nothing, Vec::new());
    }

    /// Whoever called has the reply.
    fn is_done(&mut self, job: u32) {
        let done = *self.jobs.of(job);
        let method = usize::from(done.method);
        self.report.done += 1;
        if done.counted {
            let behind = self.load.methods()[method].behind.map_or(0, |behind| behind.draw(&mut self.wires));
            let wire = self.costs.wire.map_or(0, |wire| wire.draw(&mut self.wires));
            let took = self.now - done.arrived + wire + behind;
            self.report.all.add(took);
            self.report.methods[method].add(took);
            self.report.slowdown.add(took.saturating_mul(1000) / done.work);
            let ended = Time::from_nanos(done.arrived + took);
            self.report.late[method] += u64::from(done.deadline.is_past(ended));
        }
        self.jobs.remove(job);
    }

    /// Whether what was posted of a job is a call of its next stage, or a reply to the one before.
    fn goes_further(&mut self, job: u32) -> bool {
        let of = self.jobs.of(job);
        let stages = &self.load.methods()[usize::from(of.method)].stages;
        let leg = usize::from(of.leg);
        if leg == 2 * stages.len() {
            return false;
        }
        let work = stages.get(leg).map_or(0, |stage| stage.draw(&mut self.stages));
        self.jobs.go_further(job, self.arrivals.stretched(work));
        true
    }

    fn report(mut self, cut: Option<Cut>) -> Report {
        let mut report = self.report;
        report.seconds = self.now as f64 / 1e9;
        (report.posted, report.looked) = (self.posted_ns as f64 / 1e9, self.looked_ns as f64 / 1e9);
        let (until, busy, overhead, fixed) =
            self.last_arrival.unwrap_or((self.now, self.busy_ns, self.overhead_ns, self.fixed_ns));
        let in_all = until as f64 * self.heads.len() as f64;
        if in_all > 0.0 {
            // Looks and posts fill what time there is. What they have to have is their share of it, or one for each batch.
            let batches = report.done as f64 / Pacing::BATCH as f64;
            let needed = (batches * nanos(self.costs.look + self.costs.round + self.costs.post) as f64)
                .max(Pacing::SHARE * in_all);
            report.busy = busy as f64 / in_all;
            report.overhead = (overhead as f64 + needed.min(fixed as f64)) / in_all;
        }
        report.most_unfinished = self.jobs.most();
        report.hash = self.trace.hash();
        report.cut = cut;
        report
    }
}

fn urgency(jobs: &Jobs, known: &Known, job: u32) -> Urgency {
    let job = jobs.of(job);
    let arrived = Time::from_nanos(job.arrived);
    Urgency { arrived, birth: arrived, deadline: job.deadline, here: known.left(job), ..Urgency::default() }
}

impl Report {
    /// Of nothing yet.
    pub(super) fn empty(methods: usize) -> Self {
        Self {
            all: Histogram::new(),
            methods: vec![Histogram::new(); methods],
            late: vec![0; methods],
            slowdown: Histogram::new(),
            seconds: 0.0,
            done: 0,
            busy: 0.0,
            overhead: 0.0,
            preemptions: 0,
            stolen: 0,
            posts: 0,
            posted: 0.0,
            looked: 0.0,
            most_unfinished: 0,
            events: 0,
            hash: 0,
            cut: None,
        }
    }
}
