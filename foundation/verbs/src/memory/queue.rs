//! A completion queue on a [`Network`].

use std::cmp::Reverse;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use greenwave_policy::Time;

use super::bell::MemoryBell;
use super::state::{Arrival, End, Listener, Side, State, Taken, What};
use super::{LooseEnd, Network};
use crate::detached::Carrier;
use crate::wake::Bell;
use crate::{
    AcceptMode, Address, Backend, Close, CloseReason, CompletionQueue, DetachedEndpoint, EndpointId, Event, ListenerId,
    QueueConfig, QueueStats, TlsClient, TlsServer, VerbsError, Waker,
};

/// A queue whose connections live in memory. Its state is the network's; this is the handle to it.
#[derive(Debug)]
pub(crate) struct MemoryQueue {
    network: Network,
    inbox: usize,
    chunk_bytes: usize,
    backlog_bytes: usize,
    now: Time,
    /// Endpoints with posted chunks.
    dirty: Vec<u64>,
    bell: Arc<MemoryBell>,
    stats: QueueStats,
}

impl MemoryQueue {
    pub(crate) fn new(network: &Network, config: &QueueConfig) -> Self {
        Self {
            network: network.clone(),
            inbox: network.lock().join(),
            chunk_bytes: config.chunk_bytes,
            backlog_bytes: config.backlog_bytes,
            now: Time::ZERO,
            dirty: Vec::new(),
            bell: Arc::new(MemoryBell::new(network)),
            stats: QueueStats::default(),
        }
    }

    fn new_end(&self, link: Option<(u64, Side)>) -> End {
        End { link, posted: Vec::new(), posted_bytes: 0, mark: self.backlog_bytes, starved: false, closing: false }
    }

    /// The next thing that is due and was made before `limit`, and what the queue does about it.
    fn next(&mut self, limit: u64) -> Option<Owned> {
        let network = self.network.clone();
        let mut state = network.lock();
        loop {
            let heap = &mut state.inboxes[self.inbox].arrivals;
            if heap.peek().is_none_or(|Reverse(next)| next.due > self.now || next.sequence >= limit) {
                return None;
            }
            let Reverse(arrival) = heap.pop()?;
            if let Some(event) = self.handle(&mut state, &arrival) {
                return Some(event);
            }
        }
    }

    fn handle(&mut self, state: &mut State, arrival: &Arrival) -> Option<Owned> {
        match arrival.what {
            What::Offer { listener, link } => self.accept(state, listener, link),
            What::Connected { endpoint } => {
                state.inboxes[self.inbox].endpoints.at(endpoint)?;
                Some(Owned::Event(Event::Connected { endpoint: EndpointId(endpoint) }))
            }
            What::Writable { endpoint } => {
                let end = state.inboxes[self.inbox].endpoints.at(endpoint)?;
                (!end.closing).then_some(Owned::Event(Event::Writable { endpoint: EndpointId(endpoint) }))
            }
            What::Gone { endpoint, reason } => self.forget(state, endpoint, reason),
            What::Lane { link, side, arrives } => match state.take(link, side, arrival.due, arrives)? {
                Taken::End { endpoint } => self.forget(state, endpoint, CloseReason::PeerClosed),
                Taken::Chunk { endpoint, chunk } => {
                    state.pump(link, side.other(), self.now);
                    self.receive(state, endpoint, chunk)
                }
            },
        }
    }

    fn accept(&mut self, state: &mut State, listener: u64, link: u64) -> Option<Owned> {
        let id = ListenerId(listener);
        let Some(mode) = state.inboxes[self.inbox].listeners.at(listener).map(|found| found.mode) else {
            state.leave(link, Side::Listening);
            return None;
        };
        let name = state.links.at(link)?.name.clone();
        let peer = Address::Memory(format!("{name}/{link}"));
        self.stats.accepted += 1;
        match mode {
            AcceptMode::Keep => {
                let end = self.new_end(Some((link, Side::Listening)));
                let Ok(endpoint) = state.inboxes[self.inbox].endpoints.insert(end) else {
                    state.leave(link, Side::Listening);
                    self.stats.accept_errors += 1;
                    return None;
                };
                state.own(link, Side::Listening, (self.inbox, endpoint));
                Some(Owned::Event(Event::Accepted { listener: id, endpoint: EndpointId(endpoint), peer }))
            }
            AcceptMode::Detach => {
                let end = LooseEnd { network: self.network.clone(), link, side: Side::Listening, adopted: false };
                let endpoint = DetachedEndpoint { peer: peer.clone(), carrier: Carrier::Memory(end) };
                Some(Owned::Event(Event::AcceptedDetached { listener: id, endpoint, peer }))
            }
        }
    }

    fn receive(&mut self, state: &mut State, endpoint: u64, chunk: Vec<u8>) -> Option<Owned> {
        let end = state.inboxes[self.inbox].endpoints.at(endpoint)?;
        if end.closing {
            return None;
        }
        if chunk.len() > self.chunk_bytes {
            self.stats.oversized += 1;
            let reason = CloseReason::Oversized { len: chunk.len(), limit: self.chunk_bytes };
            return self.forget(state, endpoint, reason);
        }
        self.stats.chunks_in += 1;
        self.stats.bytes_in += chunk.len() as u64;
        Some(Owned::Chunk(EndpointId(endpoint), chunk))
    }

    fn forget(&mut self, state: &mut State, endpoint: u64, reason: CloseReason) -> Option<Owned> {
        let end = state.inboxes[self.inbox].endpoints.remove(endpoint)?;
        if let Some((link, side)) = end.link {
            state.leave(link, side);
        }
        Some(Owned::Event(Event::Closed { endpoint: EndpointId(endpoint), reason }))
    }

    fn name_of<'a>(&self, address: &'a Address) -> Result<&'a str, VerbsError> {
        match address {
            Address::Memory(name) => Ok(name),
            _ => Err(VerbsError::WrongTransport { address: address.clone(), backend: Backend::Memory }),
        }
    }
}

/// An event that borrows nothing of the network, so that the sink runs without its lock.
enum Owned {
    Event(Event<'static>),
    Chunk(EndpointId, Vec<u8>),
}

impl CompletionQueue for MemoryQueue {
    fn backend(&self) -> Backend {
        Backend::Memory
    }

    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn listen_with(&mut self, address: &Address, tls: Option<&TlsServer>) -> Result<ListenerId, VerbsError> {
        if tls.is_some() {
            return Err(VerbsError::NoTls(Backend::Memory));
        }
        let name = self.name_of(address)?;
        let mut state = self.network.lock();
        let name = if name.is_empty() { state.unused_name() } else { name.to_owned() };
        if state.names.contains_key(&name) {
            let source = std::io::ErrorKind::AddrInUse.into();
            let remedy = "choose another name, or another network";
            return Err(VerbsError::Listen { address: address.clone(), remedy, source });
        }
        let listener = Listener { name: name.clone(), mode: AcceptMode::Keep };
        let listener = state.inboxes[self.inbox].listeners.insert(listener)?;
        state.names.insert(name, (self.inbox, listener));
        Ok(ListenerId(listener))
    }

    fn local_address(&self, listener: ListenerId) -> Result<Address, VerbsError> {
        let state = self.network.lock();
        let found = state.inboxes[self.inbox].listeners.at(listener.0).ok_or(VerbsError::StaleListener(listener))?;
        Ok(Address::Memory(found.name.clone()))
    }

    fn set_accept_mode(&mut self, listener: ListenerId, mode: AcceptMode) -> Result<(), VerbsError> {
        let mut state = self.network.lock();
        let found = state.inboxes[self.inbox].listeners.at_mut(listener.0);
        found.ok_or(VerbsError::StaleListener(listener))?.mode = mode;
        Ok(())
    }

    fn close_listener(&mut self, listener: ListenerId) {
        let mut state = self.network.lock();
        if let Some(found) = state.inboxes[self.inbox].listeners.remove(listener.0) {
            state.names.remove(&found.name);
        }
    }

    fn connect_with(&mut self, address: &Address, tls: Option<&TlsClient>) -> Result<EndpointId, VerbsError> {
        if tls.is_some() {
            return Err(VerbsError::NoTls(Backend::Memory));
        }
        let name = self.name_of(address)?;
        let mut state = self.network.lock();
        let endpoint = state.inboxes[self.inbox].endpoints.insert(self.new_end(None))?;
        match state.offer(name, (self.inbox, endpoint), self.now)? {
            Some(link) => {
                if let Some(end) = state.inboxes[self.inbox].endpoints.at_mut(endpoint) {
                    end.link = Some((link, Side::Connecting));
                }
            }
            None => state.arrive(self.inbox, self.now, What::Gone { endpoint, reason: CloseReason::Refused }),
        }
        drop(state);
        self.network.announce();
        Ok(EndpointId(endpoint))
    }

    fn adopt(&mut self, endpoint: DetachedEndpoint) -> Result<EndpointId, VerbsError> {
        let Carrier::Memory(mut loose) = endpoint.carrier else {
            return Err(VerbsError::Adopt(Backend::Memory));
        };
        if !Arc::ptr_eq(&loose.network.0, &self.network.0) {
            return Err(VerbsError::Adopt(Backend::Memory));
        }
        let mut state = self.network.lock();
        let gone = state.links.at(loose.link).is_none();
        let end = self.new_end(Some((loose.link, loose.side)));
        let endpoint = match state.inboxes[self.inbox].endpoints.insert(end) {
            Ok(endpoint) => endpoint,
            Err(full) => {
                // Before `loose`, which takes the lock when it is dropped.
                drop(state);
                return Err(full);
            }
        };
        loose.adopted = true;
        if gone {
            state.arrive(self.inbox, self.now, What::Gone { endpoint, reason: CloseReason::Reset });
        } else {
            state.own(loose.link, loose.side, (self.inbox, endpoint));
        }
        Ok(EndpointId(endpoint))
    }

    fn close(&mut self, endpoint: EndpointId, how: Close) {
        if how == Close::Flush {
            self.submit();
        }
        let network = self.network.clone();
        let mut state = network.lock();
        let Some(end) = state.inboxes[self.inbox].endpoints.at_mut(endpoint.0) else { return };
        match (how, end.link) {
            (Close::Flush, Some((link, side))) => {
                end.closing = true;
                if let Some(found) = state.links.at_mut(link) {
                    found.lanes[side as usize].closing = true;
                }
                state.pump(link, side, self.now);
            }
            // Refused already; the event is on its way.
            (Close::Flush, None) => end.closing = true,
            (Close::Abort, _) => drop(self.forget(&mut state, endpoint.0, CloseReason::Flushed)),
        }
        drop(state);
        self.network.announce();
    }

    fn send_room(&self, endpoint: EndpointId) -> usize {
        let state = self.network.lock();
        let Some(end) = state.inboxes[self.inbox].endpoints.at(endpoint.0).filter(|end| !end.closing) else {
            return 0;
        };
        let link = end.link.and_then(|(link, side)| Some((state.links.at(link)?, side)));
        let unsent = end.posted_bytes + link.map_or(0, |(link, side)| link.lanes[side as usize].waiting_bytes);
        if unsent >= end.mark { 0 } else { end.mark - unsent + self.chunk_bytes }
    }

    fn post_send(&mut self, endpoint: EndpointId, parts: &[&[u8]]) -> Result<(), VerbsError> {
        let len = parts.iter().map(|part| part.len()).sum();
        if len == 0 || len > self.chunk_bytes {
            return Err(VerbsError::ChunkLength { len, limit: self.chunk_bytes });
        }
        let room = self.send_room(endpoint);
        let mut state = self.network.lock();
        let end = state.inboxes[self.inbox].endpoints.at_mut(endpoint.0).filter(|end| !end.closing);
        let end = end.ok_or(VerbsError::StaleEndpoint(endpoint))?;
        if room < len {
            return Err(VerbsError::NoRoom { endpoint, len });
        }
        if end.posted.is_empty() {
            self.dirty.push(endpoint.0);
        }
        end.posted.push(parts.concat());
        end.posted_bytes += len;
        end.starved = room - len <= self.chunk_bytes;
        self.stats.chunks_out += 1;
        self.stats.bytes_out += len as u64;
        Ok(())
    }

    fn submit(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        let mut state = self.network.lock();
        for endpoint in self.dirty.drain(..) {
            let Some(end) = state.inboxes[self.inbox].endpoints.at_mut(endpoint) else { continue };
            let posted = std::mem::take(&mut end.posted);
            end.posted_bytes = 0;
            let Some((link, side)) = end.link else { continue };
            let Some(found) = state.links.at_mut(link) else { continue };
            posted.into_iter().for_each(|chunk| found.lanes[side as usize].push(chunk));
            state.pump(link, side, self.now);
            self.stats.writes += 1;
        }
        drop(state);
        self.network.announce();
    }

    fn poll(&mut self, now: Time, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut found = 0;
        if self.bell.flag().take() {
            sink(Event::Woken);
            found += 1;
        }
        self.now = now;
        let limit = {
            let mut state = self.network.lock();
            state.clock = state.clock.max(now);
            state.sequence()
        };
        while let Some(event) = self.next(limit) {
            match event {
                Owned::Event(event) => sink(event),
                Owned::Chunk(endpoint, chunk) => sink(Event::Received { endpoint, chunk: &chunk }),
            }
            found += 1;
        }
        if found > 0 {
            self.network.announce();
        }
        found
    }

    fn wait(&mut self, now: Time, timeout: Option<Duration>) {
        self.now = now;
        self.submit();
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let started = Instant::now();
        let mut state = self.network.lock();
        if !self.bell.flag().begin_wait() {
            return;
        }
        state.sleepers += 1;
        loop {
            let due = state.inboxes[self.inbox].arrivals.peek().map(|Reverse(next)| next.due.since(now));
            let due = due.and_then(|due| started.checked_add(due));
            let Some(until) = due.into_iter().chain(end).min() else {
                state = self.network.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                if self.bell.flag().is_notified() {
                    break;
                }
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.bell.flag().is_notified() {
                break;
            }
            let slept = self.network.0.arrived.wait_timeout(state, left);
            state = slept.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.sleepers -= 1;
        self.bell.flag().end_wait();
    }

    fn waker(&self) -> Waker {
        Waker::new(self.bell.clone())
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}

impl Drop for MemoryQueue {
    fn drop(&mut self) {
        let mut state = self.network.lock();
        let own = self.inbox;
        state.names.retain(|_, (inbox, _)| *inbox != own);
        let ends: Vec<End> = state.inboxes[own].endpoints.drain().collect();
        for (link, side) in ends.into_iter().filter_map(|end| end.link) {
            state.leave(link, side);
        }
        let offers: Vec<u64> = state.inboxes[own]
            .arrivals
            .drain()
            .filter_map(|Reverse(arrival)| match arrival.what {
                What::Offer { link, .. } => Some(link),
                _ => None,
            })
            .collect();
        offers.into_iter().for_each(|link| state.leave(link, Side::Listening));
        drop(state);
        self.network.announce();
    }
}
