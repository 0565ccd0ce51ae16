//! Messages of a [`FabricQueue`] over the fabric, out and in.

use super::connection::{Closing, Connection, Stage, Turn, Violation};
use super::port::{Done, Handed, Port};
use super::wire::{BadChunk, HEADER, Header, Kind, chunks};
use super::{FabricQueue, meeting};
use crate::pending::{Due, Note};
use crate::{CloseReason, EndpointId, Event, QueueStats};

impl FabricQueue {
    /// Batches of completions that one poll handles of a port before it is the others' turn.
    const ROUNDS: usize = 8;

    /// Sends what waits at a connection, as far as its window and the provider allow, and then what is to be told.
    pub(super) fn flush(&mut self, key: u64) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        let port = connection.port.and_then(|index| self.ports[index].port.as_mut());
        let Some(port) = port.filter(|_| connection.stage == Stage::Up) else { return };
        let before = connection.sent;
        let outcome = Self::send_all(connection, port, key, self.window, &mut self.stats);
        if connection.is_warm && connection.untold_event.is_some() {
            self.notes.push_back((key, Note::Connected));
        }
        if connection.starved && connection.unsent < self.mark {
            connection.starved = false;
            self.notes.push_back((key, Note::Writable));
        }
        let rings = connection.peer_sleeps && connection.sent != before;
        if rings {
            connection.peer_sleeps = false;
            self.stats.system_calls += 1;
            meeting::ring(connection);
        }
        match outcome {
            Ok(true) if connection.closing == Closing::Flush => {
                connection.closing = Closing::Linger;
                self.settled -= 1;
                self.timers.set(self.now + self.linger, Due::Linger(key));
            }
            Ok(true) => {}
            // A window that is full opens with the next message of the peer.
            Ok(false) if connection.is_warm && !connection.may_send() && connection.has_unsent() => {}
            Ok(false) if !connection.is_listed => {
                connection.is_listed = true;
                self.listed.push(key);
            }
            Ok(false) => {}
            Err(code) => self.notes.push_back((key, Note::Closed(reason_of(code)))),
        }
    }

    /// True: nothing is left. An error is one of libfabric.
    #[inline]
    fn send_all(
        connection: &mut Connection,
        port: &mut Port,
        key: u64,
        window: u16,
        stats: &mut QueueStats,
    ) -> Result<bool, i32> {
        if !connection.is_warm {
            connection.is_warm = Self::send_bare(connection, port, key, Kind::Credit)?;
            if !connection.is_warm {
                return Ok(false);
            }
            connection.has_sent();
        }
        Ok(Self::send_unsent(connection, port, stats)? && Self::send_end(connection, port, key, window)?)
    }

    /// Sends the messages that wait. True: nothing is left.
    fn send_unsent(connection: &mut Connection, port: &mut Port, stats: &mut QueueStats) -> Result<bool, i32> {
        let Some(peer) = connection.link.as_ref().map(|link| link.peer) else { return Ok(false) };
        while let Some(message) = connection.queue.front().copied().or(connection.filling) {
            if !connection.may_send() {
                return Ok(false);
            }
            let Some(header) = connection.header(Kind::Data) else { return Ok(false) };
            port.bytes(message.buffer)[..HEADER].copy_from_slice(&header.encode());
            match port.send(message.buffer, message.len, peer) {
                Handed::Over => {}
                Handed::Later => return Ok(false),
                Handed::Failed(code) => return Err(code),
            }
            if connection.queue.pop_front().is_none() {
                connection.filling = None;
            }
            connection.unsent -= message.body();
            connection.has_sent();
            stats.writes += 1;
        }
        Ok(true)
    }

    /// The message that says that nothing follows, or how much was heard, if one of them is due.
    fn send_end(connection: &mut Connection, port: &mut Port, key: u64, window: u16) -> Result<bool, i32> {
        let kind = match connection.closing {
            Closing::Flush => Kind::Close,
            Closing::No if connection.untold >= window / 2 => Kind::Credit,
            _ => return Ok(true),
        };
        let is_over = Self::send_bare(connection, port, key, kind)?;
        if is_over {
            connection.has_sent();
        }
        Ok(is_over)
    }

    /// Sends a message without a body. True: it is over.
    pub(super) fn send_bare(connection: &Connection, port: &mut Port, key: u64, kind: Kind) -> Result<bool, i32> {
        let (Some(header), Some(link)) = (connection.header(kind), &connection.link) else { return Ok(false) };
        let buffer = port.take(key).map_err(|error| error.code)?;
        port.bytes(buffer)[..HEADER].copy_from_slice(&header.encode());
        let handed = port.send(buffer, HEADER, link.peer);
        if handed != Handed::Over {
            port.give_back(buffer);
        }
        match handed {
            Handed::Over => Ok(true),
            Handed::Later => Ok(false),
            Handed::Failed(code) => Err(code),
        }
    }

    /// Tries again where something could not be sent.
    pub(super) fn retry(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        for key in listed.drain(..) {
            if let Some(connection) = self.connections.at_mut(key) {
                connection.is_listed = false;
                self.flush(key);
            }
        }
        // Those that still can't send were listed again; keep the longer of the two allocations.
        listed.append(&mut self.listed);
        self.listed = listed;
    }

    /// Makes progress and handles what a port has completed. Says how many completions there were.
    #[inline]
    pub(super) fn drain(&mut self, index: usize, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut found = 0;
        for _ in 0..Self::ROUNDS {
            let count = self.fetch(index);
            if count == 0 {
                break;
            }
            found += count;
            while let Some(done) = self.ports[index].port.as_mut().and_then(Port::take_next) {
                self.handle(index, done, sink);
            }
        }
        found
    }

    /// Fetches completions, unless there are some already. Says how many there are.
    #[inline]
    pub(super) fn fetch(&mut self, index: usize) -> usize {
        let Some(port) = &mut self.ports[index].port else { return 0 };
        let notes = &mut self.notes;
        let fetched = port.fetch(&mut |owner, code| notes.push_back((owner, Note::Closed(reason_of(code)))));
        match fetched {
            Ok(count) => count,
            Err(error) => {
                self.fail(index, std::io::Error::from(error).kind());
                0
            }
        }
    }

    /// A port failed: all its connections end.
    #[cold]
    fn fail(&mut self, index: usize, kind: std::io::ErrorKind) {
        let on_it = |key: &u64| self.connections.at(*key).is_some_and(|connection| connection.port == Some(index));
        let keys: Vec<u64> = self.connections.keys().filter(on_it).collect();
        let reason = CloseReason::QueueFailed(kind);
        self.notes.extend(keys.iter().map(|key| (*key, Note::Closed(reason))));
        for key in keys {
            if let Some(connection) = self.connections.at_mut(key) {
                // Its buffers go with the port.
                (connection.port, connection.filling) = (None, None);
                connection.queue.clear();
            }
        }
        self.ports[index].port = None;
    }

    #[inline]
    fn handle(&mut self, index: usize, done: Done, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(port) = &mut self.ports[index].port else { return };
        match done {
            Done::Received { buffer, len } => {
                // SAFETY: just reported, and posted again below.
                let message = unsafe { port.received(buffer, len) };
                self.receive(index, message, sink);
                if let Some(port) = &mut self.ports[index].port {
                    port.repost(buffer);
                }
            }
            Done::Sent { buffer } => port.release_sent(buffer),
            Done::Nothing => {}
        }
    }

    fn receive(&mut self, index: usize, message: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        let parsed = Header::parse(message).and_then(|(header, body)| {
            let (key, connection) = self.connections.in_slot(header.slot)?;
            let is_known = connection.secret == header.secret && connection.port == Some(index);
            is_known.then_some((header, body, key))
        });
        let Some((header, body, key)) = parsed else {
            self.stats.foreign += 1;
            return;
        };
        self.announce(key, sink);
        if let Err(reason) = self.take(key, header, body, sink) {
            self.end(key, reason, sink);
        }
    }

    /// Takes a message of a connection. An error is the end of it.
    fn take(
        &mut self,
        key: u64,
        header: Header,
        body: &[u8],
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        let Some(connection) = self.connections.at_mut(key) else { return Ok(()) };
        let violates = |Violation| CloseReason::Reset;
        if header.kind == Kind::Sleep {
            connection.hear(header.heard).map_err(violates)?;
            if connection.sent == header.heard {
                connection.peer_sleeps = true;
            } else {
                self.stats.system_calls += 1;
                meeting::ring(connection);
            }
            return Ok(());
        }
        match connection.turn(header.number).map_err(violates)? {
            // Credits come on top of the window, half a window apart.
            Turn::Later => return connection.keep(header, body, 2 * usize::from(self.window)).map_err(violates),
            Turn::Now => Self::take_in_turn(connection, key, header, body, self.chunk_bytes, &mut self.stats, sink)?,
        }
        while let Some((header, body)) = connection.take_kept() {
            Self::take_in_turn(connection, key, header, &body, self.chunk_bytes, &mut self.stats, sink)?;
        }
        let has_room = connection.may_send() && connection.has_unsent() && !connection.is_dirty;
        if (has_room || connection.untold >= self.window / 2) && !connection.is_listed {
            connection.is_listed = true;
            self.listed.push(key);
        }
        Ok(())
    }

    #[inline]
    fn take_in_turn(
        connection: &mut Connection,
        key: u64,
        header: Header,
        body: &[u8],
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        connection.has_received();
        connection.hear(header.heard).map_err(|Violation| CloseReason::Reset)?;
        if header.kind == Kind::Close {
            let lingers = connection.closing == Closing::Linger;
            return Err(if lingers { CloseReason::Flushed } else { CloseReason::PeerClosed });
        }
        if connection.closing != Closing::No {
            return Ok(());
        }
        for chunk in chunks(body, limit) {
            match chunk {
                Ok(chunk) => {
                    stats.chunks_in += 1;
                    stats.bytes_in += chunk.len() as u64;
                    sink(Event::Received { endpoint: EndpointId(key), chunk });
                }
                Err(BadChunk::Length(len)) => {
                    stats.oversized += 1;
                    return Err(CloseReason::Oversized { len, limit });
                }
                Err(BadChunk::Short) => {
                    stats.truncated += 1;
                    return Err(CloseReason::Reset);
                }
            }
        }
        Ok(())
    }
}

/// What an error of libfabric means for a connection. Its low numbers are the system's.
pub(super) fn reason_of(code: i32) -> CloseReason {
    CloseReason::of_io(std::io::Error::from_raw_os_error(code).kind())
}
