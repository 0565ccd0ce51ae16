//! Arbitrary bytes, read as choices, and as the frames of a peer.

use crate::status::{Code, Reason};
use crate::wire::{
    Call, CallHeader, CallId, Cancel, Credit, Data, DataHeader, Direction, Features, Frame, GoAway, GoAwayCode, Hello,
    Limits, MethodId, Ping, Pong, Probe, Realtime, Reply, ReplyHeader, StageName,
};
use greenwave_policy::{Budget, DeadlineField};
use std::num::NonZeroU16;
use std::time::Duration;

/// Choices, one after the other. When there are none left all are 0.
pub(super) struct Bytes<'a>(&'a [u8]);

/// Bodies are parts of this.
const BODY: [u8; 4096] = [0x5a; 4096];

impl<'a> Bytes<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// A number below `end`, which is 1 to 256.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(super) fn number(&mut self) -> u64 {
        // Small ones, or those at the ends of the range.
        match self.byte() {
            small @ 0..200 => small.into(),
            large => (u64::from(self.byte()) << 56 | u64::from(large)).rotate_right(self.byte().into()),
        }
    }

    fn body(&mut self) -> &'static [u8] {
        let len = [0, 1, 7, 200, 1000, 4000][self.below(6)];
        &BODY[..len]
    }

    fn call(&mut self) -> CallId {
        let (slot, generation) = (self.below(6) as u16, self.below(4) as u16 + 1);
        NonZeroU16::new(generation).map_or(CallId::in_slot(slot, NonZeroU16::MIN), |it| CallId::in_slot(slot, it))
    }

    /// The HELLO of a peer.
    pub(super) fn hello(&mut self, crc: bool, calls: u32) -> Hello<'static> {
        let credits = [1, 2, 5, 65535][self.below(4)];
        let chunk_bytes = [256, 300, 1024, 4096][self.below(4)];
        let message_bytes = [0, 10, 5000, u32::MAX][self.below(4)];
        let features = Features::RECEIPTS | if crc { Features::CRC32C } else { Features::NONE };
        let features = features | if self.below(2) == 0 { Features::ABSOLUTE_DEADLINE } else { Features::NONE };
        Hello::new(features, Limits { credits, chunk_bytes, message_bytes, calls }, StageName::UNNAMED)
    }

    /// A chunk of a peer's: a frame as a caller sends it, or a callee, or anybody.
    pub(super) fn chunk(&mut self, crc: bool) -> Vec<u8> {
        let call = self.call();
        let credits = if self.below(4) == 0 { self.byte().into() } else { 0 };
        let mut chunk = match self.below(16) {
            0..=3 => self.request(call, credits).encode(crc),
            4..=5 => self.answer(call, credits).encode(crc),
            6..=8 => self.part(call, credits).encode(crc),
            9 => Frame::Cancel(Cancel { call, credits }).encode(crc),
            10 => Frame::Credit(Credit { credits: u16::from(self.byte()).max(1) }).encode(crc),
            11 => {
                let probe = Probe { credits, opaque: self.number().wrapping_neg(), sent: None };
                let frame = if self.below(2) == 0 { Frame::Ping(Ping(probe)) } else { Frame::Pong(Pong(probe)) };
                frame.encode(crc)
            }
            12 => {
                let code = GoAwayCode::from_u8(self.below(4) as u8);
                Frame::GoAway(GoAway { credits, code, last: None, text: "so long" }).encode(crc)
            }
            13 => Frame::Hello(self.hello(crc, 4)).encode(false),
            14 => {
                let len = self.below(64);
                (0..len).map(|_| self.byte()).collect()
            }
            // A frame without the checksum that was agreed on, or with one that was not.
            _ => self.request(call, credits).encode(!crc),
        };
        if self.below(32) == 1 && !chunk.is_empty() {
            let at = usize::from(self.byte()) % chunk.len();
            chunk[at] ^= 1 << self.below(8);
        }
        chunk
    }

    fn request(&mut self, call: CallId, credits: u16) -> Frame<'static> {
        let body = self.body();
        let message_len = match self.below(4) {
            0 => body.len() as u32 + self.number() as u32 % 9000,
            _ => body.len() as u32,
        };
        let meta: &[u8] = [&b""[..], b"\x01k\x01\x00v", b"\xff"][self.below(6) / 2];
        let header = CallHeader {
            call,
            credits,
            method: MethodId::of("any"),
            deadline: DeadlineField {
                budget: Budget::from_nanos(self.number() as i64),
                parallel_unit: self.below(2) == 0,
            },
            elapsed: Duration::from_nanos(self.number()),
            message_len,
            meta_len: meta.len() as u16,
            expires: (self.below(8) == 0).then(|| Realtime::from_nanos(self.number())),
        };
        Frame::Call(Call { header, meta, body })
    }

    fn answer(&mut self, call: CallId, credits: u16) -> Frame<'static> {
        let code = [Code::Ok, Code::Ok, Code::NotFound][self.below(3)];
        let mut body = self.body();
        let mut message_len = body.len() as u32;
        if code == Code::Ok {
            message_len += [0, 0, 1, 3000][self.below(4)];
        } else {
            body = &body[..body.len().min(1000)];
            message_len = body.len() as u32;
        }
        let receipts: &[u8] = [&b""[..], b"\x00", b"\xff\xff"][self.below(3)];
        let header = ReplyHeader {
            call,
            credits,
            message_len,
            code,
            reason: if code == Code::Ok { Reason::None } else { Reason::from_u8(self.byte()) },
            receipts_len: receipts.len() as u16,
            queue: Duration::ZERO,
            service: Duration::ZERO,
            total: Duration::from_nanos(self.number()),
        };
        Frame::Reply(Reply { header, receipts, body })
    }

    fn part(&mut self, call: CallId, credits: u16) -> Frame<'static> {
        let direction = if self.below(2) == 0 { Direction::Request } else { Direction::Reply };
        let offset = [0, 1, 7, 200, 1000, 4000][self.below(6)] + [0, 0, 0, 1][self.below(4)];
        let body = self.body();
        let body = if body.is_empty() { &BODY[..1] } else { body };
        Frame::Data(Data { header: DataHeader { call, credits, direction, offset }, body })
    }
}
