//! A serving end under arbitrary steps.

use super::bytes::Bytes;
use super::peer::Peer;
use crate::connection::Volume;
use crate::connection::{Absolute, Answer, Callee, CalleeEvent, Extra, Link, Setup, StreamMessage};
use crate::limits::Limits;
use crate::memory::Memory;
use crate::receipt::Receipt;
use crate::status::{Code, Status};
use crate::wire::{CallId, Features, Frame};
use greenwave_policy::{Deadline, Time};
use std::collections::HashMap;
use std::time::Duration;

/// A serving end, and what its peer hears of it.
struct Driven {
    callee: Callee,
    peer: Peer,
    transport: Memory,
    now: Time,
    /// Calls that were fed and not refused with the connection, and those replied to.
    asked: HashMap<CallId, u64>,
    replied: HashMap<CallId, u64>,
    arrived: Vec<CallId>,
}

const LIMITS: Limits = Limits::new().chunk_bytes(8192).credits(5).calls(4).message_bytes(6000).assembly_bytes(10_000);

pub(super) fn drive(bytes: &mut Bytes<'_>) {
    let crc = bytes.below(2) == 0;
    let absolute = (bytes.below(4) == 0).then_some(Absolute { skew: Duration::from_secs(1), realtime: || 1 << 60 });
    let mut driven = Driven::new(crc, absolute);
    let hello = driven.peer.hello(bytes);
    if !driven.feed(&hello) {
        return;
    }
    while !bytes.is_empty() {
        let goes_on = match bytes.below(32) {
            0..16 => {
                let chunk = driven.peer.chunk(bytes);
                driven.feed(&chunk)
            }
            16..19 => {
                driven.stream(bytes);
                true
            }
            19..22 => {
                driven.answer(bytes);
                true
            }
            22 => driven.pass(Duration::from_millis(bytes.number() % 20_000)),
            23 => {
                if bytes.seldom() {
                    driven.callee.link.go_away("done");
                }
                true
            }
            _ => {
                driven.transmit();
                true
            }
        };
        driven.callee.check();
        if !goes_on {
            return;
        }
    }
    while !driven.arrived.is_empty() {
        driven.answer(bytes);
    }
    driven.transmit();
    driven.callee.check();
}

impl Driven {
    fn new(crc: bool, absolute: Option<Absolute>) -> Self {
        let transport = Memory::new(LIMITS.chunk_bytes);
        let now = Time::from_nanos(1_000_000_000);
        let setup = Setup {
            name: "here",
            limits: &LIMITS,
            serves: true,
            features: Features::KNOWN,
            checksums: crc,
            absolute,
            sending: crate::Sending::default(),
            waits: false,
        };
        let callee = Callee::new(Link::new(&setup, now), &LIMITS);
        let (asked, replied, arrived) = (HashMap::new(), HashMap::new(), Vec::new());
        let peer = Peer::new(crc, true, LIMITS.credits);
        Self { callee, peer, transport, now, asked, replied, arrived }
    }

    /// Feeds a chunk. Whether the connection goes on.
    fn feed(&mut self, chunk: &[u8]) -> bool {
        let fed = self.callee.receive(self.now, chunk, Vec::with_capacity);
        let served = match fed {
            Ok(served) => served,
            Err(violation) => {
                assert!(!self.peer.is_sound, "a peer that keeps to the rules is closed on: {violation}");
                return false;
            }
        };
        if let Ok(Frame::Call(call)) = Frame::parse(chunk, self.peer.crc) {
            *self.asked.entry(call.header.call).or_default() += 1;
        }
        match served {
            Some(CalleeEvent::Arrived(arrival)) => {
                assert!(arrival.body.len() <= LIMITS.message_bytes, "a message beyond the limit came in");
                assert!(!self.arrived.contains(&arrival.call), "a call is served twice at once");
                self.arrived.push(arrival.call);
            }
            Some(event) => self.hear(&event),
            None => {}
        }
        while let Some(event) = self.callee.stream_event() {
            self.hear(&event);
        }
        true
    }

    fn hear(&self, event: &CalleeEvent) {
        let call = match event {
            CalleeEvent::Message(call, message) => {
                assert!(message.body.len() <= LIMITS.message_bytes, "a message beyond the limit came in");
                call
            }
            CalleeEvent::Cancelled(call, _) | CalleeEvent::Ended(call) | CalleeEvent::Sent(call, ..) => call,
            _ => return,
        };
        assert!(self.arrived.contains(call), "nobody serves the call");
    }

    /// Does something about a call that may be a stream.
    fn stream(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(256) % self.arrived.len().max(1);
        let Some(&call) = self.arrived.get(at) else { return };
        let len = [0, 1, 100, 3000, 20_000][bytes.below(5)];
        match bytes.below(4) {
            0 => self.callee.consumed(call, Volume::one(len)),
            1 => self.callee.begin_answer(call, b"\x01k\x01\x00v"),
            _ => self.callee.send(call, StreamMessage::new(vec![7; len])),
        }
        while let Some(event) = self.callee.stream_event() {
            self.hear(&event);
        }
    }

    fn answer(&mut self, bytes: &mut Bytes<'_>) {
        if self.arrived.is_empty() {
            return;
        }
        let call = self.arrived.swap_remove(bytes.below(256) % self.arrived.len());
        let result = match bytes.below(3) {
            0 => Err(Status::new(Code::NotFound, "nothing ".repeat(bytes.below(200)))),
            _ => Ok(vec![7; [0, 1, 100, 3000, 20_000][bytes.below(5)]]),
        };
        let trailing = bytes.one_of(&[None, Some(&b"\x01k\x01\x00v"[..])]).map(Into::into);
        let extra = Some(Box::new(Extra { streamed: bytes.below(2) == 0, trailing, ..Extra::default() }));
        let receipt = Receipt::default();
        self.callee.answer(Answer { call, result, receipt, deadline: Deadline::NEVER, extra });
    }

    fn pass(&mut self, span: Duration) -> bool {
        self.now = self.now + span;
        let goes_on = self.callee.link.on_timeout(self.now).is_ok();
        assert!(!goes_on || self.callee.link.next_timeout() > self.now, "what is due is done");
        goes_on
    }

    /// Posts what can be posted, and counts what the peer hears.
    fn transmit(&mut self) {
        let Self { callee, peer, transport, now, replied, .. } = self;
        let sent = callee.transmit(*now, transport, |_| {});
        assert!(sent.is_ok(), "there was no room for what was posted: {sent:?}");
        let Some(agreed) = callee.link.agreed() else { return };
        let most = agreed.send.chunk_bytes as usize;
        while let Some(chunk) = transport.take() {
            assert!(chunk.len() <= most, "a chunk beyond what the peer takes");
            // HELLO has no checksum.
            match Frame::parse(&chunk, peer.crc).or_else(|_| Frame::parse(&chunk, false)) {
                Ok(frame) => {
                    peer.hear(&frame);
                    if let Frame::Reply(reply) | Frame::ReplyWithMeta(reply, _) = frame {
                        *replied.entry(reply.header.call).or_default() += 1;
                    }
                }
                Err(error) => panic!("what was written can't be read: {error}"),
            }
        }
        while callee.stream_event().is_some() {}
        for (call, replies) in replied.iter() {
            assert!(Some(replies) <= self.asked.get(call), "call {call} was answered more often than asked");
        }
    }
}
