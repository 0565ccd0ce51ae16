//! A completion queue as used by ordinary threads, and the channels whose connections are on it.
//!
//! Who polls? *The leader*. In direct mode that is one of the threads that wait for a reply: it polls for all of them
//! until its own reply is there (DaRPC's direct access to the completion queue, without its lock convoy). In dispatched
//! mode it is a thread of its own, until the last channel is gone. How the lead changes hands is [`Leadership`]'s.
//!
//! What a thread that doesn't lead wants is a request; the leader is woken and looks. Completions go into oneshots
//! and streams, each of which wakes its own waiter.
//!
//! What callers and a dispatcher that dies owe one another is [`Requests`]'s.

use super::config::{ChannelConfig, Delivery, Mode};
use super::driven::{Driven, Receiver, Request};
use super::leadership::{Leadership, Role};
use super::oneshot::{Oneshot, Woken};
use super::requests::Requests;
use super::starting::Starting;
use crate::config::Wait;
use crate::context::Context;
use crate::net::{Net, PeerKey, Route};
use crate::status::{Code, Reason, Status};
use crate::wire::MethodId;
use crossbeam_queue::ArrayQueue;
use greenwave_policy::Time;
use greenwave_proto::outcome::Outcome;
use greenwave_verbs::{Address, Waker};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How many oneshots are kept for calls to come.
const SPARE_ONESHOTS: usize = 256;

/// A completion queue and the threads that share it.
pub(crate) struct Core {
    leadership: Leadership,
    requests: Requests<Request>,
    waker: Waker,
    wait: Wait,
    /// Locked by those who start a dispatcher, one at a time.
    starting: Mutex<Starting>,
    /// Locked by the leader alone, so never waited for.
    driven: Mutex<Driven>,
    spare: ArrayQueue<Arc<Oneshot>>,
}

/// A channel's connection on a completion queue.
pub(crate) struct Connection {
    route: Arc<Route>,
    mode: Mode,
    wait: Wait,
    /// Given by the leader that makes its first call.
    peer: OnceLock<PeerKey>,
}

impl Connection {
    pub(crate) fn new(route: Arc<Route>, config: &ChannelConfig) -> Self {
        Self { route, mode: config.mode, wait: config.wait, peer: OnceLock::new() }
    }

    pub(super) fn peer(&self, net: &mut Net) -> PeerKey {
        *self.peer.get_or_init(|| net.open(Route::clone(&self.route)))
    }

    pub(super) fn opened(&self) -> Option<PeerKey> {
        self.peer.get().copied()
    }

    /// For how long a thread that waits for the dispatcher spins; `None` for ever.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self.mode {
            Mode::Dispatched { delivery: Delivery::Poll } => self.wait.patience(),
            Mode::Dispatched { delivery: Delivery::Notify } | Mode::Direct => Some(Duration::ZERO),
        }
    }
}

/// The lead, while it is held. It is handed on however its holder ends: one that panics harms no other.
struct Leading<'a>(&'a Core);

impl Core {
    /// A queue without connections.
    pub(crate) fn new(config: &ChannelConfig) -> Result<Self, Status> {
        let net = Net::new(config.backend.clone(), &config.limits, crate::clock::Clock::Monotonic, true, &[], None)
            .map_err(|error| Status::refused(Reason::Unreachable, error.to_string()))?;
        Ok(Self {
            leadership: Leadership::default(),
            requests: Requests::new(),
            waker: net.waker(),
            wait: config.wait,
            starting: Mutex::new(Starting::new(config.backoff())),
            driven: Mutex::new(Driven::new(net)),
            spare: ArrayQueue::new(SPARE_ONESHOTS),
        })
    }

    /// Calls and waits, leading if nobody else does.
    pub(crate) fn call(
        &self,
        connection: &Arc<Connection>,
        context: &Context,
        method: MethodId,
        body: Cow<'_, [u8]>,
    ) -> Outcome {
        let started = crate::clock::monotonic();
        if !self.is_dispatched() && self.leadership.try_lead() {
            return Leading(self).call(connection, context, method, body, started);
        }
        let oneshot = self.start(connection, context, method, body, started);
        let outcome = self.outcome(&oneshot, connection.patience());
        self.recycle(oneshot);
        outcome
    }

    fn outcome(&self, oneshot: &Arc<Oneshot>, patience: Option<Duration>) -> Outcome {
        if !self.is_dispatched() {
            match self.leadership.lead_or_wait(oneshot) {
                Role::Leads => Leading(self).until(oneshot),
                Role::Follows(follower) => match oneshot.wait(Some(Duration::ZERO)) {
                    Woken::Leads => Leading(self).until(oneshot),
                    Woken::Done(outcome) => {
                        self.leadership.unfollow(follower);
                        return outcome;
                    }
                },
            }
        }
        // Whoever led until the oneshot had its outcome finds it there.
        match oneshot.wait(patience) {
            Woken::Done(outcome) => outcome,
            Woken::Leads => Outcome::local(Status::new(Code::Internal, "the lead was handed on twice"), Duration::ZERO),
        }
    }

    /// Sends a call whose outcome will be put into the oneshot by whoever leads.
    pub(crate) fn start(
        &self,
        connection: &Arc<Connection>,
        context: &Context,
        method: MethodId,
        body: Cow<'_, [u8]>,
        started: Time,
    ) -> Arc<Oneshot> {
        let oneshot = self.spare.pop().unwrap_or_default();
        let to = Receiver::Oneshot(Arc::clone(&oneshot));
        let (connection, context, body) = (Arc::clone(connection), context.clone(), body.into_owned());
        self.ask(Request::Start { connection, context, method, body, started, to });
        oneshot
    }

    /// Keeps a oneshot whose outcome was taken for another call.
    pub(crate) fn recycle(&self, mut oneshot: Arc<Oneshot>) {
        // Whoever still holds it is about to let go of it; then it is not kept.
        if let Some(alone) = Arc::get_mut(&mut oneshot) {
            alone.reset();
            let _enough_are_kept = self.spare.push(oneshot);
        }
    }

    /// Puts requests where leaders look, and wakes the leader once for all of them.
    pub(super) fn ask_all(&self, requests: impl Iterator<Item = Request>) {
        self.requests.put(requests);
        self.waker.wake();
    }

    pub(super) fn ask(&self, request: Request) {
        self.ask_all(std::iter::once(request));
    }

    fn is_dispatched(&self) -> bool {
        self.requests.is_dispatched()
    }

    /// Makes sure that a thread of the queue's own leads, so that futures and streams make progress.
    pub(crate) fn ensure_dispatcher(self: &Arc<Self>) -> Result<(), Status> {
        if self.is_dispatched() {
            return Ok(());
        }
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_dispatched() {
            return Ok(());
        }
        let core = Arc::clone(self);
        let _detached = starting.attempt(crate::clock::monotonic(), || {
            let thread = std::thread::Builder::new().name("greenwave-dispatch".into());
            thread.spawn(move || core.dispatch()).map_err(|error| {
                let text = format!("no thread for dispatching completions: {error}");
                Status::new(Code::ResourceExhausted, text)
            })
        })?;
        self.requests.begin_dispatch();
        Ok(())
    }

    fn dispatch(&self) {
        // Not before the one that started this thread has said so: what a panic unsets must have been set.
        drop(self.starting.lock().unwrap_or_else(PoisonError::into_inner));
        let oneshot = Arc::new(Oneshot::default());
        if !self.leadership.dispatch(&oneshot) {
            oneshot.wait(Some(Duration::ZERO));
        }
        Leading(self).until(&oneshot);
    }

    fn driven(&self) -> MutexGuard<'_, Driven> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One round: requests, completions, timers, writes; and if there was nothing, waiting as configured.
    fn round(&self, driven: &mut Driven, idle_since: &mut Option<Time>) {
        while let Some(request) = self.requests.take() {
            driven.accept(request);
        }
        let now = crate::clock::monotonic();
        let next = driven.net.sweep(now, &mut driven.events);
        driven.net.flush(now);
        if driven.net.poll(now, &mut driven.events) + driven.events.len() > 0 {
            driven.deliver();
            *idle_since = None;
            return;
        }
        let idle = now.since(*idle_since.get_or_insert(now));
        if self.wait.patience().is_some_and(|patience| idle >= patience) && self.requests.is_empty() {
            driven.net.wait(now, next.map(|next| next.since(now)));
        } else {
            std::hint::spin_loop();
        }
    }
}

impl Leading<'_> {
    /// Makes a call of one's own, and leads until it is over.
    fn call(
        &self,
        connection: &Connection,
        context: &Context,
        method: MethodId,
        body: Cow<'_, [u8]>,
        started: Time,
    ) -> Outcome {
        let driven = &mut *self.0.driven();
        let token = driven.send(connection, context, method, body, started, Receiver::Leader(None));
        let mut idle_since = None;
        loop {
            self.0.round(driven, &mut idle_since);
            if let Some(outcome) = driven.own(token) {
                return outcome;
            }
        }
    }

    /// Leads until a oneshot has its outcome, or until the last channel is gone.
    fn until(&self, oneshot: &Oneshot) {
        let driven = &mut *self.0.driven();
        let mut idle_since = None;
        while !oneshot.is_done() && !driven.stop {
            self.0.round(driven, &mut idle_since);
        }
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let core = self.0;
        if std::thread::panicking() {
            // What the connections are like now nobody knows: their calls fail, and the next ones have new connections.
            core.requests.end_dispatch();
            core.driven().fail_all();
            while let Some(request) = core.requests.take() {
                Driven::refuse(request);
            }
        }
        core.leadership.leave();
    }
}

/// A completion queue that is polled by one thread for the connections of many channels, and hands completions over.
///
/// DaRPC's dispatched access to completion queues. A channel in [`Mode::Dispatched`] has a thread of its own, unless
/// its [`ChannelConfig::dispatcher`] is one of these. The thread ends with the last channel and the last handle.
#[derive(Clone)]
pub struct Dispatcher(Arc<Hub>);

/// Ends the core's thread, if it has one, with the last who uses it.
struct Hub(Arc<Core>);

impl Dispatcher {
    /// A dispatcher whose thread waits as `config` says, over the backend and with the receive buffers that it asks for.
    /// All else is each channel's own. The thread begins with the first call.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a setting that can't be meant, `UNAVAILABLE` if no completion queue can be had.
    pub fn new(config: &ChannelConfig) -> Result<Self, Status> {
        config.validate()?;
        Self::unchecked(config)
    }

    /// A channel's own.
    pub(crate) fn of(address: &Address, config: &ChannelConfig) -> Result<Self, Status> {
        let backend = config.backend.for_address(address);
        Self::unchecked(&config.clone().backend(backend))
    }

    fn unchecked(config: &ChannelConfig) -> Result<Self, Status> {
        Ok(Self(Arc::new(Hub(Arc::new(Core::new(config)?)))))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.0
    }

    /// Ends the connection of a channel that ends.
    pub(crate) fn hang_up(&self, connection: &Arc<Connection>) {
        self.core().ask(Request::Close(Arc::clone(connection)));
    }
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dispatcher")
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.0.ask(Request::Stop);
    }
}
