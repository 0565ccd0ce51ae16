//! A calling end under arbitrary steps.

use super::bytes::Bytes;
use super::peer::Peer;
use crate::connection::Volume;
use crate::connection::{Caller, Finished, Link, Request, Setup, StreamEvent, StreamMessage, Terms};
use crate::context::Context;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::status::{Reason, Status};
use crate::wire::{Features, Frame, MethodId};
use greenwave_policy::{Budget, Time};
use std::time::Duration;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Over,
}

struct Driven {
    caller: Caller,
    peer: Peer,
    transport: Memory,
    now: Time,
    /// By token.
    fates: Vec<Fate>,
    contexts: Vec<Context>,
}

const LIMITS: Limits = Limits::new().chunk_bytes(8192).credits(5).calls(1).message_bytes(6000).assembly_bytes(6000);

pub(super) fn drive(bytes: &mut Bytes<'_>) {
    let crc = bytes.below(2) == 0;
    let mut driven = Driven::new(crc);
    if bytes.below(4) == 0 {
        driven.call(bytes);
    }
    let hello = driven.peer.hello(bytes);
    let mut goes_on = driven.feed(&hello);
    while goes_on && !bytes.is_empty() {
        match bytes.below(32) {
            0..12 => {
                let chunk = driven.peer.chunk(bytes);
                goes_on = driven.feed(&chunk);
            }
            12..16 => driven.call(bytes),
            16..20 => driven.stream(bytes),
            20 => {
                if let Some(context) = driven.contexts.get(bytes.below(64)) {
                    context.cancel();
                }
            }
            21..23 => driven.abandon(bytes.below(64)),
            23 => goes_on = driven.pass(Duration::from_millis(bytes.number() % 20_000)),
            _ => driven.transmit(),
        }
        driven.caller.check();
        assert_eq!(driven.caller.unfinished(), driven.under_way());
        if goes_on && driven.caller.going().is_some() {
            driven.take_unsent();
        }
    }
    driven.lose();
}

impl Driven {
    fn new(crc: bool) -> Self {
        let transport = Memory::new(LIMITS.chunk_bytes);
        let now = Time::from_nanos(1_000_000_000);
        let setup = Setup {
            name: "here",
            limits: &LIMITS,
            serves: false,
            features: Features::KNOWN,
            checksums: crc,
            absolute: None,
            sending: crate::Sending::default(),
            waits: false,
        };
        let caller = Caller::new(Link::new(&setup, now));
        let peer = Peer::new(crc, false, LIMITS.credits);
        Self { caller, peer, transport, now, fates: Vec::new(), contexts: Vec::new() }
    }

    fn under_way(&self) -> usize {
        self.fates.iter().filter(|fate| **fate == Fate::UnderWay).count()
    }

    fn call(&mut self, bytes: &mut Bytes<'_>) {
        let budget = match bytes.below(3) {
            0 => Budget::UNLIMITED,
            _ => Budget::from_nanos(bytes.number() as i64),
        };
        let context = Context::born(self.now, budget, bytes.below(4) > 0);
        let body = vec![3; [0, 1, 100, 5000, 70_000][bytes.below(5)]];
        let terms = Terms::from(context.clone());
        let terms = if bytes.below(2) == 0 { terms.streaming() } else { terms };
        let token = self.fates.len();
        self.fates.push(Fate::UnderWay);
        self.contexts.push(context);
        let request = Request { token, terms, method: MethodId::of("any"), started: self.now };
        let Self { caller, fates, now, .. } = self;
        super::call(caller, *now, request, body, &mut |done| end(fates, &done));
    }

    /// Does something about a call that may be a stream.
    fn stream(&mut self, bytes: &mut Bytes<'_>) {
        let token = bytes.below(self.fates.len().clamp(1, 256));
        let len = [0, 1, 100, 3000, 20_000][bytes.below(5)];
        match bytes.below(8) {
            0 => self.caller.end_stream(token),
            1..4 => self.caller.consumed(token, Volume::one(len)),
            _ => self.caller.send(token, StreamMessage::new(vec![3; len])),
        }
    }

    /// Takes what came for streams.
    fn hear(&mut self) {
        while let Some(event) = self.caller.stream_event() {
            let (StreamEvent::Began { token, .. }
            | StreamEvent::Message { token, .. }
            | StreamEvent::Sent { token, .. }) = event;
            assert_eq!(self.fates[token], Fate::UnderWay, "something came for a call that is over");
        }
    }

    fn feed(&mut self, chunk: &[u8]) -> bool {
        let Self { caller, fates, now, .. } = self;
        let fed = caller.receive(*now, chunk, Vec::with_capacity, &mut |done| end(fates, &done));
        if let Err(violation) = &fed {
            assert!(!self.peer.is_sound, "a peer that keeps to the rules is closed on: {violation}");
        }
        let goes_on = fed.is_ok();
        self.hear();
        goes_on
    }

    fn abandon(&mut self, token: usize) {
        let known = self.fates.get(token) == Some(&Fate::UnderWay);
        assert_eq!(
            self.caller.abandon(self.now, token, self.caller.slot_of(token)),
            known,
            "a call is here as long as it is under way"
        );
        if known {
            self.fates[token] = Fate::Over;
        }
    }

    fn pass(&mut self, span: Duration) -> bool {
        self.now = self.now + span;
        let Self { caller, fates, now, .. } = self;
        let goes_on = caller.on_timeout(*now, &mut |done| end(fates, &done)).is_ok();
        for (token, context) in self.contexts.iter().enumerate() {
            let over = context.gate().closes() <= self.now;
            assert!(!over || self.fates[token] == Fate::Over, "call {token} outlives its deadline");
        }
        assert!(!goes_on || caller.link.next_timeout() > self.now, "what is due is done");
        goes_on
    }

    fn transmit(&mut self) {
        let Self { caller, peer, transport, now, .. } = self;
        let sent = caller.transmit(*now, transport, |_| {});
        assert!(sent.is_ok(), "there was no room for what was posted: {sent:?}");
        while let Some(chunk) = transport.take() {
            match Frame::parse(&chunk, peer.crc).or_else(|_| Frame::parse(&chunk, false)) {
                Ok(frame) => peer.hear(&frame),
                Err(error) => panic!("what was written can't be read: {error}"),
            }
        }
        self.hear();
    }

    fn take_unsent(&mut self) {
        for (request, _) in self.caller.take_unsent(self.now) {
            assert_eq!(self.fates[request.token], Fate::UnderWay);
            self.fates[request.token] = Fate::Over;
        }
    }

    fn lose(&mut self) {
        let Self { caller, fates, now, .. } = self;
        caller.lose(*now, &Status::refused(Reason::ConnectionLost, ""), &mut |done| end(fates, &done));
        assert_eq!(self.under_way(), 0, "a call was never finished");
        assert_eq!(self.caller.unfinished(), 0);
    }
}

fn end(fates: &mut [Fate], done: &Finished) {
    assert_eq!(fates[done.token], Fate::UnderWay, "call {} ended twice", done.token);
    fates[done.token] = Fate::Over;
}
