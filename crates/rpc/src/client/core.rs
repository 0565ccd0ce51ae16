//! A channel's connection as used by ordinary threads: one completion queue, shared.
//!
//! Who polls? *The leader*, whoever holds the lock on [`Driven`]. In direct mode that is one of the threads that wait
//! for a reply: it polls for all of them until its own reply is there (DaRPC's direct access to the completion queue,
//! without its lock convoy). In dispatched mode it is a thread of the channel's own, for ever.
//!
//! Protocol:
//! 1. A thread with a call tries the lock. Holding it, it sends the call itself and leads.
//! 2. Otherwise it puts the call into the inbox, rings the waker, and tries the lock again before it parks. So a
//!    leader that left without seeing the inbox is followed by this very thread.
//! 3. A leader that leaves looks at the inbox after it let go of the lock, and nudges one waiting thread; that one
//!    tries the lock.
//! 4. Completions go into the slots; each slot wakes its own waiter.

use super::slot::{SharedSlot, Unpark};
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
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
    /// Look for abandoned slots.
    Abandoned,
    Stop,
}

/// A connection and the threads that share it.
pub(crate) struct Core {
    inbox: SegQueue<Request>,
    waker: Waker,
    wait: Wait,
    dispatched: AtomicBool,
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
    Shared(Arc<SharedSlot>, Context),
}

impl Core {
    /// A core for one address. Connects with the first call.
    pub(crate) fn new(address: &Address, config: &ChannelConfig) -> Result<Self, Status> {
        let mut net = Net::new(config.backend.clone(), &config.limits, crate::clock::Clock::Monotonic, true)
            .map_err(|error| Status::refused(Reason::Unreachable, error.to_string()))?;
        let peer = net.open(address.clone(), config);
        let (calls, happened) = (Slab::new(), Vec::new());
        Ok(Self {
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
        if let Some(mut driven) = self.try_lead() {
            let outcome = self.lead_own(&mut driven, context, method, body, started);
            drop(driven);
            self.hand_over();
            return outcome;
        }
        let slot = self.start(context, method, body, started);
        slot.wake_with(&Unpark::current());
        loop {
            if let Some(outcome) = slot.take() {
                return outcome;
            }
            match self.try_lead() {
                Some(mut driven) => {
                    self.lead_until(&mut driven, &|| slot.is_done());
                    drop(driven);
                    self.hand_over();
                }
                None => {
                    std::thread::park();
                    slot.wake_with(&Unpark::current());
                }
            }
        }
    }

    /// Sends a call whose outcome will be put into the slot by whoever leads.
    pub(crate) fn start(&self, context: &Context, method: MethodId, body: Vec<u8>, started: Time) -> Arc<SharedSlot> {
        let slot = Arc::new(SharedSlot::default());
        let context = context.clone();
        self.inbox.push(Request::Start { context, method, body, started, slot: Arc::clone(&slot) });
        self.waker.wake();
        slot
    }

    /// Says that nobody waits for this slot any more.
    pub(crate) fn abandon(&self, slot: &SharedSlot) {
        slot.abandon();
        self.inbox.push(Request::Abandoned);
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

    /// Ends the dispatcher, if there is one.
    pub(crate) fn stop(&self) {
        self.inbox.push(Request::Stop);
        self.waker.wake();
    }

    fn dispatch(&self) {
        let mut driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        self.lead_until(&mut driven, &|| false);
    }

    fn try_lead(&self) -> Option<MutexGuard<'_, Driven>> {
        match self.driven.try_lock() {
            Ok(driven) => Some(driven),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lead_own(
        &self,
        driven: &mut Driven,
        context: &Context,
        method: MethodId,
        body: Vec<u8>,
        started: Time,
    ) -> Outcome {
        let token = driven.calls.insert(Waiting::Leader(None));
        driven.send(token, context, method, body, started);
        let mut idle_since = None;
        loop {
            self.turn(driven, &mut idle_since, Some(context));
            if let Some(Waiting::Leader(done @ Some(_))) = driven.calls.get_mut(token) {
                let outcome = done.take();
                driven.calls.remove(token);
                return outcome.expect("it was there a line ago");
            }
            if context.is_cancelled() {
                driven.net.abandon(driven.peer, token);
                driven.calls.remove(token);
                driven.net.flush(crate::clock::monotonic());
                let elapsed = crate::clock::monotonic().since(started);
                return Outcome::local(Status::refused(Reason::Cancelled, ""), elapsed);
            }
        }
    }

    fn lead_until(&self, driven: &mut Driven, done: &dyn Fn() -> bool) {
        let mut idle_since = None;
        while !done() && !driven.stop {
            self.turn(driven, &mut idle_since, None);
        }
    }

    /// One round: inbox, completions, timers, writes; and if there was nothing, waiting as configured.
    fn turn(&self, driven: &mut Driven, idle_since: &mut Option<Time>, own: Option<&Context>) {
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
            // A cancellation from another thread rings no waker, so a leader with a call of its own looks up at times.
            let glance = own.map(|_| Duration::from_millis(10));
            let due = next.map(|next| next.since(now));
            driven.net.wait(now, due.into_iter().chain(glance).min());
        } else {
            std::hint::spin_loop();
        }
    }

    /// After letting go of the lock: makes sure that somebody leads if there is anything to do.
    fn hand_over(&self) {
        while !self.inbox.is_empty() || self.dispatched.load(Ordering::Relaxed) {
            let Some(mut driven) = self.try_lead() else { return };
            while let Some(request) = self.inbox.pop() {
                driven.accept(request);
            }
            let now = crate::clock::monotonic();
            driven.net.flush(now);
            if driven.nudge() {
                return;
            }
            drop(driven);
            if self.inbox.is_empty() {
                return;
            }
        }
        if let Some(driven) = self.try_lead() {
            driven.nudge();
        }
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
                let token = self.calls.insert(Waiting::Shared(slot, context.clone()));
                self.send(token, &context, method, body, started);
            }
            Request::Abandoned => {
                let gone: Vec<usize> =
                    self.calls.iter().filter(|(_, call)| call.is_abandoned()).map(|it| it.0).collect();
                for token in gone {
                    self.net.abandon(self.peer, token);
                    self.calls.remove(token);
                }
            }
            Request::Stop => {
                self.stop = true;
                self.net.close_all();
            }
        }
    }

    fn deliver(&mut self) {
        for happening in self.happened.drain(..) {
            let Happening::Done { token, outcome } = happening else { continue };
            match self.calls.get_mut(token) {
                Some(Waiting::Leader(place)) => *place = Some(outcome),
                Some(Waiting::Shared(slot, _)) => {
                    slot.complete(outcome);
                    self.calls.remove(token);
                }
                None => {}
            }
        }
    }

    /// Wakes one thread that waits for a call, so that it leads. Whether there was one.
    fn nudge(&self) -> bool {
        self.calls.iter().any(|(_, call)| matches!(call, Waiting::Shared(slot, _) if slot.nudge()))
    }
}

impl Waiting {
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Shared(slot, context) if slot.is_abandoned() || context.is_cancelled())
    }
}
