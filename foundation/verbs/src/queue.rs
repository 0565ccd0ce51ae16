//! The contract of a completion queue.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use greenwave_policy::{Acknowledged, Time};

use crate::framing::PREFIX;
use crate::{
    Address, Backend, Bound, Close, DetachedEndpoint, EndpointId, Event, ListenerId, TlsClient, TlsServer, VerbsError,
    Waker,
};

/// Connections, what is posted to them, and what came of it.
///
/// Work is posted with [`post_send`](Self::post_send), handed over with [`submit`](Self::submit), and its
/// completions, together with whatever the peers sent, are reaped with [`poll`](Self::poll). Receives need no posting
/// by the caller: the queue keeps its receive buffers posted. A chunk arrives whole, once, in order, or the
/// connection ends.
///
/// One thread at a time uses a queue. Another one that wants its attention has a [`Waker`].
pub trait CompletionQueue: Send {
    /// What carries the connections.
    fn backend(&self) -> Backend;

    /// Length of the largest chunk, in bytes.
    fn chunk_bytes(&self) -> usize;

    /// Begins to accept connections. A TCP address is reused at once after a restart; the socket file of a Unix
    /// address is replaced if nobody listens at it any more.
    ///
    /// # Errors
    /// [`VerbsError::Listen`], [`VerbsError::Descriptors`] and [`VerbsError::WrongTransport`].
    fn listen(&mut self, address: &Address) -> Result<ListenerId, VerbsError> {
        self.listen_with(address, None)
    }

    /// [`listen`](Self::listen) for connections that are secured by TLS, if any is given. Also those that are
    /// [detached](AcceptMode::Detach) are, whichever queue adopts them.
    ///
    /// # Errors
    /// Those of [`listen`](Self::listen), and [`VerbsError::NoTls`].
    fn listen_with(&mut self, address: &Address, tls: Option<&TlsServer>) -> Result<ListenerId, VerbsError>;

    /// Where a listener listens, with the port or the name that it was given.
    ///
    /// # Errors
    /// [`VerbsError::StaleListener`].
    fn local_address(&self, listener: ListenerId) -> Result<Address, VerbsError>;

    /// What becomes of connections that come in from now on.
    ///
    /// # Errors
    /// [`VerbsError::StaleListener`].
    fn set_accept_mode(&mut self, listener: ListenerId, mode: AcceptMode) -> Result<(), VerbsError>;

    /// Stops accepting. Connections that were accepted stay. A stale id is ignored.
    fn close_listener(&mut self, listener: ListenerId);

    /// Begins a connection and doesn't wait for it: [`Event::Connected`] or [`Event::Closed`] follows. Chunks may be
    /// posted at once; they leave when the connection is up.
    ///
    /// # Errors
    /// [`VerbsError::Connect`] and [`VerbsError::Descriptors`] if there is no socket to be had,
    /// [`VerbsError::WrongTransport`].
    fn connect(&mut self, address: &Address) -> Result<EndpointId, VerbsError> {
        self.connect_with(address, None)
    }

    /// [`connect`](Self::connect) over TLS, if any is given. [`Event::Connected`] follows when the handshake is done;
    /// how long that may take is for the caller to say.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), [`VerbsError::NoTls`] and [`VerbsError::NamelessTls`].
    fn connect_with(&mut self, address: &Address, tls: Option<&TlsClient>) -> Result<EndpointId, VerbsError>;

    /// Takes over a connection that another queue of the same transport accepted.
    ///
    /// # Errors
    /// [`VerbsError::Adopt`] and [`VerbsError::Full`]. The connection is closed then.
    fn adopt(&mut self, endpoint: DetachedEndpoint) -> Result<EndpointId, VerbsError>;

    /// Ends a connection. A stale id is ignored.
    fn close(&mut self, endpoint: EndpointId, how: Close);

    /// Payload bytes that may be posted now, in one chunk or several.
    ///
    /// Either 0 or at least [`chunk_bytes`](Self::chunk_bytes). Once it was 0, [`Event::Writable`] tells that it is
    /// no longer. 0 too for an endpoint that is closed or closing.
    fn send_room(&self, endpoint: EndpointId) -> usize;

    /// Posts one chunk, the concatenation of `parts`. They are copied or registered before the call returns.
    ///
    /// # Errors
    /// [`VerbsError::ChunkLength`] unless the parts sum up to 1 to `chunk_bytes` bytes, [`VerbsError::NoRoom`],
    /// [`VerbsError::StaleEndpoint`].
    fn post_send(&mut self, endpoint: EndpointId, parts: &[&[u8]]) -> Result<(), VerbsError>;

    /// Posts one chunk: `head`, then a part of `buffer`, then `tail`. Where the transport can do that, the part is not
    /// copied but written from where it lies, and the queue shares the buffer until that is done: cheaper for parts
    /// of some KiB, dearer for those below. Others copy it, as do connections over TLS.
    ///
    /// # Errors
    /// Those of [`post_send`](Self::post_send).
    ///
    /// # Panics
    /// If the buffer has no such part.
    fn post_shared(
        &mut self,
        endpoint: EndpointId,
        head: [&[u8]; 2],
        (buffer, part): (&Arc<Vec<u8>>, Range<usize>),
        tail: &[u8],
    ) -> Result<(), VerbsError> {
        self.post_send(endpoint, &[head[0], head[1], &buffer[part], tail])
    }

    /// Posts several chunks at once: all that is in `run`, one after the other, each with its length before it, four bytes,
    /// little-endian. All but the last of them, with their lengths, may have as many bytes as
    /// [`send_room`](Self::send_room) is more than a chunk. Where the transport is a stream that costs hardly more than to
    /// post one of them.
    ///
    /// # Errors
    /// Those of [`post_send`](Self::post_send). The first of the chunks may be posted then.
    fn post_run(&mut self, endpoint: EndpointId, run: Run<'_>) -> Result<(), VerbsError> {
        run.chunks().try_for_each(|chunk| self.post_send(endpoint, &[chunk]))
    }

    /// Posts bytes of a connection that is [plain](crate::Event::Plain), or leads to an [address of
    /// gRPC](Address::Grpc), at most as many as [`send_room`](Self::send_room) says.
    ///
    /// # Errors
    /// [`VerbsError::NotPlain`], [`VerbsError::NoRoom`], [`VerbsError::StaleEndpoint`].
    fn post_plain(&mut self, endpoint: EndpointId, _bytes: &[u8]) -> Result<(), VerbsError> {
        Err(VerbsError::NotPlain(endpoint))
    }

    /// A buffer that was shared with the queue, is written, and that the queue was the last to have: to be used again.
    /// Few of them are kept.
    fn reclaim(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Bounds what an endpoint may hold of what can't be overtaken any more, from now on; `None`: only as the queue bounds
    /// all of them. What the kernel takes stays bounded until it is told otherwise. Transports that can't do it are
    /// bounded as their queue is. A stale id is ignored.
    fn bound(&mut self, _endpoint: EndpointId, _bound: Option<Bound>) {}

    /// How far an endpoint has got, where the transport tells; over a network of the kernel's.
    fn acknowledged(&self, _endpoint: EndpointId) -> Option<Acknowledged> {
        None
    }

    /// Tags what an endpoint sends from now on, for the queues on its way: a code point of differentiated services, 0 to
    /// 63 (RFC 2474). Without effect where there is no network of the Internet's.
    ///
    /// # Errors
    /// [`VerbsError::System`] where the system doesn't allow it. A stale id is ignored.
    fn tag(&mut self, _endpoint: EndpointId, _code_point: u8) -> Result<(), VerbsError> {
        Ok(())
    }

    /// Reads from an endpoint only when that is [asked for](Self::post_receive) from now on, or, if not `metered`, as soon as
    /// something is there, as at first. What isn't read waits in the kernel, and then at the peer; so does the news that the
    /// peer has gone. Whether that is so from now on: not of a stale id, nor of transports that aren't streams.
    fn meter(&mut self, _endpoint: EndpointId, _metered: bool) -> bool {
        false
    }

    /// Asks for something to be read of an endpoint that is [metered](Self::meter): what one read finds as soon as something is
    /// there, a chunk of the longest kind or so. Asked for twice it is read once.
    fn post_receive(&mut self, _endpoint: EndpointId) {}

    /// Hands everything posted to the kernel: one write per endpoint, however many chunks.
    fn submit(&mut self);

    /// Hands completions to `sink`, and says how many. Never blocks; when there is nothing it costs next to nothing,
    /// so that a thread may spin on it. `now` is the time by the caller's clock, the same in all calls.
    fn poll(&mut self, now: Time, sink: &mut dyn FnMut(Event<'_>)) -> usize;

    /// Submits, then blocks until a poll would find something, a waker woke, or `timeout` is over. May return early.
    fn wait(&mut self, now: Time, timeout: Option<Duration>);

    /// A handle by which other threads end this queue's [`wait`](Self::wait).
    fn waker(&self) -> Waker;

    /// What the queue did since it was opened.
    fn stats(&self) -> QueueStats;
}

/// Chunks that lie one after the other, each with its length before it, as they do on a stream.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Run<'a> {
    /// Bytes of the length before a chunk: a `u32`, little-endian.
    pub const PREFIX: usize = PREFIX;

    /// The `count` chunks that these bytes are.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8], count: usize) -> Self {
        let run = Self { bytes, count };
        debug_assert_eq!(run.chunks().count(), count);
        debug_assert_eq!(run.chunks().map(<[u8]>::len).sum::<usize>(), run.payload());
        run
    }

    /// The chunks and their lengths.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// How many chunks there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.count
    }

    /// Bytes of the chunks, without their lengths.
    #[must_use]
    pub fn payload(self) -> usize {
        self.bytes.len().saturating_sub(self.count * PREFIX)
    }

    /// The chunks, in order.
    pub fn chunks(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (prefix, after) = rest.split_first_chunk::<PREFIX>()?;
            let (chunk, after) = after.split_at_checked(u32::from_le_bytes(*prefix) as usize)?;
            rest = after;
            Some(chunk)
        })
    }
}

/// What becomes of a connection that comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptMode {
    /// It belongs to the queue that accepted it.
    #[default]
    Keep,
    /// It is handed out, for some queue to [`adopt`](CompletionQueue::adopt).
    Detach,
}

/// What a queue did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// System calls of polls, submits and waits.
    pub system_calls: u64,
    /// Connections that came in.
    pub accepted: u64,
    /// Failures to accept one, for want of descriptors or of memory for the most part. Accepting goes on.
    pub accept_errors: u64,
    /// Chunks that arrived.
    pub chunks_in: u64,
    /// Chunks that were posted.
    pub chunks_out: u64,
    /// Payload bytes that arrived.
    pub bytes_in: u64,
    /// Payload bytes that were posted.
    pub bytes_out: u64,
    /// Writes that were handed to the kernel; `chunks_out` over this is how well they batch.
    pub writes: u64,
    /// Connections ended because of a chunk whose announced length is not allowed.
    pub oversized: u64,
    /// Connections that ended within a chunk.
    pub truncated: u64,
    /// Connections ended because of what the peer did, or is, in terms of TLS; see [`TlsFault`](crate::TlsFault). Those
    /// that were merely cut off don't count.
    pub tls_faults: u64,
    /// Times that arriving bytes found no receive buffer and had to wait for one.
    pub out_of_buffers: u64,
    /// Messages over a fabric that belonged to no connection: of strangers, or late. They are thrown away.
    pub foreign: u64,
}
