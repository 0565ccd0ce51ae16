//! What a [`UringQueue`] does without its ring, because a plain system call is cheaper.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::{UringQueue, request};
use crate::hot::Change;
use crate::pending::Note;
use crate::socket::reason_of;
use crate::stream::Phase;
use crate::{CloseReason, EndpointId, Event};

impl UringQueue {
    /// Reads the direct endpoints whose receives the kernel has given back.
    pub(super) fn read_direct(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        let found = self.hot.direct().map(|key| key.is_some_and(|key| self.read(key, sink)));
        if found == [false; 2] {
            let change = self.hot.miss();
            self.apply(change);
        }
    }

    /// Has endpoints received by the ring or read directly.
    pub(super) fn apply(&mut self, change: Change) {
        if let Some(key) = change.direct
            && let Some(connection) = self.connections.at_mut(key)
        {
            connection.direct = true;
            if connection.receiving {
                self.ring.cancel(key | request::RECEIVE, request::CANCEL);
            }
        }
        for key in change.told.into_iter().flatten() {
            if let Some(connection) = self.connections.at_mut(key) {
                connection.direct = false;
                self.settle(key);
            }
        }
    }

    /// Reads an endpoint once. False: there was nothing.
    fn read(&mut self, key: u64, sink: &mut dyn FnMut(Event<'_>)) -> bool {
        let Some(connection) = self.connections.at_mut(key).filter(|found| found.stream.phase != Phase::Dead) else {
            self.hot.forget(key);
            return false;
        };
        if connection.receiving {
            return false;
        }
        let stream = &mut connection.stream;
        self.stats.system_calls += 1;
        let reason = match recv(&stream.socket, &mut *self.scratch, RecvFlags::DONTWAIT) {
            Ok((count @ 1.., _)) => {
                let (bytes, limit) = (&mut self.scratch[..count], self.posting.chunk_bytes);
                match stream.receive(EndpointId(key), bytes, limit, &mut self.stats, sink) {
                    Ok(()) => {
                        if stream.is_urgent() {
                            self.answer(key);
                        }
                        let change = self.hot.note(key);
                        self.apply(change);
                        return true;
                    }
                    Err(reason) => reason,
                }
            }
            Ok((0, _)) => stream.reason_at_end(CloseReason::PeerClosed, &mut self.stats),
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(errno) => stream.reason_at_end(reason_of(errno), &mut self.stats),
        };
        self.end(key, reason, sink);
        true
    }

    /// Writes at once what the connection itself has to say, before its owner hears of what comes of it.
    pub(super) fn answer(&mut self, key: u64) {
        self.send_directly(key);
        self.send(key);
    }

    /// Writes what was posted to the only endpoint that has something to write, as far as its socket takes it.
    pub(super) fn send_directly(&mut self, key: u64) {
        let Some(connection) = self.connections.at_mut(key).filter(|found| !found.sending) else { return };
        let stream = &mut connection.stream;
        while stream.may_write() {
            self.stats.system_calls += 1;
            self.stats.writes += 1;
            let sent = stream.send(&mut self.posting);
            match sent {
                Ok(count) => {
                    if self.posting.advance(stream, count) {
                        self.notes.push_back((key, Note::Writable));
                    }
                }
                Err(Errno::INTR) => {}
                // Whatever else it is, the ring's send will meet it.
                Err(_) => return,
            }
        }
    }
}
