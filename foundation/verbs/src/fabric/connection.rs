//! A connection over a fabric: how far it is, what waits to be sent, and what the two sides have heard of each other.

use std::collections::VecDeque;

use rustix::fd::OwnedFd;

use super::wire::{End, HEADER, Header, Kind};
use crate::framing::PREFIX;
use crate::{Address, FabricAddress, ListenerId};

/// A connection.
///
/// Invariants:
/// 1. Messages are numbered as they are handed over. What is posted leaves in order: `queue`, then `filling`, and
///    before the connection is up it is in `early`.
/// 2. `unsent` is the length of all of these, prefixes included.
/// 3. There is a `link` if and only if the stage is [`Stage::Up`]; a `port` from the choice of a provider on.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) address: FabricAddress,
    pub(super) stage: Stage,
    pub(super) closing: Closing,
    pub(super) untold_event: Option<Untold>,
    /// What arrived over the socket and is no whole note yet.
    pub(super) notes: Vec<u8>,
    /// What the peer has to say, so that nobody else speaks for it.
    pub(super) secret: u64,
    pub(super) port: Option<usize>,
    pub(super) link: Option<Link>,
    pub(super) early: Vec<u8>,
    pub(super) queue: VecDeque<Message>,
    pub(super) filling: Option<Message>,
    pub(super) unsent: usize,
    /// There was no room after the last chunk; the owner waits to hear of it.
    pub(super) starved: bool,
    /// libfabric has taken a first message for the peer. Before that it may make a connection of its own, which needs
    /// polls on both sides.
    pub(super) is_warm: bool,
    /// Listed among those that were posted to.
    pub(super) is_dirty: bool,
    /// Listed among those that have something to send and should try again.
    pub(super) is_listed: bool,
    pub(super) sent: u16,
    pub(super) heard_by_peer: u16,
    pub(super) received: u16,
    /// Messages received since the peer was last told how many.
    pub(super) untold: u16,
    /// What overtook a message that is still to come.
    pub(super) ahead: Vec<(u16, Header, Vec<u8>)>,
    /// The peer asked for a ring.
    pub(super) peer_sleeps: bool,
    /// The peer was asked for a ring, or has been told that there will be none to ask for.
    pub(super) is_told: bool,
    /// The peer rang: this many messages were sent.
    pub(super) owed: Option<u16>,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The socket is connecting.
    Connecting,
    /// The client has said hello.
    Greeting,
    /// The server waits for the hello.
    Offered,
    /// The server has told its end.
    Welcomed,
    /// Both ends know each other.
    Up,
}

/// What the owner is told of a connection once it is up: what is posted from then on leaves with the submit.
#[derive(Debug)]
pub(super) enum Untold {
    Accepted(ListenerId, Address),
    Connected,
}

/// What the owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    No,
    /// Send what was posted, then close.
    Flush,
    /// All is sent, and the peer is to close its end.
    Linger,
}

/// The other end.
#[derive(Debug)]
pub(super) struct Link {
    /// The peer's number in the port.
    pub(super) peer: u64,
    pub(super) end: End,
}

/// A message in a send buffer of the port. The header is written when it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) buffer: u32,
    /// Bytes, with the header.
    pub(super) len: usize,
}

/// A peer that doesn't keep to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation;

/// What is to be done with a message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is the next one.
    Now,
    /// Another one is still to come before it.
    Later,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, address: FabricAddress, stage: Stage, secret: u64) -> Self {
        Self {
            socket,
            address,
            stage,
            closing: Closing::No,
            untold_event: None,
            notes: Vec::new(),
            secret,
            port: None,
            link: None,
            early: Vec::new(),
            queue: VecDeque::new(),
            filling: None,
            unsent: 0,
            starved: false,
            is_warm: false,
            is_dirty: false,
            is_listed: false,
            sent: 0,
            heard_by_peer: 0,
            received: 0,
            untold: 0,
            ahead: Vec::new(),
            peer_sleeps: false,
            is_told: false,
            owed: None,
        }
    }

    /// Whether the owner may post.
    #[inline]
    pub(super) fn takes_posts(&self) -> bool {
        self.closing == Closing::No
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// Body bytes that a message to the peer may have.
    pub(super) fn body_limit(&self, chunk_bytes: usize) -> usize {
        let theirs = self.link.as_ref().map_or(chunk_bytes, |link| link.end.chunk_bytes as usize);
        PREFIX + chunk_bytes.min(theirs)
    }

    /// Whether the peer takes another message with data now.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        let window = self.link.as_ref().map_or(0, |link| link.end.window);
        self.sent.wrapping_sub(self.heard_by_peer) < window
    }

    /// The header of the next message.
    #[inline]
    pub(super) fn header(&self, kind: Kind) -> Option<Header> {
        let end = &self.link.as_ref()?.end;
        Some(Header { kind, slot: end.slot, number: self.sent, heard: self.received, secret: end.secret })
    }

    /// Notes that a numbered message is over.
    #[inline]
    pub(super) fn has_sent(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.untold = 0;
    }

    /// Takes note of what the peer has heard.
    #[inline]
    pub(super) fn hear(&mut self, heard: u16) -> Result<(), Violation> {
        // What overtook another message may say less than what came before it.
        let news = heard.wrapping_sub(self.heard_by_peer);
        if news <= self.sent.wrapping_sub(self.heard_by_peer) {
            self.heard_by_peer = heard;
            return Ok(());
        }
        if news > u16::MAX / 2 { Ok(()) } else { Err(Violation) }
    }

    /// Whose turn it is, by the number of a message.
    #[inline]
    pub(super) fn turn(&self, number: u16) -> Result<Turn, Violation> {
        match number.wrapping_sub(self.received) {
            0 => Ok(Turn::Now),
            ahead if ahead <= u16::MAX / 2 => Ok(Turn::Later),
            _ => Err(Violation),
        }
    }

    /// Keeps a message that came before its turn. `limit`: how many may.
    pub(super) fn keep(&mut self, header: Header, body: &[u8], limit: usize) -> Result<(), Violation> {
        let is_there = self.ahead.iter().any(|(number, ..)| *number == header.number);
        if is_there || self.ahead.len() >= limit {
            return Err(Violation);
        }
        self.ahead.push((header.number, header, body.to_vec()));
        Ok(())
    }

    /// A message that was kept and whose turn it is.
    #[inline]
    pub(super) fn take_kept(&mut self) -> Option<(Header, Vec<u8>)> {
        if self.ahead.is_empty() {
            return None;
        }
        let index = self.ahead.iter().position(|(number, ..)| *number == self.received)?;
        let (_, header, body) = self.ahead.swap_remove(index);
        Some((header, body))
    }

    /// Notes that a numbered message was received in its turn.
    #[inline]
    pub(super) fn has_received(&mut self) {
        self.received = self.received.wrapping_add(1);
        self.untold = self.untold.saturating_add(1);
    }

    /// Whether the peer rang about messages that are still to come.
    pub(super) fn expects(&mut self) -> bool {
        if let Some(owed) = self.owed
            && !(1..=u16::MAX / 2).contains(&owed.wrapping_sub(self.received))
        {
            self.owed = None;
        }
        self.owed.is_some()
    }
}

impl Message {
    pub(super) fn body(&self) -> usize {
        self.len - HEADER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let socket = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        Connection::new(socket, FabricAddress::Shm("here".into()), Stage::Up, 1)
    }

    fn header(number: u16) -> Header {
        Header { kind: Kind::Data, slot: 0, number, heard: 0, secret: 1 }
    }

    #[test]
    fn what_overtakes_waits_for_its_turn_across_the_end_of_numbers() {
        let mut connection = connection();
        connection.received = u16::MAX;
        assert_eq!(connection.turn(0), Ok(Turn::Later));
        connection.keep(header(0), b"second", 4).unwrap();
        assert_eq!(connection.keep(header(0), b"again", 4), Err(Violation));
        assert_eq!(connection.take_kept(), None);
        assert_eq!(connection.turn(u16::MAX), Ok(Turn::Now));
        connection.has_received();
        assert_eq!(connection.take_kept(), Some((header(0), b"second".to_vec())));
        assert_eq!(connection.turn(u16::MAX), Err(Violation), "that one was received");
    }

    #[test]
    fn a_peer_can_not_make_a_connection_keep_more_than_its_window() {
        let mut connection = connection();
        (1..=4).for_each(|number| connection.keep(header(number), b"x", 4).unwrap());
        assert_eq!(connection.keep(header(5), b"x", 4), Err(Violation));
    }

    #[test]
    fn a_peer_can_not_have_heard_what_was_not_said() {
        let mut connection = connection();
        connection.sent = 3;
        assert_eq!(connection.hear(4), Err(Violation));
        assert_eq!(connection.hear(2), Ok(()));
        assert_eq!(connection.hear(1), Ok(()), "old news");
        assert_eq!(connection.heard_by_peer, 2);
    }
}
