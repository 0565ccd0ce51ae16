//! The ends of connections that a queue's events are for, and what they make of them.
//!
//! Apart from the queue itself, because the queue lends out chunks while it is polled: what has to be done to the queue
//! is noted here and done by [`Net`](super::Net) after the poll.

use super::agenda::Agenda;
use super::dialer::{Dialer, Line};
use super::directory::Directory;
use super::endpoint::Endpoint;
use super::metering::Carries;
use super::plain::{PlainCallee, PlainOver};
use super::pool::Pool;
use super::retiring::Retiring;
use super::rotation::Elsewhere;
use super::usage::{ConnectionUsage, SMALL, Usage};
use super::{CallingEnd, ConnectionConfig, Event, Events, News, PeerKey};
use crate::counters::Counters;
use greenwave_grpc::CallerEvent;
use greenwave_grpc::GrpcCaller;
use greenwave_policy::{Rotation, Time, Withholding};
use greenwave_proto::Peer as Identity;
use greenwave_proto::connection::{Callee, CalleeEvent, Caller, Finished, Link, Violation};
use greenwave_verbs::tls::CertificateNames;
use greenwave_verbs::{Address, CloseReason, EndpointId, Event as QueueEvent, VerbsError, fetch};
use slab::Slab;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The ends of a thread's connections.
///
/// Invariants:
/// 1. `by_endpoint` leads to the peers that have an endpoint, except those that are about to be expelled.
/// 2. A peer is in `dirty` exactly if its flag says so; all in it exist.
/// 3. An end is on the agenda for when it waits for something, or earlier; `noted` says for when. Nothing is due before
///    `next_sweep`.
pub(super) struct Ends {
    pub(super) serving: Option<ConnectionConfig>,
    pub(super) peers: Slab<Peer>,
    by_endpoint: Directory,
    /// Connections with something to post.
    pub(super) dirty: Vec<usize>,
    /// Of those, connections with long messages.
    pub(super) rotation: Rotation,
    /// The same of the instance's other threads.
    pub(super) elsewhere: Elsewhere,
    pub(super) pool: Pool,
    agenda: Agenda,
    pub(super) next_sweep: Time,
    pub(super) counters: Arc<Counters>,
    /// What the server's connections hold, if there is a server.
    pub(super) usage: Option<Arc<Usage>>,
    /// Bytes of half received messages that an end has room for, unless memory is short.
    pub(super) most_assembly: usize,
    /// So much was held by all connections at the last poll that ends may have to be given less room than that.
    pub(super) is_tight: bool,
    pub(super) draining: bool,
    /// What is to be done to the queue, or to ends that it is not the time to take apart.
    pub(super) fates: Vec<Fate>,
    /// What was found while something was posted, for the next poll to tell.
    pub(super) late: Events,
    /// Connections that were read because that was asked for, and whose they are; those that came in, of 0.
    pub(super) read: Vec<(PeerKey, u64)>,
    pub(super) tells_new: bool,
    /// How much was read that is long, and over which connections.
    pub(super) long: Vec<(PeerKey, usize)>,
    /// Whether clients are given no credits back for what arrives.
    withholding: Withholding,
    /// Those that are not.
    held: Vec<PeerKey>,
    /// When a connection could last not be accepted.
    starved: Option<Time>,
    /// When a connection was last one too many.
    crowded: Option<Time>,
    /// By their tokens, the slots in which calls were dispatched last.
    pub(super) slots: Vec<u16>,
    /// Empty but for its memory: which ends a sweep looks at.
    swept: Vec<usize>,
    /// The end that was looked at ahead last.
    ahead: usize,
    /// How many ends sweeps have looked at.
    #[cfg(test)]
    pub(super) visited: usize,
}

/// One end of one connection.
pub(super) struct Peer {
    pub(super) serial: u64,
    pub(super) endpoint: Option<EndpointId>,
    pub(super) dirty: bool,
    /// When it is on the agenda.
    noted: Time,
    /// Who makes calls over it, if it came in.
    pub(super) identity: Option<Arc<Identity>>,
    /// What it holds, if it came in.
    pub(super) usage: Option<ConnectionUsage>,
    /// Whose it is, if it is read only when that is asked for.
    pub(super) metered: Option<u64>,
    /// Whether it is to be read once.
    pub(super) is_asked: bool,
    pub(super) carries: Carries,
    pub(super) retiring: Retiring,
    pub(super) end: End,
}

pub(super) enum End {
    Caller(Box<Dialer<Caller>>),
    /// A calling end whose server goes away: it finishes what the server has heard of.
    Leaving {
        caller: Box<Caller>,
    },
    Callee(Box<Callee>),
    /// A serving end whose client speaks another protocol.
    Plain(Box<PlainCallee>),
    /// A calling end whose server speaks gRPC.
    GrpcCaller(Box<Dialer<GrpcCaller>>),
    /// The same of a server that goes away; what it doesn't look at after all is made again at `home`.
    GrpcLeaving {
        caller: Box<GrpcCaller>,
        home: PeerKey,
    },
}

impl End {
    /// The end that makes calls, if it is one.
    pub(super) fn calling(&mut self) -> Option<&mut dyn CallingEnd> {
        match self {
            Self::Caller(dialer) => Some(&mut dialer.caller),
            Self::Leaving { caller } => Some(&mut **caller),
            Self::GrpcCaller(dialer) => Some(&mut dialer.caller),
            Self::GrpcLeaving { caller, .. } => Some(&mut **caller),
            Self::Callee(_) | Self::Plain(_) => None,
        }
    }

    /// How the server is reached, if calls are made here.
    pub(super) fn line(&mut self) -> Option<&mut Line> {
        match self {
            Self::Caller(dialer) => Some(&mut dialer.line),
            Self::GrpcCaller(dialer) => Some(&mut dialer.line),
            _ => None,
        }
    }
}

/// For how long connections must have been accepted until it is over that they can't be.
const STARVED: Duration = Duration::from_secs(10);

/// Of all threads together: an answer may come from another thread for a connection of a head that has died since.
static SERIALS: AtomicU64 = AtomicU64::new(0);

/// What is to be done once the queue is no longer being polled.
pub(super) enum Fate {
    /// Close an endpoint that nobody wants.
    Abort(EndpointId),
    /// The transport closed the endpoint.
    Gone(EndpointId, CloseReason),
    /// Close on the peer, because it broke the rules.
    Expel(PeerKey, Violation),
    /// The server of this calling end takes no further calls, or has answered the last one.
    Leave(PeerKey),
    /// Close a connection whose client did not leave it when it was told to.
    Retire(PeerKey),
    /// A connection of another protocol is over.
    Finish(PeerKey),
    /// The same, because of what the peer didn't do.
    Dismiss(PeerKey, PlainOver),
}

impl Ends {
    pub(super) fn new() -> Self {
        Self {
            serving: None,
            peers: Slab::new(),
            by_endpoint: Directory::default(),
            dirty: Vec::new(),
            rotation: Rotation::new(),
            elsewhere: Elsewhere::default(),
            pool: Pool::default(),
            agenda: Agenda::new(),
            next_sweep: Time::MAX,
            counters: Arc::default(),
            usage: None,
            most_assembly: 0,
            is_tight: false,
            draining: false,
            fates: Vec::new(),
            late: Events::default(),
            read: Vec::new(),
            tells_new: false,
            long: Vec::new(),
            withholding: Withholding::default(),
            held: Vec::new(),
            starved: None,
            crowded: None,
            slots: Vec::new(),
            swept: Vec::new(),
            ahead: 0,
            #[cfg(test)]
            visited: 0,
        }
    }

    /// Adds an end.
    pub(super) fn add(&mut self, end: End) -> PeerKey {
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        let index = self.peers.insert(Peer {
            serial,
            endpoint: None,
            dirty: false,
            noted: Time::MAX,
            identity: None,
            usage: None,
            metered: None,
            is_asked: false,
            carries: Carries::Nothing,
            retiring: Retiring::NEVER,
            end,
        });
        PeerKey { index, serial }
    }

    /// Gives an end its connection.
    pub(super) fn connect(&mut self, index: usize, endpoint: EndpointId) {
        self.peers[index].endpoint = Some(endpoint);
        self.by_endpoint.insert(endpoint, index);
        self.mark(index);
        self.expect(index);
    }

    /// Takes an end's connection from it.
    pub(super) fn disconnect(&mut self, index: usize) -> Option<EndpointId> {
        let endpoint = self.peers.get_mut(index)?.endpoint.take()?;
        self.by_endpoint.remove(endpoint);
        self.rotation.remove(index);
        Some(endpoint)
    }

    /// Forgets an end that has no connection.
    pub(super) fn remove(&mut self, index: usize) {
        let peer = self.peers.remove(index);
        self.agenda.strike(index, peer.noted);
        if peer.dirty {
            self.dirty.retain(|dirty| *dirty != index);
        }
    }

    pub(super) fn peer(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.peers.get_mut(key.index).filter(|peer| peer.serial == key.serial)
    }

    pub(super) fn index_of(&self, endpoint: EndpointId) -> Option<usize> {
        self.by_endpoint.find(endpoint)
    }

    /// Notes that an end may have something to post.
    pub(super) fn mark(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if !peer.dirty {
            peer.dirty = true;
            self.dirty.push(index);
        }
    }

    /// The next end that may have something to post.
    pub(super) fn next_dirty(&mut self) -> Option<usize> {
        let index = self.dirty.pop()?;
        self.peers[index].dirty = false;
        Some(index)
    }

    /// Sees to it that an end is swept in time.
    #[inline(always)]
    pub(super) fn expect(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        let due = peer.due();
        if due < peer.noted {
            self.agenda.put(index, peer.noted, due);
            peer.noted = due;
            self.next_sweep = self.next_sweep.min(due);
        }
    }

    /// Lets the ends that are due do what they have to; nothing is due before the agenda's next then.
    pub(super) fn sweep(&mut self, now: Time, events: &mut Events) {
        let mut swept = std::mem::take(&mut self.swept);
        swept.extend(std::iter::from_fn(|| self.agenda.take(now)));
        for index in swept.drain(..) {
            #[cfg(test)]
            (self.visited += 1);
            let peer = &mut self.peers[index];
            peer.noted = Time::MAX;
            if peer.retiring.look <= now {
                let key = PeerKey { index, serial: peer.serial };
                self.fates.extend(peer.look_whether_used(now).then_some(Fate::Retire(key)));
                // It may have been told to leave.
                self.mark(index);
            }
            let peer = &mut self.peers[index];
            if peer.due() <= now {
                let key = PeerKey { index, serial: peer.serial };
                if let End::Plain(callee) = &mut peer.end {
                    let (late, counters) = (&mut *events, &self.counters);
                    if let Some(over) = callee.on_timeout(now, &mut |event| tell(key, Some(event), late, counters)) {
                        self.fates.push(Fate::Dismiss(key, over));
                    }
                } else if let Some(caller) = peer.end.calls_grpc() {
                    if let Err(over) = caller.on_timeout(now, &mut |event| events.hear(event)) {
                        self.fates.push(Fate::Dismiss(key, over.into()));
                    } else if caller.unfinished() == 0 {
                        self.fates.push(Fate::Leave(key));
                    }
                } else if let Err(violation) = peer.on_timeout(now, events) {
                    self.fates.push(Fate::Expel(key, violation));
                } else if matches!(&peer.end, End::Leaving { caller, .. } if caller.unfinished() == 0) {
                    self.fates.push(Fate::Leave(key));
                }
                if peer.has_output() {
                    self.mark(index);
                }
            }
            self.expect(index);
        }
        self.swept = swept;
        self.next_sweep = self.agenda.next();
    }

    /// Counts a connection that came in from there, if there may be a further one.
    pub(super) fn admit(&mut self, now: Time, from: &Address) -> Option<ConnectionUsage> {
        let from = from.socket();
        let admitted = self.usage.as_ref()?.connect(from.map(|from| from.ip()));
        if admitted.is_none() {
            self.crowded(now, from);
        }
        admitted
    }

    /// Adds the serving end of a connection that came in from there. Whether there is to be one.
    pub(super) fn welcome(&mut self, now: Time, endpoint: EndpointId, from: &Address, usage: ConnectionUsage) -> bool {
        let Some(config) = self.serving.as_ref().filter(|_| !self.draining) else { return false };
        let from = from.socket();
        let callee = Callee::new(config.link(true, now), &config.limits);
        let key = self.add(End::Callee(Box::new(callee)));
        let peer = &mut self.peers[key.index];
        peer.identity = Some(Arc::new(Identity::at(from)));
        peer.retiring = Retiring::new(now, usage.bounds());
        peer.usage = Some(usage);
        self.counters.connections.add(1);
        self.connect(key.index, endpoint);
        if self.tells_new {
            self.read.push((key, 0));
        }
        true
    }

    /// Takes in what the queue found, apart from chunks: those are for [`receive`](Self::receive).
    #[inline(never)]
    pub(super) fn on_event(&mut self, now: Time, event: QueueEvent<'_>, events: &mut Events) {
        match event {
            QueueEvent::Received { .. } => {}
            QueueEvent::Plain { endpoint, preface } => self.begin_plain(now, endpoint, preface),
            QueueEvent::Writable { endpoint } | QueueEvent::Connected { endpoint } => {
                if let Some(index) = self.index_of(endpoint) {
                    self.mark(index);
                }
            }
            QueueEvent::Authenticated { endpoint, names } => self.authenticated(endpoint, names),
            QueueEvent::Accepted { endpoint, peer, .. } => {
                let usage = self.admit(now, &peer);
                if usage.is_some_and(|usage| self.welcome(now, endpoint, &peer, usage)) {
                    self.counters.accepted.add(1);
                } else {
                    self.fates.push(Fate::Abort(endpoint));
                }
            }
            QueueEvent::AcceptedDetached { endpoint, .. } => {
                self.counters.accepted.add(1);
                events.push(Event::Accepted(endpoint));
            }
            QueueEvent::AcceptFailed { error, .. } => self.starve(now, &error),
            QueueEvent::Closed { endpoint, reason } => self.fates.push(Fate::Gone(endpoint, reason)),
            QueueEvent::Ahead { endpoint } => self.look_ahead(endpoint),
            QueueEvent::Woken => {}
        }
    }

    /// Has the processor fetch what is kept about a connection over which something has arrived. What its end refers to is not
    /// known before the end itself is there, so that is fetched one connection later.
    fn look_ahead(&mut self, endpoint: EndpointId) {
        let Some(index) = self.index_of(endpoint) else { return };
        let before = std::mem::replace(&mut self.ahead, index);
        if let Some(Peer { end: End::Plain(callee), .. }) = self.peers.get(before).filter(|_| before != index) {
            callee.each_part(&mut fetch);
        }
        let Some(peer) = self.peers.get(index) else { return };
        fetch(peer, size_of::<Peer>());
        if let Some(identity) = &peer.identity {
            // Its counts, which come before it.
            fetch(Arc::as_ptr(identity).cast::<usize>().wrapping_sub(2), 2 * size_of::<usize>());
        }
        match &peer.end {
            End::Plain(callee) => fetch(&raw const **callee, size_of::<PlainCallee>()),
            End::Callee(callee) => fetch(&raw const **callee, size_of::<Callee>()),
            _ => {}
        }
    }

    /// The client of a connection has proved who it is, before it has made a call.
    fn authenticated(&mut self, endpoint: EndpointId, CertificateNames { uris, dns }: CertificateNames) {
        let index = self.index_of(endpoint);
        if let Some(identity) = index.and_then(|index| self.peers[index].identity.as_mut()) {
            *identity = Arc::new(identity.with_names(uris, dns));
        }
    }

    /// A connection that came in is one too many. That is said once for as long as it lasts.
    #[cold]
    fn crowded(&mut self, now: Time, from: Option<SocketAddr>) {
        self.counters.connections_refused.add(1);
        let lasts = self.crowded.replace(now).is_some_and(|last| now.since(last) < STARVED);
        if !lasts {
            let from = from.map(|from| from.ip().to_string()).unwrap_or_default();
            tracing::warn!(from, "a connection was refused, as there are as many as `bounds` allow");
        }
    }

    /// Connections that come in can't be accepted. That is said and counted once for as long as it lasts, not each time
    /// that it is tried again.
    fn starve(&mut self, now: Time, error: &VerbsError) {
        let lasts = self.starved.replace(now).is_some_and(|last| now.since(last) < STARVED);
        if !lasts {
            self.counters.starved.add(1);
            tracing::warn!(%error, "connections that come in have to wait until others end");
        }
    }

    /// Where there is a crowd, gives clients whose calls arrive from now on no credits back; and otherwise all that they are owed.
    #[inline]
    pub(super) fn hold_off(&mut self, now: Time, crowded: bool) {
        self.withholding = self.withholding.then(now, crowded);
        if !self.withholding.is_on() && !self.held.is_empty() {
            self.let_go();
        }
    }

    #[cold]
    fn let_go(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        for key in held.drain(..) {
            let Some(Peer { end: End::Callee(callee), .. }) = self.peer(key) else { continue };
            callee.link.hold(false);
            if callee.link.has_output() {
                self.mark(key.index);
            }
        }
        self.held = held;
    }

    /// Takes in a chunk. Calls that are over because of it go to `finish`.
    #[inline(always)]
    pub(super) fn receive(
        &mut self,
        now: Time,
        endpoint: EndpointId,
        chunk: &[u8],
        events: &mut Events,
        finish: &mut impl FnMut(&mut Events, Finished),
    ) {
        let Some(index) = self.index_of(endpoint) else { return };
        let Self {
            peers,
            pool,
            counters,
            fates,
            read,
            tells_new,
            long,
            most_assembly,
            is_tight,
            withholding,
            held,
            ..
        } = self;
        let Some(peer) = peers.get_mut(index) else { return };
        let Peer { serial, dirty, end, usage, is_asked, metered, .. } = peer;
        let key = PeerKey { index, serial: *serial };
        if *is_asked {
            *is_asked = false;
            read.extend(metered.map(|owner| (key, owner)));
        }
        let mut done = |done| finish(events, done);
        let (received, link) = match end {
            End::Caller(dialer) => {
                let caller = &mut dialer.caller;
                let received = caller.receive(now, chunk, |len| pool.take_for(len), &mut done);
                if caller.going().is_some() && received.is_ok() {
                    fates.push(Fate::Leave(key));
                }
                tell_caller(caller, events);
                (received, &caller.link)
            }
            End::Leaving { caller, .. } => {
                let received = caller.receive(now, chunk, |len| pool.take_for(len), &mut done);
                tell_caller(caller, events);
                if caller.unfinished() == 0 && received.is_ok() {
                    fates.push(Fate::Leave(key));
                }
                (received, &caller.link)
            }
            End::Callee(callee) => {
                if let Some(usage) = usage
                    && (*is_tight || usage.heeds)
                {
                    callee.limit_assembly(usage.heed(), *most_assembly);
                }
                if withholding.is_on() && callee.link.hold(true) {
                    held.push(key);
                }
                let received = callee.receive(now, chunk, |len| pool.take_about(len));
                let received = received.map(|event| tell(key, event, events, counters));
                tell_callee(key, callee, events, counters);
                if let Some(usage) = usage {
                    *is_tight |= usage.tell(callee.held());
                }
                if chunk.len() > SMALL && *tells_new {
                    note_long(long, key, chunk.len());
                }
                (received, &callee.link)
            }
            End::Plain(_) => {
                if chunk.len() > SMALL && *tells_new {
                    note_long(long, key, chunk.len());
                }
                return self.receive_plain(now, index, chunk, events);
            }
            End::GrpcCaller(_) | End::GrpcLeaving { .. } => {
                return self.receive_answers(now, index, chunk, &mut |event| match event {
                    CallerEvent::Finished(done) => finish(events, done),
                    event => events.hear(event),
                });
            }
        };
        match received {
            Ok(()) => {
                if !*dirty && link.has_output() {
                    *dirty = true;
                    self.dirty.push(index);
                }
                if link.begins_to_wait() {
                    self.expect(index);
                }
            }
            Err(violation) => {
                // Whatever else it sent is not looked at.
                self.by_endpoint.remove(endpoint);
                self.fates.push(Fate::Expel(key, violation));
            }
        }
    }
}

/// Notes what was read over a connection; what follows in the same read is added to it.
#[cold]
fn note_long(long: &mut Vec<(PeerKey, usize)>, key: PeerKey, bytes: usize) {
    match long.last_mut() {
        Some((last, sum)) if *last == key => *sum += bytes,
        _ => long.push((key, bytes)),
    }
}

/// Says what came for streams at an end that makes calls.
#[inline(always)]
fn tell_caller(caller: &mut Caller, events: &mut Events) {
    if caller.has_stream_events() {
        tell_all_of(caller, events);
    }
}

#[cold]
fn tell_all_of(caller: &mut Caller, events: &mut Events) {
    while let Some(event) = caller.stream_event() {
        events.push(Event::Answered(event));
    }
}

/// Says what else came for streams at an end that serves calls.
#[inline(always)]
fn tell_callee(key: PeerKey, callee: &mut Callee, events: &mut Events, counters: &Counters) {
    if callee.has_stream_events() {
        tell_all(key, callee, events, counters);
    }
}

#[cold]
fn tell_all(key: PeerKey, callee: &mut Callee, events: &mut Events, counters: &Counters) {
    while let Some(event) = callee.stream_event() {
        tell(key, Some(event), events, counters);
    }
}

/// Says what a serving end found, if it found anything.
#[inline(always)]
pub(super) fn tell(key: PeerKey, event: Option<CalleeEvent>, events: &mut Events, counters: &Counters) {
    match event {
        Some(CalleeEvent::Arrived(arrival)) => events.push(Event::Call(key, arrival)),
        Some(CalleeEvent::Announced { call, method, deadline }) => {
            events.push(Event::Announced(key, call, method, deadline));
        }
        Some(CalleeEvent::Cancelled(call, task)) => events.push(Event::Cancelled(key, call, task)),
        Some(CalleeEvent::Message(call, message)) => events.push(Event::Streamed(key, call, News::Message(message))),
        Some(CalleeEvent::Ended(call)) => events.push(Event::Streamed(key, call, News::Ended)),
        Some(CalleeEvent::Sent(call, volume)) => events.push(Event::Streamed(key, call, News::Sent(volume))),
        Some(CalleeEvent::Refused) => counters.refused.add(1),
        Some(CalleeEvent::Withdrawn) => counters.cancelled.add(1),
        None => {}
    }
}

impl Peer {
    /// What both ends of Greenwave's own protocol have.
    #[inline]
    pub(super) fn link(&mut self) -> Option<&mut Link> {
        match &mut self.end {
            End::Caller(dialer) => Some(&mut dialer.caller.link),
            End::Leaving { caller, .. } => Some(&mut caller.link),
            End::Callee(callee) => Some(&mut callee.link),
            End::Plain(_) | End::GrpcCaller(_) | End::GrpcLeaving { .. } => None,
        }
    }

    /// Says what of streams has gone out, and what was found about them.
    #[inline(always)]
    pub(super) fn tell_streams(&mut self, index: usize, events: &mut Events, counters: &Counters) {
        let key = PeerKey { index, serial: self.serial };
        match &mut self.end {
            End::Caller(dialer) => tell_caller(&mut dialer.caller, events),
            End::Leaving { caller, .. } => tell_caller(caller, events),
            End::Callee(callee) => tell_callee(key, callee, events, counters),
            End::Plain(_) | End::GrpcCaller(_) | End::GrpcLeaving { .. } => {}
        }
    }

    fn has_output(&mut self) -> bool {
        match &mut self.end {
            End::Plain(callee) => callee.has_output(),
            End::GrpcCaller(dialer) => dialer.caller.has_output(),
            End::GrpcLeaving { caller, .. } => caller.has_output(),
            _ => self.link().is_some_and(|link| link.has_output()),
        }
    }

    /// Whether a long message waits, for its turn among other connections.
    #[inline]
    pub(super) fn is_long(&mut self) -> bool {
        self.link().is_some_and(|link| link.is_long())
    }

    /// Bytes left of the shortest message that waits.
    pub(super) fn least(&mut self) -> Option<usize> {
        self.link().and_then(|link| link.least())
    }

    /// Lets its end have as much room for messages as there is.
    pub(super) fn heed_memory(&mut self, most: usize) {
        let Some(usage) = &mut self.usage else { return };
        match &mut self.end {
            End::Callee(callee) => callee.limit_assembly(usage.heed(), most),
            End::Plain(callee) => callee.limit_assembly(usage.heed(), most),
            _ => {}
        }
    }

    /// Tells what its end has of messages. Whether memory is tight because of it.
    pub(super) fn tell_memory(&mut self) -> bool {
        let held = match &self.end {
            End::Callee(callee) => callee.held(),
            End::Plain(callee) => callee.held(),
            _ => return false,
        };
        self.usage.as_mut().is_some_and(|usage| usage.tell(held))
    }

    /// When it waits for something; [`Time::MAX`] if it doesn't.
    #[inline]
    fn due(&mut self) -> Time {
        let due = match &mut self.end {
            _ if self.endpoint.is_none() => Time::MAX,
            End::Plain(callee) => callee.next_timeout(),
            End::GrpcCaller(dialer) => dialer.caller.next_timeout(),
            End::GrpcLeaving { caller, .. } => caller.next_timeout(),
            _ => self.link().map_or(Time::MAX, |link| link.next_timeout()),
        };
        due.min(self.retiring.look)
    }

    /// Posts what can be posted.
    #[inline(always)]
    pub(super) fn transmit(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint<'_>,
        spare: impl FnMut(Vec<u8>),
    ) -> Result<(), VerbsError> {
        match &mut self.end {
            End::Caller(dialer) => dialer.caller.transmit(now, endpoint, spare),
            End::Leaving { caller, .. } => caller.transmit(now, endpoint, spare),
            End::Callee(callee) => {
                let sent = callee.transmit(now, endpoint, spare);
                if let Some(usage) = &mut self.usage {
                    usage.tell(callee.held());
                }
                sent
            }
            // That is the ends' to do, as it may find calls.
            End::Plain(_) | End::GrpcCaller(_) | End::GrpcLeaving { .. } => Ok(()),
        }
    }

    /// Does what is due.
    fn on_timeout(&mut self, now: Time, events: &mut Events) -> Result<(), Violation> {
        let mut done = |done| events.finish(done);
        match &mut self.end {
            End::Caller(dialer) => dialer.caller.on_timeout(now, &mut done),
            End::Leaving { caller, .. } => caller.on_timeout(now, &mut done),
            End::Callee(callee) => callee.link.on_timeout(now),
            // As with what is posted.
            End::Plain(_) | End::GrpcCaller(_) | End::GrpcLeaving { .. } => Ok(()),
        }
    }
}
