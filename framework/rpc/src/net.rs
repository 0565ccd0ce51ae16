//! The connections of one thread over its completion queue.
//!
//! Used by cluster heads, workers and clients alike. It moves chunks between the queue and the ends of connections, opens
//! connections when calls need them, and keeps their timers. What it finds out it reports as [`Event`]s; it runs nothing.
//!
//! Calls, replies and cancellations are posted by [`Net::flush`], many in one system call.

mod agenda;
mod calling;
mod dialer;
mod directory;
mod ending;
mod endpoint;
mod ends;
mod events;
mod grpc;
mod making;
mod metering;
mod plain;
mod pool;
mod retiring;
mod rotation;
mod route;
#[cfg(test)]
mod tests;
mod usage;

use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::config::Limits;
use crate::counters::Counters;
use crate::status::{Reason, Status};
use crate::wire::{CallId, MethodId};
pub(crate) use calling::CallingEnd;
use dialer::Dialer;
use endpoint::Endpoint;
use ends::{End, Ends, Peer};
pub(crate) use events::{Events, OutcomeId};
use greenwave_policy::{Criticality, Deadline, Time};
use greenwave_proto::Peer as Identity;
use greenwave_proto::connection::{Answer, Arrival, Finished, Link, StreamEvent, StreamMessage, Volume};
use greenwave_verbs::{
    AcceptMode, Address, Backend, Choice, Close, CompletionQueue, DetachedEndpoint, EndpointId, Event as QueueEvent,
    ListenerId, QueueConfig, TlsServer, VerbsError, Waker,
};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use plain::prefaces;
pub(crate) use rotation::Interface;
pub(crate) use route::{ConnectionConfig, Route, SpeaksGrpc, backoff, method_names, number};
pub(crate) use usage::{Charge, ConnectionUsage, SMALL, Usage};

/// A connection's name, never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PeerKey {
    index: usize,
    serial: u64,
}

/// What came of a poll or a sweep.
pub(crate) enum Event {
    /// A call came in.
    Call(PeerKey, Arrival),
    /// Of a call its headers came in, and its request is still to come.
    Announced(PeerKey, CallId, MethodId, Deadline),
    /// The caller of an open call no longer wants the answer; it is to be answered all the same.
    Cancelled(PeerKey, CallId, Option<usize>),
    /// Something came for an open call that streams.
    Streamed(PeerKey, CallId, News),
    /// Something came for a call that was made here and streams.
    Answered(StreamEvent),
    /// A call that was made here is over.
    Done { token: usize, outcome: OutcomeId },
    /// A connection came in, for some cluster to adopt.
    Accepted(DetachedEndpoint),
    /// It was attended to.
    Over,
}

/// What came for a call that is served here.
pub(crate) enum News {
    /// A message of its request.
    Message(StreamMessage),
    /// The request's end.
    Ended,
    /// So much of its answer's messages has gone out.
    Sent(Volume),
}

/// The connections of one thread.
pub(crate) struct Net {
    queue: Box<dyn CompletionQueue>,
    clock: Clock,
    ends: Ends,
    closing: Vec<Closing>,
    polled: Time,
    /// When the last poll found the first of what it found.
    found: Option<Time>,
    /// Connections that ended within a chunk, as far as they are counted.
    truncated: u64,
    drained_since: Option<Time>,
}

/// An endpoint that is closed once all is written.
struct Closing {
    /// When it is cut off at the latest.
    until: Time,
    endpoint: EndpointId,
    /// It counts as long as it is there.
    _usage: Option<ConnectionUsage>,
}

/// How long a drained server listens for calls of clients that have not heard of it yet. Those that read hear of it at
/// once and say so; who doesn't read has no calls under way, as a rule.
const FAREWELL: Duration = Duration::from_millis(100);

impl Net {
    /// `movable`: several threads use it, one after the other. `prefaces`: what connections of other protocols begin with.
    /// `receive_buffers`: for all connections together, a power of
    /// two; as many as a connection's credits, within bounds, if none are given.
    pub(crate) fn new(
        backend: Choice,
        limits: &Limits,
        clock: Clock,
        movable: bool,
        prefaces: &'static [[u8; 4]],
        receive_buffers: Option<u16>,
    ) -> Result<Self, VerbsError> {
        let credits = || limits.announced(true).credits.clamp(64, 1024).next_power_of_two() as u16;
        let receive_buffers = receive_buffers.unwrap_or_else(credits);
        let config = QueueConfig {
            backend,
            chunk_bytes: limits.announced(true).chunk_bytes as usize,
            receive_buffers,
            movable,
            plain: prefaces,
            handshakes: limits.most_handshakes() as usize,
            ..QueueConfig::default()
        };
        Ok(Self {
            queue: greenwave_verbs::open(&config)?,
            clock,
            ends: Ends::new(),
            closing: Vec::new(),
            polled: Time::ZERO,
            found: None,
            truncated: 0,
            drained_since: None,
        })
    }

    /// Serves connections too, counting into `counters`.
    pub(crate) fn serve(&mut self, mut serving: ConnectionConfig, counters: Arc<Counters>, usage: Arc<Usage>) {
        let Bounds { idle, age, .. } = *usage.bounds();
        serving.grpc = serving.grpc.map(|settings| settings.lasting_at_most(idle, age));
        // Nothing but Greenwave's own protocol goes over memory and fabrics.
        if !matches!(self.queue.backend(), Backend::Uring | Backend::Epoll) {
            (serving.grpc, serving.web) = (None, None);
        }
        self.ends.most_assembly = serving.limits.most_assembly_bytes();
        self.ends.serving = Some(serving);
        (self.ends.counters, self.ends.usage) = (counters, Some(usage));
    }

    #[cfg(test)]
    pub(crate) fn stats(&self) -> greenwave_verbs::QueueStats {
        self.queue.stats()
    }

    pub(crate) fn waker(&self) -> Waker {
        self.queue.waker()
    }

    /// Listens, and says where. Connections are handed out as [`Event::Accepted`] if there are several clusters.
    pub(crate) fn listen(
        &mut self,
        address: &Address,
        tls: Option<&TlsServer>,
        hand_out: bool,
    ) -> Result<(ListenerId, Address), VerbsError> {
        let serving = self.ends.serving.as_ref();
        let speaks = |it: fn(&ConnectionConfig) -> bool| serving.is_some_and(it);
        let mut tls = tls.cloned();
        if speaks(|serving| serving.grpc.is_some()) {
            tls = tls.map(|tls| tls.offering(greenwave_grpc::ALPN));
        }
        if speaks(|serving| serving.web.is_some()) {
            tls = tls.map(|tls| tls.offering(greenwave_web::ALPN));
        }
        let listener = self.queue.listen_with(address, tls.as_ref())?;
        if hand_out {
            self.queue.set_accept_mode(listener, AcceptMode::Detach)?;
        }
        Ok((listener, self.queue.local_address(listener)?))
    }

    pub(crate) fn close_listener(&mut self, listener: ListenerId) {
        self.queue.close_listener(listener);
    }

    /// Counts a connection that came in from there, if there may be a further one.
    pub(crate) fn admit(&mut self, now: Time, from: &Address) -> Option<ConnectionUsage> {
        self.ends.admit(now, from)
    }

    /// Takes over a connection that another thread accepted.
    pub(crate) fn adopt(&mut self, endpoint: DetachedEndpoint, usage: ConnectionUsage, now: Time) {
        let from = endpoint.peer().clone();
        match self.queue.adopt(endpoint) {
            Ok(endpoint) => {
                if !self.ends.welcome(now, endpoint, &from, usage) {
                    self.queue.close(endpoint, Close::Abort);
                }
            }
            Err(error) => tracing::warn!(%error, "a connection was lost between clusters"),
        }
    }

    /// Names a connection. It connects with the first call.
    pub(crate) fn open(&mut self, route: Route) -> PeerKey {
        let (chunk_bytes, now) = (self.queue.chunk_bytes(), self.clock.now());
        self.ends.add(match route.address.is_grpc() {
            false => End::Caller(Box::new(Dialer::new(route, chunk_bytes, now))),
            true => End::GrpcCaller(Box::new(Dialer::new(route, chunk_bytes, now))),
        })
    }

    /// Whether a connection of this name was opened here and calls can be made on it.
    pub(crate) fn knows(&mut self, key: PeerKey) -> bool {
        self.ends.peer(key).is_some_and(|peer| matches!(peer.end, End::Caller(_) | End::GrpcCaller(_)))
    }

    /// Gives up a connection that [`open`](Self::open) named. No call is under way on it.
    pub(crate) fn forget(&mut self, key: PeerKey) {
        if self.ends.peer(key).is_some() {
            if let Some(endpoint) = self.ends.disconnect(key.index) {
                self.queue.close(endpoint, Close::Abort);
            }
            self.ends.remove(key.index);
        }
    }

    /// Who makes calls over a connection that came in.
    #[inline]
    pub(crate) fn identity(&self, key: PeerKey) -> Option<&Arc<Identity>> {
        self.ends.peers.get(key.index).filter(|peer| peer.serial == key.serial)?.identity.as_ref()
    }

    /// Notes which task serves a call, to be said when it is cancelled.
    #[inline(always)]
    pub(crate) fn served_by(&mut self, key: PeerKey, call: CallId, task: usize) {
        match self.ends.peer(key).map(|peer| &mut peer.end) {
            Some(End::Callee(callee)) => callee.served_by(call, task),
            Some(End::Plain(callee)) => callee.served_by(call, task),
            _ => {}
        }
    }

    /// Answers a call. If its connection is gone meanwhile there is nobody to answer.
    pub(crate) fn answer(&mut self, key: PeerKey, answer: Answer) {
        let Ends { peers, pool, .. } = &mut self.ends;
        let Some(peer) = peers.get_mut(key.index).filter(|peer| peer.serial == key.serial) else { return };
        peer.retiring.used = self.polled;
        let spare = match &mut peer.end {
            End::Callee(callee) => {
                callee.link.lend(|| pool.take_queue());
                callee.answer(answer)
            }
            End::Plain(callee) => callee.answer(answer),
            _ => return,
        };
        if let Some(body) = spare {
            pool.put(body);
        }
        self.ends.mark(key.index);
    }

    /// An answer with a long message, or a failure in its place if there is no room for it until it is read.
    #[cold]
    pub(crate) fn fitted(&mut self, key: PeerKey, result: Result<Vec<u8>, Status>) -> Result<Vec<u8>, Status> {
        let body = result?;
        let usage = self.ends.peer(key).and_then(|peer| peer.usage.as_ref());
        if usage.is_none_or(|usage| usage.has_room(body.len())) {
            return Ok(body);
        }
        self.ends.counters.memory_refused.add(1);
        let text = format!("an answer of {} bytes, and those before it are not read yet", body.len());
        Err(Status::refused(Reason::ReplyTooLarge, text))
    }

    /// Notes what a connection holds, after it was given a long message.
    #[cold]
    pub(crate) fn note_held(&mut self, key: PeerKey) {
        if let Some(peer) = self.ends.peer(key) {
            peer.tell_memory();
        }
    }

    /// Counts a call's request, for as long as the charge is there; `Err`: there is no room for it, and why.
    #[cold]
    pub(crate) fn charge(
        &mut self,
        key: PeerKey,
        bytes: usize,
        criticality: Criticality,
    ) -> Result<Option<Charge>, Status> {
        let Some(usage) = self.ends.peer(key).and_then(|peer| peer.usage.as_mut()) else { return Ok(None) };
        usage.charge(bytes, criticality).map(Some).map_err(|left| {
            self.ends.counters.memory_refused.add(1);
            let text = format!("a request of {bytes} bytes, with room left for {left} by what is being served");
            Status::refused(Reason::TooManyCalls, text)
        })
    }

    /// Whether the request of a call that was announced is still to come.
    pub(crate) fn is_announced(&mut self, key: PeerKey, call: CallId) -> bool {
        let end = self.ends.peer(key).map(|peer| &peer.end);
        matches!(end, Some(End::Plain(callee)) if callee.is_announced(call))
    }

    /// Refuses a call that was announced, unless its request came since. Whether it did.
    pub(crate) fn refuse_announced(&mut self, now: Time, key: PeerKey, call: CallId, status: &Status) -> bool {
        let refused = match self.ends.peer(key).map(|peer| &mut peer.end) {
            Some(End::Plain(callee)) => callee.refuse_announced(now, call, status),
            _ => false,
        };
        if refused {
            self.ends.mark(key.index);
        }
        refused
    }

    /// Sends a message of the answer to a call that streams.
    pub(crate) fn send(&mut self, key: PeerKey, call: CallId, message: StreamMessage) {
        match self.ends.peer(key).map(|peer| &mut peer.end) {
            Some(End::Callee(callee)) => callee.send(call, message),
            Some(End::Plain(callee)) => callee.send(call, message),
            _ => return,
        }
        self.ends.mark(key.index);
    }

    /// Says what goes before the answer to a call.
    pub(crate) fn begin_answer(&mut self, key: PeerKey, call: CallId, metadata: &[u8]) {
        match self.ends.peer(key).map(|peer| &mut peer.end) {
            Some(End::Callee(callee)) => callee.begin_answer(call, metadata),
            Some(End::Plain(callee)) => callee.begin_answer(call, metadata),
            _ => return,
        }
        self.ends.mark(key.index);
    }

    /// So many of a call's messages were taken by whoever serves it.
    pub(crate) fn consumed(&mut self, key: PeerKey, call: CallId, taken: Volume) {
        match self.ends.peer(key).map(|peer| &mut peer.end) {
            Some(End::Callee(callee)) => callee.consumed(call, taken),
            Some(End::Plain(callee)) => callee.consumed(call, taken),
            _ => return,
        }
        self.ends.mark(key.index);
    }

    /// An empty buffer for a message of about `len` bytes, as far as that is known.
    pub(crate) fn buffer(&mut self, len: usize) -> Vec<u8> {
        self.ends.pool.take_about(len)
    }

    /// Takes a buffer back.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        self.ends.pool.put(buffer);
    }

    /// Reaps completions, without blocking. How many there were.
    pub(crate) fn poll(&mut self, now: Time, events: &mut Events) -> usize {
        self.poll_with(now, events, Events::finish)
    }

    /// [`poll`](Self::poll), where calls that are answered go to `finish` at once.
    #[inline]
    pub(crate) fn poll_with(
        &mut self,
        now: Time,
        events: &mut Events,
        mut finish: impl FnMut(&mut Events, Finished),
    ) -> usize {
        self.polled = now;
        let Self { queue, clock, ends, .. } = self;
        ends.is_tight = ends.usage.as_ref().is_some_and(|usage| usage.is_tight());
        if !ends.late.is_empty() {
            events.append(&mut ends.late);
        }
        // What is found has the time at which it is found: a thread that was kept from running since `now` would
        // otherwise claim to have had it all the while.
        let mut found = None;
        let reaped = queue.poll(now, &mut |event| {
            let found = *found.get_or_insert_with(|| clock.now());
            if let QueueEvent::Received { endpoint, chunk } = event {
                ends.receive(found, endpoint, chunk, events, &mut finish);
                // It holds nothing; to find that out again takes longer than one would think.
                std::mem::forget(event);
            } else {
                ends.on_event(found, event, events);
            }
        });
        if !self.ends.fates.is_empty() {
            self.meet_fates(now, events);
        }
        self.found = found;
        reaped
    }

    /// When the last poll found the first of what it found: what it took until then was the system calls' time.
    #[inline]
    pub(crate) fn found(&self) -> Option<Time> {
        self.found
    }

    /// Where there is a crowd of calls, has clients keep further ones.
    #[inline]
    pub(crate) fn hold_off(&mut self, now: Time, crowded: bool) {
        self.ends.hold_off(now, crowded);
    }

    /// Whether there is something to post.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        !self.ends.dirty.is_empty()
    }

    /// Posts what waits, short messages first, and hands it to the kernel. Of what is long there may be some left.
    pub(crate) fn flush(&mut self, now: Time) {
        let mut posted = false;
        while let Some(index) = self.ends.next_dirty() {
            let Ends { peers, pool, late, counters, .. } = &mut self.ends;
            let peer = &mut peers[index];
            let Some(id) = peer.endpoint else { continue };
            if peer.is_long() {
                self.ends.queue_up(now, index);
                continue;
            }
            posted = true;
            let endpoint = &mut Endpoint { queue: &mut *self.queue, id };
            if let End::Plain(_) | End::GrpcCaller(_) | End::GrpcLeaving { .. } = peer.end {
                self.ends.transmit_plain(now, index, endpoint);
                continue;
            }
            if let Err(error) = peer.transmit(now, endpoint, |buffer| pool.put(buffer)) {
                // The queue reports the connection's end on its own; until then there is nothing to be done for it.
                tracing::debug!(endpoint = %id, %error, "not sent");
            }
            peer.tell_streams(index, late, counters);
            if let Some(memory) = peer.link().and_then(Link::reclaim) {
                pool.put_queue(memory);
            }
            self.ends.expect(index);
        }
        if self.ends.rotation.is_any_ready() {
            posted |= self.take_turns(now);
        }
        self.ends.tell_others();
        if posted {
            self.queue.submit();
            // What was shared with the queue and is written, now or since the last time.
            while let Some(buffer) = self.queue.reclaim() {
                self.ends.pool.put(buffer);
            }
        }
    }

    /// Does what is overdue: expired calls, silent and stalled peers. When to ask again.
    #[inline]
    pub(crate) fn sweep(&mut self, now: Time, events: &mut Events) -> Option<Time> {
        if now >= self.ends.next_sweep {
            self.sweep_all(now, events);
        }
        Some(self.ends.next_sweep).filter(|next| *next < Time::MAX)
    }

    fn sweep_all(&mut self, now: Time, events: &mut Events) {
        let Self { queue, closing, ends, .. } = self;
        ends.sweep(now, events);
        closing.retain(|&Closing { until, endpoint, .. }| {
            let overdue = now >= until;
            if overdue {
                queue.close(endpoint, Close::Abort);
            } else {
                ends.next_sweep = ends.next_sweep.min(until);
            }
            !overdue
        });
        self.meet_fates(now, events);
    }

    /// Posts what waits, then blocks until something happens, is due, or `timeout` is over.
    pub(crate) fn wait(&mut self, now: Time, timeout: Option<Duration>) {
        self.flush(now);
        if !self.ends.late.is_empty() {
            return;
        }
        // Asked here and not before: what was just posted, or could not be, may be due earlier than anything else.
        let due = (self.ends.next_sweep < Time::MAX).then(|| self.ends.next_sweep.since(now));
        let turn = self.ends.rotation_due(now).map(|turn| turn.since(now));
        self.queue.wait(now, due.into_iter().chain(turn).chain(timeout).min());
    }

    /// Tells all peers that no further calls are taken.
    pub(crate) fn go_away(&mut self, text: &str) {
        self.ends.draining = true;
        for (index, peer) in &mut self.ends.peers {
            match &mut peer.end {
                End::Callee(callee) => callee.link.go_away(text),
                End::Plain(callee) => callee.go_away(),
                _ => continue,
            }
            if !std::mem::replace(&mut peer.dirty, true) {
                self.ends.dirty.push(index);
            }
        }
    }

    /// Whether everything is answered and posted, and nothing more is to be expected from clients that were told.
    pub(crate) fn is_drained(&mut self, now: Time) -> bool {
        if !self.is_answered() {
            self.drained_since = None;
            return false;
        }
        let since = *self.drained_since.get_or_insert(now);
        let left_alone = |peer: &Peer| match &peer.end {
            End::Callee(callee) => callee.link.is_left_alone() || callee.link.agreed().is_none(),
            End::Plain(callee) => callee.is_done(),
            _ => true,
        };
        now.since(since) >= FAREWELL || self.ends.peers.iter().all(|(_, peer)| left_alone(peer))
    }

    /// Whether every call that came in is answered, and every answer posted.
    pub(crate) fn is_answered(&self) -> bool {
        self.ends.peers.iter().all(|(_, peer)| match &peer.end {
            End::Callee(callee) => callee.unanswered() == 0,
            End::Plain(callee) => callee.unanswered() == 0,
            _ => true,
        })
    }
}
