//! A connection: what it is told and what it tells.

use crate::fields::{Fields, Header};
use crate::hpack::Known;
use crate::reason::{Error, Reason};
use crate::settings::Settings;

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers streams.
    Server,
    /// Opens streams.
    Client,
}

/// A stream. What is asked or told of one that is over does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    pub(crate) id: u32,
    pub(crate) slot: u16,
}

impl Stream {
    /// Its number on the wire.
    #[must_use]
    pub const fn id(self) -> u32 {
        self.id
    }

    /// A small number that no other open stream of the connection has: less than [`Settings::streams`]. Whoever keeps something
    /// for each stream may keep it there.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What arrived.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request's headers at a server, or a response's at a client (not those of interim responses).
    Headers {
        /// New at a server.
        stream: Stream,
        /// What they are.
        fields: Fields<'a>,
        /// Nothing follows.
        end: bool,
    },
    /// A part of a body, as it came; it may be empty only if it is the last.
    Data {
        /// Whose it is.
        stream: Stream,
        /// To be given back by [`Connection::consumed`] and [`Connection::release`].
        bytes: &'a [u8],
        /// Nothing follows.
        end: bool,
    },
    /// Headers behind a body. Nothing follows.
    Trailers {
        /// Whose they are.
        stream: Stream,
        /// What they are.
        fields: Fields<'a>,
    },
    /// The stream is over, before its time: its peer said so, or broke a rule.
    Reset {
        /// Which; it is known no more.
        stream: Stream,
        /// Why.
        reason: Reason,
        /// The peer said so. If not, it was told.
        by_peer: bool,
    },
    /// A request that was refused before anything was made of it, as too many are open, or it is malformed.
    Refused {
        /// What the peer was told.
        reason: Reason,
    },
    /// The peer takes no further streams. Those of a client above `last` are not answered: each has its [`Event::Reset`]
    /// (REFUSED_STREAM) next.
    GoAway {
        /// The last stream of this side that the peer has taken in, or may take in yet.
        last: u32,
        /// Why.
        reason: Reason,
        /// What else it says.
        debug: &'a [u8],
    },
    /// The peer's settings have come, or changed: more streams may be opened, or fewer.
    Settings,
    /// The peer asked whether this side is there, and is answered.
    Ping,
    /// What was asked by [`Connection::ping`] is answered.
    Pong([u8; 8]),
}

/// Why a stream can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// As many are open as either side takes. One that ends makes room.
    #[error("as many streams are open as the peer takes")]
    Full,
    /// The connection is over, or about to be; or this side is the server.
    #[error("the connection takes no further streams")]
    Closed,
    /// Their numbers are used up.
    #[error("the connection has no numbers left for streams")]
    Exhausted,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    settings: Settings,
    out: Vec<u8>,
}

impl Connection {
    /// A connection that begins. What it says first is there to be sent.
    #[must_use]
    pub fn new(role: Role, settings: Settings) -> Self {
        Self { role, settings, out: Vec::new() }
    }

    /// Reads on. What was read is taken off the front of `input`; what is left there is to be given again, with what comes
    /// behind it. `None`: all of it was read, or nothing is read at present as the peer doesn't read
    /// ([`wants_input`](Self::wants_input)).
    ///
    /// # Errors
    /// When the peer breaks a rule of connections, and from then on.
    pub fn read<'a>(&'a mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Error> {
        let _ = (input, self.role, self.settings);
        Ok(None)
    }

    /// Whether something would be read. If not, the peer has [`Settings::output_bytes`] to read first.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        true
    }

    /// Whether a frame, or a block of headers, is half received: nothing else can come before the rest of it. Whoever has a
    /// clock may have it wait no longer than it sees fit.
    #[must_use]
    pub fn is_mid_frame(&self) -> bool {
        false
    }

    /// What is to be sent, made of what is queued: at least `room` bytes, if so many may be sent by now, and not much more.
    pub fn output(&mut self, room: usize) -> &[u8] {
        let _ = room;
        &self.out
    }

    /// So many bytes of the [`output`](Self::output) were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }

    /// Whether something can be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        false
    }

    /// Bytes to be sent: frames that are written, and the data in the queues of streams.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Bytes of data in the queue of this stream.
    #[must_use]
    pub fn queued(&self, stream: Stream) -> usize {
        let _ = stream;
        0
    }

    /// The stream wants [`next_sent`](Self::next_sent) to tell of it.
    pub fn report_sent(&mut self, stream: Stream) {
        let _ = stream;
    }

    /// A stream of which data has left its queue, and how many bytes since this was last told.
    pub fn next_sent(&mut self) -> Option<(Stream, usize)> {
        None
    }

    /// A header that will be sent often. To be used for a handful of them: each is looked after for the life of the
    /// connection. A name in lower case. `None`: there are 65535 of them.
    pub fn know(&mut self, name: &[u8], value: &[u8]) -> Option<Known> {
        let _ = (name, value);
        None
    }

    /// Opens a stream, as a client. Pseudo-headers come first.
    ///
    /// # Errors
    /// When it can't be opened now, or at all.
    pub fn open(&mut self, headers: &[Header<'_>], end: bool) -> Result<Stream, OpenError> {
        let _ = (headers, end);
        Err(OpenError::Closed)
    }

    /// Whether a stream can be opened.
    #[must_use]
    pub fn can_open(&self) -> bool {
        false
    }

    /// How many streams are open, half of them included.
    #[must_use]
    pub fn streams(&self) -> usize {
        0
    }

    /// The headers of a response, as a server. Interim responses are possible. `end`: nothing follows.
    pub fn respond(&mut self, stream: Stream, headers: &[Header<'_>], end: bool) {
        let _ = (stream, headers, end);
    }

    /// Sends data, or queues it: at most 8 bytes that precede it, and itself. `end`: nothing follows. What is given back is the
    /// buffer, if it isn't needed any more.
    pub fn send(&mut self, stream: Stream, prefix: &[u8], data: Vec<u8>, end: bool) -> Option<Vec<u8>> {
        let _ = (stream, prefix, end);
        Some(data)
    }

    /// Headers behind all data that was queued. Nothing may follow.
    pub fn end(&mut self, stream: Stream, trailers: &[Header<'_>]) {
        let _ = (stream, trailers);
    }

    /// Ends a stream before its time.
    pub fn reset(&mut self, stream: Stream, reason: Reason) {
        let _ = (stream, reason);
    }

    /// So many bytes of a stream's data are no longer held: as many more of that stream may come.
    pub fn consumed(&mut self, stream: Stream, bytes: usize) {
        let _ = (stream, bytes);
    }

    /// So many bytes of any streams' data are no longer held: as many more of the whole connection may come. What came of
    /// streams that are over is released by itself.
    pub fn release(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Gives back what may be [reset](Settings::resets) and what may come for [nothing](Settings::idle_frames). To be told
    /// every so often, such as each second: the crate has no clock.
    pub fn refill(&mut self) {}

    /// Asks whether the peer is there. False: there are such questions as it has yet to answer, and this isn't asked.
    pub fn ping(&mut self, payload: [u8; 8]) -> bool {
        let _ = payload;
        false
    }

    /// Takes no further streams, in order: the peer is told so, and once it has read that, which was the last. What it opened
    /// meanwhile is served.
    pub fn drain(&mut self) {}

    /// Whether a [`drain`](Self::drain) was asked for, the peer knows, and no stream is open. What is to be sent may still be.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        false
    }

    /// Ends the connection: the peer is told why. All streams are over, and nothing more is read.
    pub fn abort(&mut self, reason: Reason, debug: &[u8]) {
        let _ = (reason, debug);
    }
}
