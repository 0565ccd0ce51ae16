//! Completion queues over io_uring.
//!
//! Receives and accepts are posted once and go on by themselves; what arrives lies in the buffers of one ring that
//! all endpoints of the queue share. What was posted to endpoints is handed over in one system call, one request for
//! each endpoint. A poll that finds nothing reads two words of memory and doesn't enter the kernel.
//!
//! For a thread that spins on one or two connections even this is more than a plain read and write would cost. So the
//! endpoints that are most active are direct (see [`Hot`]): their receives are taken back from the kernel and every
//! poll tries to read them. The ring tells of all the others, at no cost while they are silent.
//!
//! Where there are many connections, what is kept about one has left the processor's caches when it is heard of again. So
//! completions are taken off the ring some at a time, and the state of those that come next is fetched while one is handled;
//! owners are told of them [ahead](Event::Ahead), for theirs.
//!
//! Needs Linux 6.0, for receives that go on by themselves; since 6.1 the kernel leaves the polling thread alone until
//! it enters.

mod buffers;
mod direct;
mod gather;
mod io;
mod ring;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use greenwave_policy::{Acknowledged, Time};
use io_uring::cqueue;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use crate::detached::Carrier;
use crate::framing::PREFIX;
use crate::handshakes::Handshakes;
use crate::hot::{Change, Hot};
use crate::outbox::{Shared, Spare};
use crate::pending::{Due, Note, Timers};
use crate::slots::Slots;
use crate::socket::{ListeningSocket, Progress, begin_connect};
use crate::stream::{Phase, Posting, Reads, Stream, list};
use crate::wake::{Bell, EventBell};
use crate::{
    AcceptMode, Address, Backend, Bound, Close, CloseReason, CompletionQueue, DetachedEndpoint, EndpointId, Event,
    ListenerId, QueueConfig, QueueStats, Run, TlsClient, TlsFault, TlsServer, VerbsError, Waker,
};
use buffers::Buffers;
use gather::Gather;
use ring::Ring;

/// What a request is, in the bits between slot and generation of a key.
mod request {
    pub(super) const MASK: u64 = 0xff << 24;
    pub(super) const RECEIVE: u64 = 0;
    pub(super) const SEND: u64 = 1 << 24;
    pub(super) const CONNECT: u64 = 2 << 24;
    pub(super) const ACCEPT: u64 = 3 << 24;
    pub(super) const BELL: u64 = 4 << 24;
    pub(super) const CANCEL: u64 = 5 << 24;
}

/// A completion queue over io_uring.
///
/// Invariants:
/// 1. A connection or listener stays in its table, and its socket open, until the last completion of each of its
///    requests was taken; once it is over it is [`Phase::Dead`], or `closed`, and known to the kernel's requests alone.
/// 2. The flight of an outbox is the kernel's while `sending`, and so is the connection's `gather`.
/// 3. `ring` is dropped before `buffers`, and `buffers` is leaked if a receive may still be going on.
#[derive(Debug)]
pub(crate) struct UringQueue {
    ring: Ring,
    /// `None` only while the queue is dropped.
    buffers: Option<Buffers>,
    bell: Arc<EventBell>,
    connections: Slots<Connection>,
    listeners: Slots<Listener>,
    posting: Posting,
    hot: Hot,
    /// What direct reads are read into.
    scratch: Box<[u8]>,
    dirty: Vec<u64>,
    notes: VecDeque<(u64, Note)>,
    /// Completions that were taken off the ring and not looked at.
    taken: VecDeque<cqueue::Entry>,
    timers: Timers,
    linger: Duration,
    plain: &'static [[u8; 4]],
    handshakes: Handshakes,
    now: Time,
    stats: QueueStats,
}

/// A connection and the requests of it that the kernel has, or will have at the next submit.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    receiving: bool,
    sending: bool,
    connecting: bool,
    /// Chunks were submitted while `sending`; they are to follow.
    send_again: bool,
    /// Read directly; the ring isn't to receive from it.
    direct: bool,
    /// Made when something is sent from several places for the first time.
    gather: Option<Box<Gather>>,
}

#[derive(Debug)]
struct Listener {
    socket: ListeningSocket,
    mode: AcceptMode,
    tls: Option<TlsServer>,
    accepting: bool,
    closed: bool,
}

impl UringQueue {
    /// Bytes of a direct read, at least.
    const READ: usize = 64 * 1024;

    pub(crate) fn open(config: &QueueConfig) -> Result<Self, VerbsError> {
        let unavailable = |source: std::io::Error| {
            VerbsError::unless_descriptors("can't set up io_uring", source, |source| VerbsError::Unavailable {
                backend: Backend::Uring,
                remedy: remedy(&source),
                source,
            })
        };
        let bell = EventBell::new()?;
        let buffers = Buffers::new(config.receive_buffers, config.chunk_bytes + PREFIX).map_err(unavailable)?;
        // SAFETY: invariant 3.
        let mut ring = unsafe { Ring::open(config.entries, &buffers) }.map_err(unavailable)?;
        ring.watch_bell(bell.as_fd(), request::BELL);
        Ok(Self {
            ring,
            buffers: Some(buffers),
            bell,
            connections: Slots::new(),
            listeners: Slots::new(),
            posting: Posting { chunk_bytes: config.chunk_bytes, mark: config.backlog_bytes, spare: Spare::default() },
            hot: Hot::default(),
            scratch: vec![0; (config.chunk_bytes + PREFIX).max(Self::READ)].into_boxed_slice(),
            dirty: Vec::new(),
            notes: VecDeque::new(),
            taken: VecDeque::new(),
            timers: Timers::default(),
            linger: Duration::from_millis(config.linger_millis.into()),
            plain: config.plain,
            handshakes: Handshakes::new(config.handshakes),
            now: Time::ZERO,
            stats: QueueStats::default(),
        })
    }

    /// The stream of an endpoint that isn't over.
    fn alive(&self, key: u64) -> Option<&Stream> {
        self.connections.at(key).map(|connection| &connection.stream).filter(|stream| stream.phase != Phase::Dead)
    }

    fn listener(&self, listener: ListenerId) -> Result<&Listener, VerbsError> {
        self.listeners.at(listener.0).filter(|found| !found.closed).ok_or(VerbsError::StaleListener(listener))
    }

    /// Refuses new work if the ring has failed.
    fn check(&self) -> Result<(), VerbsError> {
        match self.ring.failure() {
            None => Ok(()),
            Some(kind) => {
                Err(VerbsError::System { doing: "using a completion queue that failed", source: kind.into() })
            }
        }
    }

    /// Takes in a connection that is up. The caller has set up the socket.
    fn admit(&mut self, stream: Stream) -> Result<u64, VerbsError> {
        let key = self.connections.insert(Connection::new(stream))?;
        self.receive_from(key);
        Ok(key)
    }

    /// Takes in a connection that came in.
    fn welcome(&mut self, socket: OwnedFd, tls: Option<&TlsServer>) -> Result<u64, VerbsError> {
        let session = tls.map(TlsServer::accept).transpose()?;
        let is_secured = session.is_some();
        let key = self.admit(Stream::accepted(socket, session, self.plain))?;
        if is_secured {
            self.begin_handshake(key);
        }
        Ok(key)
    }

    /// Sees to it that no more handshakes are under way than may be.
    fn begin_handshake(&mut self, key: u64) {
        let Self { connections, handshakes, notes, .. } = self;
        let goes_on = |key| {
            let stream = connections.at(key).map(|connection| &connection.stream);
            stream.is_some_and(|stream| stream.phase != Phase::Dead && stream.is_handshaking())
        };
        if let Some(oldest) = handshakes.begin(key, goes_on) {
            notes.push_back((oldest, Note::Closed(TlsFault::CrowdedOut.into())));
        }
    }

    fn run_timers(&mut self) {
        while let Some(due) = self.timers.pop(self.now) {
            match due {
                Due::Linger(key) => {
                    if let Some(stream) = self.alive(key).filter(|stream| stream.phase == Phase::Lingering) {
                        let reason = stream.reason_after_lingering();
                        self.notes.push_back((key, Note::Closed(reason)));
                    }
                }
                Due::Accept(key) => self.accept_at(key),
            }
        }
    }

    fn tell_notes(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        while let Some((key, note)) = self.notes.pop_front() {
            let Some(stream) = self.alive(key) else { continue };
            let endpoint = EndpointId(key);
            match note {
                Note::Adopted => self.release(key, sink),
                Note::Connected if stream.takes_posts() => sink(Event::Connected { endpoint }),
                Note::Writable if stream.takes_posts() => sink(Event::Writable { endpoint }),
                Note::Connected | Note::Writable => {}
                Note::Closed(reason) => self.end(key, reason, sink),
            }
        }
    }

    /// Says what was found in a handshake that was made elsewhere.
    fn release(&mut self, key: u64, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        let (limit, endpoint) = (self.posting.chunk_bytes, EndpointId(key));
        match connection.stream.release(endpoint, limit, &mut self.stats, sink) {
            Ok(()) => self.send(key),
            Err(reason) => self.end(key, reason, sink),
        }
    }

    /// Ends everything because the ring failed. What the kernel may still refer to stays until the queue is dropped.
    fn fail(&mut self, kind: std::io::ErrorKind, sink: &mut dyn FnMut(Event<'_>)) {
        for key in self.connections.keys().collect::<Vec<_>>() {
            if self.alive(key).is_some() {
                self.end(key, CloseReason::QueueFailed(kind), sink);
            }
        }
    }
}

impl CompletionQueue for UringQueue {
    fn backend(&self) -> Backend {
        Backend::Uring
    }

    fn chunk_bytes(&self) -> usize {
        self.posting.chunk_bytes
    }

    fn listen_with(&mut self, address: &Address, tls: Option<&TlsServer>) -> Result<ListenerId, VerbsError> {
        self.check()?;
        let socket = ListeningSocket::open(address, Backend::Uring)?;
        let (mode, tls) = (AcceptMode::Keep, tls.cloned());
        let listener = Listener { socket, mode, tls, accepting: false, closed: false };
        let key = self.listeners.insert(listener)?;
        self.accept_at(key);
        Ok(ListenerId(key))
    }

    fn local_address(&self, listener: ListenerId) -> Result<Address, VerbsError> {
        Ok(self.listener(listener)?.socket.address.clone())
    }

    fn set_accept_mode(&mut self, listener: ListenerId, mode: AcceptMode) -> Result<(), VerbsError> {
        self.listener(listener)?;
        if let Some(found) = self.listeners.at_mut(listener.0) {
            found.mode = mode;
        }
        Ok(())
    }

    fn close_listener(&mut self, listener: ListenerId) {
        self.retire_listener(listener.0);
    }

    fn connect_with(&mut self, address: &Address, tls: Option<&TlsClient>) -> Result<EndpointId, VerbsError> {
        self.check()?;
        let (socket, progress) = begin_connect(address, Backend::Uring)?;
        let session = tls.map(|tls| tls.connect(address)).transpose()?;
        if matches!(progress, Progress::Connected) {
            let key = self.admit(Stream::connecting(socket, Phase::Open, session, address))?;
            match tls {
                None => self.notes.push_back((key, Note::Connected)),
                Some(_) => self.answer(key),
            }
            return Ok(EndpointId(key));
        }
        let stream = Stream::connecting(socket, Phase::Connecting { closing: false }, session, address);
        let key = self.connections.insert(Connection::new(stream))?;
        match (progress, self.connections.at_mut(key)) {
            (Progress::Failed(reason), _) => self.notes.push_back((key, Note::Closed(reason))),
            (_, Some(found)) => {
                found.connecting = true;
                self.ring.watch_writable(found.stream.socket.as_fd(), key | request::CONNECT);
            }
            (_, None) => {}
        }
        Ok(EndpointId(key))
    }

    fn adopt(&mut self, endpoint: DetachedEndpoint) -> Result<EndpointId, VerbsError> {
        self.check()?;
        match endpoint.carrier {
            Carrier::Socket(socket, tls) => self.welcome(socket, tls.as_ref()).map(EndpointId),
            Carrier::Secured(stream) => {
                let key = self.admit(*stream)?;
                self.notes.push_back((key, Note::Adopted));
                Ok(EndpointId(key))
            }
            _ => Err(VerbsError::Adopt(Backend::Uring)),
        }
    }

    fn close(&mut self, endpoint: EndpointId, how: Close) {
        if self.alive(endpoint.0).is_none() {
            return;
        }
        let Some(connection) = self.connections.at_mut(endpoint.0) else { return };
        match (how, connection.stream.phase) {
            (Close::Abort, _) => self.retire(endpoint.0),
            (Close::Flush, Phase::Connecting { .. }) => connection.stream.phase = Phase::Connecting { closing: true },
            (Close::Flush, Phase::Open) => {
                connection.stream.phase = Phase::Flushing;
                self.meter(endpoint, false);
                self.send(endpoint.0);
            }
            (Close::Flush, _) => {}
        }
    }

    fn send_room(&self, endpoint: EndpointId) -> usize {
        self.alive(endpoint.0).map_or(0, |stream| self.posting.room(stream))
    }

    fn post_send(&mut self, endpoint: EndpointId, parts: &[&[u8]]) -> Result<(), VerbsError> {
        let stream = open_to_posts(&mut self.connections, endpoint)?;
        self.posting.post(endpoint, stream, parts, &mut self.stats)?;
        list(&mut self.dirty, endpoint, stream);
        Ok(())
    }

    fn post_shared(
        &mut self,
        endpoint: EndpointId,
        head: [&[u8]; 2],
        (buffer, range): (&Arc<Vec<u8>>, Range<usize>),
        tail: &[u8],
    ) -> Result<(), VerbsError> {
        let stream = open_to_posts(&mut self.connections, endpoint)?;
        self.posting.post_shared(endpoint, stream, &Shared { head, buffer, range, tail }, &mut self.stats)?;
        list(&mut self.dirty, endpoint, stream);
        Ok(())
    }

    fn post_run(&mut self, endpoint: EndpointId, run: Run<'_>) -> Result<(), VerbsError> {
        let connection = self.connections.at_mut(endpoint.0).filter(|found| found.stream.takes_posts());
        let stream = &mut connection.ok_or(VerbsError::StaleEndpoint(endpoint))?.stream;
        self.posting.post_run(endpoint, stream, run, &mut self.stats)?;
        list(&mut self.dirty, endpoint, stream);
        Ok(())
    }

    fn post_plain(&mut self, endpoint: EndpointId, bytes: &[u8]) -> Result<(), VerbsError> {
        let connection = self.connections.at_mut(endpoint.0).filter(|found| found.stream.takes_posts());
        let stream = &mut connection.ok_or(VerbsError::StaleEndpoint(endpoint))?.stream;
        self.posting.post_plain(endpoint, stream, bytes, &mut self.stats)?;
        list(&mut self.dirty, endpoint, stream);
        Ok(())
    }

    fn reclaim(&mut self) -> Option<Vec<u8>> {
        self.posting.spare.reclaim()
    }

    fn bound(&mut self, endpoint: EndpointId, bound: Option<Bound>) {
        if let Some(stream) = self.connections.at_mut(endpoint.0).map(|found| &mut found.stream) {
            stream.bound(bound);
        }
    }

    fn acknowledged(&self, endpoint: EndpointId) -> Option<Acknowledged> {
        self.connections.at(endpoint.0).map(|found| &found.stream)?.acknowledged()
    }

    fn tag(&mut self, endpoint: EndpointId, code_point: u8) -> Result<(), VerbsError> {
        let tagged =
            self.connections.at(endpoint.0).map(|found| &found.stream).map_or(Ok(()), |stream| stream.tag(code_point));
        tagged.map_err(|errno| VerbsError::System { doing: "tagging a connection", source: errno.into() })
    }

    fn meter(&mut self, endpoint: EndpointId, metered: bool) -> bool {
        let key = endpoint.0;
        let Some(connection) = self.connections.at_mut(key) else { return false };
        match (connection.stream.reads, metered) {
            (Reads::Freely, true) => {
                connection.stream.reads = Reads::Metered;
                if connection.receiving {
                    self.ring.cancel(key | request::RECEIVE, request::CANCEL);
                }
                if self.hot.forget(key) {
                    self.apply(Change { told: [Some(key), None], ..Change::default() });
                }
            }
            (Reads::Once | Reads::Metered, false) => {
                connection.stream.reads = Reads::Freely;
                self.settle(key);
            }
            _ => {}
        }
        true
    }

    fn post_receive(&mut self, endpoint: EndpointId) {
        let Some(connection) = self.connections.at_mut(endpoint.0) else { return };
        if connection.stream.reads == Reads::Metered {
            connection.stream.reads = Reads::Once;
            self.settle(endpoint.0);
        }
    }

    fn submit(&mut self) {
        // A send is over when it is handed over, as a rule, but one that isn't known to be holds up what follows it: until the next
        // poll, and whatever the owner does before that.
        if self.dirty.iter().any(|key| self.connections.at(*key).is_some_and(|found| found.sending)) {
            self.take_sent();
        }
        if let [key] = *self.dirty
            && !self.ring.needs_kernel()
        {
            // With nothing else to do in the kernel, a write is all that is needed.
            self.send_directly(key);
        }
        while let Some(key) = self.dirty.pop() {
            if let Some(connection) = self.connections.at_mut(key) {
                connection.stream.dirty = false;
                self.send(key);
            }
        }
        if self.ring.needs_kernel() {
            self.ring.enter();
        }
    }

    fn poll(&mut self, now: Time, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut found = 0;
        let sink = &mut |event: Event<'_>| {
            found += usize::from(!matches!(event, Event::Ahead { .. }));
            sink(event);
        };
        self.now = now;
        if self.bell.flag().take() {
            sink(Event::Woken);
        }
        self.run_timers();
        // First, as a connection is up before something arrives over it.
        self.tell_notes(sink);
        if self.hot.is_any_direct() {
            self.read_direct(sink);
        }
        if self.ring.needs_kernel() {
            self.ring.enter();
        }
        self.reap(sink);
        self.tell_notes(sink);
        if let Some(kind) = self.ring.failure() {
            self.fail(kind, sink);
        }
        found
    }

    fn wait(&mut self, now: Time, timeout: Option<Duration>) {
        self.now = now;
        self.submit();
        let cooled = self.hot.cool();
        self.apply(cooled);
        let something = !self.notes.is_empty()
            || !self.taken.is_empty()
            || self.ring.has_completion()
            || self.ring.failure().is_some();
        if something || !self.bell.flag().begin_wait() {
            return;
        }
        let timer = self.timers.next().map(|at| at.since(now));
        self.ring.enter_and_wait(timer.into_iter().chain(timeout).min());
        self.bell.flag().end_wait();
    }

    fn waker(&self) -> Waker {
        Waker::new(self.bell.clone())
    }

    fn stats(&self) -> QueueStats {
        QueueStats { system_calls: self.stats.system_calls + self.ring.system_calls, ..self.stats }
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// The stream of an endpoint to which the owner may post.
#[inline]
fn open_to_posts(connections: &mut Slots<Connection>, endpoint: EndpointId) -> Result<&mut Stream, VerbsError> {
    let found = connections.at_mut(endpoint.0).map(|connection| &mut connection.stream);
    found.filter(|stream| stream.takes_posts()).ok_or(VerbsError::StaleEndpoint(endpoint))
}

/// What to do about a kernel that makes no ring.
fn remedy(source: &std::io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "it is forbidden here; allow it by sysctl kernel.io_uring_disabled=0 and in the container's seccomp profile, \
             or choose epoll, or auto"
        }
        Some(Errno::NOMEM) => {
            "there is no memory for it; lower the clusters or their buffers, or raise `ulimit -l` or the container's \
             memory, or choose epoll, or auto"
        }
        _ => "it needs Linux 6.0 or later; choose epoll, or auto",
    }
}
