//! What waits of streams to be sent.
//!
//! A stream's messages leave in their order, though the splitting queue has none. So those of each stream stand in a *line*
//! of their own, and the queue is given the next of them when the last has been posted whole. The line also knows how much
//! the peer lets the stream send.
//!
//! Invariants:
//! 1. Of each line at most one piece is *ready* or in the splitting queue. What is ready counts as waiting; it goes to the
//!    queue with the next [transmit](super::Link::transmit), so that an END which is said until then goes with it.
//! 2. A line whose first piece is a message is ready or idle as its window says.
//! 3. `held` counts the REPLYs in lines, `active` what waits elsewhere of lines that are not ended.

use super::Link;
use crate::connection::outgoing::Outgoing;
use crate::connection::stream::{StreamMessage, Volume, cost};
use crate::connection::violation::Violation;
use crate::wire::{
    Begin, CallId, Direction, End, HEADER_BYTES, Head, META_BYTES_MOST, MessageHeader, STREAM_WINDOW, fitting,
};
use greenwave_policy::{Budget, Deadline, Time};
use std::collections::{HashMap, VecDeque};

/// How much of a stream is told of once it has gone out, if there is more, as a window counts it.
const TOLD: usize = 16 << 10;

/// The lines of one end of a connection.
#[derive(Default)]
pub(super) struct Lines {
    by_call: HashMap<CallId, Line>,
    /// Lines of which a piece is ready, with the length of its body.
    ready: Vec<(CallId, usize)>,
    held: usize,
    /// Lines of which a piece is ready or, unless it is a REPLY, in the splitting queue.
    active: usize,
    /// What has gone out.
    sent: VecDeque<(CallId, Volume)>,
}

/// What waits of one stream.
pub(in crate::connection) struct Line {
    pieces: VecDeque<Piece>,
    /// What the peer lets it begin.
    window: i64,
    place: Place,
    /// What has gone out and was not told of.
    untold: Volume,
    /// Whether the piece that is under way is a message.
    is_message: bool,
    /// Whether nothing is added any more.
    stopped: bool,
    /// Whether the piece that is under way is its last one, and whether that was posted whole.
    ending: bool,
    ended: bool,
    direction: Direction,
}

/// Something to send.
pub(in crate::connection) enum Piece {
    /// What goes before an answer.
    Begin(Box<[u8]>),
    Message(StreamMessage),
    /// The end of a request.
    End,
    /// The end of an answer.
    Reply(Box<Outgoing>),
}

/// Where the piece is that leaves next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the line.
    Idle,
    /// In the line, and it may leave.
    Ready,
    /// In the splitting queue, at this index.
    Queue(u32),
    /// The CALL has to leave first.
    BehindCall,
}

impl Piece {
    fn len(&self) -> usize {
        if let Self::Message(message) = self { message.body.len() } else { 0 }
    }
}

impl Line {
    /// Of a call's answer.
    fn of_answer() -> Self {
        Self { direction: Direction::Reply, place: Place::Idle, ..Self::of_request() }
    }

    /// Of a call that is to be made.
    pub(in crate::connection) fn of_request() -> Self {
        Self {
            pieces: VecDeque::new(),
            window: STREAM_WINDOW.into(),
            place: Place::BehindCall,
            untold: Volume::default(),
            is_message: false,
            stopped: false,
            ending: false,
            ended: false,
            direction: Direction::Request,
        }
    }

    /// Adds a piece, unless nothing may follow what is there. Whether it did.
    pub(in crate::connection) fn push(&mut self, piece: Piece) -> bool {
        let is_closed = self.stopped || self.ending || matches!(self.pieces.back(), Some(Piece::End | Piece::Reply(_)));
        if !is_closed {
            self.pieces.push_back(piece);
        }
        !is_closed
    }

    /// Drops what waits, and whatever else is sent.
    pub(in crate::connection) fn stop(&mut self) {
        self.pieces.clear();
        self.stopped = true;
    }

    /// Bytes of the longest message in it.
    pub(in crate::connection) fn longest(&self) -> usize {
        self.pieces.iter().map(Piece::len).max().unwrap_or(0)
    }

    /// How long the piece is that may leave now, if one may.
    fn may_leave(&self) -> Option<usize> {
        match self.pieces.front() {
            Some(Piece::Message(message)) => (self.window > 0).then_some(message.body.len()),
            Some(_) => Some(0),
            None => None,
        }
    }

    /// The next piece as it is sent, in chunks of `room` bytes.
    fn next(&mut self, call: CallId, room: usize) -> Option<Outgoing> {
        let piece = self.pieces.pop_front()?;
        let direction = self.direction;
        self.is_message = matches!(piece, Piece::Message(_));
        let frame = |head: Head, extra: Box<[u8]>| {
            Outgoing::new(call, direction, head, extra, Vec::new(), Deadline::NEVER, Time::ZERO)
        };
        Some(match piece {
            Piece::Reply(reply) => *reply,
            Piece::Begin(meta) => {
                let meta = fitting(&meta, META_BYTES_MOST.min(room.saturating_sub(HEADER_BYTES + 1)));
                frame(Begin { call, credits: 0, meta: &[] }.encode(), meta.into())
            }
            Piece::End => {
                self.ending = true;
                frame(End { call, credits: 0 }.encode(), Box::default())
            }
            Piece::Message(StreamMessage { body, deadline, .. }) => {
                let end = matches!(self.pieces.front(), Some(Piece::End));
                if end {
                    self.pieces.pop_front();
                    self.ending = true;
                }
                self.window -= cost(body.len()) as i64;
                let (credits, message_len) = (0, body.len() as u32);
                // It is written when the frame is.
                let budget = (deadline != Deadline::NEVER).then_some(Budget::UNLIMITED);
                let head = MessageHeader { call, credits, direction, end, message_len, budget }.encode();
                Outgoing::new(call, direction, head, Box::default(), body, deadline, Time::ZERO)
            }
        })
    }
}

impl Link {
    /// Adds the line of a request whose CALL was [pushed](Self::push).
    pub(in crate::connection) fn line_up(&mut self, call: CallId, line: Line) {
        self.lines.by_call.insert(call, line);
    }

    /// Adds a piece to a line. Answers have one from their first piece on.
    pub(in crate::connection) fn push_piece(&mut self, call: CallId, piece: Piece) {
        let is_reply = matches!(piece, Piece::Reply(_));
        if self.lines.by_call.entry(call).or_insert_with(Line::of_answer).push(piece) && is_reply {
            self.lines.held += 1;
        }
        self.wake(call);
    }

    /// Whether something of a stream waits, or has been sent.
    pub(in crate::connection) fn has_line(&self, call: CallId) -> bool {
        self.lines.by_call.contains_key(&call)
    }

    /// How many answers wait to be posted. Where there are no streams that is every message.
    #[inline]
    pub(in crate::connection) fn answers(&self) -> usize {
        self.messages() + self.lines.held - self.lines.active
    }

    /// Whether something has gone out that was not told of.
    #[inline(always)]
    pub(in crate::connection) fn has_sent(&self) -> bool {
        !self.lines.sent.is_empty()
    }

    /// The next stream of which something has gone out that was not told of, and how much.
    pub(in crate::connection) fn next_sent(&mut self) -> Option<(CallId, Volume)> {
        self.lines.sent.pop_front()
    }

    /// The peer lets a stream send more. Whether there is one.
    pub(in crate::connection) fn widen(&mut self, call: CallId, bytes: u32) -> Result<bool, Violation> {
        let Some(line) = self.lines.by_call.get_mut(&call) else { return Ok(false) };
        let window = line.window + i64::from(bytes);
        if window > STREAM_WINDOW.into() {
            return Err(Violation::Window(call));
        }
        line.window = window;
        self.wake(call);
        Ok(true)
    }

    /// Makes the first piece of an idle line ready if it may leave.
    fn wake(&mut self, call: CallId) {
        let Some(line) = self.lines.by_call.get_mut(&call) else { return };
        if line.place == Place::Idle
            && let Some(len) = line.may_leave()
        {
            line.place = Place::Ready;
            self.lines.ready.push((call, len));
            self.lines.active += 1;
            self.waiting += 1;
            self.waiting_bytes += len;
        }
    }

    /// The contrary, before the pieces of a line change.
    fn calm(&mut self, call: CallId) {
        let Some(line) = self.lines.by_call.get_mut(&call).filter(|line| line.place == Place::Ready) else { return };
        line.place = Place::Idle;
        if let Some(at) = self.lines.ready.iter().position(|(ready, _)| *ready == call) {
            let (_, len) = self.lines.ready.swap_remove(at);
            self.lines.active -= 1;
            self.waiting -= 1;
            self.waiting_bytes -= len;
        }
    }

    /// Whoever gets an answer doesn't want it: of its messages none is begun any more, so that its REPLY waits for no window.
    pub(in crate::connection) fn cut_line(&mut self, call: CallId) {
        self.calm(call);
        if let Some(line) = self.lines.by_call.get_mut(&call) {
            line.pieces.retain(|piece| matches!(piece, Piece::Reply(_)));
            self.wake(call);
        }
        self.withdrew();
    }

    /// A request goes on no further, and doesn't end either. Whether it is a stream.
    pub(in crate::connection) fn stop_line(&mut self, call: CallId) -> bool {
        self.calm(call);
        let stopped = self.lines.by_call.get_mut(&call).map(Line::stop).is_some();
        self.withdrew();
        stopped
    }

    /// Takes a request's line away with all that waits in it. Whether its end was posted.
    pub(in crate::connection) fn close_line(&mut self, call: CallId) -> bool {
        self.calm(call);
        let Some(line) = self.lines.by_call.remove(&call) else { return false };
        if let Place::Queue(index) = line.place {
            self.lines.active -= 1;
            self.withdraw(call, index);
        }
        self.withdrew();
        line.ended
    }

    /// Bytes of the shortest piece that is ready.
    pub(super) fn least_ready(&self) -> Option<usize> {
        self.lines.ready.iter().map(|(_, len)| *len).min()
    }

    /// Whether any piece is.
    #[inline(always)]
    pub(super) fn is_any_ready(&self) -> bool {
        !self.lines.ready.is_empty()
    }

    /// Hands what is ready to the splitting queue.
    #[inline(never)]
    pub(super) fn queue_ready(&mut self, room: usize) {
        let mut ready = std::mem::take(&mut self.lines.ready);
        for (call, len) in ready.drain(..) {
            self.lines.active -= 1;
            self.waiting -= 1;
            self.waiting_bytes -= len;
            self.queue_next(call, room);
        }
        self.lines.ready = ready;
    }

    /// Hands the next piece of a line to the splitting queue.
    fn queue_next(&mut self, call: CallId, room: usize) {
        let Some(line) = self.lines.by_call.get_mut(&call) else { return };
        let is_reply = matches!(line.pieces.front(), Some(Piece::Reply(_)));
        let Some(piece) = line.next(call, room) else { return };
        let len = piece.body.len();
        self.waiting += 1;
        self.waiting_bytes += len;
        let index = self.out.push(len, piece.deadline, piece) as u32;
        if is_reply {
            self.lines.by_call.remove(&call);
            self.lines.held -= 1;
        } else {
            line.place = Place::Queue(index);
            self.lines.active += 1;
        }
    }

    /// A chunk of a stream was posted, with so many bytes of a message; `last`: the piece is posted whole.
    pub(super) fn posted_piece(&mut self, call: CallId, bytes: usize, last: bool, room: usize) {
        let Some(line) = self.lines.by_call.get_mut(&call) else { return };
        line.untold += Volume { messages: usize::from(last && line.is_message), bytes };
        let goes_on = !last || matches!(line.pieces.front(), Some(Piece::Message(_)));
        if line.untold.cost() >= TOLD || !goes_on && line.untold.cost() > 0 {
            self.lines.sent.push_back((call, std::mem::take(&mut line.untold)));
        }
        if last {
            if let Place::Queue(_) = line.place {
                self.lines.active -= 1;
            }
            line.place = Place::Idle;
            line.ended = line.ending;
            if line.may_leave().is_some() {
                self.queue_next(call, room);
            }
        }
    }

    /// How many pieces are ready.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check_lines(&self) -> usize {
        let Lines { by_call, ready, held, active, .. } = &self.lines;
        let is_active = |line: &&Line| matches!(line.place, Place::Ready | Place::Queue(_));
        assert_eq!(*active, by_call.values().filter(is_active).count());
        let is_reply = |piece: &&Piece| matches!(piece, Piece::Reply(_));
        assert_eq!(*held, by_call.values().flat_map(|line| &line.pieces).filter(is_reply).count());
        assert_eq!(ready.len(), by_call.values().filter(|line| line.place == Place::Ready).count());
        for (call, line) in by_call {
            assert!(line.place != Place::Idle || line.may_leave().is_none(), "call {call} waits for nothing");
        }
        for (call, len) in ready {
            assert_eq!(by_call[call].may_leave(), Some(*len));
        }
        ready.len()
    }
}
