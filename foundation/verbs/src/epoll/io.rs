//! What an [`EpollQueue`] does when a descriptor is ready.

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::{EpollQueue, about};
use crate::detached::Carrier;
use crate::hot::Change;
use crate::pending::{Due, Note};
use crate::socket::{ACCEPT_PAUSE, connect_outcome, lack_of, peer_of, reason_of};
use crate::stream::{Phase, Reads};
use crate::{AcceptMode, CloseReason, DetachedEndpoint, EndpointId, Event, ListenerId};

impl EpollQueue {
    /// Connections accepted, and reads of an endpoint, before it is the others' turn.
    const ROUNDS: usize = 8;
    /// Reports after which an endpoint must be read to its end, as there will be no further report.
    const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

    pub(super) fn handle_ready(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        let mut reports = std::mem::take(&mut self.ready);
        for (data, flags) in reports.drain(..) {
            let key = data & !about::MASK;
            match data & about::MASK {
                about::ENDPOINT => self.handle_endpoint(key, flags, sink),
                about::LISTENER => self.accept(key, sink),
                // The flag tells whether there was a wake; the bell has done its job by ending the wait.
                _ => {}
            }
        }
        // Endpoints with bytes left were listed meanwhile; keep them, and the longer of the two allocations.
        reports.append(&mut self.ready);
        self.ready = reports;
    }

    pub(super) fn read_direct(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        let found = self.hot.direct().map(|key| key.is_some_and(|key| self.read(key, false, sink)));
        if found == [false; 2] {
            let change = self.hot.miss();
            self.apply(change);
        }
    }

    /// Takes endpoints out of epoll and puts them back. One that can't be put back is left to its own reads.
    pub(super) fn apply(&mut self, change: Change) {
        if let Some(key) = change.direct {
            match self.streams.at(key) {
                // Fails only for a socket that isn't registered.
                Some(stream) if !stream.may_write() => drop(epoll::delete(&self.epoll, &stream.socket)),
                // Gone, or epoll is to report when there is room for what is still unwritten.
                _ => drop(self.hot.forget(key)),
            }
        }
        for key in change.told.into_iter().flatten() {
            if let Err(errno) = self.register(key) {
                self.notes.push_back((key, Note::Closed(reason_of(errno))));
            }
        }
    }

    fn handle_endpoint(&mut self, key: u64, flags: EventFlags, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(stream) = self.streams.at_mut(key) else { return };
        if let Phase::Connecting { closing } = stream.phase {
            match connect_outcome(&stream.socket) {
                Err(reason) => return self.end(key, reason, sink),
                Ok(()) if !flags.contains(EventFlags::OUT) => return,
                Ok(()) => {}
            }
            stream.phase = if closing { Phase::Flushing } else { Phase::Open };
            if !closing && !stream.is_handshaking() {
                sink(Event::Connected { endpoint: EndpointId(key) });
            }
        }
        if flags.contains(EventFlags::OUT) {
            self.write(key);
        }
        if flags.intersects(EventFlags::IN | Self::ENDED) {
            self.read(key, flags.intersects(Self::ENDED), sink);
        }
    }

    /// Reads an endpoint, and keeps count of how active it is. False: there was nothing.
    fn read(&mut self, key: u64, to_the_end: bool, sink: &mut dyn FnMut(Event<'_>)) -> bool {
        let found = self.drain(key, to_the_end, sink);
        if found && self.streams.at(key).is_some_and(|stream| stream.reads == Reads::Freely) {
            let change = self.hot.note(key);
            self.apply(change);
        }
        found
    }

    /// Reads an endpoint until it is drained, or it is the others' turn. `to_the_end`: a read that fills only part
    /// of the buffer doesn't mean that nothing follows, for the end of the stream does.
    fn drain(&mut self, key: u64, to_the_end: bool, sink: &mut dyn FnMut(Event<'_>)) -> bool {
        let mut found = false;
        for _ in 0..Self::ROUNDS {
            let Some(stream) = self.streams.at_mut(key) else {
                self.hot.forget(key);
                return found;
            };
            if stream.is_to_go() {
                return found;
            }
            let most = match stream.reads {
                Reads::Freely => self.scratch.len(),
                Reads::Once => Reads::METERED.min(self.scratch.len()),
                Reads::Metered => {
                    *self.unread.entry(key).or_default() |= to_the_end;
                    return found;
                }
            };
            self.stats.system_calls += 1;
            let reason = match recv(&stream.socket, &mut self.scratch[..most], RecvFlags::DONTWAIT) {
                Ok((count @ 1.., _)) => {
                    found = true;
                    let (bytes, limit) = (&mut self.scratch[..count], self.posting.chunk_bytes);
                    match stream.receive(EndpointId(key), bytes, limit, &mut self.stats, sink) {
                        Ok(()) => {
                            let is_to_go = stream.is_to_go();
                            if stream.is_urgent() {
                                self.write(key);
                            }
                            if is_to_go {
                                self.up.push(key);
                                return true;
                            }
                            if count < most && !to_the_end {
                                return true;
                            }
                            continue;
                        }
                        Err(reason) => reason,
                    }
                }
                Ok((0, _)) => stream.reason_at_end(CloseReason::PeerClosed, &mut self.stats),
                Err(Errno::AGAIN) => return found,
                Err(Errno::INTR) => continue,
                Err(errno) => stream.reason_at_end(reason_of(errno), &mut self.stats),
            };
            self.end(key, reason, sink);
            return found;
        }
        self.read_later(key, to_the_end);
        found
    }

    fn read_later(&mut self, key: u64, to_the_end: bool) {
        let flags = if to_the_end { EventFlags::IN | EventFlags::RDHUP } else { EventFlags::IN };
        self.ready.push((key | about::ENDPOINT, flags));
    }

    /// Reads what was not, as it was not asked for.
    pub(super) fn read_unread(&mut self, key: u64) {
        if let Some(to_the_end) = self.unread.remove(&key) {
            self.is_asked = true;
            self.read_later(key, to_the_end);
        }
    }

    /// Takes a stream out that is over.
    pub(super) fn forget(&mut self, key: u64) {
        self.streams.remove(key);
        self.unread.remove(&key);
    }

    /// Writes what was posted to an endpoint, as far as its socket takes it.
    pub(super) fn write(&mut self, key: u64) {
        let Some(stream) = self.streams.at_mut(key) else { return };
        let mut blocked = false;
        while stream.may_write() && !blocked {
            self.stats.system_calls += 1;
            self.stats.writes += 1;
            let sent = stream.send(&mut self.posting);
            match sent {
                Ok(count) => {
                    if self.posting.advance(stream, count) {
                        self.notes.push_back((key, Note::Writable));
                    }
                }
                Err(Errno::AGAIN) => blocked = true,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    stream.outbox.clear(&mut self.posting.spare);
                    stream.break_off(reason_of(errno));
                    self.ready.push((key | about::ENDPOINT, EventFlags::IN | EventFlags::RDHUP));
                }
            }
        }
        if stream.finish_flush() {
            self.timers.set(self.now + self.linger, Due::Linger(key));
        }
        if blocked && self.hot.forget(key) {
            // Epoll is to report when there is room.
            self.apply(Change { told: [Some(key), None], ..Change::default() });
        }
    }

    fn end(&mut self, key: u64, reason: CloseReason, sink: &mut dyn FnMut(Event<'_>)) {
        self.forget(key);
        self.hot.forget(key);
        sink(Event::Closed { endpoint: EndpointId(key), reason });
    }

    fn accept(&mut self, key: u64, sink: &mut dyn FnMut(Event<'_>)) {
        for _ in 0..Self::ROUNDS {
            let Some(listener) = self.listeners.at(key) else { break };
            self.stats.system_calls += 1;
            let socket = match listener.socket.accept() {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.stats.accept_errors += 1;
                    let Some(error) = lack_of(errno) else { continue };
                    self.rest(key);
                    sink(Event::AcceptFailed { listener: ListenerId(key), error });
                    break;
                }
            };
            let peer = peer_of(&socket, &listener.socket.address);
            self.stats.accepted += 1;
            let (listener, mode, tls) = (ListenerId(key), listener.mode, listener.tls.clone());
            if mode == AcceptMode::Detach {
                let endpoint = DetachedEndpoint { peer: peer.clone(), carrier: Carrier::Socket(socket, tls) };
                sink(Event::AcceptedDetached { listener, endpoint, peer });
                continue;
            }
            match self.welcome(socket, tls.as_ref()) {
                Ok(endpoint) => sink(Event::Accepted { listener, endpoint: EndpointId(endpoint), peer }),
                Err(_) => self.stats.accept_errors += 1,
            }
        }
    }

    /// Leaves a listener alone for a while: it stays ready as long as connections wait, and would keep the queue busy.
    fn rest(&mut self, key: u64) {
        let Some(listener) = self.listeners.at(key) else { return };
        let data = epoll::EventData::new_u64(key | about::LISTENER);
        if epoll::modify(&self.epoll, &listener.socket.socket, data, EventFlags::empty()).is_ok() {
            self.timers.set(self.now + ACCEPT_PAUSE, Due::Accept(key));
        }
    }
}
