//! A connection: what it is told and what it tells.
//!
//! Invariants:
//! 1. A stream is in `streams` until both sides have said their last, or one has reset it. The user is told of each end that it
//!    didn't bring about itself.
//! 2. `order` has the streams that have something queued and whose own window is open.
//! 3. What the peer makes this side hold is bounded: a frame and a block of headers half received, a list of them, the streams,
//!    and [`Settings::output_bytes`] of what it has to read first, beyond which nothing is taken in.
//! 4. Blocks of headers are encoded in the order in which they are written, or so that their order is of no matter.

mod control;
mod headers;
mod reading;
mod sending;
mod unread;

use crate::fields::{Fields, List};
use crate::frame::{self, kind, setting};
use crate::hpack::{Decoder, Encoder, Known};
use crate::order::Order;
use crate::reason::{Error, Reason};
use crate::settings::{FRAME_LEAST, Settings, TABLE_DEFAULT, WINDOW_LEAST};
use crate::streams::{Ended, Recent, Streams};
use reading::Input;
use unread::Unread;

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

/// What the peer accepts.
#[derive(Debug)]
struct Peers {
    streams: u32,
    window: u32,
    frame_bytes: u32,
}

/// How far an orderly end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// The peer was told to open no further streams, and asked whether it has read that.
    Told,
    /// It was told which is the last that is served.
    For(u32),
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    settings: Settings,
    peers: Peers,
    error: Option<Error>,
    leaving: Leaving,
    /// The last stream of this side that the peer takes in, if it said so; those above are yet to be told of.
    peer_leaves_at: Option<u32>,
    streams: Streams,
    /// Those over for the user whose peer has yet to say its last, the oldest first. They are not in `recent`.
    unread: Vec<Unread>,
    recent: Recent,
    order: Order,
    /// The largest number of a stream that the peer, or this side, has opened.
    last_id: u32,
    input: Input,
    decoder: Decoder,
    encoder: Encoder,
    /// The list that was read last, and what that was of.
    list: List,
    checked: Option<headers::Checked>,
    /// What a peer says when it leaves.
    debug: Vec<u8>,
    /// What the peer may still send, and what may be allowed to it besides.
    incoming: i64,
    released: u32,
    /// What may still be sent to the peer.
    outgoing: i64,
    /// Frames to be sent, of which the first bytes are gone.
    out: Vec<u8>,
    out_at: usize,
    /// Bytes in the queues of all streams.
    queued: usize,
    /// Those of streams that are told of.
    reported: usize,
    /// Streams whose data has left.
    sent: Vec<Stream>,
    /// What was asked and is not answered.
    asked: Option<[u8; 8]>,
    /// What is left of the budgets.
    resets: u32,
    idle_frames: u32,
}

/// What is asked to know that the peer has read that this side leaves.
const LEAVING: [u8; 8] = *b"leaving.";

/// Memory of an empty output beyond which it is given up, in bytes.
const OUTPUT_KEPT: usize = 128 << 10;

impl Connection {
    /// A connection that begins. What it says first is there to be sent.
    #[must_use]
    pub fn new(role: Role, settings: Settings) -> Self {
        let mut connection = Self {
            role,
            settings,
            peers: Peers { streams: u32::MAX, window: WINDOW_LEAST, frame_bytes: FRAME_LEAST },
            error: None,
            leaving: Leaving::No,
            peer_leaves_at: None,
            streams: Streams::default(),
            unread: Vec::new(),
            recent: Recent::default(),
            order: Order::default(),
            last_id: 0,
            input: Input::new(role),
            decoder: Decoder::new(settings.decoder_table as usize, settings.header_list_bytes as usize),
            encoder: Encoder::new(settings.encoder_table as usize),
            list: List::default(),
            checked: None,
            debug: Vec::new(),
            incoming: i64::from(settings.connection_window),
            released: 0,
            outgoing: i64::from(WINDOW_LEAST),
            out: Vec::new(),
            out_at: 0,
            queued: 0,
            reported: 0,
            sent: Vec::new(),
            asked: None,
            resets: settings.resets,
            idle_frames: settings.idle_frames,
        };
        connection.introduce();
        connection
    }

    fn introduce(&mut self) {
        let Settings { streams, window, connection_window, frame_bytes, header_list_bytes, decoder_table, .. } =
            self.settings;
        let is_client = self.role == Role::Client;
        if is_client {
            self.out.extend_from_slice(crate::PREFACE);
        }
        let all = [
            (setting::HEADER_TABLE_SIZE, decoder_table, decoder_table != TABLE_DEFAULT),
            (setting::ENABLE_PUSH, 0, is_client),
            (setting::MAX_CONCURRENT_STREAMS, streams, !is_client),
            (setting::INITIAL_WINDOW_SIZE, window, window != WINDOW_LEAST),
            (setting::MAX_FRAME_SIZE, frame_bytes, frame_bytes != FRAME_LEAST),
            (setting::MAX_HEADER_LIST_SIZE, header_list_bytes, true),
        ];
        let said = all.into_iter().filter(|(_, _, is_said)| *is_said);
        let count = said.clone().count();
        self.out.extend_from_slice(&frame::head(6 * count, kind::SETTINGS, 0, 0));
        for (which, value, _) in said {
            self.out.extend_from_slice(&which.to_be_bytes());
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        if connection_window > WINDOW_LEAST {
            self.write_number(kind::WINDOW_UPDATE, 0, connection_window - WINDOW_LEAST);
        }
    }

    /// Writes a frame of one number.
    fn write_number(&mut self, kind: u8, stream: u32, number: u32) {
        self.out.extend_from_slice(&frame::head(4, kind, 0, stream));
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    fn write_goaway(&mut self, last: u32, reason: Reason, debug: &[u8]) {
        self.out.extend_from_slice(&frame::head(8 + debug.len(), kind::GOAWAY, 0, 0));
        self.out.extend_from_slice(&last.to_be_bytes());
        self.out.extend_from_slice(&reason.0.to_be_bytes());
        self.out.extend_from_slice(debug);
    }

    /// Whether something would be read. If not, the peer has [`Settings::output_bytes`] to read first.
    #[must_use]
    #[inline]
    pub fn wants_input(&self) -> bool {
        self.out.len() - self.out_at <= self.settings.output_bytes
    }

    /// Whether a frame, or a block of headers, is half received: nothing else can come before the rest of it. Whoever has a
    /// clock may have it wait no longer than it sees fit.
    #[must_use]
    #[inline]
    pub fn is_mid_frame(&self) -> bool {
        self.input.is_mid_frame()
    }

    /// Whether the peer has yet to send its first frame, or all that comes before it.
    #[must_use]
    pub fn is_beginning(&self) -> bool {
        self.input.is_beginning()
    }

    /// The open stream with this number.
    #[must_use]
    pub fn stream(&self, id: u32) -> Option<Stream> {
        self.streams.find(id)
    }

    /// The number of the last stream that was opened, by the peer of a server, or by a client; 0: none was.
    #[must_use]
    pub fn last_stream(&self) -> u32 {
        self.last_id
    }

    /// How many streams are open, half of them included.
    #[must_use]
    #[inline]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// How many streams the peer accepts at once, by what it said so far.
    #[must_use]
    pub fn peer_streams(&self) -> u32 {
        self.peers.streams
    }

    /// A header that will be sent often. To be used for a handful of them: each is looked after for the life of the
    /// connection. A name in lower case. `None`: there are 65535 of them.
    pub fn know(&mut self, name: &[u8], value: &[u8]) -> Option<Known> {
        self.encoder.know(name, value)
    }

    /// Says where what the next stream needs lies, beside the connection itself: for a processor to fetch.
    pub fn each_part(&self, each: &mut dyn FnMut(*const u8, usize)) {
        self.streams.each_part(each);
        self.recent.each_part(each);
        self.decoder.each_part(each);
        self.encoder.each_part(each);
        each(self.out.as_ptr(), self.out.capacity().min(256));
    }

    /// Ends a stream before its time.
    pub fn reset(&mut self, stream: Stream, reason: Reason) {
        if self.streams.state(stream).is_some() {
            self.write_number(kind::RST_STREAM, stream.id, reason.0);
            self.forget(stream, Ended::ResetHere);
        }
    }

    /// A stream is over.
    #[inline]
    fn forget(&mut self, stream: Stream, how: Ended) {
        self.recent.note(stream.id, how);
        self.remove(stream);
        if how == Ended::InOrder {
            self.resets = (self.resets + 1).min(self.settings.resets);
        }
    }

    fn remove(&mut self, stream: Stream) {
        self.order.take(&mut self.streams.slots, stream.slot);
        let state = &self.streams.slots[stream.slot()];
        self.queued -= state.left;
        if state.reports {
            self.reported -= state.left;
        }
        self.streams.remove(stream);
    }

    /// So many bytes of a stream's data are no longer held: as many more of that stream may come. The peer is told by half
    /// windows.
    pub fn consumed(&mut self, stream: Stream, bytes: usize) {
        let window = self.settings.window;
        let Some(state) = self.streams.state_mut(stream).filter(|state| !state.has_received_end) else { return };
        // No more can be given back than was taken.
        let taken = i64::from(window) - state.incoming;
        state.consumed = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(state.consumed);
        state.consumed = state.consumed.min(taken.max(0) as u32);
        if state.consumed >= window / 2 {
            let more = std::mem::take(&mut state.consumed);
            state.incoming += i64::from(more);
            self.write_number(kind::WINDOW_UPDATE, stream.id, more);
        }
    }

    /// So many bytes of any streams' data are no longer held: as many more of the whole connection may come. What came of
    /// streams that are over is released by itself.
    #[inline]
    pub fn release(&mut self, bytes: usize) {
        let window = self.settings.connection_window;
        let taken = i64::from(window) - self.incoming;
        self.released = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(self.released);
        self.released = self.released.min(taken.max(0) as u32);
        if self.released >= window / 2 {
            let more = std::mem::take(&mut self.released);
            self.incoming += i64::from(more);
            self.write_number(kind::WINDOW_UPDATE, 0, more);
        }
    }

    /// Gives back what may be [reset](Settings::resets) and what may come for [nothing](Settings::idle_frames). To be told
    /// every so often, such as each second: the crate has no clock.
    pub fn refill(&mut self) {
        (self.resets, self.idle_frames) = (self.settings.resets, self.settings.idle_frames);
    }

    /// Asks whether the peer is there. False: it has yet to answer the last such question, and this isn't asked.
    pub fn ping(&mut self, payload: [u8; 8]) -> bool {
        if self.asked.is_some() || self.error.is_some() {
            return false;
        }
        self.asked = Some(payload);
        self.write_ping(0, payload);
        true
    }

    /// Takes no further streams, in order: the peer is told so, and once it has read that, which was the last. What it opened
    /// meanwhile is served.
    pub fn drain(&mut self) {
        if self.leaving != Leaving::No || self.error.is_some() {
            return;
        }
        match self.role {
            Role::Server => {
                self.write_goaway(i32::MAX as u32, Reason::NO_ERROR, b"");
                self.write_ping(0, LEAVING);
                self.leaving = Leaving::Told;
            }
            Role::Client => {
                self.write_goaway(0, Reason::NO_ERROR, b"");
                self.leaving = Leaving::For(0);
            }
        }
    }

    /// After a [`drain`](Self::drain), the peer is taken to have read that, whether it said so or not.
    pub fn wait_no_longer(&mut self) {
        if self.leaving == Leaving::Told && self.error.is_none() {
            self.leaving = Leaving::For(self.last_id);
            self.write_goaway(self.last_id, Reason::NO_ERROR, b"");
        }
    }

    /// Whether a [`drain`](Self::drain) was asked for, the peer knows, and no stream is open. What is to be sent may still be.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        matches!(self.leaving, Leaving::For(_)) && self.streams.len() == 0
    }

    /// Ends the connection: the peer is told why. All streams are over, and nothing more is read.
    pub fn abort(&mut self, reason: Reason, debug: &[u8]) {
        if self.error.is_none() {
            self.fail(Error::new(reason, "ended here"), debug);
        }
    }

    fn fail(&mut self, error: Error, debug: &[u8]) -> Error {
        let last = match (self.role, self.leaving) {
            (Role::Client, _) => 0,
            (Role::Server, Leaving::For(last)) => last,
            (Role::Server, _) => self.last_id,
        };
        self.write_goaway(last, error.reason, &debug[..debug.len().min(1024)]);
        while let Some(stream) = self.streams.last() {
            self.forget(stream, Ended::ResetHere);
        }
        self.unread.clear();
        self.error = Some(error);
        error
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Connection {
    pub(crate) fn is_open(&self, stream: Stream) -> bool {
        self.streams.state(stream).is_some()
    }

    /// Panics unless the invariants hold.
    pub(crate) fn check(&self) {
        let Settings { streams, window, header_block_bytes, frame_bytes, .. } = self.settings;
        assert!(self.streams.len() <= streams as usize);
        let (mut queued, mut reported) = (0, 0);
        for state in self.streams.slots.iter().filter(|state| state.id != 0) {
            let pieces: usize = state.queue.iter().map(crate::streams::Piece::len).sum();
            assert_eq!(state.left, pieces - state.begun);
            assert_eq!(state.class != u8::MAX, state.left > 0 && state.outgoing > 0, "its place in the order");
            assert!((0..=i64::from(window)).contains(&state.incoming));
            assert!(!(state.has_sent_end && state.has_received_end), "it is over");
            queued += state.left;
            reported += if state.reports { state.left } else { 0 };
        }
        assert_eq!((self.queued, self.reported), (queued, reported));
        assert!((0..=i64::from(self.settings.connection_window)).contains(&self.incoming));
        self.check_unread();
        self.input.check(header_block_bytes as usize, frame_bytes as usize + frame::HEAD);
    }
}
