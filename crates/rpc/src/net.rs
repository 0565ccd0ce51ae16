//! The connections of one thread over its completion queue.
//!
//! Used by cluster heads, workers and clients alike. It moves chunks between the queue and the [`Caller`]s and
//! [`Callee`]s, opens connections when calls need them, and keeps their timers. What it finds out it reports as
//! [`Happening`]s; it runs nothing.
//!
//! Calls, replies and cancellations are posted by [`Net::flush`], many in one system call.

use crate::clock::Clock;
use crate::config::{ChannelConfig, Limits};
use crate::connection::{Answer, Arrival, Callee, Caller, Finished, Link, NewCall, Served, Violation};
use crate::counters::Counters;
use crate::outcome::Outcome;
use crate::status::{Reason, Status};
use crate::wire::{CallId, GoAwayCode, StageName};
use greenwave_policy::Time;
use greenwave_verbs::{
    AcceptMode, Address, Choice, Close, CompletionQueue, DetachedEndpoint, EndpointId, Event, ListenerId, QueueConfig,
    VerbsError, Waker,
};
use slab::Slab;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A connection's name, never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PeerKey {
    index: usize,
    serial: u64,
}

/// What came of a poll or a sweep.
pub(crate) enum Happening {
    /// A call came in.
    Call(PeerKey, Arrival),
    /// The caller of an open call no longer wants the answer; it is to be answered all the same.
    Cancelled(PeerKey, CallId),
    /// A call that was made here is over.
    Done { token: usize, outcome: Outcome },
    /// A connection came in, for some cluster to adopt.
    Accepted(DetachedEndpoint),
}

/// How serving connections are set up.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) name: String,
    pub(crate) checksums: bool,
    pub(crate) absolute: Option<Duration>,
}

/// The connections of one thread.
pub(crate) struct Net {
    queue: Box<dyn CompletionQueue>,
    clock: Clock,
    limits: Limits,
    serving: Option<Serving>,
    peers: Slab<Peer>,
    by_endpoint: HashMap<EndpointId, usize, Mixed>,
    /// Connections with something to post.
    dirty: Vec<usize>,
    buffers: Vec<Vec<u8>>,
    serial: u64,
    next_sweep: Time,
    counters: Arc<Counters>,
    draining: bool,
}

struct Peer {
    serial: u64,
    endpoint: Option<EndpointId>,
    dirty: bool,
    half: Half,
}

enum Half {
    Caller(Box<Calling>),
    Callee(Box<Callee>),
}

/// A calling end, and how to get it connected again.
struct Calling {
    caller: Caller,
    address: Address,
    config: ChannelConfig,
    connected: bool,
    /// How often connecting has failed in a row, and when to try again.
    failures: u32,
    retry: Time,
    last_failure: String,
}

/// How many empty buffers are kept for messages, and how large one may be to be kept.
const BUFFERS: usize = 1024;
const BUFFER_BYTES: usize = 64 << 10;

impl Net {
    /// `movable`: several threads use it, one after the other.
    pub(crate) fn new(backend: Choice, limits: &Limits, clock: Clock, movable: bool) -> Result<Self, VerbsError> {
        let receive_buffers = limits.credits.clamp(64, 1024).next_power_of_two() as u16;
        let config = QueueConfig {
            backend,
            chunk_bytes: limits.chunk_bytes,
            receive_buffers,
            movable,
            ..QueueConfig::default()
        };
        Ok(Self {
            queue: greenwave_verbs::open(&config)?,
            clock,
            limits: *limits,
            serving: None,
            peers: Slab::new(),
            by_endpoint: HashMap::default(),
            dirty: Vec::new(),
            buffers: Vec::new(),
            serial: 0,
            next_sweep: Time::ZERO,
            counters: Arc::default(),
            draining: false,
        })
    }

    /// Serves connections too, counting into `counters`.
    pub(crate) fn serve(&mut self, serving: Serving, counters: Arc<Counters>) {
        self.serving = Some(serving);
        self.counters = counters;
    }

    pub(crate) fn waker(&self) -> Waker {
        self.queue.waker()
    }

    /// Listens, and says where. Connections are handed out as [`Happening::Accepted`] if there are several clusters.
    pub(crate) fn listen(&mut self, address: &Address, hand_out: bool) -> Result<(ListenerId, Address), VerbsError> {
        let listener = self.queue.listen(address)?;
        if hand_out {
            self.queue.set_accept_mode(listener, AcceptMode::Detach)?;
        }
        Ok((listener, self.queue.local_address(listener)?))
    }

    pub(crate) fn close_listener(&mut self, listener: ListenerId) {
        self.queue.close_listener(listener);
    }

    /// Takes over a connection that another thread accepted.
    pub(crate) fn adopt(&mut self, endpoint: DetachedEndpoint, now: Time) {
        match self.queue.adopt(endpoint) {
            Ok(endpoint) => self.add_callee(endpoint, now),
            Err(error) => tracing::warn!(%error, "a connection was lost between clusters"),
        }
    }

    /// Names a connection to an address. It connects with the first call.
    pub(crate) fn open(&mut self, address: Address, config: &ChannelConfig) -> PeerKey {
        let now = self.clock.now();
        let calling = Calling {
            caller: Caller::new(calling_link(config, now)),
            address,
            config: config.clone(),
            connected: false,
            failures: 0,
            retry: Time::ZERO,
            last_failure: String::new(),
        };
        self.add(None, Half::Caller(Box::new(calling)))
    }

    fn add(&mut self, endpoint: Option<EndpointId>, half: Half) -> PeerKey {
        self.serial += 1;
        let serial = self.serial;
        let index = self.peers.insert(Peer { serial, endpoint, dirty: false, half });
        if let Some(endpoint) = endpoint {
            self.by_endpoint.insert(endpoint, index);
        }
        PeerKey { index, serial }
    }

    fn add_callee(&mut self, endpoint: EndpointId, now: Time) {
        let Some(serving) = &self.serving else { return self.queue.close(endpoint, Close::Abort) };
        let link = Link::new(&serving.name, &self.limits, self.limits.calls, serving.checksums, serving.absolute, now);
        let key = self.add(Some(endpoint), Half::Callee(Box::new(Callee::new(link, &self.limits))));
        self.counters.connections.add(1);
        self.next_sweep = Time::ZERO;
        self.mark(key.index);
    }

    fn peer(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.peers.get_mut(key.index).filter(|peer| peer.serial == key.serial)
    }

    fn mark(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if !peer.dirty {
            peer.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Makes a call. It finishes as a [`Happening::Done`], possibly at once.
    pub(crate) fn call(&mut self, key: PeerKey, call: NewCall, now: Time, happened: &mut Vec<Happening>) {
        let (queue, by_endpoint) = (&mut self.queue, &mut self.by_endpoint);
        let Some(peer) = self.peers.get_mut(key.index).filter(|peer| peer.serial == key.serial) else { return };
        let Half::Caller(calling) = &mut peer.half else { return };
        let refused = if let Err(status) = call.context.alive() {
            Some(status)
        } else if peer.endpoint.is_none() && now < calling.retry {
            let text = format!("{}: {}", calling.address, calling.last_failure);
            Some(Status::refused(Reason::Unreachable, text))
        } else if peer.endpoint.is_none() {
            calling.caller = Caller::new(calling_link(&calling.config, now));
            match queue.connect(&calling.address) {
                Ok(endpoint) => {
                    peer.endpoint = Some(endpoint);
                    by_endpoint.insert(endpoint, key.index);
                    None
                }
                Err(error) => {
                    calling.failed(now, error.to_string());
                    Some(Status::refused(Reason::Unreachable, calling.last_failure.clone()))
                }
            }
        } else {
            None
        };
        match refused {
            Some(status) => {
                let outcome = Outcome::local(status, now.since(call.started));
                happened.push(Happening::Done { token: call.token, outcome });
            }
            None => {
                calling.caller.call(call, &mut |done| happened.push(done.into()));
                self.next_sweep = Time::ZERO;
                self.mark(key.index);
            }
        }
    }

    /// Nobody waits for this call any more; it will not be reported.
    pub(crate) fn abandon(&mut self, key: PeerKey, token: usize) {
        let Some(Peer { half: Half::Caller(calling), .. }) = self.peer(key) else { return };
        calling.caller.abandon(token);
        self.mark(key.index);
    }

    /// Answers a call. If its connection is gone meanwhile there is nobody to answer.
    pub(crate) fn answer(&mut self, key: PeerKey, answer: Answer) {
        let Some(Peer { half: Half::Callee(callee), .. }) = self.peer(key) else { return };
        callee.answer(answer);
        self.mark(key.index);
    }

    /// The stage at the other end of a connection, once it introduced itself.
    pub(crate) fn stage(&mut self, key: PeerKey) -> StageName {
        match self.peer(key).map(|peer| &peer.half) {
            Some(Half::Caller(calling)) => {
                calling.caller.link.agreed().map_or(StageName::UNNAMED, |agreed| agreed.peer)
            }
            _ => StageName::UNNAMED,
        }
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS && buffer.capacity() > 0 && buffer.capacity() <= BUFFER_BYTES {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Reaps completions, without blocking. How many there were.
    pub(crate) fn poll(&mut self, now: Time, happened: &mut Vec<Happening>) -> usize {
        let Self { queue, peers, by_endpoint, dirty, buffers, counters, .. } = self;
        let mut fate: Vec<(EndpointId, Fate)> = Vec::new();
        let events = queue.poll(now, &mut |event| match event {
            Event::Received { endpoint, chunk } => {
                let Some(&index) = by_endpoint.get(&endpoint) else { return };
                let peer = &mut peers[index];
                let received = match &mut peer.half {
                    Half::Caller(calling) => calling.caller.receive(now, chunk, &mut |done| happened.push(done.into())),
                    Half::Callee(callee) => {
                        let buffer = || buffers.pop().unwrap_or_default();
                        callee.receive(now, chunk, buffer).map(|served| {
                            let key = PeerKey { index, serial: peer.serial };
                            match served {
                                Some(Served::Arrived(arrival)) => happened.push(Happening::Call(key, arrival)),
                                Some(Served::Cancelled(call)) => happened.push(Happening::Cancelled(key, call)),
                                None => {}
                            }
                        })
                    }
                };
                if let Err(violation) = received {
                    if !fate.iter().any(|(other, _)| *other == endpoint) {
                        fate.push((endpoint, Fate::Violation(violation)));
                    }
                } else if !peer.dirty && peer.has_output() {
                    peer.dirty = true;
                    dirty.push(index);
                }
            }
            Event::Writable { endpoint } | Event::Connected { endpoint } => {
                let Some(&index) = by_endpoint.get(&endpoint) else { return };
                let peer = &mut peers[index];
                if let Half::Caller(calling) = &mut peer.half {
                    calling.connected = true;
                    calling.failures = 0;
                }
                if !peer.dirty {
                    peer.dirty = true;
                    dirty.push(index);
                }
            }
            Event::Accepted { endpoint, .. } => fate.push((endpoint, Fate::Welcome)),
            Event::AcceptedDetached { endpoint, .. } => {
                counters.accepted.add(1);
                happened.push(Happening::Accepted(endpoint));
            }
            Event::Closed { endpoint, reason } => fate.push((endpoint, Fate::Gone(reason.to_string()))),
            Event::Woken => {}
        });
        for (endpoint, fate) in fate {
            self.meet(now, endpoint, fate, happened);
        }
        events
    }

    fn meet(&mut self, now: Time, endpoint: EndpointId, fate: Fate, happened: &mut Vec<Happening>) {
        match fate {
            Fate::Welcome if self.draining => self.queue.close(endpoint, Close::Abort),
            Fate::Welcome => {
                self.counters.accepted.add(1);
                self.add_callee(endpoint, now);
            }
            Fate::Gone(reason) => {
                if let Some(index) = self.by_endpoint.remove(&endpoint) {
                    self.lose(now, index, Reason::ConnectionLost, &reason, happened);
                }
            }
            Fate::Violation(violation) => {
                if let Some(index) = self.by_endpoint.remove(&endpoint) {
                    self.expel(now, index, endpoint, &violation, happened);
                }
            }
        }
    }

    /// Ends a connection whose peer broke the rules, and tells it why.
    fn expel(
        &mut self,
        now: Time,
        index: usize,
        endpoint: EndpointId,
        violation: &Violation,
        happened: &mut Vec<Happening>,
    ) {
        self.counters.violations.add(1);
        let text = violation.to_string();
        tracing::debug!(%endpoint, %text, "connection closed");
        let peer = &mut self.peers[index];
        let link = peer.link();
        link.say_farewell(GoAwayCode::Violation, &text);
        // What can still be told is told; what can't, is not: the connection ends either way.
        let told = link.transmit(now, &mut *self.queue, endpoint, |_, _, _| {});
        self.queue.close(endpoint, if told.is_ok() { Close::Flush } else { Close::Abort });
        self.lose(now, index, Reason::Violation, &text, happened);
    }

    /// A connection is gone. Calls made on it fail, calls that came by it are cancelled.
    fn lose(&mut self, now: Time, index: usize, reason: Reason, text: &str, happened: &mut Vec<Happening>) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.endpoint = None;
        match &mut peer.half {
            Half::Caller(calling) => {
                let reason = if calling.connected { reason } else { Reason::Unreachable };
                calling.failed(now, text.to_owned());
                let status = Status::refused(reason, format!("{}: {text}", calling.address));
                calling.caller.lose(now, &status, &mut |done| happened.push(done.into()));
            }
            Half::Callee(callee) => {
                let key = PeerKey { index, serial: peer.serial };
                happened.extend(callee.open_calls().map(|call| Happening::Cancelled(key, call)));
                self.counters.connections.sub(1);
                self.peers.remove(index);
                self.dirty.retain(|dirty| *dirty != index);
            }
        }
    }

    /// Posts what waits, and hands it to the kernel.
    pub(crate) fn flush(&mut self, now: Time) {
        let mut posted = false;
        while let Some(index) = self.dirty.pop() {
            let Self { queue, peers, buffers, .. } = self;
            let peer = &mut peers[index];
            peer.dirty = false;
            let Some(endpoint) = peer.endpoint else { continue };
            posted = true;
            let spare = |mut buffer: Vec<u8>| {
                if buffers.len() < BUFFERS && buffer.capacity() > 0 && buffer.capacity() <= BUFFER_BYTES {
                    buffer.clear();
                    buffers.push(buffer);
                }
            };
            let sent = match &mut peer.half {
                Half::Caller(calling) => calling.caller.transmit(now, &mut **queue, endpoint, spare),
                Half::Callee(callee) => callee.transmit(now, &mut **queue, endpoint, spare),
            };
            if let Err(error) = sent {
                // The queue reports the connection's end on its own; until then there is nothing to be done for it.
                tracing::debug!(%endpoint, %error, "not sent");
            }
        }
        if posted {
            self.queue.submit();
        }
    }

    /// Does what is overdue: expired calls, silent and stalled peers. When to ask again.
    pub(crate) fn sweep(&mut self, now: Time, happened: &mut Vec<Happening>) -> Option<Time> {
        if now < self.next_sweep {
            return Some(self.next_sweep).filter(|next| *next < Time::MAX);
        }
        let mut next = Time::MAX;
        let mut violations = Vec::new();
        for (index, peer) in &mut self.peers {
            let Some(endpoint) = peer.endpoint else { continue };
            let due = match &mut peer.half {
                Half::Caller(calling) => {
                    let expiry = calling.caller.expire(now, &mut |done| happened.push(done.into()));
                    calling.caller.sweep(now).map(|due| expiry.into_iter().chain(due).min())
                }
                Half::Callee(callee) => callee.sweep(now),
            };
            match due {
                Ok(due) => next = next.min(due.unwrap_or(Time::MAX)),
                Err(violation) => violations.push((index, endpoint, violation)),
            }
            if !peer.dirty && peer.has_output() {
                peer.dirty = true;
                self.dirty.push(index);
            }
        }
        for (index, endpoint, violation) in violations {
            self.by_endpoint.remove(&endpoint);
            self.expel(now, index, endpoint, &violation, happened);
        }
        // Stalls begin between sweeps, so there is one now and then as long as there are connections.
        let regular = if self.by_endpoint.is_empty() { Time::MAX } else { now + REGULAR };
        self.next_sweep = next.min(regular);
        Some(self.next_sweep).filter(|next| *next < Time::MAX)
    }

    /// Posts what waits, then blocks until something happens or `timeout` is over.
    pub(crate) fn wait(&mut self, now: Time, timeout: Option<Duration>) {
        self.flush(now);
        self.queue.wait(now, timeout);
    }

    /// Tells all peers that no further calls are taken.
    pub(crate) fn go_away(&mut self, text: &str) {
        self.draining = true;
        let serving: Vec<usize> = self
            .peers
            .iter()
            .filter(|(_, peer)| matches!(peer.half, Half::Callee(_)))
            .map(|(index, _)| index)
            .collect();
        for index in serving {
            self.peers[index].link().say_farewell(GoAwayCode::Shutdown, text);
            self.mark(index);
        }
    }

    /// Calls served here and not answered, or answered and not written yet.
    pub(crate) fn unanswered(&self) -> usize {
        let unanswered = |peer: &Peer| match &peer.half {
            Half::Callee(callee) => callee.unanswered() + callee.link.messages(),
            Half::Caller(_) => 0,
        };
        self.peers.iter().map(|(_, peer)| unanswered(peer)).sum()
    }

    /// Closes every connection; what was posted is still written.
    pub(crate) fn close_all(&mut self) {
        let how = Close::Flush;
        for (_, peer) in &mut self.peers {
            peer.endpoint.take().into_iter().for_each(|endpoint| self.queue.close(endpoint, how));
        }
        self.by_endpoint.clear();
        self.queue.submit();
    }
}

/// How often connections are looked at although none is known to be due.
const REGULAR: Duration = Duration::from_millis(250);

enum Fate {
    Welcome,
    Gone(String),
    Violation(Violation),
}

impl Peer {
    fn link(&mut self) -> &mut Link {
        match &mut self.half {
            Half::Caller(calling) => &mut calling.caller.link,
            Half::Callee(callee) => &mut callee.link,
        }
    }

    fn has_output(&self) -> bool {
        match &self.half {
            Half::Caller(calling) => calling.caller.link.has_output(),
            Half::Callee(callee) => callee.link.has_output(),
        }
    }
}

impl Calling {
    fn failed(&mut self, now: Time, text: String) {
        let pause = self.config.reconnect * (1 << self.failures.min(6));
        // The first attempt after a connection that worked is made at once.
        self.retry = if self.connected { now } else { now + pause };
        self.connected = false;
        self.failures += 1;
        self.last_failure = text;
    }
}

fn calling_link(config: &ChannelConfig, now: Time) -> Link {
    // A peer that only calls serves none.
    Link::new(&config.name, &config.limits, 0, config.checksums, config.absolute, now)
}

impl From<Finished> for Happening {
    fn from(done: Finished) -> Self {
        Self::Done { token: done.token, outcome: done.outcome }
    }
}

/// Endpoint ids are small numbers that the peer doesn't choose: one multiplication spreads them.
#[derive(Clone, Copy, Default)]
struct Mixed;

impl std::hash::BuildHasher for Mixed {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

struct Mixer(u64);

impl std::hash::Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}
