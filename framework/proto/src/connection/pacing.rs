//! A connection's chunks follow its link.
//!
//! [`Pace`] decides; here it is asked when the connection has more to send than its queue takes, and what it says goes to
//! the queue. Connections that are never held up, those of small calls, have none of it.

use crate::transport::Transport;
use greenwave_policy::{Bound, Pace, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// What is known of a connection's link.
///
/// Where it is off nothing is learned. While nothing is told of `bound`, the queue bounds the connection as it bounds all.
pub(super) struct Pacing {
    on: bool,
    pace: Pace,
    /// Bytes of a message that a chunk may have, its head left out.
    chunk: usize,
    bound: Option<Bound>,
    /// Whether the queue bounds the connection so now. Short messages alone it takes as many as of any connection.
    bounding: bool,
    /// Chunks of longer messages that the peer hasn't read, as far as is known: the number of each, and its bytes.
    unread: VecDeque<(u64, usize)>,
    unread_bytes: usize,
    /// What may be unread.
    window: usize,
    /// Whether the peer tells soon what it has read.
    told: bool,
    /// When it is looked again.
    next: Time,
}

impl Pacing {
    pub(super) const fn new(on: bool) -> Self {
        Self {
            on,
            pace: Pace::new(),
            chunk: usize::MAX,
            bound: None,
            bounding: false,
            unread: VecDeque::new(),
            unread_bytes: 0,
            window: usize::MAX,
            told: false,
            next: Time::ZERO,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Bytes of a message that a chunk may have.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }

    /// The peer tells soon what it has read.
    pub(super) fn will_be_told(&mut self) {
        self.told = true;
    }

    /// Whether longer messages have to wait until the peer has read more.
    #[inline]
    pub(super) fn is_shut(&self) -> bool {
        self.unread_bytes >= self.window
    }

    /// A chunk with so many bytes of a message was posted; `number`: how many were, with this one.
    #[inline]
    pub(super) fn posted(&mut self, number: u64, bytes: usize) {
        if bytes >= Pace::CHUNK_LEAST && self.told && self.bound.is_some() {
            self.unread_bytes += bytes;
            self.unread.push_back((number, bytes));
        }
    }

    /// The peer has read so many chunks.
    #[inline]
    pub(super) fn read(&mut self, number: u64) {
        while let Some((_, bytes)) = self.unread.pop_front_if(|(posted, _)| *posted <= number) {
            self.unread_bytes -= bytes;
        }
    }

    /// Messages wait, and the queue has no room; `most`: bytes of the longest chunk.
    #[cold]
    pub(super) fn held_up(&mut self, now: Time, transport: &mut impl Transport, most: usize) {
        if now < self.next || !self.on {
            return;
        }
        self.next = now + LOOK;
        let Some(acknowledged) = transport.acknowledged() else { return };
        let measured = self.pace.observe(now, acknowledged);
        if !measured && self.bound.is_some() {
            return;
        }
        let (chunk, turn) = (self.pace.chunk(most), self.pace.turn(most));
        let bound = Bound { posted: turn.saturating_sub(chunk).max(1), taken: self.pace.bound(most), chunk };
        self.window = self.pace.window(WINDOW_FIRST);
        if self.bound.is_none_or(|told| differ(told.taken, bound.taken) || differ(told.chunk, bound.chunk)) {
            self.chunk = chunk;
            self.bound = Some(bound);
            self.bounding = true;
            transport.bound(self.bound);
        }
    }

    /// Longer messages wait: what is known of the link holds for them from the first chunk on.
    #[inline]
    pub(super) fn begin(&mut self, transport: &mut impl Transport) {
        if !self.bounding && self.bound.is_some() {
            self.bounding = true;
            transport.bound(self.bound);
        }
    }

    /// How far the connection gets says nothing of its link, as that isn't what it waits for.
    #[inline]
    pub(super) fn rest(&mut self) {
        self.pace.rest();
    }

    /// Nothing waits any more.
    #[inline]
    pub(super) fn end(&mut self, transport: &mut impl Transport) {
        self.pace.rest();
        if std::mem::take(&mut self.bounding) {
            transport.bound(None);
        }
    }
}

/// Bytes that the peer may have unread before anything was measured.
const WINDOW_FIRST: usize = 1 << 20;

/// How often it is looked how far a connection is: a system call, beside some that write a chunk each.
const LOOK: Duration = Duration::from_micros(200);

/// Whether a size has changed by so much, an eighth, that it is worth telling.
fn differ(told: usize, now: usize) -> bool {
    told.abs_diff(now) > told / 8
}
