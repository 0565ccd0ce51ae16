//! A peer that means well most of the time: it knows which calls there are, which messages are half sent, and how many
//! credits it owes. Otherwise hardly a connection would last for more than a few frames.

mod streams;

use super::bytes::Bytes;
use crate::status::{Code, Reason};
use crate::wire::{
    Call, CallHeader, CallId, Cancel, Credit, Data, DataHeader, Direction, Features, Frame, GoAway, GoAwayCode, Hello,
    HelloLimits, MethodId, Ping, Pong, Probe, Realtime, Reply, ReplyHeader, StageName,
};
use greenwave_policy::{Budget, DeadlineField};
use std::num::NonZeroU16;
use std::time::Duration;
use streams::Stream;

/// Bodies are parts of this.
const BODY: [u8; 7000] = [0x5a; 7000];

/// What lengths parts of messages have.
const LENGTHS: [usize; 6] = [0, 1, 7, 200, 4000, 7000];

/// A peer of the end that is looked at.
pub(super) struct Peer {
    pub(super) crc: bool,
    /// Whether it has kept to the rules so far.
    pub(super) is_sound: bool,
    /// Whether it is the peer that calls.
    calls: bool,
    /// The generation of each slot, as the caller counts them, and whether its call is unanswered.
    generations: [u16; 6],
    taken: [bool; 6],
    /// How much of each slot's answer it has yet to hear.
    unheard: [usize; 6],
    /// Calls that it has heard of and not answered.
    heard: Vec<CallId>,
    /// Messages that it has begun to send: how much was sent, and how much there is.
    halves: Vec<(CallId, usize, usize)>,
    streams: Vec<Stream>,
    /// Whether it knows of streams.
    knows_streams: bool,
    /// Credits that it owes, and those that it has.
    owed: u16,
    credits: u32,
}

impl Peer {
    /// A peer that has this many credits.
    pub(super) fn new(crc: bool, calls: bool, credits: u32) -> Self {
        let (generations, taken, unheard) = ([0; 6], [false; 6], [0; 6]);
        let (heard, halves, streams) = (Vec::new(), Vec::new(), Vec::new());
        let (knows_streams, is_sound, owed) = (false, true, 0);
        Self { crc, is_sound, calls, generations, taken, unheard, heard, halves, streams, knows_streams, owed, credits }
    }

    pub(super) fn hello(&mut self, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let limits = HelloLimits {
            credits: bytes.one_of(&[1, 2, 5, 65535]),
            chunk_bytes: bytes.one_of(&[256, 300, 1024, 4096]),
            message_bytes: bytes.one_of(&[u32::MAX, 5000, 10, 0]),
            calls: if self.calls { 0 } else { bytes.one_of(&[4, 4, 1, 65536]) },
        };
        let features =
            Features::RECEIPTS | Features::ORIGINS | if self.crc { Features::CRC32C } else { Features::NONE };
        let features = features | bytes.one_of(&[Features::NONE, Features::ABSOLUTE_DEADLINE]);
        self.knows_streams = bytes.below(4) > 0;
        let features = features | if self.knows_streams { Features::STREAMS } else { Features::NONE };
        Frame::Hello(Hello::new(features, limits, StageName::UNNAMED)).encode(false)
    }

    /// It hears a frame of the other end.
    pub(super) fn hear(&mut self, frame: &Frame<'_>) {
        if frame.kind().uses_credit() {
            self.owed = self.owed.saturating_add(1);
        }
        self.credits += u32::from(frame.credits());
        match frame {
            Frame::Call(call) => {
                self.heard.push(call.header.call);
                if call.header.streams {
                    self.open_stream(call.header.call);
                }
            }
            Frame::Reply(reply) | Frame::ReplyWithMeta(reply, _) => {
                self.hear_answer(reply.header.call, reply.header.message_len as usize, reply.body);
            }
            Frame::Data(part) if self.calls && !self.is_stream(part.header.call) => {
                let call = part.header.call;
                self.hear_answer(call, self.unheard[usize::from(call.slot()) % 6], part.body);
            }
            _ => {}
        }
        self.hear_stream(frame);
    }

    fn hear_answer(&mut self, call: CallId, missing: usize, part: &[u8]) {
        let slot = usize::from(call.slot()) % 6;
        self.unheard[slot] = missing.saturating_sub(part.len());
        self.taken[slot] = self.unheard[slot] > 0;
    }

    /// What it sends next.
    pub(super) fn chunk(&mut self, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let mut chunk = if bytes.seldom() { self.breach(bytes) } else { self.sound(bytes) };
        if bytes.seldom() && !chunk.is_empty() {
            self.is_sound = false;
            let at = usize::from(bytes.byte()) % chunk.len();
            chunk[at] ^= 1 << bytes.below(8);
        }
        chunk
    }

    /// A frame that the peer may send, as far as it knows.
    fn sound(&mut self, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let choice = bytes.below(16);
        let message = match choice {
            _ if self.credits == 0 => None,
            0..6 if self.calls => self.request(bytes),
            0..6 => self.answer(bytes),
            6..9 => self.next_part(bytes),
            9..11 => self.more(bytes),
            _ => None,
        };
        if message.is_some() {
            self.credits -= 1;
        }
        let message = message.or_else(|| if choice == 14 { self.widen(bytes) } else { None });
        let frame = message.unwrap_or_else(|| match choice {
            11..13 if self.calls => {
                let call = self.some_call(bytes);
                self.halves.retain(|(half, ..)| *half != call);
                self.cancel_stream(call);
                Frame::Cancel(Cancel { call, credits: self.credits(bytes) })
            }
            13 if bytes.below(32) == 31 => {
                let code = GoAwayCode::from_u8(bytes.below(4) as u8);
                Frame::GoAway(GoAway { credits: 0, code, last: None, text: "so long" })
            }
            _ => match self.credits(bytes) {
                0 => {
                    let probe = Probe { credits: 0, opaque: bytes.number().wrapping_neg(), sent: None };
                    bytes.one_of(&[Frame::Ping(Ping(probe)), Frame::Pong(Pong(probe))])
                }
                credits => Frame::Credit(Credit { credits }),
            },
        });
        frame.encode(self.crc)
    }

    /// A frame that it may not send, or not now, or that is none.
    fn breach(&mut self, bytes: &mut Bytes<'_>) -> Vec<u8> {
        self.is_sound = false;
        let crc = self.crc;
        let call = self.some_call(bytes);
        match bytes.below(12) {
            0 => self.hello(bytes),
            1 => (0..bytes.below(64)).map(|_| bytes.byte()).collect(),
            2 => self.call_frame(call, bytes).encode(crc),
            3 => self.reply_frame(call, bytes).encode(crc),
            4 => Frame::Cancel(Cancel { call, credits: u16::from(bytes.byte()) }).encode(crc),
            5 => Frame::Credit(Credit { credits: u16::from(bytes.byte()) + 1 }).encode(crc),
            6..8 => {
                let direction = bytes.one_of(&[Direction::Request, Direction::Reply]);
                let header = DataHeader { call, credits: 0, direction, offset: bytes.one_of(&LENGTHS) as u32 };
                Frame::Data(Data { header, body: &BODY[..bytes.one_of(&LENGTHS).max(1)] }).encode(crc)
            }
            8..11 => self.breach_of_stream(call, bytes).encode(crc),
            // Without the checksum that was agreed on, or with one that was not.
            _ => Frame::Credit(Credit { credits: 1 }).encode(!crc),
        }
    }

    /// Credits to give back: some of those owed.
    fn credits(&mut self, bytes: &mut Bytes<'_>) -> u16 {
        let credits = self.owed.min(bytes.below(8) as u16);
        self.owed -= credits;
        credits
    }

    /// A call that there may be, or may have been.
    fn some_call(&self, bytes: &mut Bytes<'_>) -> CallId {
        let slot = bytes.below(self.generations.len());
        let generation = self.generations[slot].wrapping_sub(bytes.one_of(&[0, 0, 0, 1]));
        CallId::in_slot(slot as u16, NonZeroU16::new(generation).unwrap_or(NonZeroU16::MIN))
    }

    /// A call in a slot that is free.
    fn request(&mut self, bytes: &mut Bytes<'_>) -> Option<Frame<'static>> {
        let slot = (0..4).find(|slot| {
            let is_it = |call: CallId| call.slot() == *slot as u16;
            !self.taken[*slot]
                && !self.halves.iter().any(|it| is_it(it.0))
                && !self.streams.iter().any(|it| is_it(it.call))
        })?;
        self.generations[slot] += 1;
        self.taken[slot] = true;
        let call = CallId::in_slot(slot as u16, NonZeroU16::new(self.generations[slot])?);
        if self.knows_streams && bytes.below(3) == 0 {
            self.open_stream(call);
        }
        Some(self.call_frame(call, bytes))
    }

    fn call_frame(&mut self, call: CallId, bytes: &mut Bytes<'_>) -> Frame<'static> {
        let streams = self.is_stream(call);
        let body = if streams { &[] } else { &BODY[..bytes.one_of(&LENGTHS)] };
        let message_len = if streams { 0 } else { body.len() + bytes.one_of(&[0, 0, 1, 300, 4000, 9000]) };
        if message_len > body.len() {
            self.halves.push((call, body.len(), message_len));
        }
        let meta: &[u8] = bytes.one_of(&[&b""[..], b"", b"\x01k\x01\x00v", b"\xff"]);
        let header = CallHeader {
            call,
            credits: self.credits(bytes),
            method: MethodId::of("any"),
            deadline: DeadlineField {
                budget: Budget::from_nanos(bytes.number() as i64),
                parallel_unit: bytes.below(2) == 0,
            },
            elapsed: Duration::from_nanos(bytes.number()),
            message_len: message_len as u32,
            meta_len: meta.len() as u16,
            // Where that was not agreed on it is a breach.
            expires: (!self.is_sound && bytes.seldom()).then(|| Realtime::from_nanos(bytes.number())),
            streams,
        };
        Frame::Call(Call { header, meta, body })
    }

    /// The answer to a call that it has heard of.
    fn answer(&mut self, bytes: &mut Bytes<'_>) -> Option<Frame<'static>> {
        let heard = self.heard.len();
        let call = (heard > 0).then(|| self.heard.swap_remove(bytes.below(256) % heard))?;
        if self.is_within(call) {
            self.heard.push(call);
            return None;
        }
        let reply = self.reply_frame(call, bytes);
        self.streams.retain(|stream| stream.call != call);
        Some(reply)
    }

    fn reply_frame(&mut self, call: CallId, bytes: &mut Bytes<'_>) -> Frame<'static> {
        let code = bytes.one_of(&[Code::Ok, Code::Ok, Code::NotFound]);
        // No longer than what this end accepts.
        let mut body = &BODY[..bytes.one_of(&LENGTHS).min(4000)];
        let mut message_len = body.len();
        if code == Code::Ok && self.is_stream(call) {
            (body, message_len) = (&[], 0);
        } else if code == Code::Ok {
            message_len += bytes.one_of(&[0, 0, 1, 300, 1900]);
        } else {
            body = &body[..body.len().min(1000)];
            message_len = body.len();
        }
        if message_len > body.len() {
            self.halves.push((call, body.len(), message_len));
        }
        let receipts: &[u8] = bytes.one_of(&[&b""[..], b"", b"\x00", b"\xff\xff"]);
        let header = ReplyHeader {
            call,
            credits: self.credits(bytes),
            message_len: message_len as u32,
            code,
            reason: if code == Code::Ok { Reason::None } else { Reason::from_u8(bytes.byte()) },
            by_handler: code != Code::Ok && bytes.below(2) == 0,
            receipts_len: receipts.len() as u16,
            queue: Duration::ZERO,
            service: Duration::ZERO,
            total: Duration::from_nanos(bytes.number()),
        };
        Frame::Reply(Reply { header, receipts, body })
    }

    /// The next part of a message that was begun.
    fn next_part(&mut self, bytes: &mut Bytes<'_>) -> Option<Frame<'static>> {
        let halves = self.halves.len();
        let at = (halves > 0).then(|| bytes.below(256) % halves)?;
        let (call, sent, all) = self.halves[at];
        let len = bytes.one_of(&LENGTHS).clamp(1, all - sent);
        if sent + len == all {
            self.halves.swap_remove(at);
            self.forget_ended();
        } else {
            self.halves[at].1 += len;
        }
        let direction = if self.calls { Direction::Request } else { Direction::Reply };
        let header = DataHeader { call, credits: self.credits(bytes), direction, offset: sent as u32 };
        Some(Frame::Data(Data { header, body: &BODY[..len] }))
    }
}
