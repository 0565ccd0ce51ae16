//! A calling end and a serving end against each other, in any order of steps: neither may ever find fault with the
//! other, every call ends once, and when all is said and done nothing is left on either side.

mod streams;

use super::bytes::Bytes;
use crate::connection::{Answer, Callee, CalleeEvent, Caller, Finished, Link, Request, Setup};
use crate::context::Context;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::receipt::Receipt;
use crate::status::{Code, Status};
use crate::wire::{CallId, Features, MethodId};
use greenwave_policy::{Budget, Deadline, Time};
use std::collections::BTreeMap;
use std::time::Duration;
use streams::Stream;

struct Pair {
    caller: Caller,
    callee: Callee,
    /// What the caller has posted, then what the callee has.
    transports: [Memory; 2],
    now: Time,
    /// By token: the call's context, the length of its request, and whether it is over.
    calls: Vec<(Context, usize, bool)>,
    /// Calls that are being served, with the length of their requests.
    served: Vec<(CallId, usize)>,
    /// By token, those that stream.
    streams: BTreeMap<usize, Stream>,
}

pub(super) fn drive(bytes: &mut Bytes<'_>) {
    let mut pair = Pair::new(bytes);
    while !bytes.is_empty() {
        match bytes.below(24) {
            0..4 => pair.call(bytes),
            4 => pair.abandon(bytes.byte().into()),
            5 => {
                if let Some((context, ..)) = pair.calls.get(usize::from(bytes.byte())) {
                    context.cancel();
                }
            }
            6 => pair.now = pair.now + Duration::from_micros(bytes.number() % 20_000),
            7 => pair.expire(),
            8..10 => pair.answer(bytes),
            10..12 => pair.transmit(0),
            12..14 => pair.transmit(1),
            14 => pair.deliver(0),
            15 => pair.deliver(1),
            _ => pair.stream(bytes),
        }
        pair.caller.check();
        pair.callee.check();
    }
    pair.finish(bytes);
}

impl Pair {
    /// Two ends with limits of any kind.
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let mut limits = || {
            let message_bytes = bytes.one_of(&[100_000, 3000, 700]);
            Limits::default()
                .chunk_bytes(bytes.one_of(&[512, 4096, 600]))
                .credits(bytes.one_of(&[4, 5, 100]))
                .calls(bytes.one_of(&[1, 3, 50]))
                .message_bytes(message_bytes)
                .assembly_bytes(message_bytes + bytes.one_of(&[0, 700, 100_000]))
        };
        let [calling, serving] = [limits(), limits()];
        let checksums = bytes.below(2) == 0;
        let transports = [&calling, &serving].map(|limits| Memory::new(limits.chunk_bytes));
        let now = Time::from_nanos(1_000_000_000);
        // As of different releases, now and then.
        let mut offered =
            || if bytes.below(8) == 0 { Features::from_bits(bytes.below(64) as u32) } else { Features::KNOWN };
        let [calls_with, serves_with] = [offered(), offered()];
        let end = |limits, serves| Setup {
            name: "end",
            limits,
            serves,
            features: if serves { serves_with } else { calls_with },
            checksums,
            absolute: None,
            sending: crate::Sending::default(),
            waits: serves,
        };
        let caller = Caller::new(Link::new(&end(&calling, false), now));
        let callee = Callee::new(Link::new(&end(&serving, true), now), &serving);
        let (calls, served, streams) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { caller, callee, transports, now, calls, served, streams }
    }

    fn call(&mut self, bytes: &mut Bytes<'_>) {
        let budget = match bytes.below(3) {
            0 => Budget::from_nanos((bytes.number() % 50_000_000) as i64),
            _ => Budget::UNLIMITED,
        };
        let context = Context::born(self.now, budget, true);
        let len = bytes.one_of(&[0, 1, 400, 700, 2500, 20_000, 200_000]);
        let token = self.calls.len();
        self.calls.push((context.clone(), len, false));
        let request = Request { token, terms: context.into(), method: MethodId::of("any"), started: self.now };
        let Self { caller, calls, streams, now, .. } = self;
        super::call(caller, *now, request, vec![3; len], &mut |done| end(calls, streams, done));
    }

    fn abandon(&mut self, token: usize) {
        let under_way = self.calls.get(token).is_some_and(|(.., over)| !over);
        assert_eq!(self.caller.abandon(self.now, token, self.caller.slot_of(token)), under_way);
        if under_way {
            self.streams.remove(&token);
            self.calls[token].2 = true;
        }
    }

    fn expire(&mut self) {
        let Self { caller, calls, streams, now, .. } = self;
        let _stalls_are_not_what_this_is_about = caller.on_timeout(*now, &mut |done| end(calls, streams, done));
    }

    fn answer(&mut self, bytes: &mut Bytes<'_>) {
        if self.served.is_empty() {
            return;
        }
        let at = bytes.below(256) % self.served.len();
        let (call, len) = self.served.swap_remove(at);
        // An answer is as long as its request, by which it is known again.
        let result = match bytes.below(4) {
            0 => Err(Status::new(Code::NotFound, "nothing ".repeat(bytes.below(200)))),
            _ => Ok(vec![7; len]),
        };
        let extra = self.extra(call, bytes);
        let receipt = Receipt::default();
        self.callee.answer(Answer { call, result, receipt, deadline: Deadline::NEVER, extra });
        self.hear();
    }

    /// One end posts what it can.
    fn transmit(&mut self, from: usize) {
        let Self { caller, callee, transports, now, .. } = self;
        let transport = &mut transports[from];
        let sent = match from {
            0 => caller.transmit(*now, transport, |_| {}),
            _ => callee.transmit(*now, transport, |_| {}),
        };
        assert!(sent.is_ok(), "there was no room for what was posted: {sent:?}");
        self.hear();
    }

    /// One end reads what has arrived.
    fn deliver(&mut self, to: usize) {
        while let Some(chunk) = self.transports[1 - to].take() {
            let Self { caller, callee, now, calls, served, streams, .. } = self;
            let mut event = None;
            let fault = match to {
                0 => caller.receive(*now, &chunk, Vec::with_capacity, &mut |done| end(calls, streams, done)).err(),
                _ => match callee.receive(*now, &chunk, Vec::with_capacity) {
                    Ok(Some(CalleeEvent::Arrived(arrival))) => {
                        streams::arrived(streams, &arrival);
                        served.push((arrival.call, arrival.body.len()));
                        None
                    }
                    Ok(found) => {
                        event = found;
                        None
                    }
                    Err(violation) => Some(violation),
                },
            };
            assert!(
                fault.is_none(),
                "an end found fault with the other: {}",
                fault.map_or_else(String::new, |it| it.to_string())
            );
            if let Some(event) = event {
                self.heard(event);
            }
            self.hear();
        }
    }

    /// Lets everything come to its end.
    fn finish(&mut self, bytes: &mut Bytes<'_>) {
        // Each round moves a chunk at least, and there are some thousands of them at most.
        for _ in 0..100_000 {
            let left = self.caller.unfinished() + self.callee.unanswered() + self.served.len();
            let idle = !self.caller.link.has_output() && !self.callee.link.has_output();
            if left == 0 && idle {
                break;
            }
            (0..2).for_each(|end| self.transmit(end));
            (0..2).for_each(|end| self.deliver(end));
            self.finish_streams();
            self.expire();
            self.answer(bytes);
        }
        self.caller.check();
        self.callee.check();
        let left = self.calls.iter().filter(|(.., over)| !over).count();
        assert_eq!((left, self.caller.unfinished(), self.callee.unanswered()), (0, 0, 0), "calls are stuck");
    }
}

fn end(calls: &mut [(Context, usize, bool)], streams: &mut BTreeMap<usize, Stream>, done: Finished) {
    let (_, len, over) = &mut calls[done.token];
    assert!(!std::mem::replace(over, true), "call {} ended twice", done.token);
    if let Some(stream) = streams.remove(&done.token) {
        stream.finished(&done.outcome);
    } else if let Ok(body) = done.outcome.result {
        assert_eq!(body.len(), *len, "call {} got another's answer", done.token);
    }
}
