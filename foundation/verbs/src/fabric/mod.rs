//! Completion queues over libfabric: shared memory, InfiniBand, RoCE, EFA, and TCP where there is nothing better.
//!
//! # Endpoints and connections
//!
//! A queue has one endpoint for reliable datagrams (`FI_EP_RDM`) per provider and local address that it uses, its
//! [`Port`]s; all of shared memory, EFA, `verbs;ofi_rxm` and `tcp;ofi_rxm` offer that kind. Connections are made over
//! them here. A message has a header that names the connection, and holds as many chunks as were posted at once.
//!
//! # Meeting
//!
//! Queues meet at a socket: a TCP port, or for shared memory a Unix socket beside it. There they agree on a provider
//! and tell each other their endpoints (see [`wire::Note`]). The owner hears of the connection once libfabric has taken a
//! first message for the other side, as that may need polls on both. EFA's addresses can't be told in any other way. The socket
//! stays open while the connection lives, and nothing goes over it but what is said under *sleeping*. It makes a
//! connection behave like one over a socket where a fabric leaves one alone: a place where nobody listens refuses, a
//! place that is taken can't be listened at, what was accepted can be handed to another queue, and, above all, the
//! kernel closes it when a process dies, however it dies. Pings would take longer to tell, and would cut off a peer that
//! lives but is not polled, as clients are between calls. A machine that dies is noticed by the kernel's keepalive.
//!
//! What is in the fabric when the socket ends is received first.
//!
//! # Flow
//!
//! A receiver allows each peer a window of messages, and says how many it has heard in the header of whatever it
//! sends, or in a message of its own after half a window. What a provider doesn't take is kept and tried again with
//! the next poll. Messages are numbered, as long ones may be overtaken by short ones.
//!
//! # Sleeping
//!
//! Providers differ in what a thread can sleep on, and shared memory has nothing. So a queue that is about to wait asks
//! its peers to *ring*: to write to the socket after the next message. A peer that has sent something meanwhile which
//! the asker hasn't heard rings at once. A queue that doesn't wait is never rung, and pays nothing for all this. Should
//! a peer send without ever polling, it doesn't learn that a ring is asked for; a sleeper looks up every
//! [`SLICE`](FabricQueue::SLICE) for that.

mod connection;
mod graves;
mod io;
mod meeting;
mod place;
mod port;
mod shim;
mod sleep;
mod wire;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use greenwave_policy::Time;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};

use connection::{Closing, Connection, Message, Stage};
use place::{Claim, Provider};
use port::Port;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use wire::read_back;

use crate::detached::Carrier;
use crate::framing::PREFIX;
use crate::pending::{Due, Note, Timers};
use crate::slots::Slots;
use crate::socket::{ListeningSocket, Progress, begin_connect};
use crate::wake::{Bell, EventBell};
use crate::{
    AcceptMode, Address, Backend, Close, CompletionQueue, DetachedEndpoint, EndpointId, Event, FabricAddress,
    ListenerId, QueueConfig, QueueStats, TlsClient, TlsServer, VerbsError, Waker,
};

/// What a report of epoll is about, in the bits between slot and generation of a key.
mod about {
    pub(super) const MASK: u64 = 0xff << 24;
    pub(super) const CONNECTION: u64 = 0;
    pub(super) const LISTENER: u64 = 1 << 24;
    pub(super) const BELL: u64 = 2 << 24;
}

/// A completion queue over libfabric.
///
/// Invariants:
/// 1. The socket of every connection and listener is registered with the epoll instance, edge-triggered; connections
///    whose socket failed to connect are not, and have a note.
/// 2. A connection with unsent messages is in `dirty`, in `listed`, or waits for its link or its window.
/// 3. A connection that is up and whose peer was not asked for a ring is in `awake`.
#[derive(Debug)]
pub(crate) struct FabricQueue {
    connections: Slots<Connection>,
    /// Connections that are up and not lingering.
    settled: usize,
    ports: Vec<PortSlot>,
    listeners: Slots<Listener>,
    epoll: OwnedFd,
    bell: Arc<EventBell>,
    /// Reported, not handled.
    ready: Vec<(u64, epoll::EventFlags)>,
    /// Posted to since the last submit.
    dirty: Vec<u64>,
    /// With something to send that could not be sent, or with something to tell.
    listed: Vec<u64>,
    awake: Vec<u64>,
    /// Rung for something that is still to come.
    expecting: Vec<u64>,
    notes: VecDeque<(u64, Note)>,
    timers: Timers,
    linger: Duration,
    chunk_bytes: usize,
    mark: usize,
    receives: usize,
    window: u16,
    /// Polls since the sockets were looked at, and when they are looked at next.
    turns: u32,
    look_at: Time,
    now: Time,
    stats: QueueStats,
}

/// An endpoint, what it is for, and what keeps others from taking it for abandoned.
#[derive(Debug)]
struct PortSlot {
    provider: Provider,
    source: Option<IpAddr>,
    /// `None`: it failed, and is not used again.
    port: Option<Port>,
    _claim: Option<Claim>,
}

#[derive(Debug)]
struct Listener {
    socket: ListeningSocket,
    address: FabricAddress,
    mode: AcceptMode,
}

impl FabricQueue {
    /// Polls between two looks at the sockets, and the time: looking costs a system call. Connections are made, and
    /// ends noticed, that much later.
    const TURNS: u32 = 256;
    const LOOK: Duration = Duration::from_millis(1);
    /// The same while a connection is being made or closed.
    const TURNS_WHILE_MEETING: u32 = 16;

    pub(crate) fn open(config: &QueueConfig) -> Result<Self, VerbsError> {
        let unavailable = |error: shim::FabricError| VerbsError::Unavailable {
            backend: Backend::Fabric,
            remedy: "`fi_info -l` lists what libfabric has; unset FI_PROVIDER, or name one of shm, tcp, verbs and efa",
            source: error.into(),
        };
        shim::offers(None, None).map_err(unavailable)?;
        let system = |errno: rustix::io::Errno| VerbsError::System { doing: "setting up epoll", source: errno.into() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let bell = EventBell::new()?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &*bell, epoll::EventData::new_u64(about::BELL), flags).map_err(system)?;
        Ok(Self {
            connections: Slots::new(),
            settled: 0,
            ports: Vec::new(),
            listeners: Slots::new(),
            epoll,
            bell,
            ready: Vec::new(),
            dirty: Vec::new(),
            listed: Vec::new(),
            awake: Vec::new(),
            expecting: Vec::new(),
            notes: VecDeque::new(),
            timers: Timers::default(),
            linger: Duration::from_millis(config.linger_millis.into()),
            chunk_bytes: config.chunk_bytes,
            mark: config.backlog_bytes,
            receives: config.receive_buffers.into(),
            window: (config.receive_buffers / 4).clamp(8, 128),
            turns: 0,
            look_at: Time::ZERO,
            now: Time::ZERO,
            stats: QueueStats::default(),
        })
    }

    fn address_of(address: &Address) -> Result<&FabricAddress, VerbsError> {
        match address {
            Address::Fabric(place) => Ok(place),
            _ => Err(VerbsError::WrongTransport { address: address.clone(), backend: Backend::Fabric }),
        }
    }

    /// The port for a provider, opened if need be.
    fn port_for(&mut self, provider: Provider, source: Option<IpAddr>) -> std::io::Result<usize> {
        let source = source.filter(|_| provider.has_source());
        let is_it = |slot: &PortSlot| slot.provider == provider && slot.source == source && slot.port.is_some();
        if let Some(index) = self.ports.iter().position(is_it) {
            return Ok(index);
        }
        let (port, claim) = place::open_port(provider, source, self.chunk_bytes, self.receives)?;
        let slot = PortSlot { provider, source, port: Some(port), _claim: claim };
        if let Some(index) = self.ports.iter().position(|slot| slot.port.is_none()) {
            self.ports[index] = slot;
            return Ok(index);
        }
        self.ports.push(slot);
        Ok(self.ports.len() - 1)
    }

    fn watch(&self, data: u64, socket: impl AsFd, flags: epoll::EventFlags) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(data), flags)
    }

    /// Takes in a connection whose socket is registered from then on.
    fn admit(&mut self, socket: OwnedFd, address: FabricAddress, stage: Stage) -> Result<u64, VerbsError> {
        let doing = "making a connection's secret";
        let secret = place::random().map_err(|source| VerbsError::System { doing, source })?;
        meeting::keep_alive(&socket, &address);
        let key = self.connections.insert(Connection::new(socket, address, stage, secret))?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let watched = self
            .connections
            .at(key)
            .map_or(Ok(()), |connection| self.watch(key | about::CONNECTION, &connection.socket, flags));
        if let Err(errno) = watched {
            self.connections.remove(key);
            return Err(VerbsError::System { doing: "registering a socket with epoll", source: errno.into() });
        }
        Ok(key)
    }

    /// Takes a connection out, with all it has. Its socket closes.
    fn remove(&mut self, key: u64) -> bool {
        let Some(connection) = self.connections.remove(key) else { return false };
        if connection.stage == Stage::Up && connection.closing != Closing::Linger {
            self.settled -= 1;
        }
        let port = connection.port.and_then(|index| self.ports[index].port.as_mut());
        if let Some(port) = port {
            let messages = connection.queue.iter().chain(&connection.filling);
            messages.for_each(|message| port.give_back(message.buffer));
            if let Some(link) = &connection.link {
                port.part(&link.end.name);
            }
        }
        true
    }

    fn run_timers(&mut self) {
        while let Some(due) = self.timers.pop(self.now) {
            match due {
                Due::Linger(key) => {
                    if self.connections.at(key).is_some_and(|connection| connection.closing == Closing::Linger) {
                        self.notes.push_back((key, Note::Closed(crate::CloseReason::Flushed)));
                    }
                }
                Due::Accept(key) => self.ready.push((key | about::LISTENER, epoll::EventFlags::IN)),
            }
        }
    }

    fn tell_notes(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        while let Some((key, note)) = self.notes.pop_front() {
            let Some(connection) = self.connections.at_mut(key) else { continue };
            let endpoint = EndpointId(key);
            match note {
                Note::Connected => self.announce(key, sink),
                Note::Writable if connection.takes_posts() => sink(Event::Writable { endpoint }),
                // Nothing of a fabric has its handshake made elsewhere.
                Note::Writable | Note::Adopted => {}
                Note::Closed(reason) => self.end(key, reason, sink),
            }
        }
    }

    /// Adds a chunk to the message that is being filled, or begins one. `whole` is the chunk's length.
    fn fill(&mut self, key: u64, parts: &[&[u8]], whole: usize) -> Result<(), VerbsError> {
        let Some(connection) = self.connections.at_mut(key) else { return Ok(()) };
        let limit = connection.body_limit(self.chunk_bytes);
        let port = connection.port.and_then(|index| self.ports[index].port.as_mut());
        let (Some(port), Some(_)) = (port, &connection.link) else {
            connection.early.extend_from_slice(&(whole as u32).to_le_bytes());
            parts.iter().for_each(|part| connection.early.extend_from_slice(part));
            connection.unsent += PREFIX + whole;
            return Ok(());
        };
        // One that is longer than the peer receives: its length is enough for the peer to say so.
        let parts = if PREFIX + whole > limit { &[] } else { parts };
        let body = PREFIX + parts.iter().map(|part| part.len()).sum::<usize>();
        if connection.filling.is_some_and(|filling| filling.body() + body > limit) {
            connection.queue.extend(connection.filling.take());
        }
        let mut message = match connection.filling {
            Some(message) => message,
            None => {
                let doing = "registering buffers with libfabric";
                let taken = port.take(key).map_err(|error| VerbsError::System { doing, source: error.into() });
                Message { buffer: taken?, len: wire::HEADER }
            }
        };
        let bytes = port.bytes(message.buffer);
        let mut put = |from: &[u8]| {
            bytes[message.len..message.len + from.len()].copy_from_slice(from);
            message.len += from.len();
        };
        put(&(whole as u32).to_le_bytes());
        parts.iter().for_each(|part| put(part));
        connection.filling = Some(message);
        connection.unsent += body;
        Ok(())
    }
}

impl CompletionQueue for FabricQueue {
    fn backend(&self) -> Backend {
        Backend::Fabric
    }

    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn listen_with(&mut self, address: &Address, tls: Option<&TlsServer>) -> Result<ListenerId, VerbsError> {
        if tls.is_some() {
            return Err(VerbsError::NoTls(Backend::Fabric));
        }
        let mut place = Self::address_of(address)?.clone();
        let refused = |remedy, source| VerbsError::Listen { address: address.clone(), remedy, source };
        let failed = |source| refused("`greenwave doctor` and `fi_info` say which fabrics there are", source);
        if place == FabricAddress::Shm(String::new()) {
            place = FabricAddress::Shm(place::unused_name().map_err(failed)?);
        }
        let bits = place::available(&place).map_err(|error| failed(error.into()))?;
        if bits == Provider::Shm.bit() {
            // Now, so that whoever starts a server learns what is wrong with the machine's shared memory.
            self.port_for(Provider::Shm, None).map_err(failed)?;
        }
        let socket = ListeningSocket::open(&place::socket_of(&place), Backend::Fabric);
        let socket = socket.map_err(|error| match error {
            VerbsError::Listen { remedy, source, .. } => refused(remedy, source),
            other => other,
        })?;
        if !matches!(place, FabricAddress::Shm(_)) {
            place = place::beside(&place, &socket.address);
        }
        let key = self.listeners.insert(Listener { socket, address: place, mode: AcceptMode::Keep })?;
        let socket = self.listeners.at(key).map(|listener| listener.socket.socket.as_fd());
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        if let Err(errno) = socket.map_or(Ok(()), |socket| self.watch(key | about::LISTENER, socket, flags)) {
            self.listeners.remove(key);
            return Err(failed(errno.into()));
        }
        Ok(ListenerId(key))
    }

    fn local_address(&self, listener: ListenerId) -> Result<Address, VerbsError> {
        let found = self.listeners.at(listener.0).ok_or(VerbsError::StaleListener(listener))?;
        Ok(Address::Fabric(found.address.clone()))
    }

    fn set_accept_mode(&mut self, listener: ListenerId, mode: AcceptMode) -> Result<(), VerbsError> {
        self.listeners.at_mut(listener.0).ok_or(VerbsError::StaleListener(listener))?.mode = mode;
        Ok(())
    }

    fn close_listener(&mut self, listener: ListenerId) {
        self.listeners.remove(listener.0);
    }

    fn connect_with(&mut self, address: &Address, tls: Option<&TlsClient>) -> Result<EndpointId, VerbsError> {
        if tls.is_some() {
            return Err(VerbsError::NoTls(Backend::Fabric));
        }
        let place = Self::address_of(address)?;
        let failed = |source| VerbsError::Connect { address: address.clone(), source };
        place::available(place).map_err(|error| failed(error.into()))?;
        let begun = begin_connect(&place::socket_of(place), Backend::Fabric);
        let (socket, progress) = begun.map_err(|error| match error {
            VerbsError::Connect { source, .. } => failed(source),
            other => other,
        })?;
        // What a socket reports that is connected, or is about to be, comes from epoll.
        let key = self.admit(socket, place.clone(), Stage::Connecting)?;
        if let Progress::Failed(reason) = progress {
            self.notes.push_back((key, Note::Closed(reason)));
        }
        self.turns = Self::TURNS;
        Ok(EndpointId(key))
    }

    fn adopt(&mut self, endpoint: DetachedEndpoint) -> Result<EndpointId, VerbsError> {
        let Carrier::Fabric(socket, address) = endpoint.carrier else {
            return Err(VerbsError::Adopt(Backend::Fabric));
        };
        self.admit(socket, address, Stage::Offered).map(EndpointId)
    }

    fn close(&mut self, endpoint: EndpointId, how: Close) {
        let Some(connection) = self.connections.at_mut(endpoint.0) else { return };
        match how {
            Close::Abort => drop(self.remove(endpoint.0)),
            Close::Flush if connection.closing == Closing::No => {
                connection.closing = Closing::Flush;
                self.flush(endpoint.0);
            }
            Close::Flush => {}
        }
    }

    fn send_room(&self, endpoint: EndpointId) -> usize {
        let takes = self.connections.at(endpoint.0).filter(|connection| connection.takes_posts());
        takes.map_or(0, |connection| {
            if connection.unsent >= self.mark { 0 } else { self.mark - connection.unsent + self.chunk_bytes }
        })
    }

    fn post_send(&mut self, endpoint: EndpointId, parts: &[&[u8]]) -> Result<(), VerbsError> {
        let connection = self.connections.at_mut(endpoint.0).filter(|connection| connection.takes_posts());
        let connection = connection.ok_or(VerbsError::StaleEndpoint(endpoint))?;
        let len = parts.iter().map(|part| part.len()).sum();
        if len == 0 || len > self.chunk_bytes {
            return Err(VerbsError::ChunkLength { len, limit: self.chunk_bytes });
        }
        if connection.unsent >= self.mark {
            return Err(VerbsError::NoRoom { endpoint, len });
        }
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(endpoint.0);
        }
        self.fill(endpoint.0, parts, len)?;
        if let Some(connection) = self.connections.at_mut(endpoint.0) {
            connection.starved = connection.unsent >= self.mark;
        }
        self.stats.chunks_out += 1;
        self.stats.bytes_out += len as u64;
        Ok(())
    }

    fn submit(&mut self) {
        while let Some(key) = self.dirty.pop() {
            if let Some(connection) = self.connections.at_mut(key) {
                connection.is_dirty = false;
                self.flush(key);
            }
        }
    }

    fn poll(&mut self, now: Time, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut found = 0;
        let sink = &mut |event: Event<'_>| {
            found += 1;
            sink(event);
        };
        self.now = now;
        if self.bell.flag().take() {
            sink(Event::Woken);
        }
        self.run_timers();
        self.tell_notes(sink);
        for index in 0..self.ports.len() {
            self.drain(index, sink);
        }
        self.look_around(sink);
        if !self.listed.is_empty() {
            self.retry();
        }
        self.tell_notes(sink);
        found
    }

    fn wait(&mut self, now: Time, timeout: Option<Duration>) {
        self.now = now;
        self.submit();
        let timer = self.timers.next().map(|at| at.since(now));
        self.sleep(timer.into_iter().chain(timeout).min());
    }

    fn waker(&self) -> Waker {
        Waker::new(self.bell.clone())
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}
