//! One direction of a connection: what was sent and when it is due.

use std::collections::VecDeque;
use std::time::Duration;

use greenwave_policy::Time;

use super::Faults;

/// Chunks on their way in one direction, and the arrivals that nobody can take yet.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Submitted, but the lane is full.
    pub(super) waiting: VecDeque<Vec<u8>>,
    pub(super) waiting_bytes: usize,
    /// Under way. Each chunk has an arrival of its own, somewhere; the arrivals decide when, this decides which.
    transit: VecDeque<Vec<u8>>,
    transit_bytes: usize,
    /// Arrivals that came while the receiver was stalled or nobody owned its end.
    pub(super) held: VecDeque<(Time, Arrives)>,
    /// When the last byte sent so far is through: a lane with a rate sends one chunk after the other.
    free_at: Time,
    /// The latest due time so far; later chunks are not due earlier.
    last_due: Time,
    sent: u64,
    /// The sender closed. The end of the stream arrives once everything before it is under way.
    pub(super) closing: bool,
    /// The end of the stream was sent.
    ended: bool,
}

/// What arrives at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrives {
    Chunk,
    End,
}

impl Lane {
    /// Accepts a chunk for sending.
    pub(super) fn push(&mut self, chunk: Vec<u8>) {
        self.waiting_bytes += chunk.len();
        self.waiting.push_back(chunk);
    }

    /// Puts the next waiting chunk under way. Returns when it is due, once for each copy; `None` if nothing waits or
    /// the lane is full.
    pub(super) fn advance(&mut self, now: Time, window: usize, faults: &Faults, rng: &mut Rng) -> Option<Sent> {
        let len = self.waiting.front()?.len();
        if self.transit_bytes > 0 && self.transit_bytes + len > window {
            return None;
        }
        let mut chunk = self.waiting.pop_front()?;
        self.waiting_bytes -= len;
        if faults.cut_after.is_some_and(|limit| self.sent >= limit) {
            return Some(Sent::Cut);
        }
        self.sent += 1;
        if rng.hits(faults.corrupt) {
            let bit = rng.next() as usize % (len * 8);
            chunk[bit / 8] ^= 1 << (bit % 8);
        }
        if let Some(rate) = faults.bytes_per_second {
            let nanos = (len as u64).saturating_mul(1_000_000_000) / u64::from(rate.get());
            self.free_at = self.free_at.max(now) + Duration::from_nanos(nanos);
        }
        self.last_due = self.last_due.max(now.max(self.free_at) + faults.delay);
        let copies = if rng.hits(faults.duplicate) { 2 } else { 1 };
        for _ in 1..copies {
            self.transit_bytes += len;
            self.transit.push_back(chunk.clone());
        }
        self.transit_bytes += len;
        if rng.hits(faults.reorder) && !self.transit.is_empty() {
            self.transit.insert(self.transit.len() - 1, chunk);
        } else {
            self.transit.push_back(chunk);
        }
        Some(Sent::Chunk { due: self.last_due, copies })
    }

    /// When the end of the stream is due, if the sender closed and everything before it is under way. Says so once.
    pub(super) fn end(&mut self, now: Time, faults: &Faults) -> Option<Time> {
        if self.ended || !self.closing || !self.waiting.is_empty() {
            return None;
        }
        self.ended = true;
        Some(self.last_due.max(now + faults.delay))
    }

    /// The chunk that arrives.
    pub(super) fn receive(&mut self) -> Option<Vec<u8>> {
        let chunk = self.transit.pop_front()?;
        self.transit_bytes -= chunk.len();
        Some(chunk)
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.transit.is_empty()
    }

    /// Loses everything.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.transit.clear();
        self.transit_bytes = 0;
        self.held.clear();
    }
}

/// What became of a chunk that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Chunk { due: Time, copies: u32 },
    Cut,
}

/// SplitMix64: the same numbers on all machines, which is what a simulation needs.
#[derive(Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with the given probability. A probability of 0 draws nothing.
    fn hits(&mut self, probability: f64) -> bool {
        probability > 0.0 && (self.next() >> 11) as f64 / (1_u64 << 53) as f64 <= probability
    }
}
