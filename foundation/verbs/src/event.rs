//! What a poll of a completion queue finds, and the names of what it happened to.

use std::fmt;
use std::io;

use crate::tls::CertificateNames;
use crate::{Address, DetachedEndpoint, TlsFault, VerbsError};

/// A connection of one queue.
///
/// Names a slot and its generation: once the connection is gone the id is stale for good, and is refused. An id means
/// something to the queue that gave it out alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub(crate) u64);

impl EndpointId {
    /// The number of its slot, which no other connection of the queue has at the same time, and which those to come may
    /// have again: what is kept for each connection can lie in an array. Below 2^24.
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoint {}.{}", self.0 & 0xffff_ffff, self.0 >> 32)
    }
}

/// A listener of one queue. Stale once closed, as an [`EndpointId`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub(crate) u64);

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listener {}.{}", self.0 & 0xffff_ffff, self.0 >> 32)
    }
}

/// A completion.
#[derive(Debug)]
pub enum Event<'a> {
    /// A connection came in and belongs to this queue.
    Accepted {
        /// Where it came in.
        listener: ListenerId,
        /// The new connection.
        endpoint: EndpointId,
        /// The other side.
        peer: Address,
    },
    /// A connection came in at a listener in [`AcceptMode::Detach`](crate::AcceptMode::Detach); some queue is to
    /// adopt it.
    AcceptedDetached {
        /// Where it came in.
        listener: ListenerId,
        /// The new connection; dropping it closes it.
        endpoint: DetachedEndpoint,
        /// The other side.
        peer: Address,
    },
    /// There is no descriptor or no memory for further connections. Those that come in wait; the listener tries again
    /// after some milliseconds, and each time that it fails is told.
    AcceptFailed {
        /// Where they wait.
        listener: ListenerId,
        /// Which limit it is, and what to do about it.
        error: VerbsError,
    },
    /// A connection that this side asked for is up; over TLS, its handshake is done.
    Connected {
        /// The connection.
        endpoint: EndpointId,
    },
    /// The client of a connection that came in over TLS has proved by a certificate who it is. That comes before whatever it
    /// sent; who shows no certificate is not told of.
    Authenticated {
        /// The connection.
        endpoint: EndpointId,
        /// The names in the certificate.
        names: CertificateNames,
    },
    /// A chunk arrived. Its bytes lie in the receive buffer, which is posted again when the sink returns.
    Received {
        /// The connection.
        endpoint: EndpointId,
        /// The payload, exactly as it was posted by the peer; of a plain connection, the next of its bytes.
        chunk: &'a [u8],
    },
    /// A connection that came in began with one of the [prefaces](crate::QueueConfig::plain). What is received over it is bytes as
    /// they come, from the preface on, and what is [posted](crate::CompletionQueue::post_plain) goes as it is.
    Plain {
        /// The connection.
        endpoint: EndpointId,
        /// Which of them.
        preface: [u8; 4],
    },
    /// [`send_room`](crate::CompletionQueue::send_room) was 0 and is no longer.
    Writable {
        /// The connection.
        endpoint: EndpointId,
    },
    /// A connection ended. This is the last event of its id, which is stale from here on.
    Closed {
        /// The connection that was.
        endpoint: EndpointId,
        /// Why.
        reason: CloseReason,
    },
    /// Something is told of this connection next, or next but one or two. A hint, and not counted: where there are many
    /// connections, what is kept about this one may be [fetched](crate::fetch) meanwhile.
    Ahead {
        /// The connection; it may be over by then.
        endpoint: EndpointId,
    },
    /// [`Waker::wake`](crate::Waker::wake) was called since the last poll, once or more often.
    Woken,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed in order.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// The peer, or the network between, cut the connection off.
    #[error("the connection was reset")]
    Reset,
    /// Nobody listens at the address.
    #[error("the connection was refused; nobody listens there")]
    Refused,
    /// The peer announced a chunk of no bytes, or one longer than this queue's receive buffers. Both sides must be
    /// set to the same `chunk_bytes`; a peer that speaks something else altogether ends here too.
    #[error("the peer announced a chunk of {len} bytes, allowed are 1 to {limit}")]
    Oversized {
        /// What the peer announced, in bytes.
        len: usize,
        /// The largest chunk that this queue receives, in bytes.
        limit: usize,
    },
    /// [`Close::Flush`] is done: everything posted was written.
    #[error("closed from this side, everything posted was written")]
    Flushed,
    /// TLS failed, or was expected on one side only.
    #[error("{0}")]
    Tls(#[from] TlsFault),
    /// The queue itself failed, for example because it was polled by a thread other than the one it is bound to.
    #[error("the completion queue failed: {0}")]
    QueueFailed(io::ErrorKind),
    /// Anything else the system reported.
    #[error("input/output error: {0}")]
    Io(io::ErrorKind),
}

impl CloseReason {
    /// The reason that an error of a socket stands for.
    pub(crate) fn of_io(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
                Self::Reset
            }
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Self::Refused,
            other => Self::Io(other),
        }
    }
}

/// How to end a connection from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Write what was posted, then close. Nothing more can be posted, nothing more is received; a last
    /// [`Event::Closed`] says how it went.
    Flush,
    /// Close now. What was posted may be lost. There is no event after it.
    Abort,
}
