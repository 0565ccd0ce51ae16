//! A channel's connection as used by ordinary threads: one completion queue, shared.
//!
//! Who polls? *The leader*. In direct mode that is one of the threads that wait for a reply: it polls for all of them
//! until its own reply is there (DaRPC's direct access to the completion queue, without its lock convoy). In dispatched
//! mode it is a thread of the channel's own, for ever. How the lead changes hands is [`Helm`]'s.
//!
//! What a thread that doesn't lead wants goes into the inbox; the leader is woken and looks. Completions go into slots,
//! each of which wakes its own waiter.

use super::helm::{Helm, Seat};
use super::slot::{SharedSlot, Turn, Unpark};
use crate::config::{ChannelConfig, Wait};
use crate::connection::NewCall;
use crate::context::Context;
use crate::net::{Happening, Net, PeerKey};
use crate::outcome::Outcome;
use crate::status::{Code, Reason, Status};
use crate::wire::MethodId;
use crossbeam_queue::SegQueue;
use greenwave_policy::Time;
use greenwave_verbs::{Address, Waker};
use slab::Slab;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What threads that do not lead ask of the one that does.
enum Request {
    Start {
        context: Context,
        method: MethodId,
        body: Vec<u8>,
        started: Time,
        slot: Arc<SharedSlot>,
    },
    /// Nobody waits for this call any more.
    Abandon(Arc<SharedSlot>),
    Stop,
}

/// A connection and the threads that share it.
pub(crate) struct Core {
    helm: Helm,
    inbox: SegQueue<Request>,
    waker: Waker,
    wait: Wait,
    dispatched: AtomicBool,
    /// Locked by the leader alone, so never waited for.
    driven: Mutex<Driven>,
}

/// What the leader alone touches.
struct Driven {
    net: Net,
    peer: PeerKey,
    calls: Slab<Waiting>,
    happened: Vec<Happening>,
    stop: bool,
}

enum Waiting {
    /// The leader's own call, and its outcome.
    Leader(Option<Outcome>),
    Shared(Arc<SharedSlot>),
}

/// The lead, while it is held. It is handed on however its holder ends: one that panics harms no other.
struct Leading<'a>(&'a Core);

impl Core {
    /// A core for one address. Connects with the first call.
    pub(crate) fn new(address: &Address, config: &ChannelConfig) -> Result<Self, Status> {
        let mut net =
            Net::new(config.backend.for_address(address), &config.limits, crate::clock::Clock::Monotonic, true)
                .map_err(|error| Status::refused(Reason::Unreachable, error.to_string()))?;
        let peer = net.open(address.clone(), config);
        let (calls, happened) = (Slab::new(), Vec::new());
        Ok(Self {
            helm: Helm::default(),
            inbox: SegQueue::new(),
            waker: net.waker(),
            wait: config.wait,
            dispatched: AtomicBool::new(false),
            driven: Mutex::new(Driven { net, peer, calls, happened, stop: false }),
        })
    }

    /// Calls and waits, leading if nobody else does.
    pub(crate) fn call(&self, context: &Context, method: MethodId, body: Vec<u8>) -> Outcome {
        let started = crate::clock::monotonic();
        if self.helm.try_lead() {
            return Leading(self).call(context, method, body, started);
        }
        let slot = self.start(context, method, body, started);
        let unpark = Unpark::current();
        match self.helm.lead_or_wait(&slot) {
            Seat::Leads => Leading(self).until(&slot),
            Seat::Waits(seat) => match slot.wait(&unpark) {
                Turn::Leads => Leading(self).until(&slot),
                Turn::Done(outcome) => {
                    self.helm.rise(seat);
                    return outcome;
                }
            },
        }
        // Whoever led until the slot had its outcome finds it there.
        match slot.wait(&unpark) {
            Turn::Done(outcome) => outcome,
            Turn::Leads => Outcome::local(Status::new(Code::Internal, "the lead was handed on twice"), Duration::ZERO),
        }
    }

    /// Sends a call whose outcome will be put into the slot by whoever leads.
    pub(crate) fn start(&self, context: &Context, method: MethodId, body: Vec<u8>, started: Time) -> Arc<SharedSlot> {
        let slot = Arc::new(SharedSlot::default());
        let context = context.clone();
        self.ask(Request::Start { context, method, body, started, slot: Arc::clone(&slot) });
        slot
    }

    /// Says that nobody waits for this slot any more.
    pub(crate) fn abandon(&self, slot: &Arc<SharedSlot>) {
        self.ask(Request::Abandon(Arc::clone(slot)));
    }

    fn ask(&self, request: Request) {
        self.inbox.push(request);
        self.waker.wake();
    }

    /// Makes sure that a thread of the channel's own leads, so that futures make progress.
    pub(crate) fn ensure_dispatcher(self: &Arc<Self>) -> Result<(), Status> {
        if self.dispatched.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let core = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("greenwave-dispatch".into()).spawn(move || core.dispatch());
        spawned.map(drop).map_err(|error| {
            self.dispatched.store(false, Ordering::Release);
            let text = format!("no thread for dispatching completions: {error}");
            Status::new(Code::ResourceExhausted, text)
        })
    }

    /// Ends the dispatcher, if there is one. Nobody calls any more.
    pub(crate) fn stop(&self) {
        self.ask(Request::Stop);
    }

    fn dispatch(&self) {
        let slot = Arc::new(SharedSlot::default());
        if !self.helm.dispatch(&slot) {
            slot.wait(&Unpark::current());
        }
        Leading(self).until(&slot);
    }

    fn driven(&self) -> MutexGuard<'_, Driven> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One round: inbox, completions, timers, writes; and if there was nothing, waiting as configured.
    fn turn(&self, driven: &mut Driven, idle_since: &mut Option<Time>) {
        while let Some(request) = self.inbox.pop() {
            driven.accept(request);
        }
        let now = crate::clock::monotonic();
        let next = driven.net.sweep(now, &mut driven.happened);
        driven.net.flush(now);
        if driven.net.poll(now, &mut driven.happened) + driven.happened.len() > 0 {
            driven.deliver();
            *idle_since = None;
            return;
        }
        let idle = now.since(*idle_since.get_or_insert(now));
        if self.wait.patience().is_some_and(|patience| idle >= patience) && self.inbox.is_empty() {
            driven.net.wait(now, next.map(|next| next.since(now)));
        } else {
            std::hint::spin_loop();
        }
    }
}

impl Leading<'_> {
    /// Makes a call of one's own, and leads until it is over.
    fn call(&self, context: &Context, method: MethodId, body: Vec<u8>, started: Time) -> Outcome {
        let driven = &mut *self.0.driven();
        let token = driven.calls.insert(Waiting::Leader(None));
        driven.send(token, context, method, body, started);
        let mut idle_since = None;
        loop {
            self.0.turn(driven, &mut idle_since);
            if let Some(Waiting::Leader(done @ Some(_))) = driven.calls.get_mut(token)
                && let Some(outcome) = done.take()
            {
                driven.calls.remove(token);
                return outcome;
            }
        }
    }

    /// Leads until a slot has its outcome, or until the channel is gone.
    fn until(&self, slot: &SharedSlot) {
        let driven = &mut *self.0.driven();
        let mut idle_since = None;
        while !slot.is_done() && !driven.stop {
            self.0.turn(driven, &mut idle_since);
        }
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What the connection is like now nobody knows: its calls fail, and the next one has a new connection.
            self.0.dispatched.store(false, Ordering::Release);
            self.0.driven().fail_all();
        }
        self.0.helm.leave();
    }
}

impl Driven {
    fn send(&mut self, token: usize, context: &Context, method: MethodId, body: Vec<u8>, started: Time) {
        let call = NewCall { token, context: context.clone(), method, body, started };
        self.net.call(self.peer, call, crate::clock::monotonic(), &mut self.happened);
    }

    fn accept(&mut self, request: Request) {
        match request {
            Request::Start { context, method, body, started, slot } => {
                let token = self.calls.insert(Waiting::Shared(Arc::clone(&slot)));
                slot.set_token(token);
                self.send(token, &context, method, body, started);
            }
            Request::Abandon(slot) => {
                if let Some(token) = slot.token() {
                    self.net.abandon(self.peer, token, &mut self.happened);
                    self.calls.remove(token);
                }
            }
            Request::Stop => {
                self.stop = true;
                self.fail_all();
            }
        }
    }

    fn fail_all(&mut self) {
        self.net.close_all(crate::clock::monotonic(), &mut self.happened);
        self.deliver();
    }

    fn deliver(&mut self) {
        for happening in self.happened.drain(..) {
            let Happening::Done { token, outcome } = happening else { continue };
            match self.calls.get_mut(token) {
                Some(Waiting::Leader(place)) => *place = Some(outcome),
                Some(Waiting::Shared(_)) => {
                    if let Waiting::Shared(slot) = self.calls.remove(token) {
                        slot.complete(outcome);
                    }
                }
                None => {}
            }
        }
    }
}
