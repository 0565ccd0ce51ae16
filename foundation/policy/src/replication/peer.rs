//! What is known of one follower: what is under way to it, how long that takes, and how much its path carries.

use super::estimate::{Least, Level, Mean};
use super::instance::duration;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A replica, by the number that the group knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// A follower as its leader sees it.
///
/// 1. `flight` is in the order of sending, and so of indices; it never holds more than [`Peer::MOST_UNDER_WAY`].
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) id: PeerId,
    flight: VecDeque<Sent>,
    under_way: Level,
    /// Seconds from sending an append to its acknowledgement, less what its bytes take on the path.
    round_trip: Least,
    /// The same without a sync: heartbeats.
    echo: Least,
    usual: Mean,
    capacity: Option<Capacity>,
    span: PeerSpan,
    last: PeerSpan,
    /// The one that capacity was learned from last.
    before: PeerSpan,
    /// Whether it acknowledged nothing in the last span, though it was sent something or others did.
    silent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    index: u64,
    at: Time,
    bytes: u64,
}

/// What a path carries, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Capacity {
    rate: f64,
    /// Whether it was seen at its limit: more was under way than it takes, and it got no faster. Else it may carry more.
    confirmed: bool,
}

/// What was seen of a peer in a span.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerSpan {
    acked_bytes: u64,
    acks: u64,
    sends: u64,
    /// The least that any took beside its bytes; 0 if there was none.
    least: f64,
    /// Batches under way, on average.
    under_way: f64,
    seconds: f64,
}

impl PeerSpan {
    /// Batches acknowledged.
    pub(super) const fn acks(&self) -> u64 {
        self.acks
    }

    fn bytes_under_way(&self) -> f64 {
        self.under_way * self.acked_bytes as f64 / self.acks.max(1) as f64
    }

    /// How much of a window of so many batches was used.
    pub(super) fn used(&self, window: u64) -> f64 {
        self.under_way / window.max(1) as f64
    }
}

impl Peer {
    /// The most appends that are timed at once. What is sent beyond is not measured.
    pub(super) const MOST_UNDER_WAY: usize = 1024;

    /// For how long the least round trip stands.
    const LEAST_WINDOW: Duration = Duration::from_secs(10);

    pub(super) fn new(id: PeerId) -> Self {
        Self {
            id,
            flight: VecDeque::with_capacity(Self::MOST_UNDER_WAY),
            under_way: Level::default(),
            round_trip: Least::new(Self::LEAST_WINDOW),
            echo: Least::new(Self::LEAST_WINDOW),
            usual: Mean::new(0.1),
            capacity: None,
            span: PeerSpan::default(),
            last: PeerSpan::default(),
            before: PeerSpan::default(),
            silent: false,
        }
    }

    pub(super) fn sent(&mut self, now: Time, index: u64, bytes: u64) {
        self.span.sends += 1;
        let in_order = self.flight.back().is_none_or(|last| last.index < index);
        if in_order && self.flight.len() < Self::MOST_UNDER_WAY {
            self.flight.push_back(Sent { index, at: now, bytes });
            self.under_way.change(now, 1, 0);
        }
    }

    /// All up to `index` has arrived and is durable there.
    pub(super) fn acked(&mut self, now: Time, index: u64) {
        while let Some(sent) = self.flight.pop_front_if(|sent| sent.index <= index) {
            self.under_way.change(now, 0, 1);
            let took = now.since(sent.at).as_secs_f64();
            let of_bytes = match self.capacity {
                Some(Capacity { rate, confirmed: true }) => sent.bytes as f64 / rate,
                _ => 0.0,
            };
            let beside_bytes = (took - of_bytes).max(took / 10.0);
            self.round_trip.observe(now, beside_bytes);
            self.span.least = if self.span.acks == 0 { beside_bytes } else { self.span.least.min(beside_bytes) };
            self.usual.observe(took);
            self.span.acks += 1;
            self.span.acked_bytes = self.span.acked_bytes.saturating_add(sent.bytes);
        }
    }

    pub(super) fn echoed(&mut self, now: Time, round_trip: Duration) {
        self.echo.observe(now, round_trip.as_secs_f64());
    }

    /// What was under way is lost, or will be sent again.
    pub(super) fn reset(&mut self, now: Time) {
        self.flight.clear();
        self.under_way.change(now, 0, u64::MAX);
    }

    pub(super) fn take_span(&mut self, now: Time, seconds: f64) {
        let (area, _) = self.under_way.take_areas(now);
        let span = std::mem::take(&mut self.span);
        self.last = PeerSpan { under_way: if seconds > 0.0 { area / seconds } else { 0.0 }, seconds, ..span };
    }

    /// Whether it is silent since the span that was taken last, in which `anybody` acknowledged something or nobody did.
    /// Who is gone is sent nothing any more, which is a sign of it only if others go on.
    pub(super) const fn note_silence(&mut self, anybody: bool) {
        self.silent = self.last.acks == 0 && (self.last.sends > 0 || anybody || self.silent);
    }

    /// The span that was taken last.
    pub(super) const fn last_span(&self) -> PeerSpan {
        self.last
    }

    /// Learns what the path carries from the span that was taken last, if nothing but the path held appends up in it
    /// (`free`: neither a core nor a disk was busy).
    ///
    /// Where the path is full, every append finds a queue, even the luckiest of the span. Where some find none, the path
    /// was idle at times, and may carry more.
    ///
    /// As long as the path is full, nobody sees how long it is when it isn't, so what was seen before is kept. A path
    /// that has become longer looks the same, until more or less is under way: a queue changes with that, a path doesn't.
    pub(super) fn learn_capacity(&mut self, now: Time, window: u64, free: bool) {
        let span = self.last;
        let (Some(least), true) = (self.least(), span.seconds > 0.0 && span.acks > 0) else { return };
        let rate = span.acked_bytes as f64 / span.seconds;
        if rate <= 0.0 {
            return;
        }
        let full = span.used(window) > 0.7 && window > 1;
        let known = self.capacity.map_or(0.0, |capacity| capacity.rate);
        let confirmed = self.capacity.is_some_and(|capacity| capacity.confirmed);
        let queued = span.least > least * QUEUED;
        if queued && !free {
            self.round_trip.keep(now);
            self.echo.keep(now);
        }
        if queued && free && self.is_longer(&span) {
            self.round_trip.restart(now, span.least);
            self.echo.restart(now, f64::INFINITY);
            self.capacity = Some(Capacity { rate: rate * OPTIMISM, confirmed: false });
        } else if full && free && queued {
            self.round_trip.keep(now);
            self.echo.keep(now);
            self.capacity = Some(Capacity { rate, confirmed: true });
        } else if !confirmed || rate > known * 1.05 {
            self.capacity = Some(Capacity { rate: known.max(rate * OPTIMISM), confirmed: false });
        } else if full && span.least < least * UNQUEUED && rate > known * 0.9 {
            self.capacity = Some(Capacity { rate: rate * OPTIMISM, confirmed: false });
        }
        self.before = span;
    }

    /// Whether appends took about as long as in the span before although more, or less, was under way.
    fn is_longer(&self, span: &PeerSpan) -> bool {
        let logarithm = |one: f64, other: f64| (one.max(1e-12) / other.max(1e-12)).ln().abs();
        let more = logarithm(span.bytes_under_way(), self.before.bytes_under_way());
        self.before.acks > 0 && more > 0.14 && logarithm(span.least, self.before.least) < more / 3.0
    }

    /// Bytes a second that the path is thought to carry; infinite before anything was measured.
    pub(super) fn bandwidth(&self) -> f64 {
        self.capacity.map_or(f64::INFINITY, |capacity| capacity.rate)
    }

    /// The least time that an append takes beside its bytes, sync included, in seconds; `None`: none has come back,
    /// ever or lately.
    pub(super) fn least(&self) -> Option<f64> {
        self.round_trip.value().filter(|_| !self.silent)
    }

    /// The least time of a message there and back without a sync, in seconds, and what is left of an append's for the
    /// sync. Where there are no heartbeats, a sync takes what it takes here.
    pub(super) fn split(&self, sync_here: f64) -> Option<(f64, f64)> {
        let least = self.least()?;
        match self.echo.value() {
            Some(echo) if echo <= least => Some((echo, least - echo)),
            Some(_) => Some((least, 0.0)),
            None => {
                let sync = sync_here.min(least * 0.95);
                Some((least - sync, sync))
            }
        }
    }

    /// What appends take lately.
    pub(super) fn usual(&self) -> Option<Duration> {
        self.usual.value().map(duration)
    }
}

/// So much longer than the least, and there is a queue.
const QUEUED: f64 = 1.15;

/// So near to it, and there is none.
const UNQUEUED: f64 = 1.07;

/// What a path that never was at its limit may carry, in terms of what it did: BBR's gain at its start is 2.89.
const OPTIMISM: f64 = 3.0;
