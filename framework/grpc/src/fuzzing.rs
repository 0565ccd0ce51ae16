//! What fuzz targets and tests do to both ends: whatever a peer sends, and whatever is done here meanwhile.

use crate::{
    CallerEvent, GrpcCallee, GrpcCaller, GrpcClientSettings, GrpcSettings, GrpcSetup, Load, Named, PlainTransport,
};
use greenwave_policy::{Budget, Deadline, Time};
use greenwave_proto::compression::Encoding;
use greenwave_proto::connection::{
    Answer, Arrival, CalleeEvent, Extra, Request, StreamEvent, StreamMessage, Terms, Volume,
};
use greenwave_proto::limits::Limits;
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Status};
use greenwave_proto::wire::{CallId, MethodId};
use greenwave_proto::{Method, MethodNames};
use greenwave_web::WebSettings;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Reads what a server says of its load: whatever it is, all numbers of it can be reckoned with.
pub fn load_report(report: &[u8]) {
    let Some(load) = Load::parse(report) else { return };
    let Load { cpu_utilization, application_utilization, rps, eps, wait_seconds } = load;
    for number in [cpu_utilization, application_utilization, rps, eps, wait_seconds.unwrap_or_default()] {
        assert!(number.is_finite() && number >= 0.0, "{load:?}");
    }
}

/// What the steps are read from.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Bytes are thrown away, of which so many have room.
struct Sink(usize);

impl PlainTransport for Sink {
    type Error = Infallible;

    fn room(&self) -> usize {
        self.0
    }

    fn post(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        assert!(bytes.len() <= self.0, "more was posted than there was room for");
        self.0 -= bytes.len();
        Ok(())
    }
}

/// A frame of HTTP/2 (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a call, each as a literal (RFC 7541, 6.2.2), with one more.
fn headers(path: &[u8], kind: &str, name: &str, value: &[u8]) -> Vec<u8> {
    let all: [(&str, &[u8]); 6] = [
        (":method", b"POST"),
        (":scheme", b"http"),
        (":path", path),
        (":authority", b"here"),
        ("content-type", kind.as_bytes()),
        (name, value),
    ];
    let entry =
        |(name, value): (&str, &[u8])| [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value].concat();
    all.into_iter().flat_map(entry).collect()
}

/// Drives a serving end.
///
/// # Panics
/// If it breaks a promise: that is what is looked for.
pub fn callee(steps: &[u8]) {
    let steps = &mut Steps(steps);
    let limits = Limits::new().calls(3).message_bytes(100).assembly_bytes(150);
    let mut now = Time::ZERO;
    let mut callee = GrpcCallee::new(&limits, GrpcSettings::new().trust_envoy(true), now);
    callee.set_methods(Arc::new(|path| {
        Some(Named {
            method: MethodId::of(path),
            takes_stream: path == "a.A/Two",
            stands_for_all: path.starts_with("a.A/Three"),
            compresses: true,
        })
    }));
    callee.set_web(WebSettings::new().json_bytes(60));
    let mut calls: Vec<Arrival> = Vec::new();
    let mut announced: Vec<CallId> = Vec::new();
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    input.extend(frame(4, 0, 0, &[]));
    while !steps.0.is_empty() {
        let stream = u32::from(steps.byte() % 8);
        match steps.byte() % 13 {
            0 => input.extend_from_slice(steps.take(20)),
            1 => input.extend(frame(steps.byte() % 12, steps.byte(), stream, steps.take(12))),
            2 | 3 => {
                let name = [
                    "grpc-timeout",
                    "x-envoy-expected-rq-timeout-ms",
                    "key-bin",
                    "te",
                    "content-type",
                    "grpc-encoding",
                    "grpc-accept-encoding",
                ];
                let name = name[usize::from(steps.byte()) % name.len()];
                let path = if steps.byte() & 1 == 0 { b"/a.A/One" } else { b"/a.A/Two" };
                let kinds =
                    ["application/grpc", "application/json", "application/grpc-web", "application/grpc-web-text"];
                let kind = kinds[usize::from(steps.byte()) % kinds.len()];
                let value = if name.ends_with("encoding") { b"gzip" } else { steps.take(4) };
                input.extend(frame(1, 4 | steps.byte() & 1, stream, &headers(path, kind, name, value)));
            }
            4 | 5 => {
                let len = steps.byte() % 120;
                let body = [&[steps.byte() & 1, 0, 0, 0, len][..], &vec![7; len.into()]].concat();
                let cut = usize::from(steps.byte()).min(body.len());
                input.extend(frame(0, steps.byte() & 1, stream, &body[..cut]));
            }
            6 => input.extend(frame(3, 0, stream, &[0, 0, 0, 8])),
            7 if !calls.is_empty() => {
                let arrival = calls.swap_remove(usize::from(steps.byte()) % calls.len());
                let result = match steps.byte() {
                    255 => Err(Status::new(Code::Internal, String::from_utf8_lossy(steps.take(9)))),
                    len => Ok(vec![7; usize::from(len) * 300]),
                };
                let (receipt, deadline) = (Receipt::default(), Deadline::NEVER);
                let extra = Extra {
                    streamed: steps.byte() & 1 == 1,
                    trailing: Some([1, b'x', 0, 0].into()),
                    compressed: (steps.byte() & 1 == 1).then_some(Encoding::Gzip),
                    ..Extra::default()
                };
                let extra = (steps.byte() & 1 == 1).then(|| Box::new(extra));
                callee.answer(Answer { call: arrival.call, result, receipt, deadline, extra });
            }
            8 => {
                now = now + Duration::from_secs(u64::from(steps.byte() % 40));
                if let Some(over) = callee.on_timeout(now, &mut |_| {}) {
                    callee.dismiss(now, &mut Sink(1000), over);
                }
            }
            9 if !calls.is_empty() => {
                let call = calls[usize::from(steps.byte()) % calls.len()].call;
                match steps.byte() % 3 {
                    0 => callee.consumed(call, Volume::one(usize::from(steps.byte()))),
                    1 => callee.begin_answer(call, &[1, b'y', 0, 1, b'1']),
                    _ => {
                        let body = vec![7; usize::from(steps.byte()) * 300];
                        let compressed = (steps.byte() & 1 == 1).then_some(Encoding::Gzip);
                        callee.send(call, StreamMessage { compressed, ..StreamMessage::new(body) });
                    }
                }
            }
            10 | 11 => {
                let all: Vec<u8> = (0..steps.byte() % 9)
                    .flat_map(|len| [&[0, 0, 0, 0, len][..], &vec![7; len.into()]].concat())
                    .collect();
                input.extend(frame(0, steps.byte() & 1, stream, &all));
            }
            12 if !announced.is_empty() => {
                let call = announced.swap_remove(usize::from(steps.byte()) % announced.len());
                let was_open = calls.iter().any(|arrival| arrival.call == call);
                let refused = callee.refuse_announced(now, call, &Status::new(Code::DeadlineExceeded, ""));
                assert!(!(was_open && refused), "it is there");
            }
            _ if steps.byte() == 0 => callee.go_away(),
            _ => {}
        }
        let events = &mut |event| match event {
            CalleeEvent::Arrived(arrival) => {
                assert!(arrival.body.len() <= 100, "a longer request than is accepted");
                calls.push(arrival);
            }
            CalleeEvent::Cancelled(call, _) => {
                assert!(calls.iter().any(|arrival| arrival.call == call), "it isn't open");
            }
            CalleeEvent::Message(call, _) | CalleeEvent::Ended(call) => {
                assert!(calls.iter().any(|arrival| arrival.call == call && arrival.streams()), "it doesn't stream");
            }
            CalleeEvent::Sent(call, volume) => {
                assert!(volume.cost() > 0 && calls.iter().any(|arrival| arrival.call == call), "it isn't open");
            }
            CalleeEvent::Announced { call, .. } => announced.push(call),
            CalleeEvent::Refused | CalleeEvent::Withdrawn => {}
        };
        let cut = usize::from(steps.byte()) * 2;
        let rest = input.split_off(cut.min(input.len()));
        callee.receive(now, &std::mem::replace(&mut input, rest), &mut Vec::with_capacity, events);
        if callee.transmit(now, &mut Sink(usize::from(steps.byte()) * 500), events).is_err() {
            return;
        }
        callee.check(calls.len());
    }
}

/// The headers of an answer, each as a literal, with one more.
fn answers(status: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
    let all: [(&str, &[u8]); 3] = [(":status", status), ("content-type", b"application/grpc"), (name, value)];
    let entry =
        |(name, value): (&str, &[u8])| [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value].concat();
    all.into_iter().flat_map(entry).collect()
}

/// Drives a calling end.
///
/// # Panics
/// If it breaks a promise: that is what is looked for.
pub fn caller(steps: &[u8]) {
    const MOST: usize = 200;
    let steps = &mut Steps(steps);
    let limits = Limits::new().calls(4).message_bytes(MOST);
    let names = Arc::<MethodNames>::default();
    let method = Method::named("a.A/One");
    names.learn(method);
    let settings = GrpcClientSettings::new().keepalive(Duration::from_secs(20), Duration::from_secs(5));
    let setup = GrpcSetup { limits, settings, authority: "here".to_owned(), secure: false, names };
    let mut now = Time::from_nanos(1);
    let mut caller = GrpcCaller::new(&setup, now);
    // By their tokens, the calls that are not over, and whether they stream.
    let mut calls: BTreeMap<usize, bool> = BTreeMap::new();
    let (mut made, mut input) = (0, frame(4, 0, 0, &[0, 3, 0, 0, 0, steps.byte() % 6]));
    while !steps.0.is_empty() {
        let (stream, token) = (u32::from(steps.byte() % 12), usize::from(steps.byte()) % (made + 1));
        let mut over: Vec<usize> = Vec::new();
        let open = calls.clone();
        let mut sink = |event: CallerEvent| match event {
            CallerEvent::Finished(done) => over.push(done.token),
            CallerEvent::Streamed(event) => {
                let (StreamEvent::Began { token, .. }
                | StreamEvent::Message { token, .. }
                | StreamEvent::Sent { token, .. }) = event;
                assert!(open.get(&token).is_none_or(|streams| *streams), "it doesn't stream");
            }
        };
        match steps.byte() % 14 {
            0 => input.extend_from_slice(steps.take(20)),
            1 => input.extend(frame(steps.byte() % 12, steps.byte(), stream, steps.take(12))),
            2 | 3 => {
                let name = ["grpc-status", "grpc-message", "key-bin", "greenwave-receipt-bin", "grpc-encoding"];
                let name = name[usize::from(steps.byte()) % name.len()];
                let status: &[u8] = if steps.byte() < 200 { b"200" } else { b"503" };
                let value = if name == "grpc-encoding" { b"gzip" } else { steps.take(4) };
                input.extend(frame(1, 4 | steps.byte() & 1, stream, &answers(status, name, value)));
            }
            4 => {
                let end = [&[0, 11], &b"grpc-status"[..], &[1, b'0' + steps.byte() % 10]].concat();
                input.extend(frame(1, 5, stream, &end));
            }
            5 | 6 => {
                let len = steps.byte();
                let body = [&[steps.byte() & 1, 0, 0, 0, len][..], &vec![7; len.into()]].concat();
                let cut = usize::from(steps.byte()).min(body.len());
                input.extend(frame(0, steps.byte() & 1, stream, &body[..cut]));
            }
            7 => input.extend(frame(3, 0, stream, &[0, 0, 0, steps.byte() % 15])),
            8 => input.extend(frame(7, 0, 0, &[0, 0, 0, steps.byte() % 10, 0, 0, 0, steps.byte() % 3])),
            9 => {
                made += 1;
                let budget = match steps.byte() {
                    255 => Budget::UNLIMITED,
                    seconds => Budget::expected(Duration::from_secs(seconds.into())),
                };
                let (terms, streams) = (Terms::born(now, budget), steps.byte() % 3 == 0);
                let terms = if streams { terms.streaming() } else { terms };
                calls.insert(made, streams);
                let request = Request { token: made, terms, method: method.id(), started: now };
                let body = if streams { Vec::new() } else { vec![7; usize::from(steps.byte()) * 100] };
                caller.take_on(now, request, body, &mut |event| match event {
                    CallerEvent::Finished(done) => over.push(done.token),
                    CallerEvent::Streamed(_) => panic!("nothing came"),
                });
            }
            10 if calls.contains_key(&token) => {
                assert!(caller.abandon(token), "it is not over");
                over.push(token);
            }
            11 => caller.send(token, StreamMessage::new(vec![7; steps.byte().into()])),
            12 if steps.byte() < 128 => caller.consumed(token, Volume { messages: 3, bytes: 100 }),
            12 => caller.end_stream(token),
            _ => {
                now = now + Duration::from_secs(u64::from(steps.byte() % 40));
                if caller.over().is_none()
                    && let Err(over) = caller.on_timeout(now, &mut sink)
                {
                    caller.close(now, &mut Sink(1000), over);
                }
            }
        }
        let mut sink = |event: CallerEvent| {
            if let CallerEvent::Finished(done) = event {
                over.push(done.token);
            }
        };
        let cut = usize::from(steps.byte()) * 2;
        let rest = input.split_off(cut.min(input.len()));
        caller.receive(now, &std::mem::replace(&mut input, rest), &mut Vec::with_capacity, &mut sink);
        match caller.transmit(now, &mut Sink(usize::from(steps.byte()) * 500), &mut Vec::with_capacity, &mut sink) {
            Ok(()) => {}
        }
        for token in over {
            assert!(calls.remove(&token).is_some(), "call {token} is over twice, or was never made");
        }
        assert_eq!(caller.unfinished(), calls.len(), "a call was lost");
        caller.check();
    }
    let status = Status::new(Code::Unavailable, "");
    caller.lose(now, &status, &mut |event| {
        if let CallerEvent::Finished(done) = event {
            assert!(calls.remove(&done.token).is_some());
        }
    });
    assert!(calls.is_empty(), "every call ends");
}

#[cfg(test)]
#[path = "../../../lab/fuzz/replay.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::seeds::replay;
    use super::{callee, caller, load_report};

    #[test]
    fn what_was_worth_trying_breaks_no_promise() {
        replay("grpc", callee);
        replay("grpc_caller", caller);
        replay("load_report", load_report);
    }
}
