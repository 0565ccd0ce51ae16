//! How calls come in: found, judged, put into the ready queue or given to a worker.

use super::EventLoop;
use crate::authorize::{Authorize, AuthorizeRequest};
use crate::context::Context;
use crate::counters::Counter;
use crate::net::PeerKey;
use crate::receipt::Receipt;
use crate::server::inbox::{Job, Message, ReplyGuard};
use crate::server::task::{Admitted, Handler};
use crate::status::{Check, Reason, Status};
use crate::stream::{Incoming, Outgoing};
use crate::wire::{CallId, MethodId};
use greenwave_policy::{Deadline, Refusal, Time, Urgency, Verdict};
use greenwave_proto::connection::{Answer, Arrival};
use greenwave_proto::context::{Metadata, Parts, called};
use greenwave_proto::{Gate, Peer, Ruling};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Which part of a full queue is turned away at once, so that it isn't looked through for each call.
const SHED: usize = 16;

/// How many times as long as a call that comes those take that are turned away in its place.
const LONGER: u32 = 2;

/// Where none was found, how many more have to come before it is looked for again.
const CROWD: u32 = 128;

/// What is known of a call that was let in.
struct Judged {
    method: usize,
    gate: Gate,
    /// Who calls, if the call's own credentials say it.
    peer: Option<Arc<Peer>>,
    /// Whether it would have been refused, and that was counted.
    reported: bool,
}

impl EventLoop {
    /// A method by its id. One that is called is called again, as a rule.
    #[inline]
    fn find(&mut self, id: MethodId) -> Option<usize> {
        match self.found {
            Some((last, method)) if last == id => Some(method),
            _ => {
                self.found = self.role.router.find(id).map(|method| (id, method));
                self.found.map(|(_, method)| method)
            }
        }
    }

    /// A call came in: admit it or refuse it, here or for a worker.
    pub(super) fn arrive(&mut self, now: Time, peer: PeerKey, arrival: Arrival) {
        self.role.counters.calls.add(1);
        let Some(method) = self.find(arrival.method) else {
            self.role.counters.unknown_method.add(1);
            let text = format!("no method has the id {} here", arrival.method);
            return self.refuse(now, peer, &arrival, Status::refused(Reason::UnknownMethod, text));
        };
        let mut caller = None;
        if let Some(authorizer) = self.role.router.at(method).authorizer() {
            match self.authorize(authorizer, peer, method, &arrival) {
                Ok(subject) => caller = subject,
                Err(status) => return self.refuse(now, peer, &arrival, status),
            }
        }
        let (estimate, needed) = (self.methods[method].estimate, self.methods[method].needed());
        let budget = arrival.deadline.budget(now);
        let gate = Gate::new(arrival.deadline, !self.role.config.report_only);
        let mut reported = false;
        let ruling = gate.ask(Check::Enqueue, now, false);
        if let Some(status) = self.heed(ruling, || Refusal::Expired { late: budget.late() }, &mut reported) {
            return self.refuse(now, peer, &arrival, status);
        }
        let given = if self.role.workers.is_empty() { 0 } else { self.look_at_workers() };
        let mut queued = self.jobs.ready() + self.stalled + given + self.given_away.len();
        if queued >= self.role.config.admission.max_queue {
            queued -= self.make_room(now, estimate.map(|(here, _)| here));
        }
        if !reported
            && let Verdict::Refuse(refusal) = self.admissions[method].decide(now, budget, needed, queued)
            && let Some(status) = self.heed(gate.judge(Check::Enqueue, &refusal), || refusal, &mut reported)
        {
            return self.refuse(now, peer, &arrival, status);
        }
        let judged = Judged { method, gate, peer: caller, reported };
        if arrival.streams || self.role.router.at(method).streams() {
            return self.take_in_streams(now, peer, arrival, judged);
        }
        self.take_in(now, peer, arrival, judged, None);
    }

    /// Asks whether a call may be made. Who makes it, if its own credentials say so; or why it is refused.
    #[inline(never)]
    fn authorize(
        &self,
        authorizer: &dyn Authorize,
        peer: PeerKey,
        method: usize,
        arrival: &Arrival,
    ) -> Result<Option<Arc<Peer>>, Status> {
        let metadata = arrival.metadata.as_deref().unwrap_or_default();
        let connection = self.net.identity(peer).map_or(&Peer::UNKNOWN, |identity| &**identity);
        let name = self.role.router.at(method).name;
        let name = called(name, AuthorizeRequest::new(connection, name, metadata).metadata());
        let request = AuthorizeRequest::new(connection, name, metadata);
        // The head must not die of it, and what it leaves half done is its own.
        let decided = catch_unwind(AssertUnwindSafe(|| authorizer.authorize(&request)));
        let counters = &self.role.counters;
        match decided {
            Ok(Ok(grant)) => Ok(grant.peer(connection)),
            Ok(Err(denied)) => {
                let status = Status::from(denied);
                match status.reason {
                    Reason::Unauthenticated => counters.unauthenticated.add(1),
                    _ => counters.permission_denied.add(1),
                }
                Err(status)
            }
            Err(_) => {
                counters.panicked.add(1);
                tracing::error!(method = name, "who decides who may call panicked, and the call is refused");
                Err(Status::refused(Reason::Panicked, format!("whoever decides who may call {name} panicked")))
            }
        }
    }

    /// Of a call its headers are there. If it can't be in time, its request need not come. Whatever else may be said against it
    /// is said once that is there, and so is what it counts for.
    #[cold]
    pub(super) fn announced(&mut self, now: Time, peer: PeerKey, call: CallId, method: MethodId, deadline: Deadline) {
        let Some(method) = self.find(method).filter(|_| self.role.config.refuses()) else { return };
        // Who may not call is not told how long calls take, and makes no difference to admission.
        if self.role.router.at(method).authorizer().is_some() {
            return;
        }
        // What has come since is judged as it is.
        if !self.net.is_announced(peer, call) {
            return;
        }
        let (budget, needed) = (deadline.budget(now), self.methods[method].needed());
        let gate = Gate::new(deadline, true);
        let expired = gate.ask(Check::Enqueue, now, false);
        let (ruling, refusal) = if expired == Ruling::Pass {
            let mut admission = self.admissions[method].clone();
            match admission.decide(now, budget, needed, 0) {
                Verdict::Admit => return,
                Verdict::Refuse(refusal) => {
                    self.admissions[method] = admission;
                    (gate.judge(Check::Enqueue, &refusal), refusal)
                }
            }
        } else {
            (expired, Refusal::Expired { late: budget.late() })
        };
        if let Some(status) = self.heed(ruling, || refusal, &mut false)
            && self.net.refuse_announced(now, peer, call, &status)
        {
            self.role.counters.calls.add(1);
        }
    }

    /// Takes in a call that was let in and whose method streams.
    #[cold]
    fn take_in_streams(&mut self, now: Time, peer: PeerKey, mut arrival: Arrival, judged: Judged) {
        match self.begin_streams(peer, judged.method, &mut arrival) {
            Ok(halves) => self.take_in(now, peer, arrival, judged, Some(halves)),
            Err(status) => self.refuse(now, peer, &arrival, status),
        }
    }

    /// Takes in a call that was let in, here or for a worker.
    #[inline(always)]
    fn take_in(
        &mut self,
        now: Time,
        peer: PeerKey,
        arrival: Arrival,
        judged: Judged,
        halves: Option<(Incoming, Outgoing)>,
    ) {
        let Judged { method, gate, peer: caller, reported } = judged;
        let (name, estimate) = (self.role.router.at(method).name, self.methods[method].estimate);
        let Arrival { call, deadline, birth, parallel_unit, received, metadata, coding, body, .. } = arrival;
        let metadata = Metadata::received(metadata, &self.role.config.pass_on);
        let context = Parts::received(gate, birth, parallel_unit, name, metadata);
        let (here, ahead) = estimate.unwrap_or_default();
        let urgency = Urgency { arrived: received, birth, deadline, here, ahead };
        let reply_guard = |inbox| ReplyGuard::new(inbox, peer, call, method);
        let caller = caller.as_ref().or_else(|| self.net.identity(peer));
        if self.role.workers.is_empty() {
            let inbox = &self.role.inbox;
            if let Some(global) = &self.role.global
                && halves.is_none()
                && global.takes(inbox.busy_rounds(), self.jobs.ready(), estimate.map(|(here, _)| here))
            {
                let context = Context::from(context.of(caller));
                self.given_away.insert((peer, call), context.clone());
                self.role.counters.given_away.add(1);
                let reply_guard = reply_guard(inbox);
                let job = Job { reply_guard, context, request: body, coding, halves, urgency, reported };
                return global.give(inbox, job);
            }
            inbox.given();
            let admitted = Admitted { reply_guard: None, peer, call, method, coding, urgency, reported };
            let task = self.tasks.begin(admitted, context, caller, body);
            if let Some(halves) = halves {
                self.tasks[task].invocation.give_streams(halves);
            }
            self.net.served_by(peer, call, task);
            self.found_last.push(task);
            return self.schedule(now, task);
        }
        let worker = &self.role.workers[self.dispatch.choose(&self.loads)];
        worker.given();
        let context = Context::from(context.of(caller));
        let reply_guard = reply_guard(&self.role.inbox);
        let job = Job { reply_guard, context, request: body, coding, halves, urgency, reported };
        worker.send(Message::Serve(Box::new(job)));
    }

    /// Makes a new task a job.
    #[inline]
    fn schedule(&mut self, now: Time, index: usize) {
        let task = &mut self.tasks[index];
        task.job = Some(self.jobs.add(now, task.urgency, index, Handler(Rc::clone(&task.invocation))));
    }

    /// The queue is full, and a call comes that takes about so long, if that is known: those that take longest are turned away
    /// in its place, if they take [much longer](LONGER). How many that were.
    #[cold]
    fn make_room(&mut self, now: Time, takes: Option<Duration>) -> usize {
        let admission = &self.role.config.admission;
        let Some(takes) = takes.filter(|_| self.role.config.refuses()) else { return 0 };
        let (left, least) = &mut self.crowd;
        if *left > 0 && takes >= *least {
            *left -= 1;
            return 0;
        }
        let limit = admission.max_queue;
        let shed = self.jobs.shed(limit.div_ceil(SHED), takes * LONGER);
        self.crowd = (if shed.is_empty() { CROWD } else { 0 }, takes);
        for job in &shed {
            let index = self.jobs.key(*job);
            self.tasks[index].queue = now.span_since(self.tasks[index].received);
            self.jobs.withdraw(*job);
            let (gate, refusal) = (self.tasks[index].invocation.context.gate(), Refusal::QueueFull { limit });
            if let Some(status) = self.heed(gate.judge(Check::Enqueue, &refusal), || refusal, &mut false) {
                self.finish(now, index, Err(status));
            }
        }
        shed.len()
    }

    /// How many calls the workers have.
    fn look_at_workers(&mut self) -> usize {
        self.loads.clear();
        self.loads.extend(self.role.workers.iter().map(|worker| worker.load()));
        self.loads.iter().map(|load| load.unfinished as usize).sum()
    }

    /// A thread takes on what a head gave away, by what it knows of the method itself.
    pub(super) fn take_on(&mut self, now: Time, job: Job) {
        let Job { reply_guard, context, request, coding, halves, mut urgency, reported } = job;
        let (peer, call, method) = (reply_guard.peer, reply_guard.call, reply_guard.method);
        if let Some((here, ahead)) = self.methods[method].estimate {
            (urgency.here, urgency.ahead) = (here, ahead);
        }
        let reply_guard = if reply_guard.is_to(&self.role.inbox) {
            reply_guard.disarm();
            self.given_away.remove(&(peer, call));
            None
        } else {
            if self.role.global.is_some() {
                self.role.counters.stolen.add(1);
            }
            Some(reply_guard)
        };
        let is_own = reply_guard.is_none();
        let admitted = Admitted { reply_guard, peer, call, method, coding, urgency, reported };
        let task = self.tasks.adopt(admitted, context, request);
        if let Some(halves) = halves {
            self.tasks[task].invocation.give_streams(halves);
        }
        if is_own {
            self.net.served_by(peer, call, task);
        }
        self.schedule(now, task);
    }

    /// Counts what the gate says against a call, and says how to refuse it, if it is to be. What is only observed is counted
    /// once for each call.
    #[inline]
    pub(super) fn heed(&self, ruling: Ruling, why: impl FnOnce() -> Refusal, reported: &mut bool) -> Option<Status> {
        if let Ruling::Pass = ruling { None } else { self.heed_against(ruling, &why(), reported) }
    }

    #[cold]
    fn heed_against(&self, ruling: Ruling, why: &Refusal, reported: &mut bool) -> Option<Status> {
        match ruling {
            Ruling::Pass => None,
            Ruling::Observed(reason) => {
                if !std::mem::replace(reported, true) {
                    self.counters_of(reason).1.add(1);
                }
                None
            }
            Ruling::Refused(Reason::Cancelled) => Some(Status::refused(Reason::Cancelled, "")),
            Ruling::Refused(reason) => {
                self.counters_of(reason).0.add(1);
                Some(Status::refused(reason, why.to_string()))
            }
        }
    }

    /// Where calls that are refused for a reason are counted, and those that would be.
    fn counters_of(&self, reason: Reason) -> (&Counter, &Counter) {
        let counters = &self.role.counters;
        match reason {
            Reason::Expired(Check::Enqueue) => (&counters.expired_on_arrival, &counters.report_only_expired_on_arrival),
            Reason::Expired(_) => (&counters.expired_in_queue, &counters.report_only_expired_in_queue),
            Reason::QueueFull => (&counters.queue_full, &counters.report_only_queue_full),
            _ => (&counters.infeasible, &counters.report_only_infeasible),
        }
    }

    /// Answers a call that never became a task.
    fn refuse(&mut self, now: Time, peer: PeerKey, arrival: &Arrival, status: Status) {
        let queue = now.since(arrival.received);
        let receipt = Receipt { queue, total: queue, ..Default::default() };
        let deadline = arrival.deadline;
        self.answer(peer, Answer { call: arrival.call, result: Err(status), receipt, deadline, extra: None });
    }
}
