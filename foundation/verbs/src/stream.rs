//! What the backends over stream sockets have in common: a connection and its life.

mod posting;
mod receiving;

use std::io::IoSlice;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg, shutdown};

use crate::framing::{Framer, PREFIX};
use crate::outbox::{Outbox, Scattered, Takeoff};
use crate::tls::{CertificateNames, Session};
use crate::{Address, CloseReason, EndpointId, Event, QueueStats, TlsFault};

pub(crate) use posting::Posting;

/// A connection over a stream socket.
///
/// Over TLS, what was posted waits until the handshake is done, and is sealed when it is taken off. A session that
/// fails is closed as if the owner had asked for it, so that the peer gets to know why.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) socket: OwnedFd,
    pub(crate) phase: Phase,
    pub(crate) outbox: Outbox,
    /// Unwritten bytes beyond which nothing may be posted, if that is less than the queue's own mark.
    pub(crate) mark: usize,
    /// Half of what the kernel was told that it may hold, if it was.
    pub(crate) half_buffer: usize,
    /// How it is written to.
    pub(crate) flags: SendFlags,
    framer: Framer,
    plain: Plain,
    /// What the bytes of the socket are sealed with.
    session: Option<Box<Session>>,
    /// The session failed for this reason. The peer is still to be told.
    fault: Option<CloseReason>,
    /// Something is to be written that the owner knows nothing of.
    urgent: bool,
    /// Writing failed for this reason. What the peer sent before that is still handed on, up to the end.
    broken: Option<CloseReason>,
    /// Listed by the queue among those that have something to write.
    pub(crate) dirty: bool,
    pub(crate) reads: Reads,
    /// It is to be handed to another queue when its handshake is done: what that is to be told first.
    held: Option<Box<Held>>,
}

/// What came of a handshake that was made for another queue.
#[derive(Debug, Default)]
struct Held {
    is_up: bool,
    names: Option<CertificateNames>,
    /// What the client has sent with the end of its handshake: no more than one read.
    plain: Vec<u8>,
}

/// The life of a connection. It goes down this list, and may skip steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The socket is connecting. `closing`: the owner has asked for a flush already.
    Connecting { closing: bool },
    /// Up.
    Open,
    /// The owner has closed it. What was posted is being written; what arrives is thrown away.
    Flushing,
    /// All is written and the peer was told. What it still sends is read, because closing a TCP socket with bytes
    /// unread makes the kernel reset the connection and lose what it has yet to deliver.
    Lingering,
    /// Over. Only requests that the kernel has not given back keep it.
    Dead,
}

/// When a connection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// As soon as something is there.
    Freely,
    /// Once, as soon as something is there.
    Once,
    /// When that is asked for.
    Metered,
}

impl Reads {
    /// Bytes of a read that was asked for, at most.
    pub(crate) const METERED: usize = 16 << 10;
}

/// Whether what arrives is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    /// It is.
    Never,
    /// It is, unless its first bytes are among these.
    After(&'static [[u8; PREFIX]]),
    /// It isn't.
    Always,
}

impl Stream {
    /// A connection that came in. `prefaces`: see [`QueueConfig::plain`](crate::QueueConfig::plain).
    pub(crate) fn accepted(socket: OwnedFd, session: Option<Box<Session>>, prefaces: &'static [[u8; PREFIX]]) -> Self {
        let plain = if prefaces.is_empty() { Plain::Never } else { Plain::After(prefaces) };
        Self { plain, ..Self::new(socket, Phase::Open, session) }
    }

    /// A connection that was begun here.
    pub(crate) fn connecting(socket: OwnedFd, phase: Phase, session: Option<Box<Session>>, to: &Address) -> Self {
        let plain = if to.is_grpc() { Plain::Always } else { Plain::Never };
        Self { plain, ..Self::new(socket, phase, session) }
    }

    pub(crate) fn new(socket: OwnedFd, phase: Phase, session: Option<Box<Session>>) -> Self {
        Self {
            socket,
            phase,
            outbox: Outbox::default(),
            mark: usize::MAX,
            half_buffer: 0,
            flags: SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL),
            framer: Framer::default(),
            plain: Plain::Never,
            session,
            fault: None,
            urgent: false,
            broken: None,
            dirty: false,
            reads: Reads::Freely,
            held: None,
        }
    }

    /// The same, whose handshake is made for another queue.
    pub(crate) fn held(self) -> Self {
        Self { held: Some(Box::default()), ..self }
    }

    /// Whether it is held, and is to be handed on now: nothing more is to be read from it here.
    pub(crate) fn is_to_go(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_up) && self.phase == Phase::Open
    }

    /// Says what was held back, to the queue that it was handed to.
    pub(crate) fn release(
        &mut self,
        id: EndpointId,
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let Held { names, plain, .. } = *held;
        if let Some(names) = names {
            sink(Event::Authenticated { endpoint: id, names });
        }
        if plain.is_empty() { Ok(()) } else { self.deliver(id, &plain, limit, stats, sink) }
    }

    /// Whether the owner may post.
    pub(crate) fn takes_posts(&self) -> bool {
        matches!(self.phase, Phase::Connecting { closing: false } | Phase::Open)
    }

    /// Whether there are bytes to be written, and they may be.
    pub(crate) fn may_write(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Flushing) && self.broken.is_none() && self.has_output()
    }

    /// Whether the owner is told only later that the connection is up.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// Whether what was received is to be answered at once. Asked after each time that something was.
    #[inline]
    pub(crate) fn is_urgent(&mut self) -> bool {
        std::mem::take(&mut self.urgent)
    }

    /// The bytes to be written next, and where to; see [`Outbox::take_off`].
    pub(crate) fn take_off(&mut self, posting: &mut Posting) -> (BorrowedFd<'_>, Takeoff<'_>) {
        let socket = self.socket.as_fd();
        let Some(session) = &mut self.session else { return (socket, self.outbox.take_off()) };
        let waits = session.is_handshaking() || self.fault.is_some();
        let mark = self.mark.min(posting.mark);
        let goodbye = self.phase == Phase::Flushing && !waits;
        let sealed = self
            .outbox
            .take_off_sealed(waits, mark, &mut posting.spare, |plain, wire| session.seal(plain, goodbye, wire));
        let bytes = sealed.unwrap_or_else(|fault| {
            // As when writing fails. What is unwritten can't be sealed, so it must not be written.
            self.broken.get_or_insert(fault.into());
            let _ = shutdown(socket, Shutdown::Both);
            &[]
        });
        (socket, Takeoff::Run(bytes))
    }

    /// Writes what the socket takes of the bytes to be written next. How many bytes that were.
    pub(crate) fn send(&mut self, posting: &mut Posting) -> Result<usize, Errno> {
        let flags = self.flags;
        match self.take_off(posting) {
            (socket, Takeoff::Run(bytes)) => send(socket, bytes, flags),
            (socket, Takeoff::Scattered(scattered)) => {
                let mut slices = [IoSlice::new(&[]); Scattered::MOST];
                let count =
                    slices.iter_mut().zip(scattered.slices()).map(|(to, slice)| *to = IoSlice::new(slice)).count();
                sendmsg(socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
            }
        }
    }

    /// The next step of a close that flushes. True: all is written, and the connection lingers from now on.
    pub(crate) fn finish_flush(&mut self) -> bool {
        if self.phase != Phase::Flushing || !self.outbox.is_empty() || self.has_output() || self.broken.is_some() {
            return false;
        }
        // Fails only when the connection is gone, which the next read tells.
        let _ = shutdown(&self.socket, Shutdown::Write);
        self.phase = Phase::Lingering;
        true
    }

    /// Writing failed. Ends the stream both ways, so that reading comes to its end: bytes that arrived before are
    /// read first, and then the end, for sure.
    pub(crate) fn break_off(&mut self, reason: CloseReason) {
        self.broken.get_or_insert(reason);
        // Fails only when the connection is gone, and then reading ends too.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// What to tell the owner when the peer ended the stream or it broke.
    pub(crate) fn reason_at_end(&self, reason: CloseReason, stats: &mut QueueStats) -> CloseReason {
        if self.phase == Phase::Lingering {
            return self.reason_after_lingering();
        }
        if self.framer.is_within_chunk() {
            stats.truncated += 1;
        }
        let unsaid = match (&self.session, reason) {
            (Some(session), _) if session.is_handshaking() => TlsFault::HandshakeCut.into(),
            (Some(_), CloseReason::PeerClosed) => TlsFault::Cut.into(),
            _ => reason,
        };
        self.fault.or(self.broken).unwrap_or(unsaid)
    }

    /// What to tell the owner when the connection has lingered.
    pub(crate) fn reason_after_lingering(&self) -> CloseReason {
        self.fault.unwrap_or(CloseReason::Flushed)
    }

    /// What to tell the owner when the peer closed the session.
    fn reason_at_goodbye(&self, up: bool, stats: &mut QueueStats) -> CloseReason {
        if self.framer.is_within_chunk() {
            stats.truncated += 1;
        }
        if up { self.broken.unwrap_or(CloseReason::PeerClosed) } else { TlsFault::HandshakeCut.into() }
    }

    /// Whether there are bytes to be written.
    fn has_output(&self) -> bool {
        let Some(session) = &self.session else { return !self.outbox.is_empty() };
        let up = !session.is_handshaking() && self.fault.is_none();
        let to_say_goodbye = self.phase == Phase::Flushing && !session.has_said_goodbye();
        self.outbox.is_flying() || session.has_output() || up && (self.outbox.has_posted() || to_say_goodbye)
    }
}

/// Lists a connection, to which something was posted, among those that have something to write.
#[inline]
pub(crate) fn list(dirty: &mut Vec<u64>, id: EndpointId, stream: &mut Stream) {
    if !stream.dirty {
        stream.dirty = true;
        dirty.push(id.0);
    }
}
