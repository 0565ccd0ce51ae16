//! How calls come in: found, judged, put into the ready queue or given to a worker.

use super::{EventLoop, Found};
use crate::authorize::{Authorize, AuthorizeRequest};
use crate::context::Context;
use crate::counters::Counter;
use crate::net::{Charge, PeerKey, SMALL};
use crate::receipt::Receipt;
use crate::server::inbox::{Job, Message, ReplyGuard};
use crate::server::methods::Known;
use crate::server::sharing::Tenant;
use crate::server::task::{Admitted, Handler};
use crate::status::{Check, Reason, Status};
use crate::stream::{Incoming, Outgoing};
use crate::wire::{CallId, MethodId};
use greenwave_policy::{Budget, Deadline, Refusal, Time, Urgency, Verdict};
use greenwave_proto::connection::{Answer, Arrival, Form};
use greenwave_proto::context::{Metadata, Received, called, criticality_of};
use greenwave_proto::{Gate, Peer, Ruling};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a call that was let in.
#[derive(Clone, Copy)]
struct Judged {
    method: usize,
    gate: Gate,
    /// Whether it would have been refused, and that was counted.
    reported: bool,
}

/// What was found out of a call before it was let in.
#[derive(Default)]
struct Checked {
    /// Who calls, if the call's own credentials say it.
    peer: Option<Arc<Peer>>,
    /// What its request takes, if that counts.
    charge: Option<Charge>,
    /// Whose it is, where time is shared.
    tenant: Tenant,
}

impl EventLoop {
    /// A method by its id. One that is called is called again, as a rule.
    #[inline]
    fn find(&mut self, id: MethodId) -> Option<Found> {
        match self.found {
            Some(last) if last.id == id => Some(last),
            _ => self.look_up(id),
        }
    }

    #[cold]
    fn look_up(&mut self, id: MethodId) -> Option<Found> {
        self.found = self.role.router.find(id).map(|method| {
            let entry = self.role.router.at(method);
            let is_plain = entry.authorizer().is_none() && !entry.streams() && self.sharing.is_none();
            Found { id, method, is_plain }
        });
        self.found
    }

    /// A call came in: admit it or refuse it, here or for a worker.
    #[inline(always)]
    pub(super) fn arrive(&mut self, now: Time, peer: PeerKey, arrival: &mut Arrival) {
        self.role.counters.calls.add(1);
        let Some(Found { method, is_plain, .. }) = self.find(arrival.method) else {
            self.role.counters.unknown_method.add(1);
            self.note_refused(now, peer, arrival.body.len());
            let text = format!("no method has the id {} here", arrival.method);
            return self.refuse(now, peer, arrival, Status::refused(Reason::UnknownMethod, text));
        };
        if !is_plain || arrival.body.len() > SMALL || arrival.form != Form::Whole {
            return self.check(now, peer, arrival, method);
        }
        self.admit::<true>(now, peer, arrival, method, Checked::default());
    }

    /// Asks whether a call may be made, whose it is, and whether there is room for its request, where any is a question. Apart, so that
    /// nothing of it is in other calls' way.
    #[inline(never)]
    fn check(&mut self, now: Time, peer: PeerKey, arrival: &mut Arrival, method: usize) {
        let Some(identity) = self.net.identity(peer) else {
            // Its connection has ended since, and with that it can't be told any more who has made it.
            return self.role.counters.cancelled.add(1);
        };
        let mut checked = Checked::default();
        if let Some(authorizer) = self.role.router.at(method).authorizer() {
            match self.authorize(authorizer, peer, method, arrival) {
                Ok(subject) => checked.peer = subject,
                Err(status) => {
                    self.note_refused(now, peer, arrival.body.len());
                    return self.refuse(now, peer, arrival, status);
                }
            }
        }
        if let Some(sharing) = &mut self.sharing {
            let (caller, metadata) = (checked.peer.as_deref().unwrap_or(identity), arrival.metadata.as_deref());
            checked.tenant = sharing.tenant(caller, metadata);
            let is_alone = self.net.carries_only(peer, checked.tenant.key);
            self.count_read(now, peer, checked.tenant, arrival.body.len(), is_alone);
        }
        if arrival.body.len() > SMALL {
            let criticality = criticality_of(arrival.metadata.as_deref());
            match self.net.charge(peer, arrival.body.len(), criticality) {
                Ok(charge) => checked.charge = charge,
                Err(status) => return self.refuse(now, peer, arrival, status),
            }
        }
        self.admit::<false>(now, peer, arrival, method, checked);
    }

    /// A call is refused before it is known whose it is: it counts for the tenant whose calls its connection carries, or for whoever
    /// has that.
    #[cold]
    fn note_refused(&mut self, now: Time, peer: PeerKey, bytes: usize) {
        let Some(sharing) = &mut self.sharing else { return };
        let Some((tenant, is_alone)) = sharing.carried(&mut self.net, peer) else { return };
        self.count_read(now, peer, tenant, bytes, is_alone);
    }

    /// A call of this tenant's came, with so many bytes. `is_alone`: over a connection that carries nobody else's, which is read
    /// in turn from now on if the tenant has had more than its share.
    fn count_read(&mut self, now: Time, peer: PeerKey, tenant: Tenant, bytes: usize, is_alone: bool) {
        let Some(sharing) = &mut self.sharing else { return };
        if sharing.read(now, tenant, bytes) && is_alone {
            let begins = sharing.meter(now, &mut self.net, peer, tenant.key);
            self.role.counters.metered.add(u64::from(begins));
        }
    }

    /// Takes a call in, or refuses it, here or for a worker. `PLAIN`: whether its method is, and
    /// nothing else was asked of it.
    #[inline(always)]
    fn admit<const PLAIN: bool>(
        &mut self,
        now: Time,
        peer: PeerKey,
        arrival: &mut Arrival,
        method: usize,
        checked: Checked,
    ) {
        let given = if self.role.workers.is_empty() { 0 } else { self.look_at_workers() };
        let mut queued = self.ready_of::<PLAIN>() + self.stalled + given + self.given_away.len();
        // Each worker may have one that it serves.
        if queued <= self.role.workers.len() {
            self.standing.emptied(now);
            self.stands = false;
        }
        let Known { estimate, needed } = self.known::<PLAIN>(checked.tenant, method);
        let budget = arrival.deadline.budget(now);
        let gate = Gate::new(arrival.deadline, !self.role.config.report_only);
        let mut reported = false;
        let ruling = gate.ask(Check::Enqueue, now, false);
        if let Some(status) = self.heed(ruling, || Refusal::Expired { late: budget.late() }, &mut reported) {
            return self.refuse(now, peer, arrival, status);
        }
        if queued >= self.role.config.admission.max_queue {
            let criticality = self.believed(criticality_of(arrival.metadata.as_deref()));
            queued -= self.make_room(now, estimate.map(|(here, _)| here), criticality, checked.tenant);
        }
        if !reported
            && let Verdict::Refuse(refusal) =
                self.decide::<PLAIN>(now, (checked.tenant, method), budget, needed, queued)
            && let Some(status) = self.heed(gate.judge(Check::Enqueue, &refusal), || refusal, &mut reported)
        {
            return self.refuse(now, peer, arrival, status);
        }
        let judged = Judged { method, gate, reported };
        if !PLAIN && (arrival.form != Form::Whole || self.role.router.at(method).streams()) {
            return self.take_in_apart(now, peer, arrival, judged, checked);
        }
        self.take_in::<PLAIN>(now, peer, arrival, judged, checked, None);
    }

    /// What admission says.
    #[inline(always)]
    fn decide<const PLAIN: bool>(
        &mut self,
        now: Time,
        (tenant, method): (Tenant, usize),
        budget: Budget,
        needed: Option<Duration>,
        queued: usize,
    ) -> Verdict {
        match self.sharing.as_mut().filter(|_| !PLAIN) {
            None => self.admissions[method].decide(now, budget, needed, queued),
            Some(sharing) => {
                let limit = self.role.config.admission.max_queue;
                // What others were given, and what waits for a permit, can't be taken back.
                let is_lasting = !self.role.workers.is_empty() || self.stalled > 0 || !self.given_away.is_empty();
                let is_lasting = is_lasting && self.role.config.refuses();
                if is_lasting && sharing.is_crowding(tenant, queued, limit) {
                    self.role.counters.shed_over_share.add(1);
                    return Verdict::Refuse(Refusal::QueueFull { limit });
                }
                sharing.decide(now, (tenant, method), budget, needed, queued)
            }
        }
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
        let Some(Found { method, .. }) = self.find(method).filter(|_| self.role.config.refuses()) else { return };
        // Who may not call is not told how long calls take, and makes no difference to admission.
        if self.role.router.at(method).authorizer().is_some() {
            return;
        }
        // What has come since is judged as it is.
        if !self.net.is_announced(peer, call) {
            return;
        }
        // Where each tenant's calls are judged by its own, it isn't known yet whose this is.
        let needed = if self.sharing.is_some() { None } else { self.methods[method].needed(self.stands) };
        let budget = deadline.budget(now);
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
            self.note_refused(now, peer, 0);
        }
    }

    /// Takes in a call that was let in and whose method streams, or whose request is compressed: that one counts however short it
    /// is, as nobody knows yet how long it will be.
    #[cold]
    fn take_in_apart(&mut self, now: Time, peer: PeerKey, arrival: &mut Arrival, judged: Judged, mut checked: Checked) {
        if !self.role.router.at(judged.method).streams() && !arrival.streams() {
            if checked.charge.is_none() {
                let criticality = criticality_of(arrival.metadata.as_deref());
                match self.net.charge(peer, arrival.body.len(), criticality) {
                    Ok(charge) => checked.charge = charge,
                    Err(status) => return self.refuse(now, peer, arrival, status),
                }
            }
            return self.take_in::<false>(now, peer, arrival, judged, checked, None);
        }
        match self.begin_streams(peer, judged.method, arrival) {
            Ok(halves) => self.take_in::<false>(now, peer, arrival, judged, checked, Some(halves)),
            Err(status) => self.refuse(now, peer, arrival, status),
        }
    }

    /// Takes in a call that was let in, here or for a worker.
    #[inline(always)]
    fn take_in<const PLAIN: bool>(
        &mut self,
        now: Time,
        peer: PeerKey,
        arrival: &mut Arrival,
        judged: Judged,
        checked: Checked,
        halves: Option<(Incoming, Outgoing)>,
    ) {
        let Judged { method, gate, reported } = judged;
        let Checked { peer: caller, charge, tenant } = checked;
        let name = self.role.router.at(method).name;
        let Known { estimate, needed } = self.known::<PLAIN>(tenant, method);
        if let Some(sharing) = self.sharing.as_mut().filter(|_| !PLAIN) {
            sharing.came(tenant);
        }
        let Arrival { call, deadline, birth, parallel_unit, received, coding, .. } = *arrival;
        let body = std::mem::take(&mut arrival.body);
        let metadata = Metadata::received(arrival.metadata.take(), &self.role.config.pass_on);
        let request = Received { gate, birth, parallel_unit, method: name, metadata };
        let (here, ahead) = estimate.unwrap_or_default();
        let needed = match self.role.config.refuses() {
            true => self.role.config.admission.needed(deadline.budget(received), needed),
            false => Duration::ZERO,
        };
        let urgency = Urgency { arrived: received, birth, deadline, here, ahead, needed };
        let reply_guard = |inbox| ReplyGuard::new(inbox, peer, call, method, tenant);
        let caller = caller.as_ref().or_else(|| self.net.identity(peer));
        if self.role.workers.is_empty() {
            let inbox = &self.role.inbox;
            if let Some(global) = &self.role.global
                && halves.is_none()
                && global.takes(inbox.busy_rounds(), self.ready_of::<PLAIN>(), estimate.map(|(here, _)| here))
            {
                if let Some(sharing) = self.sharing.as_mut().filter(|_| !PLAIN) {
                    sharing.began(tenant);
                }
                let context = Context::received(request, caller);
                self.given_away.insert((peer, call), context.clone());
                self.role.counters.given_away.add(1);
                let reply_guard = reply_guard(inbox);
                let job = Job { reply_guard, charge, context, request: body, coding, halves, urgency, reported };
                return global.give(inbox, job);
            }
            inbox.given();
            let admitted = Admitted { reply_guard: None, charge, peer, call, method, coding, urgency, reported };
            let task = self.tasks.begin(admitted, request, caller, body);
            if let Some(halves) = halves {
                self.tasks[task].invocation.give_streams(halves);
            }
            if !PLAIN && self.sharing.is_some() {
                self.tasks[task].tenant = tenant;
            }
            self.net.served_by(peer, call, task);
            self.found_last.push(task);
            return self.schedule(now, task);
        }
        if let Some(sharing) = self.sharing.as_mut().filter(|_| !PLAIN) {
            sharing.began(tenant);
        }
        let worker = &self.role.workers[self.dispatch.choose(&self.loads)];
        worker.given();
        let context = Context::received(request, caller);
        let reply_guard = reply_guard(&self.role.inbox);
        let job = Job { reply_guard, charge, context, request: body, coding, halves, urgency, reported };
        worker.send(Message::Serve(Box::new(job)));
    }

    /// Makes a new task a job.
    #[inline]
    fn schedule(&mut self, now: Time, index: usize) {
        let task = &mut self.tasks[index];
        task.job = Some(self.jobs.add(now, task.urgency, index, Handler(Rc::clone(&task.invocation))));
    }

    /// How many calls the workers have.
    fn look_at_workers(&mut self) -> usize {
        self.loads.clear();
        self.loads.extend(self.role.workers.iter().map(|worker| worker.load()));
        self.loads.iter().map(|load| load.unfinished as usize).sum()
    }

    /// A thread takes on what a head gave away, by what it knows of the method itself.
    pub(super) fn take_on(&mut self, now: Time, job: Job) {
        let Job { reply_guard, charge, context, request, coding, halves, urgency, reported } = job;
        let (peer, call, method, tenant) = (reply_guard.peer, reply_guard.call, reply_guard.method, reply_guard.tenant);
        let reply_guard = if reply_guard.is_to(&self.role.inbox) {
            reply_guard.disarm();
            self.given_away.remove(&(peer, call));
            None
        } else {
            if self.role.global.is_some() {
                self.role.counters.stolen.add(1);
            }
            Some(Box::new(reply_guard))
        };
        let is_own = reply_guard.is_none();
        let admitted = Admitted { reply_guard, charge, peer, call, method, coding, urgency, reported };
        let task = self.tasks.adopt(admitted, context, request);
        if let Some(sharing) = &mut self.sharing {
            if is_own {
                // It came here before.
                sharing.went(tenant, true);
            }
            let tenant = sharing.keyed(tenant.key);
            sharing.came(tenant);
            self.tasks[task].tenant = tenant;
        }
        if let Some((here, ahead)) = self.known::<false>(self.tasks[task].tenant, method).estimate {
            let urgency = &mut self.tasks[task].urgency;
            (urgency.here, urgency.ahead) = (here, ahead);
        }
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
