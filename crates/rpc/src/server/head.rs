//! The thread of a cluster or a worker: one completion queue, one ready queue, the handlers' coroutines.
//!
//! A turn: take what other threads sent; reap the completion queue (DaRPC's cluster head); admit what came in; run what
//! is ready, in the order of the policy, until it is time to look at the completion queue again; post the replies.
//! Handlers run in place, each in a coroutine; one that waits is suspended and the turn goes on.
//!
//! Invariants:
//! 1. A task is in exactly one place: in `ready`, in `stalled` (no coroutine to be had), waiting, or being run.
//! 2. Every call that was taken in is answered once. What the peer hears of it is [`Callee`](crate::connection)'s.
//! 3. Nothing borrowed from `self` lives while a coroutine runs, except through the mailbox.

use super::inbox::{Answered, Inbox, Job, Message};
use super::methods::Learned;
use super::task::{Product, Progress, Task, Waiting};
use crate::channel::{Channel, Lifeline};
use crate::clock::Clock;
use crate::config::{Deadlines, ServerConfig};
use crate::connection::{Answer, Arrival, NewCall};
use crate::context::Context;
use crate::counters::Counters;
use crate::local::{CallSlot, Command, Mailbox, Start};
use crate::net::{Happening, Net, PeerKey};
use crate::receipt::Receipt;
use crate::service::Router;
use crate::status::{Check, Code, Reason, Status};
use crate::wire::CallId;
use greenwave_policy::{Admission, Budget, Dispatch, DispatchRule, Load, ReadyQueue, Refusal, Time, Urgency, Verdict};
use greenwave_quanta::{Coroutine, StackPool, State};
use greenwave_verbs::ListenerId;
use slab::Slab;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long tasks run before the completion queue is looked at again.
const POLL_EVERY: Duration = Duration::from_micros(20);

/// How many short tasks run before the replies made so far are posted.
const BATCH: usize = 64;

/// What a thread of the server is given when it starts.
pub(super) struct Role {
    pub(super) config: ServerConfig,
    pub(super) router: Arc<Router>,
    pub(super) counters: Arc<Counters>,
    pub(super) inbox: Arc<Inbox>,
    /// The inboxes of the cluster's workers; empty: handlers run in place.
    pub(super) workers: Vec<Arc<Inbox>>,
    /// The inboxes of all heads, for the one that accepts.
    pub(super) heads: Vec<Arc<Inbox>>,
    pub(super) listeners: Vec<ListenerId>,
    pub(super) clock: Clock,
}

/// A head or a worker.
pub(crate) struct Head {
    role: Role,
    net: Net,
    ready: ReadyQueue<usize>,
    stalled: ReadyQueue<usize>,
    tasks: Slab<Task>,
    begun: usize,
    /// Calls that handlers here made.
    calls: Slab<Calling>,
    /// The connections of channels that handlers here used.
    channels: HashMap<u64, (Lifeline, PeerKey)>,
    timers: BinaryHeap<Reverse<(Time, u64, usize)>>,
    epoch: u64,
    stacks: StackPool,
    mailbox: Rc<Mailbox>,
    methods: Vec<Learned>,
    /// One per method, so that a method that was judged wrongly costs no other its place.
    admissions: Vec<Admission>,
    dispatch: Dispatch,
    loads: Vec<Load>,
    happened: Vec<Happening>,
    drain_until: Option<Time>,
    stopped: bool,
}

/// A call that a handler here made.
struct Calling {
    task: usize,
    peer: PeerKey,
    slot: Rc<CallSlot>,
}

impl Head {
    pub(super) fn new(role: Role, net: Net) -> Self {
        let config = &role.config;
        Self {
            ready: ReadyQueue::new(config.order),
            stalled: ReadyQueue::new(config.order),
            tasks: Slab::new(),
            begun: 0,
            calls: Slab::new(),
            channels: HashMap::new(),
            timers: BinaryHeap::new(),
            epoch: 0,
            stacks: StackPool::new(config.stack, config.coroutines),
            mailbox: Rc::default(),
            methods: (0..role.router.len()).map(|_| Learned::new(config.confidence)).collect(),
            admissions: (0..role.router.len()).map(|_| Admission::new(config.admission)).collect(),
            dispatch: Dispatch::new(DispatchRule::JoinShortestQueue, 1),
            loads: Vec::new(),
            happened: Vec::new(),
            drain_until: None,
            stopped: false,
            net,
            role,
        }
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) {
        let mailbox = Rc::clone(&self.mailbox);
        let _installed = mailbox.install();
        let patience = self.role.config.wait.patience();
        let mut idle_since = None;
        while !self.stopped {
            let now = self.role.clock.now();
            let (worked, next) = self.turn(now);
            if worked {
                idle_since = None;
                continue;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            if patience.is_some_and(|patience| idle >= patience) && self.role.inbox.is_empty() {
                self.net.wait(now, next.map(|next| next.since(now)));
            } else {
                std::hint::spin_loop();
            }
        }
        self.net.close_all(self.role.clock.now(), &mut self.happened);
        // Workers serve what their head was sent before it was drained, so they end after it.
        self.role.workers.iter().for_each(|worker| worker.send(Message::Stop));
        if self.drain_until.is_some() {
            self.net.linger(&mut self.happened);
        }
    }

    /// One turn. Whether there was anything to do, and when there will be something next.
    pub(crate) fn turn(&mut self, now: Time) -> (bool, Option<Time>) {
        let mut worked = false;
        while let Some(message) = self.role.inbox.take() {
            worked = true;
            self.hear(now, message);
        }
        let polled = self.net.poll(now, &mut self.happened) > 0;
        self.role.inbox.publish_poll(polled, self.role.counters.connections.load());
        let mut next = self.net.sweep(now, &mut self.happened);
        worked |= polled | !self.happened.is_empty();
        // What was found has the time at which it was found, which is later than that of the turn.
        let now = self.role.clock.now();
        self.attend(now);
        next = next.into_iter().chain(self.ring_timers(now)).min();
        worked |= !self.ready.is_empty();
        self.run_ready(now);
        let now = self.role.clock.now();
        self.net.flush(now);
        self.check_drained(now);
        let drain = self.drain_until.map(|_| now + Duration::from_millis(1));
        (worked, next.into_iter().chain(drain).min())
    }

    /// Makes this head the calling thread's, as [`run`](Self::run) does.
    #[cfg(test)]
    pub(crate) fn install(&self) -> crate::local::Installed {
        self.mailbox.install()
    }

    /// Whether nothing is left of any call.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.calls.is_empty() && self.net.is_answered()
    }

    fn hear(&mut self, now: Time, message: Message) {
        match message {
            Message::Adopt(endpoint) => self.net.adopt(endpoint, now),
            Message::Serve(job) => self.take_on(now, *job),
            Message::Answer(answered) => {
                let Answered { peer, method, answer } = *answered;
                if answer.result.is_ok() {
                    // Admission is the head's: it has to know what its workers have learned.
                    self.methods[method].observe(answer.receipt.service, &answer.receipt.children);
                }
                self.net.answer(peer, answer);
            }
            Message::Cancel(peer, call) => self.cancel(now, peer, call),
            Message::Drain(until) => {
                self.drain_until = Some(until);
                for listener in std::mem::take(&mut self.role.listeners) {
                    self.net.close_listener(listener);
                }
                self.net.go_away("the server shuts down");
            }
            Message::Stop => self.stopped = true,
        }
    }

    /// Deals with what polls and sweeps found.
    fn attend(&mut self, now: Time) {
        let mut happened = std::mem::take(&mut self.happened);
        for happening in happened.drain(..) {
            match happening {
                Happening::Call(peer, arrival) => self.arrive(now, peer, arrival),
                Happening::Cancelled(peer, call) => self.cancel(now, peer, call),
                Happening::Accepted(endpoint) => {
                    let heads = &self.role.heads;
                    let least = heads.iter().min_by_key(|head| head.attraction()).unwrap_or(&self.role.inbox);
                    least.add_connection();
                    least.send(Message::Adopt(endpoint));
                }
                Happening::Done { token, outcome } => {
                    if let Some(calling) = self.calls.try_remove(token) {
                        calling.slot.token.set(None);
                        *calling.slot.outcome.borrow_mut() = Some(outcome);
                        if let Some(task) = self.tasks.get_mut(calling.task) {
                            task.outstanding = task.outstanding.saturating_sub(1);
                        }
                        self.completed(now, calling.task);
                    }
                }
            }
        }
        // Refusals made on the way may have put new happenings in; what is empty keeps its memory.
        if self.happened.is_empty() {
            self.happened = happened;
        }
    }

    /// A call came in: admit it or refuse it, here or for a worker.
    fn arrive(&mut self, now: Time, peer: PeerKey, arrival: Arrival) {
        self.role.counters.calls.add(1);
        let Some(method) = self.role.router.find(arrival.method) else {
            self.role.counters.unknown_method.add(1);
            let text = format!("no method has the id {} here", arrival.method);
            return self.refuse(now, peer, &arrival, Status::refused(Reason::UnknownMethod, text));
        };
        let learned = &self.methods[method];
        let (here, ahead) = learned.estimate.unwrap_or_default();
        let enforced = self.role.config.deadlines == Deadlines::Enforce;
        let budget = if enforced { arrival.deadline.budget(now) } else { Budget::UNLIMITED };
        if budget.is_spent() {
            self.role.counters.expired_on_arrival.add(1);
            let text = format!("it arrived {:?} late", budget.late());
            return self.refuse(now, peer, &arrival, Status::refused(Reason::Expired(Check::Enqueue), text));
        }
        self.loads.clear();
        self.loads.extend(self.role.workers.iter().map(|worker| worker.load()));
        let given: usize = self.loads.iter().map(|load| load.unfinished as usize).sum();
        let queued = self.ready.len() + self.stalled.len() + given;
        if let Verdict::Refuse(refusal) = self.admissions[method].decide(now, budget, learned.needed(), queued) {
            let status = self.refusal(&refusal, Check::Admission);
            return self.refuse(now, peer, &arrival, status);
        }
        let name = self.role.router.at(method).name;
        let context = Context::received(arrival.deadline, arrival.birth, arrival.parallel_unit, enforced, name);
        let urgency =
            Urgency { arrived: arrival.received, birth: arrival.birth, deadline: arrival.deadline, here, ahead };
        if self.role.workers.is_empty() {
            self.role.inbox.given();
            return self.enqueue(now, None, peer, arrival, method, context, urgency);
        }
        let worker = &self.role.workers[self.dispatch.choose(&self.loads)];
        worker.given();
        let head = Arc::clone(&self.role.inbox);
        let job = Job { head, peer, arrival, method, context, urgency };
        worker.send(Message::Serve(Box::new(job)));
    }

    /// A worker takes on what a head gave it, by what it knows of the method itself.
    fn take_on(&mut self, now: Time, job: Job) {
        let Job { head, peer, arrival, method, context, mut urgency } = job;
        if let Some((here, ahead)) = self.methods[method].estimate {
            (urgency.here, urgency.ahead) = (here, ahead);
        }
        self.enqueue(now, Some(head), peer, arrival, method, context, urgency);
    }

    #[expect(clippy::too_many_arguments, reason = "each is a field of the task")]
    fn enqueue(
        &mut self,
        now: Time,
        head: Option<Arc<Inbox>>,
        peer: PeerKey,
        arrival: Arrival,
        method: usize,
        context: Context,
        urgency: Urgency,
    ) {
        let task = self.tasks.insert(Task {
            head,
            peer,
            call: arrival.call,
            method,
            context,
            urgency,
            received: arrival.received,
            since: arrival.received,
            queue: Duration::ZERO,
            service: Duration::ZERO,
            turns: 0,
            outstanding: 0,
            behind: Receipt::default(),
            progress: Progress::Fresh(arrival.body),
            waiting: None,
        });
        self.ready.push(now, urgency, task);
    }

    fn refusal(&self, refusal: &Refusal, check: Check) -> Status {
        let counters = &self.role.counters;
        let reason = match refusal {
            Refusal::Expired { .. } => {
                counters.expired_in_queue.add(1);
                Reason::Expired(check)
            }
            Refusal::Infeasible { .. } => {
                counters.infeasible.add(1);
                Reason::Infeasible
            }
            Refusal::QueueFull { .. } => {
                counters.queue_full.add(1);
                Reason::QueueFull
            }
        };
        Status::refused(reason, refusal.to_string())
    }

    /// Answers a call that never became a task.
    fn refuse(&mut self, now: Time, peer: PeerKey, arrival: &Arrival, status: Status) {
        let queue = now.since(arrival.received);
        let receipt = Receipt { queue, total: queue, ..Default::default() };
        let deadline = arrival.deadline;
        self.net.answer(peer, Answer { call: arrival.call, result: Err(status), receipt, deadline });
    }

    /// The caller of a call no longer wants the answer: the task, if it waits, goes on to find that out.
    fn cancel(&mut self, now: Time, peer: PeerKey, call: CallId) {
        self.role.workers.iter().for_each(|worker| worker.send(Message::Cancel(peer, call)));
        let found = self.tasks.iter().find(|(_, task)| task.peer == peer && task.call == call).map(|(index, _)| index);
        if let Some(index) = found {
            self.tasks[index].context.cancel();
            self.wake(now, index);
        }
    }

    /// One of a task's own calls is over.
    fn completed(&mut self, now: Time, index: usize) {
        let Some(Waiting { completions, .. }) = self.tasks.get_mut(index).and_then(|task| task.waiting.as_mut()) else {
            return;
        };
        *completions = completions.saturating_sub(1);
        if *completions == 0 {
            self.wake(now, index);
        }
    }

    /// Puts a waiting task into the ready queue.
    fn wake(&mut self, now: Time, index: usize) {
        let Some(task) = self.tasks.get_mut(index) else { return };
        if task.waiting.take().is_some() {
            task.since = now;
            self.ready.push(now, task.urgency_now(), index);
        }
    }

    /// Wakes whoever named a time that has come; says when the next one will.
    fn ring_timers(&mut self, now: Time) -> Option<Time> {
        while let Some(&Reverse((time, epoch, index))) = self.timers.peek() {
            if time > now {
                return Some(time);
            }
            self.timers.pop();
            if self.tasks.get(index).and_then(|task| task.waiting).is_some_and(|waiting| waiting.epoch == epoch) {
                self.wake(now, index);
            }
        }
        None
    }

    /// Sets a timer. Those of waits that are over go when they are most: a wait is over long before its time, as a rule.
    fn set_timer(&mut self, until: Time, epoch: u64, index: usize) {
        let Self { timers, tasks, .. } = self;
        if timers.len() >= 64 + 4 * tasks.len() {
            let waits = |epoch, index: usize| {
                tasks.get(index).and_then(|task| task.waiting).is_some_and(|waiting| waiting.epoch == epoch)
            };
            timers.retain(|Reverse((_, epoch, index))| waits(*epoch, *index));
        }
        timers.push(Reverse((until, epoch, index)));
    }

    /// Runs ready tasks until it is time to look at the completion queue again.
    fn run_ready(&mut self, begun: Time) {
        let mut now = begun;
        for _ in 0..BATCH {
            let Some((_, index)) = self.ready.pop() else { return };
            now = self.step(now, index);
            if now.since(begun) >= POLL_EVERY {
                return;
            }
        }
    }

    /// Runs one task until it suspends or ends. The time then.
    fn step(&mut self, now: Time, index: usize) -> Time {
        if matches!(self.tasks[index].progress, Progress::Fresh(_)) && !self.begin(now, index) {
            return now;
        }
        let task = &mut self.tasks[index];
        task.queue += now.since(task.since);
        task.turns += 1;
        let Progress::Begun(mut coroutine, product) = std::mem::replace(&mut task.progress, Progress::Away) else {
            return now;
        };
        self.mailbox.behind.replace(std::mem::take(&mut task.behind));
        self.mailbox.received.set(task.received);
        self.mailbox.resumed.set(now);
        let state = coroutine.resume();
        let after = self.role.clock.now();
        let task = &mut self.tasks[index];
        task.behind = self.mailbox.behind.take();
        task.service += after.since(now);
        task.since = after;
        self.role.inbox.turn_served();
        match state {
            State::Suspended => {
                task.progress = Progress::Begun(coroutine, product);
                self.obey(after, index);
            }
            State::Finished => {
                self.stacks.put(coroutine.into_stack());
                self.mailbox.commands.borrow_mut().clear();
                let (result, request) = product.take().unwrap_or_else(|| (Err(unfinished()), Vec::new()));
                self.net.recycle(request);
                self.finish(after, index, result);
            }
            State::Panicked(message) => {
                self.stacks.put(coroutine.into_stack());
                self.mailbox.commands.borrow_mut().clear();
                self.role.counters.panicked.add(1);
                let name = task.context.method().to_owned();
                tracing::error!(method = %name, %message, "a handler panicked");
                self.finish(after, index, Err(Status::refused(Reason::Panicked, format!("{name} panicked"))));
            }
        }
        after
    }

    /// Gives a fresh task its coroutine, if it still makes sense to serve it. Whether it has one now.
    fn begin(&mut self, now: Time, index: usize) -> bool {
        let task = &mut self.tasks[index];
        let enforced = self.role.config.deadlines == Deadlines::Enforce;
        let budget = if enforced { task.urgency.deadline.budget(now) } else { Budget::UNLIMITED };
        let refused = if task.context.is_cancelled() {
            Some(Status::refused(Reason::Cancelled, ""))
        } else if budget.is_spent() {
            self.role.counters.expired_in_queue.add(1);
            Some(Status::refused(Reason::Expired(Check::Dequeue), format!("late by {:?}", budget.late())))
        } else {
            let needed = self.methods[task.method].needed();
            match self.admissions[task.method].recheck(now, budget, needed) {
                Verdict::Admit => None,
                Verdict::Refuse(refusal) => Some(self.refusal(&refusal, Check::Dequeue)),
            }
        };
        let task = &mut self.tasks[index];
        if let Some(status) = refused {
            task.queue += now.since(task.since);
            task.since = now;
            self.finish_unserved(now, index, status);
            return false;
        }
        if self.begun >= self.role.config.coroutines {
            self.stalled.push(now, task.urgency, index);
            return false;
        }
        let stack = match self.stacks.take() {
            Ok(stack) => stack,
            Err(error) => {
                let text = format!("no stack for the handler: {error}; lower `coroutines` or raise vm.max_map_count");
                self.finish_unserved(now, index, Status::new(Code::ResourceExhausted, text));
                return false;
            }
        };
        let Progress::Fresh(request) = std::mem::replace(&mut task.progress, Progress::Away) else { return false };
        let handler = Arc::clone(&self.role.router.at(task.method).handler);
        let context = task.context.clone();
        let mut reply = self.net.buffer();
        let product: Rc<Product> = Rc::new(RefCell::new(None));
        let place = Rc::clone(&product);
        let coroutine = Coroutine::new(stack, move || {
            let result = handler(&context, &request, &mut reply).map(|()| reply);
            *place.borrow_mut() = Some((result, request));
        });
        self.begun += 1;
        self.tasks[index].progress = Progress::Begun(coroutine, product);
        true
    }

    /// Does what a coroutine asked for before it suspended.
    fn obey(&mut self, now: Time, index: usize) {
        let mut resume = true;
        let mut commands = self.mailbox.commands.take();
        for command in commands.drain(..) {
            match command {
                Command::Start(start) => self.start(now, index, *start),
                Command::Abandon(slot) => {
                    if let Some(token) = slot.token.take() {
                        self.abandon(token);
                    }
                }
                Command::Sleep { completions, until } => {
                    resume = false;
                    self.epoch += 1;
                    let epoch = self.epoch;
                    self.tasks[index].waiting = Some(Waiting { completions, epoch });
                    if let Some(until) = until {
                        self.set_timer(until, epoch, index);
                    }
                }
                Command::GiveWay => {}
            }
        }
        self.mailbox.commands.replace(commands);
        if resume {
            let task = &mut self.tasks[index];
            self.ready.put_back(now, task.urgency_now(), index);
        }
        // A call can fail at once; its completion must find the task waiting, so it is delivered now.
        if !self.happened.is_empty() {
            self.attend(now);
        }
    }

    fn start(&mut self, now: Time, index: usize, start: Start) {
        let Start { channel, context, method, body, slot } = start;
        let peer = self.connection_of(&channel);
        let Self { net, calls, .. } = self;
        let token = calls.insert(Calling { task: index, peer, slot: Rc::clone(&slot) });
        slot.token.set(Some(token));
        self.tasks[index].outstanding += 1;
        net.call(peer, NewCall { token, context, method, body, started: now }, now, &mut self.happened);
    }

    /// The connection that a channel's calls go over. Those of channels that are gone are closed when one is added.
    fn connection_of(&mut self, channel: &Channel) -> PeerKey {
        let Self { net, channels, .. } = self;
        if let Some((_, peer)) = channels.get(&channel.id()) {
            return *peer;
        }
        channels.retain(|_, (channel, peer)| {
            let stays = channel.is_alive();
            if !stays {
                net.forget(*peer);
            }
            stays
        });
        let peer = net.open(channel.address().clone(), channel.config());
        channels.insert(channel.id(), (channel.lifeline(), peer));
        peer
    }

    fn abandon(&mut self, token: usize) {
        let Some(calling) = self.calls.try_remove(token) else { return };
        calling.slot.token.set(None);
        self.net.abandon(calling.peer, token, &mut self.happened);
        if let Some(task) = self.tasks.get_mut(calling.task) {
            task.outstanding = task.outstanding.saturating_sub(1);
        }
    }

    /// Answers a task whose handler did not begin.
    fn finish_unserved(&mut self, now: Time, index: usize, status: Status) {
        self.begun += 1;
        self.finish(now, index, Err(status));
    }

    /// Answers a task and forgets it.
    fn finish(&mut self, now: Time, index: usize, mut result: Result<Vec<u8>, Status>) {
        if self.tasks[index].outstanding > 0 {
            // Its handler went without waiting for them, by a panic perhaps.
            let left: Vec<usize> =
                self.calls.iter().filter(|(_, call)| call.task == index).map(|(token, _)| token).collect();
            left.into_iter().for_each(|token| self.abandon(token));
        }
        let mut task = self.tasks.remove(index);
        self.begun -= 1;
        if let Some((urgency, stalled)) = self.stalled.pop() {
            self.ready.push(now, urgency, stalled);
        }
        let counters = &self.role.counters;
        let receipt = task.receipt(now);
        let late = task.urgency.deadline.is_past(now);
        if result.is_ok() {
            self.methods[task.method].observe(task.service, &receipt.children);
            match (late, self.role.config.deadlines) {
                (false, _) => counters.answered.add(1),
                (true, Deadlines::Dark) => counters.late.add(1),
                (true, Deadlines::Enforce) => {
                    counters.expired_in_service.add(1);
                    result = Err(self.too_late(&receipt));
                }
            }
        } else if task.context.is_cancelled() {
            counters.cancelled.add(1);
        } else if matches!(&result, Err(status) if status.reason == Reason::None) {
            counters.failed.add(1);
        }
        let service = u64::try_from(task.service.as_nanos()).unwrap_or(u64::MAX);
        counters.service_nanos.add(service);
        if result.is_err() || late {
            counters.wasted_nanos.add(service);
        }
        self.role.inbox.finished(task.turns);
        let answer = Answer { call: task.call, result, receipt, deadline: task.urgency.deadline };
        match &task.head {
            None => self.net.answer(task.peer, answer),
            Some(head) => {
                head.send(Message::Answer(Box::new(Answered { peer: task.peer, method: task.method, answer })));
            }
        }
    }

    /// Says which stage used the time up.
    fn too_late(&self, receipt: &Receipt) -> Status {
        let text = match receipt.costliest() {
            Some(stage) => format!(
                "{} used the time up: {:?} on the wire, {:?} queued, {:?} served",
                stage.stage, stage.network, stage.queue, stage.service
            ),
            None => format!(
                "{} used the time up: {:?} queued, {:?} served",
                self.role.config.name, receipt.queue, receipt.service
            ),
        };
        Status::refused(Reason::Expired(Check::Reply), text)
    }

    fn check_drained(&mut self, now: Time) {
        let Some(until) = self.drain_until else { return };
        if now >= until || (self.tasks.is_empty() && self.net.is_drained(now)) {
            self.stopped = true;
        }
    }
}

fn unfinished() -> Status {
    Status::new(Code::Internal, "the handler left no result")
}
