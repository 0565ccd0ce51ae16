//! The thread of a cluster or a worker: one completion queue, one ready queue, the handlers' coroutines.
//!
//! A round: take what other threads sent; reap the completion queue (DaRPC's cluster head); admit what came in; run what
//! is ready, in the order of the policy, until it is time to look at the completion queue again; post the replies.
//! Handlers run in place, each in a coroutine; one that waits is suspended and the round goes on. Whose turn it is, quanta,
//! waits and timers are the [`Scheduler`]'s.
//!
//! Invariants:
//! 1. Each task is a job of the scheduler's, out of its queue while it waits in the queue for a permit of its method.
//! 2. Every call that was taken in is answered once. What the peer hears of it is its `Callee`'s.
//! 3. Nothing borrowed from `self` lives while a coroutine runs, except through the mailbox.
//! 4. The head's own code has no quantum, so it is never preempted; a handler that has one may be left anywhere but in a
//!    critical section. The head waits for no lock that a handler could hold then, but for a subscriber's of `tracing`.

mod arriving;
mod ending;
mod running;
mod shedding;
mod streaming;
mod waiting;

use self::shedding::Crowd;
use super::inbox::{Answered, Inbox, Message};
use super::limiter::Limiter;
use super::load_report::Told;
use super::methods::{Known, Learned};
use super::recording::Recorder;
use super::sharing::{Jobs, Sharing, Tenant};
use super::steal::GlobalQueue;
use super::task::Tasks;
use crate::clock::{Clock, Ticking};
use crate::config::ServerConfig;
use crate::context::Context;
use crate::counters::Counters;
use crate::local::{Mailbox, OutcomeCell, Shared};
use crate::net::{Event, Events, Net, PeerKey, Route, Usage};
use crate::service::Router;
use crate::stream::Streams;
use crate::transcoding::Decompression;
use crate::wire::{CallId, MethodId};
use greenwave_grpc::GrpcSettings;
use greenwave_policy::{Admission, Criticality, Dispatch, DispatchRule, Load, Margin, Pacing, StandingQueue, Time};
use greenwave_quanta::{Quantum, Scheduler, is_instrumented};
use greenwave_verbs::{DetachedEndpoint, Handshaker, ListenerId};
use slab::Slab;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How soon and how late a head that has nothing else to do looks at words of memory that handlers wait for.
const FIRST_NAP: Duration = Duration::from_micros(20);
const NAP: Duration = Duration::from_micros(500);

/// What a thread of the server is given when it starts.
#[derive(Clone)]
pub(super) struct Role {
    pub(super) config: ServerConfig,
    pub(super) router: Arc<Router>,
    pub(super) counters: Arc<Counters>,
    pub(super) recorder: Recorder,
    pub(super) usage: Arc<Usage>,
    pub(super) inbox: Arc<Inbox>,
    /// The inboxes of the cluster's workers; empty: handlers run in place.
    pub(super) workers: Vec<Arc<Inbox>>,
    /// The inboxes of all heads of the instance, for the one that accepts.
    pub(super) heads: Vec<Arc<Inbox>>,
    /// Who makes the TLS handshakes of connections that come in, if there are any.
    pub(super) handshaker: Option<Arc<Handshaker>>,
    /// Where heads give calls away, if they do.
    pub(super) global: Option<Arc<GlobalQueue>>,
    pub(super) listeners: Vec<ListenerId>,
    pub(super) clock: Clock,
}

/// A head or a worker.
pub(crate) struct EventLoop {
    role: Role,
    net: Net,
    clock: Ticking,
    /// By the tasks' numbers.
    jobs: Jobs,
    /// Whose turn it is, where time is shared among tenants.
    sharing: Option<Box<Sharing>>,
    pacing: Pacing,
    tasks: Tasks,
    /// Calls that were admitted here and given away, to be answered here.
    given_away: HashMap<(PeerKey, CallId), Context>,
    /// The streams of the calls of this thread's connections that are not answered.
    streams: HashMap<(PeerKey, CallId), Streams>,
    /// What is told of the load with each answer, if anything is.
    told: Option<Told>,
    /// How many calls that take so long or longer, and matter no more, may still come to a full queue before it is looked through
    /// again for some that could make room.
    crowds: [Crowd; Criticality::ALL.len()],
    /// How many calls more have to come before a tenant is looked for again that has too many.
    crowding: u32,
    rounds: u32,
    /// Those that have a permit, of any method.
    begun: usize,
    /// Those that wait for one.
    stalled: usize,
    /// When to look after them, though nothing else happens.
    relieve_at: Time,
    /// One per method, so that methods that wait for one another don't take each other's permits.
    limiters: Vec<Limiter>,
    /// Calls that handlers here made.
    calls: Slab<HandlerCall>,
    /// The connections that handlers here used, by the address of their routes, which are not freed before these go.
    routes: HashMap<usize, (Weak<Route>, PeerKey)>,
    mailbox: Shared<Mailbox>,
    methods: Vec<Learned>,
    /// One per method, so that a method that was judged wrongly costs no other its permit.
    admissions: Vec<Admission>,
    /// All that wait, wherever.
    standing: StandingQueue,
    /// Whether they have for a while, with no end, as of this round.
    stands: bool,
    /// The method that was called last.
    found: Option<Found>,
    dispatch: Dispatch,
    loads: Vec<Load>,
    events: Events,
    /// The tasks of calls that the last poll found. Who takes back one of those in the same poll can't be told its task.
    found_last: Vec<usize>,
    drain_until: Option<Time>,
    stopped: bool,
}

/// A method that was called.
#[derive(Clone, Copy)]
struct Found {
    id: MethodId,
    method: usize,
    /// Whether its calls are taken in with no question but when they are due: it doesn't stream, and neither who may call it nor
    /// whose its calls are makes a difference.
    is_plain: bool,
}

/// A call that a handler here made.
struct HandlerCall {
    task: usize,
    peer: PeerKey,
    cell: Shared<OutcomeCell>,
}

impl EventLoop {
    pub(super) fn new(role: Role, mut net: Net) -> Self {
        let config = &role.config;
        if config.shares.is_some() {
            net.tell_new();
        }
        let quantum = config.quantum.filter(|_| is_instrumented()).map_or(Quantum::NONE, Quantum::of);
        let mailbox = Shared::<Mailbox>::default();
        mailbox.is_cramped.set(Decompression::is_too_much_for(config.stack.bytes()));
        let learned = || Learned::new(config.work_quantile, Margin::new(config.late_share));
        Self {
            clock: role.clock.ticking(),
            jobs: Scheduler::new(super::ready_queue(config), quantum, config.stack, config.coroutines),
            sharing: config.shares.as_ref().map(|shares| Box::new(Sharing::new(config, shares))),
            pacing: Pacing::new(),
            tasks: Tasks::new(Arc::clone(&role.router)),
            given_away: HashMap::new(),
            streams: HashMap::new(),
            told: config.grpc.filter(GrpcSettings::reports_load).map(|_| Told::new(Time::ZERO)),
            crowds: Default::default(),
            crowding: 0,
            rounds: 0,
            begun: 0,
            stalled: 0,
            relieve_at: Time::MAX,
            limiters: (0..role.router.len()).map(|_| Limiter::new(config)).collect(),
            calls: Slab::new(),
            routes: HashMap::new(),
            mailbox,
            methods: std::iter::repeat_with(learned).take(role.router.len()).collect(),
            admissions: (0..role.router.len()).map(|_| Admission::new(config.admission)).collect(),
            standing: StandingQueue::new(StandingQueue::INTERVAL),
            stands: false,
            found: None,
            dispatch: Dispatch::new(DispatchRule::JoinShortestQueue, 1),
            loads: Vec::new(),
            events: Events::default(),
            found_last: Vec::new(),
            drain_until: None,
            stopped: false,
            net,
            role,
        }
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) {
        let mailbox = self.mailbox.clone();
        let _installed = mailbox.install();
        let patience = self.role.config.wait.patience();
        let mut idle_since = None;
        while !self.stopped {
            let now = self.clock.now();
            let (worked, next) = self.round(now);
            if worked {
                idle_since = None;
                continue;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            if patience.is_some_and(|patience| idle >= patience) && self.is_left_alone() {
                let next = next.into_iter().chain(self.look_by(now, idle)).min();
                self.net.wait(now, next.map(|next| next.since(now)));
            } else {
                std::hint::spin_loop();
            }
        }
        let now = self.clock.now();
        self.net.close_all(now, &mut self.events);
        // Workers serve what their head was sent before it was drained, so they end after it.
        self.role.workers.iter().for_each(|worker| worker.send(Message::Stop));
        if self.drain_until.is_some() {
            self.net.linger(&mut self.events);
        }
    }

    /// When to look at the words of memory that handlers wait for, as nobody tells of them: the longer they have waited, the
    /// later.
    fn look_by(&self, now: Time, idle: Duration) -> Option<Time> {
        (self.jobs.waiting_for_words() > 0).then(|| now + (idle / 4).clamp(FIRST_NAP, NAP))
    }

    /// Whether no other thread has anything for this one.
    fn is_left_alone(&self) -> bool {
        self.role.inbox.is_empty() && self.role.global.as_ref().is_none_or(|global| global.waiting() == 0)
    }

    /// One round. Whether there was anything to do, and when there will be something next.
    pub(crate) fn round(&mut self, mut now: Time) -> (bool, Option<Time>) {
        let mut worked = false;
        while let Some(message) = self.role.inbox.take() {
            worked = true;
            self.hear(now, message);
        }
        worked |= self.steal(now);
        if let Some(told) = &mut self.told {
            told.refresh(now, &self.role.counters, self.role.inbox.load().unfinished.into());
        }
        self.found_last.clear();
        let polled = self.net.poll(now, &mut self.events) > 0;
        let busy = polled || self.ready() > 0;
        self.role.inbox.publish_round(busy, self.role.counters.connections.load());
        let mut next = self.net.sweep(now, &mut self.events);
        worked |= polled | !self.events.is_empty();
        // What was found has the time at which it was found, which is later than that of the round.
        let begun = std::mem::replace(&mut now, self.clock.now());
        let look = self.net.found().unwrap_or(now).min(now).span_since(begun);
        self.pacing.looked(look, self.events.found.len());
        self.role.counters.looks.add(1);
        self.role.counters.look_nanos.add(look.as_nanos());
        if self.net.has_long()
            && let Some(sharing) = &mut self.sharing
        {
            let begun = sharing.read_long(now, now.span_since(begun).less(look), &mut self.net);
            self.role.counters.metered.add(begun as u64);
        }
        let found = self.events.found.len();
        self.stands = self.standing.stands(now);
        self.attend(now);
        if let Some(sharing) = self.sharing.as_mut().filter(|_| found > 0) {
            sharing.found(found, look + self.clock.now().span_since(now));
        }
        next = next.into_iter().chain(self.relieve(now)).min();
        self.net.hold_off(now, self.jobs.is_crowded());
        if self.net.has_output() {
            self.pacing.owes();
        }
        let ran;
        (now, ran) = match self.sharing {
            None => self.run_ready::<true>(now),
            Some(_) => self.run_shared(now),
        };
        worked |= ran;
        if self.ready() == 0 {
            now = self.post(now);
        }
        if let Some(sharing) = &mut self.sharing {
            worked |= sharing.read_in_turn(now, !worked, &mut self.net);
        }
        self.check_drained(now);
        if worked {
            return (true, None);
        }
        let drain = self.drain_until.map(|_| now + Duration::from_millis(1));
        (false, next.into_iter().chain(drain).chain(self.jobs.wakes_by()).min())
    }

    /// How many tasks are ready to run.
    #[inline]
    fn ready(&self) -> usize {
        self.ready_of::<false>()
    }

    /// The same. `PLAIN`: whether time is not shared, for certain.
    #[inline]
    fn ready_of<const PLAIN: bool>(&self) -> usize {
        let sharing = self.sharing.as_ref().filter(|_| !PLAIN);
        self.jobs.ready() + sharing.map_or(0, |sharing| sharing.aside())
    }

    /// What is known of a method, where time is shared by that tenant's calls.
    #[inline]
    fn known<const PLAIN: bool>(&self, tenant: Tenant, method: usize) -> Known {
        let known = self.methods[method].known(self.stands);
        match self.sharing.as_ref().filter(|_| !PLAIN) {
            None => known,
            Some(sharing) => sharing.known(tenant, method, known, self.stands),
        }
    }

    /// Takes a call that was given away, by another head or by this one. Whether there was one.
    fn steal(&mut self, now: Time) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        let Some(job) = self.role.global.as_ref().and_then(|global| global.take(self.ready(), self.rounds)) else {
            return false;
        };
        self.role.inbox.given();
        self.take_on(now, job);
        true
    }

    /// Makes this head the calling thread's, as [`run`](Self::run) does.
    #[cfg(test)]
    pub(crate) fn install(&self) -> crate::local::Installed {
        self.mailbox.install()
    }

    /// Whether nothing is left of any call.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let no_permits = self.begun == 0 && self.stalled == 0 && self.limiters.iter().all(Limiter::is_idle);
        no_permits && self.tasks.is_empty() && self.calls.is_empty() && self.net.is_answered()
    }

    fn hear(&mut self, now: Time, message: Message) {
        match message {
            Message::Adopt(endpoint, usage) => self.net.adopt(endpoint, usage, now),
            Message::Serve(job) => self.take_on(now, *job),
            Message::Answer(answered) => {
                let Answered { peer, method, tenant, lesson, answer } = *answered;
                self.given_away.remove(&(peer, answer.call));
                if let Some(sharing) = &mut self.sharing {
                    sharing.ended(tenant, method, lesson.as_ref(), true, self.stands);
                }
                if let Some(lesson) = lesson {
                    // Admission is the head's: it has to know what its workers have learned.
                    self.methods[method].observe(&lesson, self.stands);
                }
                self.answer(peer, answer);
            }
            Message::Cancel(head, peer, call) => self.cancel_of(now, &head, peer, call),
            Message::NoRoom => self.role.counters.memory_refused.add(1),
            Message::Look(peer, call) => self.look_at_stream(peer, call),
            Message::Kept(wait) => self.jobs.end(now, wait),
            Message::Drain(until) => {
                self.drain_until = Some(until);
                for listener in std::mem::take(&mut self.role.listeners) {
                    self.net.close_listener(listener);
                }
                self.net.go_away("the server shuts down");
            }
            Message::Stop => self.stopped = true,
            #[cfg(test)]
            Message::Die => panic!("as the test would have it"),
        }
    }

    /// Deals with what polls and sweeps found.
    fn attend(&mut self, mut now: Time) {
        let mut events = std::mem::take(&mut self.events);
        // Where they lie: a call is long enough that moving it tells.
        for event in &mut events.found {
            match event {
                Event::Call(peer, arrival) => {
                    self.arrive(now, *peer, arrival);
                    if self.pacing.is_full() {
                        (now, _) = self.flush(now);
                    }
                }
                Event::Done { token, outcome } => {
                    let outcome = events.outcomes.take(*outcome);
                    if let (Some(call), Some(mut outcome)) = (self.calls.try_remove(*token), outcome) {
                        call.cell.token.set(None);
                        if self.mailbox.is_cramped.get() {
                            outcome.decompress();
                        }
                        *call.cell.outcome.borrow_mut() = Some(outcome);
                        if let Some(task) = self.tasks.get_mut(call.task) {
                            task.outstanding = task.outstanding.saturating_sub(1);
                        }
                        self.completed(now, call.task);
                    }
                }
                Event::Announced(peer, call, method, deadline) => self.announced(now, *peer, *call, *method, *deadline),
                Event::Cancelled(peer, call, task) => self.cancel(now, *peer, *call, *task),
                event @ (Event::Streamed(..) | Event::Accepted(_)) => {
                    self.attend_to(now, std::mem::replace(event, Event::Over));
                }
                // Handlers make such calls by a channel's dispatcher.
                Event::Answered(_) | Event::Over => {}
            }
        }
        events.found.clear();
        // Refusals made on the way may have put new events in; what is empty keeps its memory.
        if self.events.is_empty() {
            // What is there then has no memory; to find that out takes longer than one would think.
            std::mem::forget(std::mem::replace(&mut self.events, events));
        }
    }

    /// Deals with what is rare, or kept.
    #[inline(never)]
    fn attend_to(&mut self, now: Time, event: Event) {
        match event {
            Event::Streamed(peer, call, news) => self.streamed(peer, call, news),
            Event::Accepted(endpoint) => self.hand_out(now, endpoint),
            _ => {}
        }
    }

    /// Gives a connection that came in to the head that has least to do.
    #[cold]
    fn hand_out(&mut self, now: Time, endpoint: DetachedEndpoint) {
        // It counts from here on, while its handshake is made too. Dropped, it is closed.
        let Some(usage) = self.net.admit(now, endpoint.peer()) else { return };
        let heads = &self.role.heads;
        let least = heads
            .iter()
            .filter(|head| head.is_alive())
            .min_by_key(|head| head.attraction())
            .unwrap_or(&self.role.inbox);
        match &self.role.handshaker {
            None => {
                least.add_connection();
                least.send(Message::Adopt(endpoint, usage));
            }
            Some(handshaker) => {
                let least = Arc::clone(least);
                handshaker.submit(endpoint, move |endpoint| {
                    least.add_connection();
                    least.send(Message::Adopt(endpoint, usage));
                });
            }
        }
    }

    fn check_drained(&mut self, now: Time) {
        let Some(until) = self.drain_until else { return };
        if now >= until || (self.tasks.is_empty() && self.net.is_drained(now)) {
            self.stopped = true;
        }
    }
}
