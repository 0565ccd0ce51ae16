//! What the backends over stream sockets have in common: a connection and its life.

use greenwave_policy::Time;
use rustix::fd::OwnedFd;
use rustix::net::{Shutdown, shutdown};

use crate::framing::{Framer, WrongLength};
use crate::outbox::{Outbox, Spare};
use crate::{CloseReason, EndpointId, Event, QueueStats, VerbsError};

/// A connection over a stream socket.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) socket: OwnedFd,
    pub(crate) phase: Phase,
    pub(crate) outbox: Outbox,
    framer: Framer,
    /// Writing failed for this reason. What the peer sent before that is still handed on, up to the end.
    broken: Option<CloseReason>,
    /// Listed by the queue among those that have something to write.
    pub(crate) dirty: bool,
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

impl Stream {
    pub(crate) fn new(socket: OwnedFd, phase: Phase) -> Self {
        Self { socket, phase, outbox: Outbox::default(), framer: Framer::default(), broken: None, dirty: false }
    }

    /// Whether the owner may post.
    pub(crate) fn takes_posts(&self) -> bool {
        matches!(self.phase, Phase::Connecting { closing: false } | Phase::Open)
    }

    /// Whether posted bytes may be written now.
    pub(crate) fn may_write(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Flushing) && !self.outbox.is_empty() && self.broken.is_none()
    }

    /// Hands on the chunks in what was read. An error ends the connection.
    pub(crate) fn receive(
        &mut self,
        id: EndpointId,
        bytes: &[u8],
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        let (chunks_in, bytes_in) = (&mut stats.chunks_in, &mut stats.bytes_in);
        let fed = self.framer.feed(bytes, limit, &mut |chunk| {
            *chunks_in += 1;
            *bytes_in += chunk.len() as u64;
            sink(Event::Received { endpoint: id, chunk });
        });
        fed.map_err(|WrongLength(len)| {
            stats.oversized += 1;
            CloseReason::Oversized { len, limit }
        })
    }

    /// The next step of a close that flushes. True: all is written, and the connection lingers from now on.
    pub(crate) fn finish_flush(&mut self) -> bool {
        if self.phase != Phase::Flushing || !self.outbox.is_empty() || self.broken.is_some() {
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
            return CloseReason::Flushed;
        }
        if self.framer.is_within_chunk() {
            stats.truncated += 1;
        }
        self.broken.unwrap_or(reason)
    }
}

/// The limits of a queue's outboxes, and their spare buffers.
#[derive(Debug)]
pub(crate) struct Posting {
    pub(crate) chunk_bytes: usize,
    pub(crate) mark: usize,
    pub(crate) spare: Spare,
}

impl Posting {
    /// Payload bytes that may be posted to a connection.
    pub(crate) fn room(&self, stream: &Stream) -> usize {
        let unwritten = stream.outbox.unwritten();
        if unwritten >= self.mark || !stream.takes_posts() { 0 } else { self.mark - unwritten + self.chunk_bytes }
    }

    /// Adds a chunk to a connection's outbox.
    pub(crate) fn post(
        &mut self,
        id: EndpointId,
        stream: &mut Stream,
        parts: &[&[u8]],
        stats: &mut QueueStats,
    ) -> Result<(), VerbsError> {
        let len = parts.iter().map(|part| part.len()).sum();
        if len == 0 || len > self.chunk_bytes {
            return Err(VerbsError::ChunkLength { len, limit: self.chunk_bytes });
        }
        if stream.outbox.unwritten() >= self.mark {
            return Err(VerbsError::NoRoom { endpoint: id, len });
        }
        stream.outbox.push(parts, len, self.mark, &mut self.spare);
        stats.chunks_out += 1;
        stats.bytes_out += len as u64;
        Ok(())
    }
}

/// Something that a poll is to tell, unless the endpoint is aborted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Connected,
    Writable,
    Closed(CloseReason),
}

/// What is to happen when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The connection has lingered long enough.
    Linger(u64),
    /// The listener may try again.
    Accept(u64),
}

/// The timers of a queue. There are few; most of the time none.
#[derive(Debug, Default)]
pub(crate) struct Timers(Vec<(Time, Due)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Time, due: Due) {
        self.0.push((at, due));
    }

    /// A timer whose time has come.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<Due> {
        if self.0.is_empty() {
            return None;
        }
        let index = self.0.iter().position(|&(at, _)| at <= now)?;
        Some(self.0.swap_remove(index).1)
    }

    /// When the next one's time comes.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.iter().map(|&(at, _)| at).min()
    }
}
