//! What a [`UringQueue`] does when a request completes.

use std::time::Duration;

use io_uring::cqueue;
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::{Connection, Gather, UringQueue, request};
use crate::detached::Carrier;
use crate::outbox::Takeoff;
use crate::pending::{Due, Note};
use crate::socket::{ACCEPT_PAUSE, connect_outcome, lack_of, peer_of, reason_of};
use crate::stream::{Phase, Reads, Stream};
use crate::{AcceptMode, CloseReason, DetachedEndpoint, EndpointId, Event, ListenerId};

impl UringQueue {
    /// How long dropping the queue waits for the kernel to give back what it was handed, twenty times over.
    const PATIENCE: Duration = Duration::from_millis(50);

    /// How many completions are taken off the ring at once, and how many of them are looked at ahead.
    const BATCH: usize = 64;
    const AHEAD: usize = 2;

    /// So many connections are more than the processor's own caches have room for.
    const MANY: usize = 128;

    /// Takes the completions that are there.
    pub(super) fn reap(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        // As many as the ring holds at the default size: a bound in case they come in as fast as they are taken.
        for _ in 0..1024 {
            let is_first = self.taken.is_empty();
            if is_first {
                self.ring.take(Self::BATCH, &mut self.taken);
            }
            let Some(completion) = self.taken.pop_front() else { break };
            if self.connections.len() >= Self::MANY {
                for ahead in if is_first { 0 } else { Self::AHEAD - 1 }..Self::AHEAD {
                    self.look_ahead(ahead, sink);
                }
            }
            self.handle(&completion, sink);
        }
    }

    /// Takes those completions that are of sends. The others stay for the next poll, in their order.
    pub(super) fn take_sent(&mut self) {
        self.ring.take(usize::MAX, &mut self.taken);
        let mut taken = std::mem::take(&mut self.taken);
        taken.retain(|completion| {
            let is_sent = completion.user_data() & request::MASK == request::SEND;
            if is_sent {
                self.has_sent(completion.user_data() & !request::MASK, outcome(completion));
            }
            !is_sent
        });
        self.taken = taken;
    }

    fn has_sent(&mut self, key: u64, result: Result<usize, Errno>) {
        self.sent(key, result);
        self.settle(key);
    }

    /// Has the processor fetch what is needed for the completion that comes so many behind the next one.
    fn look_ahead(&self, ahead: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(data) = self.taken.get(ahead).map(cqueue::Entry::user_data) else { return };
        let key = data & !request::MASK;
        self.connections.fetch(key);
        if data & request::MASK == request::RECEIVE {
            sink(Event::Ahead { endpoint: EndpointId(key) });
        }
    }

    fn handle(&mut self, completion: &cqueue::Entry, sink: &mut dyn FnMut(Event<'_>)) {
        let key = completion.user_data() & !request::MASK;
        let result = outcome(completion);
        let more = cqueue::more(completion.flags());
        match completion.user_data() & request::MASK {
            request::RECEIVE => {
                let buffer = cqueue::buffer_select(completion.flags());
                self.received(key, result, buffer, more, sink);
                if let (Some(id), Some(buffers)) = (buffer, &mut self.buffers) {
                    buffers.post(id);
                }
                self.settle(key);
            }
            request::SEND => self.has_sent(key, result),
            request::CONNECT => self.connected(key, result, sink),
            request::ACCEPT => self.accepted(key, result, more, sink),
            // The flag tells whether there was a wake; the bell has done its job by ending the wait.
            request::BELL if !more => self.ring.watch_bell(self.bell.as_fd(), request::BELL),
            _ => {}
        }
    }

    /// A receive completed, and goes on if there is `more`. The buffer is posted again by the caller.
    fn received(
        &mut self,
        key: u64,
        result: Result<usize, Errno>,
        buffer: Option<u16>,
        more: bool,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        connection.receiving = more;
        let stream = &mut connection.stream;
        if stream.phase == Phase::Dead {
            return;
        }
        let reason = match (result, buffer, &mut self.buffers) {
            (Ok(count @ 1..), Some(id), Some(buffers)) => {
                // SAFETY: the completion named the buffer and how many bytes it holds; it is posted again only after
                // this function has returned.
                let bytes = unsafe { buffers.bytes(id, count) };
                let limit = self.posting.chunk_bytes;
                match stream.receive(EndpointId(key), bytes, limit, &mut self.stats, sink) {
                    Ok(()) => {
                        let is_free = stream.reads == Reads::Freely;
                        if stream.is_urgent() {
                            self.answer(key);
                        }
                        if is_free {
                            let change = self.hot.note(key);
                            self.apply(change);
                        }
                        return;
                    }
                    Err(reason) => reason,
                }
            }
            (Err(Errno::NOBUFS), ..) => {
                self.stats.out_of_buffers += 1;
                return;
            }
            // Cancelled, because the endpoint is direct now or was meant to be.
            (Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN), ..) => return,
            (Err(errno), ..) => stream.reason_at_end(reason_of(errno), &mut self.stats),
            (Ok(_), ..) => stream.reason_at_end(CloseReason::PeerClosed, &mut self.stats),
        };
        self.end(key, reason, sink);
    }

    /// A send completed.
    fn sent(&mut self, key: u64, result: Result<usize, Errno>) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        connection.sending = false;
        let stream = &mut connection.stream;
        if stream.phase == Phase::Dead {
            return;
        }
        match result {
            Ok(count) => {
                if self.posting.advance(stream, count) {
                    self.notes.push_back((key, Note::Writable));
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => connection.send_again = true,
            Err(errno) => {
                stream.outbox.clear(&mut self.posting.spare);
                stream.break_off(reason_of(errno));
            }
        }
        if connection.send_again || connection.stream.outbox.is_flying() || stream_flushes(&connection.stream) {
            self.send(key);
        }
    }

    /// A socket that was connecting is writable, or failed.
    fn connected(&mut self, key: u64, result: Result<usize, Errno>, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        connection.connecting = false;
        let Phase::Connecting { closing } = connection.stream.phase else {
            return self.settle(key);
        };
        let outcome = result.map_err(reason_of).and_then(|_| connect_outcome(&connection.stream.socket));
        if let Err(reason) = outcome {
            return self.end(key, reason, sink);
        }
        connection.stream.phase = if closing { Phase::Flushing } else { Phase::Open };
        let tell = !closing && !connection.stream.is_handshaking();
        self.receive_from(key);
        self.send(key);
        if tell {
            sink(Event::Connected { endpoint: EndpointId(key) });
        }
    }

    /// A connection came in, or could not.
    fn accepted(&mut self, key: u64, result: Result<usize, Errno>, more: bool, sink: &mut dyn FnMut(Event<'_>)) {
        // SAFETY: a descriptor that the kernel has just made for this request, and that nobody else knows of.
        let socket = result.map(|number| unsafe { OwnedFd::from_raw_fd(number as i32) });
        let Some(listener) = self.listeners.at_mut(key) else { return };
        listener.accepting = more;
        if listener.closed {
            if !more {
                self.listeners.remove(key);
            }
            return;
        }
        let (mode, tls) = (listener.mode, listener.tls.clone());
        let own = listener.socket.address.clone();
        if let Err(errno) = socket
            && !more
            && let Some(error) = lack_of(errno)
        {
            // There won't be one at once, and trying again at once would keep the queue busy.
            self.timers.set(self.now + ACCEPT_PAUSE, Due::Accept(key));
            sink(Event::AcceptFailed { listener: ListenerId(key), error });
        } else if !more {
            self.accept_at(key);
        }
        let Ok(socket) = socket else {
            self.stats.accept_errors += 1;
            return;
        };
        let peer = peer_of(&socket, &own);
        self.stats.accepted += 1;
        let listener = ListenerId(key);
        if mode == AcceptMode::Detach {
            let endpoint = DetachedEndpoint { peer: peer.clone(), carrier: Carrier::Socket(socket, tls) };
            return sink(Event::AcceptedDetached { listener, endpoint, peer });
        }
        let Ok(endpoint) = self.welcome(socket, tls.as_ref()) else {
            self.stats.accept_errors += 1;
            return;
        };
        sink(Event::Accepted { listener, endpoint: EndpointId(endpoint), peer });
    }

    /// After a completion of a connection: receives again if that has ended, or lets go of what is over.
    pub(super) fn settle(&mut self, key: u64) {
        let Some(connection) = self.connections.at(key) else { return };
        if connection.stream.phase == Phase::Dead {
            if !connection.is_pending() {
                self.connections.remove(key);
            }
        } else if !connection.receiving && !connection.connecting && !connection.direct {
            self.receive_from(key);
        }
    }

    pub(super) fn receive_from(&mut self, key: u64) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        let (socket, data) = (connection.stream.socket.as_fd(), key | request::RECEIVE);
        match connection.stream.reads {
            Reads::Freely => self.ring.receive(socket, data),
            Reads::Once => self.ring.receive_once(socket, Reads::METERED as u32, data),
            Reads::Metered => return,
        }
        connection.receiving = true;
    }

    pub(super) fn accept_at(&mut self, key: u64) {
        if let Some(listener) = self.listeners.at_mut(key)
            && !listener.closed
            && !listener.accepting
        {
            listener.accepting = true;
            self.ring.accept(listener.socket.socket.as_fd(), key | request::ACCEPT);
        }
    }

    /// Sends what was posted to a connection, or has it sent after what is being sent now.
    pub(super) fn send(&mut self, key: u64) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        if connection.sending {
            connection.send_again = true;
            return;
        }
        let stream = &mut connection.stream;
        // What is left of a flight goes first, and what was submitted meanwhile is still to follow.
        connection.send_again &= stream.outbox.is_flying();
        if stream.may_write() {
            connection.sending = true;
            self.stats.writes += 1;
            let (data, flags) = (key | request::SEND, stream.flags);
            match stream.take_off(&mut self.posting) {
                // SAFETY: the outbox neither changes nor frees these bytes before it is told that they are written or
                // is cleared, which happens when the send has completed (invariant 2 of the queue).
                (socket, Takeoff::Run(bytes)) => unsafe { self.ring.send(socket, bytes, flags, data) },
                (socket, Takeoff::Scattered(scattered)) => {
                    let message = connection.gather.get_or_insert_with(Gather::new).fill(scattered);
                    // SAFETY: as above for the bytes; those that are shared are kept by the outbox's share, and nobody
                    // can change what is shared. What names them lies in a box that is filled again only when
                    // this send has completed, and is freed with the connection, so no earlier either.
                    unsafe { self.ring.send_message(socket, message, flags, data) };
                }
            }
        } else if stream.finish_flush() {
            self.timers.set(self.now + self.linger, Due::Linger(key));
        }
    }

    /// Ends a connection and tells the owner.
    pub(super) fn end(&mut self, key: u64, reason: CloseReason, sink: &mut dyn FnMut(Event<'_>)) {
        self.retire(key);
        sink(Event::Closed { endpoint: EndpointId(key), reason });
    }

    /// Ends a connection without a word. It goes at once if the kernel has no request of it, or else when the kernel
    /// has given back the last one.
    pub(super) fn retire(&mut self, key: u64) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        connection.stream.phase = Phase::Dead;
        if !connection.is_pending() {
            self.connections.remove(key);
            return;
        }
        // Tells the peer now; the socket itself is closed later.
        let _ = shutdown(&connection.stream.socket, Shutdown::Both);
        for (pending, kind) in [
            (connection.receiving, request::RECEIVE),
            (connection.sending, request::SEND),
            (connection.connecting, request::CONNECT),
        ] {
            if pending {
                self.ring.cancel(key | kind, request::CANCEL);
            }
        }
    }

    pub(super) fn retire_listener(&mut self, key: u64) {
        let Some(listener) = self.listeners.at_mut(key) else { return };
        if !listener.accepting {
            self.listeners.remove(key);
        } else if !listener.closed {
            listener.closed = true;
            listener.socket.stop();
            self.ring.cancel(key | request::ACCEPT, request::CANCEL);
        }
    }

    /// Ends everything, and gets back from the kernel whatever refers to memory of this queue. What it doesn't give
    /// back is leaked, never freed.
    pub(super) fn shut_down(&mut self) {
        for key in self.connections.keys().collect::<Vec<_>>() {
            self.retire(key);
        }
        for key in self.listeners.keys().collect::<Vec<_>>() {
            self.retire_listener(key);
        }
        if !self.ring.is_enabled() {
            // The kernel has never seen a request.
            return;
        }
        for _ in 0..20 {
            self.reap(&mut |_| {});
            if self.connections.len() + self.listeners.len() == 0 || self.ring.failure().is_some() {
                break;
            }
            self.ring.enter_and_wait(Some(Self::PATIENCE));
        }
        if self.connections.len() > 0 {
            for Connection { stream, gather, .. } in self.connections.drain() {
                std::mem::forget((stream.outbox.into_flight(), gather));
            }
            std::mem::forget(self.buffers.take());
        }
    }
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            receiving: false,
            sending: false,
            connecting: false,
            send_again: false,
            direct: false,
            gather: None,
        }
    }

    /// Whether the kernel has, or will have, a request of this connection.
    fn is_pending(&self) -> bool {
        self.receiving || self.sending || self.connecting
    }
}

/// Whether a stream is being closed, so that everything posted is to be sent without a further submit.
fn stream_flushes(stream: &Stream) -> bool {
    stream.phase == Phase::Flushing
}

fn outcome(completion: &cqueue::Entry) -> Result<usize, Errno> {
    let result = completion.result();
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}
