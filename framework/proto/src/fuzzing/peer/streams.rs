//! What a peer does with streams, as far as it knows of them.

use super::super::bytes::Bytes;
use super::{BODY, LENGTHS, Peer};
use crate::wire::{Begin, CallId, Direction, End, Frame, MESSAGE_COST, Message, MessageHeader, STREAM_WINDOW, Window};
use greenwave_policy::Budget;

/// A stream that is not over.
pub(super) struct Stream {
    pub(super) call: CallId,
    /// What it may send yet, and what it heard and has not given back.
    window: i64,
    unreturned: u32,
    begun: bool,
    ended: bool,
    /// Whether the REPLY was heard.
    replied: bool,
}

impl Peer {
    /// A call that streams begins, made by the peer or heard by it.
    pub(super) fn open_stream(&mut self, call: CallId) {
        let (window, unreturned) = (STREAM_WINDOW.into(), 0);
        self.streams.push(Stream { call, window, unreturned, begun: false, ended: false, replied: false });
    }

    fn stream(&mut self, call: CallId) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.call == call)
    }

    pub(super) fn is_stream(&self, call: CallId) -> bool {
        self.streams.iter().any(|stream| stream.call == call)
    }

    pub(super) fn is_within(&self, call: CallId) -> bool {
        self.halves.iter().any(|(half, ..)| *half == call)
    }

    /// It hears a frame of a stream.
    pub(super) fn hear_stream(&mut self, frame: &Frame<'_>) {
        match frame {
            Frame::Message(message) => {
                let header = message.header;
                if let Some(stream) = self.stream(header.call) {
                    stream.unreturned += header.message_len + MESSAGE_COST;
                }
            }
            Frame::Window(window) => {
                if let Some(stream) = self.stream(window.call) {
                    stream.window += i64::from(window.bytes);
                    assert!(stream.window <= STREAM_WINDOW.into(), "a window grows beyond what was sent");
                }
            }
            Frame::Reply(reply) | Frame::ReplyWithMeta(reply, _) => {
                if let Some(stream) = self.stream(reply.header.call) {
                    stream.replied = true;
                }
                self.forget_ended();
            }
            _ => {}
        }
    }

    /// A caller takes a call back, which ends its stream.
    pub(super) fn cancel_stream(&mut self, call: CallId) {
        if let Some(stream) = self.stream(call) {
            stream.ended = true;
        }
        self.forget_ended();
    }

    /// Those that are over at both ends.
    pub(super) fn forget_ended(&mut self) {
        let halves = &self.halves;
        self.streams.retain(|it| !(it.replied && it.ended && halves.iter().all(|(half, ..)| *half != it.call)));
    }

    /// More of a stream: a message, its end, or what goes before.
    pub(super) fn more(&mut self, bytes: &mut Bytes<'_>) -> Option<Frame<'static>> {
        let count = self.streams.len();
        let at = (count > 0).then(|| bytes.below(256) % count)?;
        let call = self.streams[at].call;
        if self.is_within(call) || self.streams[at].ended {
            return None;
        }
        let calls = self.calls;
        let credits = self.credits(bytes);
        let stream = &mut self.streams[at];
        match bytes.below(8) {
            0 if calls => {
                stream.ended = true;
                self.forget_ended();
                return Some(Frame::End(End { call, credits }));
            }
            0 if !std::mem::replace(&mut stream.begun, true) => {
                return Some(Frame::Begin(Begin {
                    call,
                    credits,
                    meta: bytes.one_of(&[b"\x01k\x01\x00v", b"\xff\xff\xff\xff\xff"]),
                }));
            }
            _ => {}
        }
        if stream.window <= 0 {
            self.owed += credits;
            return None;
        }
        let body = &BODY[..bytes.one_of(&LENGTHS).min(4000)];
        let message_len = body.len() + bytes.one_of(&[0, 0, 1, 300, 1900]);
        stream.window -= (message_len as u32 + MESSAGE_COST) as i64;
        stream.begun = true;
        let end = calls && bytes.below(8) == 0;
        stream.ended = end;
        if message_len > body.len() {
            self.halves.push((call, body.len(), message_len));
        }
        self.forget_ended();
        let direction = if calls { Direction::Request } else { Direction::Reply };
        let budget = (bytes.below(4) == 0).then(|| Budget::from_nanos(bytes.number() as i64));
        let header = MessageHeader { call, credits, direction, end, message_len: message_len as u32, budget };
        Some(Frame::Message(Message { header, body }))
    }

    /// Some of what it heard of a stream is given back.
    pub(super) fn widen(&mut self, bytes: &mut Bytes<'_>) -> Option<Frame<'static>> {
        let credits = self.credits(bytes);
        let stream = self.streams.iter_mut().find(|stream| stream.unreturned > 0);
        let Some(stream) = stream else {
            self.owed += credits;
            return None;
        };
        let given = std::mem::take(&mut stream.unreturned);
        Some(Frame::Window(Window { call: stream.call, credits, bytes: given }))
    }

    /// A frame of a stream that may not be sent, or not now.
    pub(super) fn breach_of_stream(&mut self, call: CallId, bytes: &mut Bytes<'_>) -> Frame<'static> {
        match bytes.below(4) {
            0 => Frame::End(End { call, credits: 0 }),
            1 => Frame::Begin(Begin { call, credits: 0, meta: b"\xff" }),
            2 => Frame::Window(Window { call, credits: 0, bytes: bytes.number() as u32 | 1 }),
            _ => {
                let direction = bytes.one_of(&[Direction::Request, Direction::Reply]);
                let (end, budget) = (direction == Direction::Request && bytes.below(2) == 0, None);
                let message_len = bytes.one_of(&[0, 7, 4000, u32::MAX]);
                let header = MessageHeader { call, credits: 0, direction, end, message_len, budget };
                Frame::Message(Message { header, body: &BODY[..bytes.one_of(&LENGTHS).min(message_len as usize)] })
            }
        }
    }
}
