//! Completion queues over epoll, for where io_uring is missing or forbidden.
//!
//! Sockets are registered once, edge-triggered, for reading and writing, and are read until they are drained, so that
//! no system call is spent on changing what is of interest. A write goes to the socket at submit; what the socket
//! doesn't take is written when it reports room.
//!
//! A thread that spins on one or two connections would pay for two system calls a message, one to learn that there
//! is something and one to read it. So the endpoints that are most active are direct (see [`Hot`]): they are taken out
//! of epoll, every poll tries to read them, and epoll is asked about all the others every few polls or microseconds only.

mod io;

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use greenwave_policy::{Acknowledged, Time};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};

use crate::detached::Carrier;
use crate::handshakes::Handshakes;
use crate::hot::{Change, Hot};
use crate::outbox::{Shared, Spare};
use crate::pending::{Due, Note, Timers};
use crate::slots::Slots;
use crate::socket::{ACCEPT_PAUSE, ListeningSocket, Progress, begin_connect};
use crate::stream::{Phase, Posting, Reads, Stream, list};
use crate::wake::{Bell, EventBell};
use crate::{
    AcceptMode, Address, Backend, Bound, Close, CompletionQueue, DetachedEndpoint, EndpointId, Event, ListenerId,
    QueueConfig, QueueStats, Run, TlsClient, TlsFault, TlsServer, VerbsError, Waker,
};

/// What a report of epoll is about, in the bits between slot and generation of a key.
mod about {
    pub(super) const MASK: u64 = 0xff << 24;
    pub(super) const ENDPOINT: u64 = 0;
    pub(super) const LISTENER: u64 = 1 << 24;
    pub(super) const BELL: u64 = 2 << 24;
}

/// A completion queue over epoll.
///
/// Invariants:
/// 1. A stream in `streams` is registered with the epoll instance, unless it is direct or connecting failed; and no
///    other descriptor of it exists, so that dropping it takes it out.
/// 2. A stream that may have unread bytes is in `ready`, is direct, is in `unread`, or epoll has yet to report it.
/// 3. A stream whose outbox holds something is in `dirty`, is connecting, or waits for epoll to report room.
#[derive(Debug)]
pub(crate) struct EpollQueue {
    epoll: OwnedFd,
    bell: Arc<EventBell>,
    streams: Slots<Stream>,
    listeners: Slots<Listener>,
    posting: Posting,
    scratch: Box<[u8]>,
    /// Reported, not handled.
    ready: Vec<(u64, epoll::EventFlags)>,
    /// Metered, and reported before it was asked for: whether to the end.
    unread: HashMap<u64, bool>,
    /// Some of those that are in `ready` are there because they were asked for.
    is_asked: bool,
    hot: Hot,
    /// Polls since epoll was asked.
    turn: u32,
    /// When it is asked again, however few polls have been since.
    ask_at: Time,
    /// The next poll that finds nothing need not ask epoll: what was reported last, a wait had asked for, and whoever
    /// waits asks again. Between two waits that is one system call less.
    waits: bool,
    dirty: Vec<u64>,
    notes: VecDeque<(u64, Note)>,
    timers: Timers,
    linger: Duration,
    plain: &'static [[u8; 4]],
    handshakes: Handshakes,
    /// Those that are held and whose handshakes are done.
    up: Vec<u64>,
    now: Time,
    stats: QueueStats,
}

#[derive(Debug)]
struct Listener {
    socket: ListeningSocket,
    mode: AcceptMode,
    tls: Option<TlsServer>,
}

impl EpollQueue {
    /// Bytes of one read, at least.
    const READ: usize = 64 * 1024;
    /// Reports that one system call fetches.
    const REPORTS: usize = 128;
    /// One poll in so many asks epoll, whatever is direct. This is what the others may be kept waiting where polls follow
    /// one another.
    const TURNS: u32 = 16;
    /// What they may be kept waiting where calls are made between two polls.
    const ASK: Duration = Duration::from_micros(50);

    pub(crate) fn open(config: &QueueConfig) -> Result<Self, VerbsError> {
        let system = |errno: rustix::io::Errno| VerbsError::refused("can't set up epoll", errno);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let bell = EventBell::new()?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &*bell, epoll::EventData::new_u64(about::BELL), flags).map_err(system)?;
        let longest = config.chunk_bytes + crate::framing::PREFIX;
        Ok(Self {
            epoll,
            bell,
            streams: Slots::new(),
            listeners: Slots::new(),
            posting: Posting { chunk_bytes: config.chunk_bytes, mark: config.backlog_bytes, spare: Spare::default() },
            scratch: vec![0; longest.max(Self::READ)].into_boxed_slice(),
            ready: Vec::new(),
            unread: HashMap::new(),
            is_asked: false,
            hot: Hot::default(),
            turn: 0,
            ask_at: Time::ZERO,
            waits: false,
            dirty: Vec::new(),
            notes: VecDeque::new(),
            timers: Timers::default(),
            linger: Duration::from_millis(config.linger_millis.into()),
            plain: config.plain,
            handshakes: Handshakes::new(config.handshakes),
            up: Vec::new(),
            now: Time::ZERO,
            stats: QueueStats::default(),
        })
    }

    /// Takes in a connection. The caller has set up the socket.
    fn admit(&mut self, stream: Stream) -> Result<u64, VerbsError> {
        let key = self.streams.insert(stream)?;
        if let Err(errno) = self.register(key) {
            self.streams.remove(key);
            return Err(VerbsError::System { doing: "registering a socket with epoll", source: errno.into() });
        }
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

    /// Takes in a connection whose handshake is to be made for another queue.
    pub(crate) fn hold(&mut self, endpoint: DetachedEndpoint) -> Result<u64, VerbsError> {
        let Carrier::Socket(socket, Some(tls)) = endpoint.carrier else {
            return Err(VerbsError::Adopt(Backend::Epoll));
        };
        let key = self.admit(Stream::accepted(socket, Some(tls.accept()?), self.plain).held())?;
        self.begin_handshake(key);
        Ok(key)
    }

    /// A connection that is held and whose handshake is done.
    pub(crate) fn take_held(&mut self) -> Option<(u64, Stream)> {
        while let Some(key) = self.up.pop() {
            if let Some(mut stream) = self.streams.remove(key) {
                self.hot.forget(key);
                // Fails only for a socket that isn't registered.
                let _ = epoll::delete(&self.epoll, &stream.socket);
                stream.dirty = false;
                return Some((key, stream));
            }
        }
        None
    }

    /// Sees to it that no more handshakes are under way than may be.
    fn begin_handshake(&mut self, key: u64) {
        let Self { streams, handshakes, notes, .. } = self;
        let goes_on = |key| streams.at(key).is_some_and(Stream::is_handshaking);
        if let Some(oldest) = handshakes.begin(key, goes_on) {
            notes.push_back((oldest, Note::Closed(TlsFault::CrowdedOut.into())));
        }
    }

    fn register(&self, key: u64) -> rustix::io::Result<()> {
        let Some(stream) = self.streams.at(key) else { return Ok(()) };
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &stream.socket, epoll::EventData::new_u64(key | about::ENDPOINT), flags)
    }

    fn watch(&self, key: u64, socket: impl AsFd, flags: epoll::EventFlags) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(key | about::LISTENER), flags)
    }

    fn resume_accepting(&mut self, key: u64) {
        let Some(listener) = self.listeners.at(key) else { return };
        let data = epoll::EventData::new_u64(key | about::LISTENER);
        if epoll::modify(&self.epoll, &listener.socket.socket, data, epoll::EventFlags::IN).is_err() {
            self.timers.set(self.now + ACCEPT_PAUSE, Due::Accept(key));
        }
    }

    /// Asks epoll what is ready.
    fn reap(&mut self, timeout: Option<&Timespec>) {
        self.stats.system_calls += 1;
        let mut reports = [const { MaybeUninit::uninit() }; Self::REPORTS];
        // The only error that can come of valid arguments is an interruption, and then there is nothing to report.
        let Ok((reports, _)) = epoll::wait(&self.epoll, &mut reports, timeout) else { return };
        self.ready.extend(reports.iter().map(|report| (report.data.u64(), report.flags)));
    }

    fn run_timers(&mut self) {
        while let Some(due) = self.timers.pop(self.now) {
            match due {
                Due::Linger(key) => {
                    if let Some(stream) = self.streams.at(key).filter(|stream| stream.phase == Phase::Lingering) {
                        self.notes.push_back((key, Note::Closed(stream.reason_after_lingering())));
                    }
                }
                Due::Accept(key) => self.resume_accepting(key),
            }
        }
    }

    fn tell_notes(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        while let Some((key, note)) = self.notes.pop_front() {
            let Some(stream) = self.streams.at_mut(key) else { continue };
            let endpoint = EndpointId(key);
            match note {
                Note::Connected if stream.takes_posts() => sink(Event::Connected { endpoint }),
                Note::Writable if stream.takes_posts() => sink(Event::Writable { endpoint }),
                Note::Connected | Note::Writable => {}
                Note::Adopted => match stream.release(endpoint, self.posting.chunk_bytes, &mut self.stats, sink) {
                    Ok(()) => self.write(key),
                    Err(reason) => {
                        self.forget(key);
                        sink(Event::Closed { endpoint, reason });
                    }
                },
                Note::Closed(reason) => {
                    self.forget(key);
                    sink(Event::Closed { endpoint, reason });
                }
            }
        }
    }
}

impl CompletionQueue for EpollQueue {
    fn backend(&self) -> Backend {
        Backend::Epoll
    }

    fn chunk_bytes(&self) -> usize {
        self.posting.chunk_bytes
    }

    fn listen_with(&mut self, address: &Address, tls: Option<&TlsServer>) -> Result<ListenerId, VerbsError> {
        let socket = ListeningSocket::open(address, Backend::Epoll)?;
        let key = self.listeners.insert(Listener { socket, mode: AcceptMode::Keep, tls: tls.cloned() })?;
        let socket = self.listeners.at(key).map(|listener| listener.socket.socket.as_fd());
        let added = socket.map_or(Ok(()), |socket| self.watch(key, socket, epoll::EventFlags::IN));
        if let Err(errno) = added {
            self.listeners.remove(key);
            let remedy = "raise sysctl fs.epoll.max_user_watches";
            return Err(VerbsError::Listen { address: address.clone(), remedy, source: errno.into() });
        }
        Ok(ListenerId(key))
    }

    fn local_address(&self, listener: ListenerId) -> Result<Address, VerbsError> {
        let found = self.listeners.at(listener.0).ok_or(VerbsError::StaleListener(listener))?;
        Ok(found.socket.address.clone())
    }

    fn set_accept_mode(&mut self, listener: ListenerId, mode: AcceptMode) -> Result<(), VerbsError> {
        self.listeners.at_mut(listener.0).ok_or(VerbsError::StaleListener(listener))?.mode = mode;
        Ok(())
    }

    fn close_listener(&mut self, listener: ListenerId) {
        self.listeners.remove(listener.0);
    }

    fn connect_with(&mut self, address: &Address, tls: Option<&TlsClient>) -> Result<EndpointId, VerbsError> {
        let (socket, progress) = begin_connect(address, Backend::Epoll)?;
        let session = tls.map(|tls| tls.connect(address)).transpose()?;
        let connecting = Phase::Connecting { closing: false };
        let key = match progress {
            Progress::Underway => self.admit(Stream::connecting(socket, connecting, session, address))?,
            Progress::Connected => {
                let key = self.admit(Stream::connecting(socket, Phase::Open, session, address))?;
                match tls {
                    None => self.notes.push_back((key, Note::Connected)),
                    Some(_) => self.write(key),
                }
                key
            }
            // Not registered: a socket that isn't connected has much to report, and nothing of interest.
            Progress::Failed(reason) => {
                let key = self.streams.insert(Stream::new(socket, connecting, None))?;
                self.notes.push_back((key, Note::Closed(reason)));
                key
            }
        };
        Ok(EndpointId(key))
    }

    fn adopt(&mut self, endpoint: DetachedEndpoint) -> Result<EndpointId, VerbsError> {
        match endpoint.carrier {
            Carrier::Socket(socket, tls) => self.welcome(socket, tls.as_ref()).map(EndpointId),
            Carrier::Secured(stream) => {
                let key = self.admit(*stream)?;
                self.notes.push_back((key, Note::Adopted));
                Ok(EndpointId(key))
            }
            _ => Err(VerbsError::Adopt(Backend::Epoll)),
        }
    }

    fn close(&mut self, endpoint: EndpointId, how: Close) {
        let Some(stream) = self.streams.at_mut(endpoint.0) else { return };
        match (how, stream.phase) {
            (Close::Abort, _) => {
                self.forget(endpoint.0);
            }
            (Close::Flush, Phase::Connecting { .. }) => stream.phase = Phase::Connecting { closing: true },
            (Close::Flush, Phase::Open) => {
                stream.phase = Phase::Flushing;
                self.meter(endpoint, false);
                self.write(endpoint.0);
            }
            (Close::Flush, _) => {}
        }
    }

    fn send_room(&self, endpoint: EndpointId) -> usize {
        self.streams.at(endpoint.0).map_or(0, |stream| self.posting.room(stream))
    }

    fn post_send(&mut self, endpoint: EndpointId, parts: &[&[u8]]) -> Result<(), VerbsError> {
        let stream = open_to_posts(&mut self.streams, endpoint)?;
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
        let stream = open_to_posts(&mut self.streams, endpoint)?;
        self.posting.post_shared(endpoint, stream, &Shared { head, buffer, range, tail }, &mut self.stats)?;
        list(&mut self.dirty, endpoint, stream);
        Ok(())
    }

    fn post_run(&mut self, endpoint: EndpointId, run: Run<'_>) -> Result<(), VerbsError> {
        let stream = self.streams.at_mut(endpoint.0).filter(|stream| stream.takes_posts());
        let stream = stream.ok_or(VerbsError::StaleEndpoint(endpoint))?;
        self.posting.post_run(endpoint, stream, run, &mut self.stats)?;
        list(&mut self.dirty, endpoint, stream);
        Ok(())
    }

    fn post_plain(&mut self, endpoint: EndpointId, bytes: &[u8]) -> Result<(), VerbsError> {
        let stream = open_to_posts(&mut self.streams, endpoint)?;
        self.posting.post_plain(endpoint, stream, bytes, &mut self.stats)?;
        list(&mut self.dirty, endpoint, stream);
        Ok(())
    }

    fn reclaim(&mut self) -> Option<Vec<u8>> {
        self.posting.spare.reclaim()
    }

    fn bound(&mut self, endpoint: EndpointId, bound: Option<Bound>) {
        if let Some(stream) = self.streams.at_mut(endpoint.0) {
            stream.bound(bound);
        }
    }

    fn acknowledged(&self, endpoint: EndpointId) -> Option<Acknowledged> {
        self.streams.at(endpoint.0)?.acknowledged()
    }

    fn tag(&mut self, endpoint: EndpointId, code_point: u8) -> Result<(), VerbsError> {
        let tagged = self.streams.at(endpoint.0).map_or(Ok(()), |stream| stream.tag(code_point));
        tagged.map_err(|errno| VerbsError::System { doing: "tagging a connection", source: errno.into() })
    }

    fn meter(&mut self, endpoint: EndpointId, metered: bool) -> bool {
        let Some(stream) = self.streams.at_mut(endpoint.0) else { return false };
        match (stream.reads, metered) {
            (Reads::Freely, true) => {
                stream.reads = Reads::Metered;
                if self.hot.forget(endpoint.0) {
                    self.apply(Change { told: [Some(endpoint.0), None], ..Change::default() });
                }
            }
            (Reads::Once | Reads::Metered, false) => {
                stream.reads = Reads::Freely;
                self.read_unread(endpoint.0);
            }
            _ => {}
        }
        true
    }

    fn post_receive(&mut self, endpoint: EndpointId) {
        let Some(stream) = self.streams.at_mut(endpoint.0).filter(|stream| stream.reads == Reads::Metered) else {
            return;
        };
        stream.reads = Reads::Once;
        self.read_unread(endpoint.0);
    }

    fn submit(&mut self) {
        while let Some(key) = self.dirty.pop() {
            if let Some(stream) = self.streams.at_mut(key) {
                stream.dirty = false;
                self.write(key);
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
        // First, as a connection is up before something arrives over it.
        self.tell_notes(sink);
        self.turn += 1;
        if self.hot.is_any_direct() {
            self.read_direct(sink);
        }
        // What was asked for can be there in each poll, and must not hide what others have.
        let is_free = self.ready.is_empty() || std::mem::take(&mut self.is_asked);
        let is_time = if self.hot.is_any_direct() { now >= self.ask_at } else { is_free };
        if is_time || self.turn >= Self::TURNS {
            self.turn = 0;
            self.ask_at = now + Self::ASK;
            if !std::mem::take(&mut self.waits) {
                self.reap(Some(&Timespec::default()));
            }
        }
        if !self.ready.is_empty() {
            self.handle_ready(sink);
        }
        self.tell_notes(sink);
        found
    }

    fn wait(&mut self, now: Time, timeout: Option<Duration>) {
        self.now = now;
        self.submit();
        let cooled = self.hot.cool();
        self.apply(cooled);
        if !self.notes.is_empty() || !self.ready.is_empty() || !self.bell.flag().begin_wait() {
            return;
        }
        let timer = self.timers.next().map(|at| at.since(now));
        let timeout = timer.into_iter().chain(timeout).min();
        let timeout = timeout.map(|span| Timespec::try_from(span).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
        self.reap(timeout.as_ref());
        self.waits = !self.ready.is_empty();
        self.bell.flag().end_wait();
    }

    fn waker(&self) -> Waker {
        Waker::new(self.bell.clone())
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}

/// The stream of an endpoint to which the owner may post.
#[inline]
fn open_to_posts(streams: &mut Slots<Stream>, endpoint: EndpointId) -> Result<&mut Stream, VerbsError> {
    let found = streams.at_mut(endpoint.0).filter(|stream| stream.takes_posts());
    found.ok_or(VerbsError::StaleEndpoint(endpoint))
}
