//! A serving end and a client of `h2`, with memory between them.

mod compression;
mod pipe;
mod web;

use super::*;
use crate::Named;
use bytes::Bytes;
use greenwave_policy::Deadline;
use greenwave_proto::connection::Volume;
use greenwave_proto::connection::{Answer, Arrival, Extra, StreamMessage};
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Status};
use greenwave_proto::wire::{Meta, push_meta};
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{HeaderMap, Request, Response};
use pipe::Pipe;
use proptest::prelude::*;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// What a serving end sends, of which so much has room.
struct Wire {
    bytes: Vec<u8>,
    room: usize,
}

impl PlainTransport for Wire {
    type Error = Infallible;

    fn room(&self) -> usize {
        self.room - self.bytes.len()
    }

    fn post(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        assert!(bytes.len() <= self.room());
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

struct Pair {
    callee: GrpcCallee,
    wire: Wire,
    /// How many bytes are handed on at once.
    step: usize,
    now: Time,
    events: Vec<CalleeEvent>,
    pipe: Pipe,
    connection: Connection,
    requests: SendRequest<Bytes>,
}

type Connection = client::Connection<Pipe, Bytes>;

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

impl Pair {
    fn new(limits: Limits) -> Self {
        Self::with(limits, &mut client::Builder::new())
    }

    /// Nobody is asked whether they are there.
    fn with(limits: Limits, client: &mut client::Builder) -> Self {
        Self::with_settings(limits, GrpcSettings::default().keepalive(Duration::MAX, Duration::MAX), client)
    }

    fn with_settings(limits: Limits, settings: GrpcSettings, client: &mut client::Builder) -> Self {
        let callee = GrpcCallee::new(&limits, settings, Time::ZERO);
        let pipe = Pipe::default();
        let mut handshake = pin!(client.handshake(pipe.clone()));
        let Poll::Ready(Ok((requests, connection))) = poll(&mut handshake) else { panic!("it needs no answer") };
        let wire = Wire { bytes: Vec::new(), room: 64 << 10 };
        let (now, events) = (Time::ZERO, Vec::new());
        let mut pair = Self { callee, wire, step: usize::MAX, now, events, pipe, connection, requests };
        pair.run();
        pair
    }

    /// Lets both sides work until neither has anything to say.
    fn run(&mut self) {
        loop {
            let _ = poll(&mut self.connection);
            let mut said = Vec::new();
            let say = |bytes: &[u8]| -> Result<(), Infallible> {
                said.extend_from_slice(bytes);
                Ok(())
            };
            self.pipe.send(usize::MAX, say).unwrap();
            let events = &mut self.events;
            for piece in said.chunks(self.step.min(said.len().max(1))) {
                self.callee.receive(self.now, piece, &mut Vec::with_capacity, &mut |event| events.push(event));
            }
            self.callee.transmit(self.now, &mut self.wire, &mut |event| events.push(event)).unwrap();
            let heard = std::mem::take(&mut self.wire.bytes);
            if said.is_empty() && heard.is_empty() {
                return;
            }
            self.pipe.feed(&heard);
        }
    }

    /// Opens a stream with these headers.
    fn open(&mut self, headers: &[(&str, &str)]) -> (ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::post("http://here/a.A/One").header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.requests.send_request(request.body(()).unwrap(), false).unwrap()
    }

    /// Makes a call.
    fn call(&mut self, headers: &[(&str, &str)], body: &[u8]) -> ResponseFuture {
        let (response, mut stream) = self.open(headers);
        stream.send_data(framed(body), true).unwrap();
        self.run();
        response
    }

    fn arrived(&mut self) -> Option<Arrival> {
        let at = self.events.iter().position(|event| matches!(event, CalleeEvent::Arrived(_)))?;
        match self.events.remove(at) {
            CalleeEvent::Arrived(arrival) => Some(arrival),
            _ => None,
        }
    }

    fn answer(&mut self, arrival: &Arrival, result: Result<Vec<u8>, Status>) {
        self.callee.answer(Answer {
            call: arrival.call,
            result,
            receipt: Receipt::default(),
            deadline: Deadline::NEVER,
            extra: None,
        });
        self.run();
    }

    /// What came of a call: the headers, the message with what precedes it, and the trailers.
    fn outcome(&mut self, response: &mut ResponseFuture) -> (Response<()>, Vec<u8>, HeaderMap) {
        let Poll::Ready(response) = poll(response) else { panic!("there is no answer") };
        let (head, mut body) = response.unwrap().into_parts();
        let mut message = Vec::new();
        loop {
            match body.poll_data(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(bytes))) => {
                    body.flow_control().release_capacity(bytes.len()).unwrap();
                    message.extend_from_slice(&bytes);
                    self.run();
                }
                Poll::Ready(None) => break,
                other => panic!("{other:?}"),
            }
        }
        let trailers = match body.poll_trailers(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(trailers)) => trailers.unwrap_or_default(),
            other => panic!("{other:?}"),
        };
        (Response::from_parts(head, ()), message, trailers)
    }

    fn failed_with(&mut self, response: &mut ResponseFuture) -> String {
        let (response, message, _) = self.outcome(response);
        assert!(message.is_empty());
        said(response.headers(), "grpc-status").to_owned()
    }
}

fn said<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

fn framed(body: &[u8]) -> Bytes {
    [&[0], &(body.len() as u32).to_be_bytes()[..], body].concat().into()
}

#[test]
fn a_call_is_what_the_client_sent_and_the_answer_what_it_gets() {
    for step in [1, 7, usize::MAX] {
        let mut pair = Pair::new(Limits::new());
        pair.step = step;
        pair.now = Time::from_nanos(1000);
        let mut response = pair.call(&[("grpc-timeout", "5m"), ("traceparent", "00-1-2-3")], b"how are you?");
        let arrival = pair.arrived().unwrap();
        assert_eq!((arrival.method, &arrival.body[..]), (MethodId::of("a.A/One"), &b"how are you?"[..]));
        assert_eq!(arrival.deadline, Deadline::at(pair.now, Budget::from_nanos(5_000_000)));
        let metadata = arrival.metadata.clone().unwrap();
        assert_eq!(Meta::parse(&metadata).unwrap().value("traceparent"), Some(&b"00-1-2-3"[..]));
        assert_eq!(pair.callee.unanswered(), 1);
        pair.answer(&arrival, Ok(b"well".to_vec()));
        let (head, message, trailers) = pair.outcome(&mut response);
        assert_eq!((head.status().as_u16(), said(head.headers(), "content-type")), (200, "application/grpc"));
        assert_eq!((message, said(&trailers, "grpc-status")), (framed(b"well").to_vec(), "0"));
        assert_eq!(pair.callee.unanswered(), 0);
        assert!(pair.callee.over().is_none());
    }
}

#[test]
fn a_failure_is_a_code_and_a_text_without_a_message() {
    let mut pair = Pair::new(Limits::new());
    let mut response = pair.call(&[], b"");
    let arrival = pair.arrived().unwrap();
    pair.answer(&arrival, Err(Status::new(Code::NotFound, "no user 7")));
    let (head, message, _) = pair.outcome(&mut response);
    let headers = head.headers();
    assert_eq!((said(headers, "grpc-status"), said(headers, "grpc-message")), ("5", "no user 7"));
    assert!(message.is_empty());
}

/// Long messages both ways, through windows and buffers that are much smaller.
#[test]
fn messages_of_any_length_pass() {
    for len in [0, 1, 16_379, 16_384, 100_000, 5_000_000] {
        let mut pair = Pair::new(Limits::new());
        let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let mut response = pair.call(&[], &body);
        let arrival = pair.arrived().unwrap();
        assert_eq!(arrival.body, body, "{len} bytes");
        pair.answer(&arrival, Ok(body.clone()));
        let (_, message, trailers) = pair.outcome(&mut response);
        assert_eq!((message, said(&trailers, "grpc-status")), (framed(&body).to_vec(), "0"), "{len} bytes");
    }
}

#[test]
fn calls_under_way_are_told_apart() {
    let mut pair = Pair::new(Limits::new());
    let mut responses: Vec<ResponseFuture> = (0..50_u8).map(|number| pair.call(&[], &[number])).collect();
    let mut arrivals: Vec<Arrival> = std::iter::from_fn(|| pair.arrived()).collect();
    assert_eq!(arrivals.len(), 50);
    arrivals.reverse();
    for arrival in arrivals {
        let body = arrival.body.clone();
        pair.answer(&arrival, Ok(body));
        // Its slot is free, and nobody hears this.
        pair.answer(&arrival, Ok(b"again".to_vec()));
    }
    for (number, response) in (0..).zip(&mut responses) {
        assert_eq!(pair.outcome(response).1, framed(&[number]));
    }
}

#[test]
fn a_call_that_is_taken_back_is_told_with_its_task_and_its_answer_goes_nowhere() {
    let mut pair = Pair::new(Limits::new());
    let (response, mut stream) = pair.open(&[]);
    stream.send_data(framed(b""), true).unwrap();
    pair.run();
    let arrival = pair.arrived().unwrap();
    pair.callee.served_by(arrival.call, 7);
    drop(response);
    stream.send_reset(Reason::CANCEL);
    pair.run();
    assert!(
        matches!(pair.events[..], [CalleeEvent::Cancelled(call, Some(7))] if call == arrival.call),
        "it is told once"
    );
    pair.answer(&arrival, Ok(Vec::new()));
    assert!(pair.callee.unanswered() == 0 && pair.callee.over().is_none());
}

#[test]
fn a_request_that_is_taken_back_half_way_leaves_nothing() {
    let limits = Limits::new().stall(Duration::from_secs(1));
    let mut pair = Pair::new(limits);
    let (_response, mut stream) = pair.open(&[]);
    stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 9, 1]), false).unwrap();
    pair.run();
    assert!(pair.events.is_empty() && pair.callee.assembling == 9);
    stream.send_reset(Reason::CANCEL);
    pair.run();
    assert!(matches!(pair.events[..], [CalleeEvent::Withdrawn]));
    assert!(pair.callee.assembling == 0 && pair.callee.next_timeout() == Time::MAX);
}

/// Behind a proxy, a connection is many people's: who doesn't go on is given up, and nobody else.
#[test]
fn a_request_that_does_not_go_on_is_given_up_and_harms_no_other() {
    let limits = Limits::new();
    let stall = limits.stall_time();
    let mut pair = Pair::new(limits);
    let (mut stalled, mut stream) = pair.open(&[]);
    stream.send_data(framed(b"message").slice(..7), false).unwrap();
    pair.run();
    pair.now = pair.now + stall / 2;
    let (mut slow, mut other) = pair.open(&[]);
    other.send_data(framed(b"slow").slice(..6), false).unwrap();
    pair.run();
    pair.now = Time::ZERO + stall;
    assert_eq!(pair.callee.next_timeout(), pair.now);
    let events = &mut pair.events;
    assert_eq!(pair.callee.on_timeout(pair.now, &mut |event| events.push(event)), None);
    assert!(matches!(pair.events[..], [CalleeEvent::Refused]));
    pair.run();
    assert_eq!(pair.failed_with(&mut stalled), "4");
    assert_eq!(pair.callee.timers.half_received, pair.now + stall / 2);
    other.send_data(framed(b"slow").slice(6..), true).unwrap();
    pair.run();
    let arrival = pair.arrived().unwrap();
    pair.answer(&arrival, Ok(b"fine".to_vec()));
    assert_eq!(pair.outcome(&mut slow).1, framed(b"fine"));
}

#[test]
fn what_can_not_be_taken_in_is_refused_and_harms_no_other() {
    let limits = Limits::new().message_bytes(1000).assembly_bytes(1500);
    let mut pair = Pair::new(limits);
    let mut fine = pair.call(&[], b"fine");
    let arrival = pair.arrived().unwrap();
    let mut late = pair.call(&[("grpc-timeout", "tomorrow")], b"");
    assert_eq!(pair.failed_with(&mut late), "3");
    let mut long = pair.call(&[], &[0; 1001]);
    assert_eq!(pair.failed_with(&mut long), "8");
    let (_half, mut half) = pair.open(&[]);
    half.send_data(framed(&[0; 1000]).slice(..900), false).unwrap();
    pair.run();
    let (mut more, mut stream) = pair.open(&[]);
    stream.send_data(framed(&[0; 600]).slice(..300), false).unwrap();
    pair.run();
    assert_eq!(pair.failed_with(&mut more), "8");
    let (mut two, mut stream) = pair.open(&[]);
    stream.send_data([framed(b"one"), framed(b"two")].concat().into(), true).unwrap();
    pair.run();
    assert_eq!(pair.failed_with(&mut two), "13");
    pair.answer(&arrival, Ok(b"fine".to_vec()));
    assert_eq!(pair.outcome(&mut fine).1, framed(b"fine"));
}

#[test]
fn who_reads_no_answers_gets_no_further_calls_served_and_is_stalled() {
    let limits = Limits::new().message_bytes(100_000).assembly_bytes(100_000);
    let stall = limits.stall_time();
    // What answers take beyond this is not sent.
    let mut pair = Pair::with(limits, client::Builder::new().initial_window_size(10));
    let mut unread = Vec::new();
    for _ in 0..2 {
        unread.push(pair.call(&[], b""));
        let arrival = pair.arrived().unwrap();
        pair.answer(&arrival, Ok(vec![0; 60_000]));
    }
    let mut refused = pair.call(&[], b"");
    assert_eq!(pair.failed_with(&mut refused), "8");
    assert_eq!(pair.callee.on_timeout(Time::ZERO, &mut |_| {}), None);
    let late = Time::ZERO + stall;
    assert_eq!(pair.callee.next_timeout(), late);
    assert_eq!(pair.callee.on_timeout(late, &mut |_| {}), Some(Over::Stalled(stall)));
    pair.callee.dismiss(late, &mut pair.wire, Over::Stalled(stall));
    assert_eq!(pair.callee.over(), Some(&Over::Stalled(stall)));
    assert!(!pair.wire.bytes.is_empty(), "the peer is told");
}

#[test]
fn who_does_not_begin_in_time_is_dismissed() {
    let limits = Limits::new();
    let mut callee = GrpcCallee::new(&limits, GrpcSettings::default(), Time::ZERO);
    callee.receive(Time::ZERO, b"PRI * HTTP/2.0\r\n", &mut Vec::with_capacity, &mut |_| {});
    let late = Time::ZERO + limits.handshake_time();
    assert_eq!(callee.next_timeout(), late);
    assert_eq!(callee.on_timeout(late, &mut |_| {}), Some(Over::Handshake(limits.handshake_time())));
}

#[test]
fn a_server_that_goes_away_answers_what_was_asked() {
    let mut pair = Pair::new(Limits::new());
    let mut response = pair.call(&[], b"");
    let arrival = pair.arrived().unwrap();
    pair.callee.go_away();
    pair.run();
    assert!(pair.callee.over().is_none(), "there is a call to answer");
    pair.answer(&arrival, Ok(b"last".to_vec()));
    assert_eq!(pair.outcome(&mut response).1, framed(b"last"));
    pair.run();
    assert_eq!(pair.callee.over(), Some(&Over::Closed));
}

/// What is left to be sent when a connection has come to its end in order is sent before it is done.
#[test]
fn a_server_that_goes_away_is_done_when_its_last_answer_is_sent() {
    let mut pair = Pair::new(Limits::new());
    let _response = pair.call(&[], b"");
    let arrival = pair.arrived().unwrap();
    pair.callee.go_away();
    pair.run();
    pair.wire.room = 10;
    let answer = Answer {
        call: arrival.call,
        result: Ok(vec![7; 5000]),
        receipt: Receipt::default(),
        deadline: Deadline::NEVER,
        extra: None,
    };
    pair.callee.answer(answer);
    let mut sent = 0;
    while !pair.callee.is_done() {
        pair.callee.transmit(pair.now, &mut pair.wire, &mut |_| {}).unwrap();
        assert!(sent > 5000 || !pair.wire.bytes.is_empty(), "there is something to send");
        sent += pair.wire.bytes.len();
        pair.wire.bytes.clear();
        assert!(sent < 10_000, "it is never done");
    }
    assert!(sent > 5000 && pair.callee.over() == Some(&Over::Closed));
}

/// A peer that writes and reads nothing: what it wrote is held up to a bound.
#[test]
fn who_writes_and_never_reads_is_closed_on() {
    let mut pair = Pair::new(Limits::new());
    pair.wire.room = 0;
    // SETTINGS, each of which calls for an answer.
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0].repeat(1000);
    for _ in 0..2 * INPUT_MOST / settings.len() {
        pair.callee.receive(pair.now, &settings, &mut Vec::with_capacity, &mut |_| {});
        if pair.callee.over().is_some() {
            break;
        }
    }
    assert!(matches!(pair.callee.over(), Some(Over::Unread(_))));
}

/// The same with calls that are refused at once and taken back: they don't pile up.
#[test]
fn who_asks_and_takes_back_and_never_reads_is_closed_on() {
    let mut pair = Pair::new(Limits::new());
    pair.wire.room = 0;
    let mut refused = 0;
    let mut receive = |pair: &mut Pair| {
        let _ = poll(&mut pair.connection);
        let mut said = Vec::new();
        let say = |bytes: &[u8]| -> Result<(), Infallible> {
            said.extend_from_slice(bytes);
            Ok(())
        };
        pair.pipe.send(usize::MAX, say).unwrap();
        let sink = &mut |event| refused += usize::from(matches!(event, CalleeEvent::Refused));
        pair.callee.receive(pair.now, &said, &mut Vec::with_capacity, sink);
    };
    for _ in 0..20_000 {
        let request = Request::post("http://here/a.A/One").header("content-type", "text/plain").body(()).unwrap();
        let (response, mut stream) = pair.requests.send_request(request, true).unwrap();
        receive(&mut pair);
        stream.send_reset(Reason::CANCEL);
        drop(response);
        receive(&mut pair);
    }
    assert!(refused < 10_000, "{refused} were taken in");
}

/// PINGs are no progress: they keep nobody alive who doesn't read.
#[test]
fn who_pings_and_reads_no_answer_is_stalled() {
    let limits = Limits::new();
    let stall = limits.stall_time();
    let mut pair = Pair::with(limits, client::Builder::new().initial_window_size(10));
    let _unread = pair.call(&[], b"");
    let arrival = pair.arrived().unwrap();
    pair.answer(&arrival, Ok(vec![0; 1000]));
    let due = pair.callee.next_timeout();
    assert_eq!(due, Time::ZERO + stall);
    pair.now = pair.now + stall / 2;
    let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[7; 8]].concat();
    pair.callee.receive(pair.now, &ping, &mut Vec::with_capacity, &mut |_| {});
    pair.callee.transmit(pair.now, &mut pair.wire, &mut |_| {}).unwrap();
    assert!(!pair.wire.bytes.is_empty(), "it is answered");
    assert_eq!(pair.callee.next_timeout(), due);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever a peer sends and whatever is done meanwhile, the end keeps its promises.
    #[test]
    fn promises_are_kept(steps in prop::collection::vec(any::<u8>(), 0..600)) {
        crate::fuzzing::callee(&steps);
    }
}

/// Before anything of its message is there.
#[test]
fn a_method_that_is_not_there_is_refused_at_the_headers() {
    let mut pair = Pair::new(Limits::new());
    pair.callee.set_methods(Arc::new(|_| None));
    let (mut refused, _stream) = pair.open(&[]);
    pair.run();
    assert_eq!(pair.failed_with(&mut refused), "12");
    assert!(matches!(pair.events[..], [CalleeEvent::Refused]) && pair.callee.assembling == 0);
}

/// Clients that have yet to send a short message take a reset for a failure, though they have their answer.
#[test]
fn who_is_refused_at_the_headers_is_not_reset_while_the_rest_may_come() {
    for rest_comes in [true, false] {
        let mut pair = Pair::new(Limits::new());
        pair.callee.set_methods(Arc::new(|_| None));
        let (mut refused, mut stream) = pair.open(&[]);
        pair.run();
        assert!(stream.poll_reset(&mut Context::from_waker(Waker::noop())).is_pending());
        if rest_comes {
            stream.send_data(framed(b""), true).unwrap();
            pair.run();
        }
        while pair.callee.next_timeout() < Time::MAX {
            pair.now = pair.callee.next_timeout();
            assert_eq!(pair.callee.on_timeout(pair.now, &mut |_| {}), None);
            pair.run();
        }
        assert_eq!(pair.now, Time::ZERO + if rest_comes { REST } else { 2 * REST });
        if !rest_comes {
            let reset = stream.poll_reset(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(reset, Poll::Ready(Ok(Reason::NO_ERROR))));
        }
        assert_eq!(pair.failed_with(&mut refused), "12");
        assert_eq!(pair.callee.over(), None);
    }
}

/// A method whose requests are a stream.
fn streaming(limits: Limits) -> Pair {
    let mut pair = Pair::new(limits);
    pair.callee.set_methods(Arc::new(|path| {
        Some(Named {
            method: MethodId::of(path),
            takes_stream: path == "a.A/One",
            stands_for_all: false,
            compresses: true,
        })
    }));
    pair
}

fn message(body: &[u8]) -> StreamMessage {
    StreamMessage::new(body.to_vec())
}

fn messages(pair: &mut Pair) -> Vec<Vec<u8>> {
    let all = std::mem::take(&mut pair.events).into_iter();
    all.filter_map(|event| if let CalleeEvent::Message(_, message) = event { Some(message.body) } else { None })
        .collect()
}

#[test]
fn messages_of_a_stream_come_one_by_one_and_go_out_one_by_one() {
    for step in [1, usize::MAX] {
        let mut pair = streaming(Limits::new());
        pair.step = step;
        let (mut response, mut stream) = pair.open(&[]);
        pair.run();
        let arrival = pair.arrived().unwrap();
        assert!(arrival.streams() && arrival.answer_streams && arrival.body.is_empty());
        let call = arrival.call;
        let mut metadata = Vec::new();
        push_meta(&mut metadata, "first", b"1").unwrap();
        pair.callee.begin_answer(call, &metadata);
        pair.callee.begin_answer(call, &metadata);
        stream.send_data([framed(b"one"), framed(b""), framed(b"two").slice(..6)].concat().into(), false).unwrap();
        pair.run();
        assert_eq!(messages(&mut pair), [&b"one"[..], b""]);
        pair.callee.send(call, message(b"yes"));
        stream.send_data(framed(b"two").slice(6..), true).unwrap();
        pair.run();
        assert!(
            matches!(&pair.events[..], [CalleeEvent::Sent(_, Volume { messages: 1, bytes: 3 }), CalleeEvent::Message(_, last), CalleeEvent::Ended(it)]
            if last.body == b"two" && *it == call)
                || matches!(
                    &pair.events[..],
                    [
                        CalleeEvent::Message(..),
                        CalleeEvent::Ended(_),
                        CalleeEvent::Sent(_, Volume { messages: 1, bytes: 3 })
                    ]
                )
        );
        pair.callee.send(call, message(b"no"));
        let mut trailing = Vec::new();
        push_meta(&mut trailing, "last-bin", b"2").unwrap();
        let extra = Extra { streamed: true, trailing: Some(trailing.into()), ..Extra::default() };
        pair.callee.answer(Answer {
            call,
            result: Ok(Vec::new()),
            receipt: Receipt::default(),
            deadline: Deadline::NEVER,
            extra: Some(Box::new(extra)),
        });
        pair.run();
        let (head, body, trailers) = pair.outcome(&mut response);
        assert_eq!(said(head.headers(), "first"), "1");
        assert_eq!(body, [framed(b"yes"), framed(b"no")].concat());
        assert_eq!((said(&trailers, "grpc-status"), said(&trailers, "last-bin")), ("0", "Mg"));
        assert!(pair.callee.unanswered() == 0 && pair.callee.over().is_none());
    }
}

/// A stream that fails when some of it was sent says so behind that.
#[test]
fn a_stream_that_fails_says_so_behind_what_was_sent() {
    let mut pair = streaming(Limits::new());
    let (mut response, _stream) = pair.open(&[]);
    pair.run();
    let arrival = pair.arrived().unwrap();
    pair.callee.send(arrival.call, message(b"yes"));
    pair.answer(&arrival, Err(Status::new(Code::Aborted, "no more")));
    let (_, body, trailers) = pair.outcome(&mut response);
    assert_eq!(body, framed(b"yes").to_vec());
    assert_eq!((said(&trailers, "grpc-status"), said(&trailers, "grpc-message")), ("10", "no more"));
}

/// So does one that fails because of what its client sent, when some of its answer has yet to go.
#[test]
fn a_stream_that_is_malformed_is_told_so_behind_what_was_sent() {
    let mut pair = Pair::with(Limits::new(), client::Builder::new().initial_window_size(10));
    pair.callee.set_methods(Arc::new(|path| {
        Some(Named { method: MethodId::of(path), takes_stream: true, stands_for_all: false, compresses: true })
    }));
    let (mut response, mut stream) = pair.open(&[]);
    pair.run();
    let arrival = pair.arrived().unwrap();
    pair.callee.send(arrival.call, message(&[7; 100]));
    stream.send_data(Bytes::from_static(&[9; 5]), false).unwrap();
    stream.send_data(framed(b"more"), false).unwrap();
    pair.run();
    assert!(pair.events.iter().any(|event| matches!(event, CalleeEvent::Cancelled(call, _) if *call == arrival.call)));
    assert!(messages(&mut pair).is_empty());
    let (_, body, trailers) = pair.outcome(&mut response);
    assert_eq!((body.len(), said(&trailers, "grpc-status")), (105, "13"));
    pair.answer(&arrival, Ok(Vec::new()));
    assert_eq!(pair.callee.unanswered(), 0);
}

/// What nobody takes stays with the peer, and a message that is longer than a window passes all the same.
#[test]
fn a_stream_is_not_sent_more_than_is_taken_and_long_messages_pass() {
    let mut pair = streaming(Limits::new());
    let (_response, mut stream) = pair.open(&[]);
    pair.run();
    let call = pair.arrived().unwrap().call;
    let each = 300_000;
    stream.send_data(framed(&vec![7; each]).repeat(20).into(), false).unwrap();
    pair.run();
    let mut count = messages(&mut pair).len();
    assert!(count * each <= 3 * STREAM_WINDOW as usize / 2 && count > 0, "{count}");
    let mut taken = 0;
    while count < 20 {
        pair.callee.consumed(call, Volume { messages: count - taken, bytes: (count - taken) * each });
        taken = count;
        pair.run();
        let more = messages(&mut pair).len();
        assert!(more > 0, "it goes on after {count}");
        count += more;
    }
    pair.callee.consumed(call, Volume { messages: count - taken, bytes: (count - taken) * each });
    stream.send_data(framed(&vec![7; 5_000_000]), true).unwrap();
    pair.run();
    assert_eq!(messages(&mut pair)[0].len(), 5_000_000);
}

/// Empty messages cost something too: those that nobody takes are bounded.
#[test]
fn empty_messages_stay_with_the_peer_until_they_are_taken() {
    let mut pair = streaming(Limits::new());
    let (_response, mut stream) = pair.open(&[]);
    pair.run();
    let call = pair.arrived().unwrap().call;
    stream.send_data(framed(b"").repeat(2_000_000).into(), false).unwrap();
    pair.run();
    let mut count = messages(&mut pair).len();
    assert!(count < 1_000_000, "{count}");
    for _ in 0..count {
        pair.callee.consumed(call, Volume::one(0));
    }
    pair.run();
    count = messages(&mut pair).len();
    assert!(count > 0, "it goes on");
    let others = framed(b"").repeat(3);
    stream.send_data([&others[..], &framed(b"x")[..]].concat().into(), true).unwrap();
    drop(stream);
    pair.run();
}

/// Streams that nobody takes from don't hold more than a bound in all.
#[test]
fn what_streams_hold_is_bounded_over_all_of_them() {
    let limits = Limits::new().message_bytes(100_000).assembly_bytes(1_000_000);
    let mut pair = streaming(limits);
    let mut kept = Vec::new();
    for _ in 0..40 {
        let (response, mut stream) = pair.open(&[]);
        stream.send_data(framed(&[7; 10_000]).repeat(30).into(), false).unwrap();
        pair.run();
        kept.push((response, stream));
    }
    let held = pair.callee.held;
    assert!(held > 500_000 && held <= 500_000 + CONNECTION_WINDOW as usize, "{held}");
    pair.callee.check(40);
    // Those that end make room for others.
    while let Some(arrival) = pair.arrived() {
        pair.answer(&arrival, Ok(Vec::new()));
    }
    assert_eq!((pair.callee.held, pair.callee.withheld), (0, 0));
}

#[test]
fn a_stream_that_is_cut_off_within_a_message_is_told_so_and_its_handler_too() {
    let mut pair = streaming(Limits::new());
    let (mut response, mut stream) = pair.open(&[]);
    stream.send_data(framed(b"one").slice(..7), true).unwrap();
    pair.run();
    let arrival = pair.arrived().unwrap();
    assert!(matches!(pair.events[..], [CalleeEvent::Cancelled(call, _)] if call == arrival.call));
    assert_eq!(pair.failed_with(&mut response), "13");
    pair.answer(&arrival, Ok(Vec::new()));
    assert_eq!((pair.callee.unanswered(), pair.callee.assembling), (0, 0));
}

/// Of a call with a deadline its headers are told of if its request doesn't come along, so that it may be refused at once.
#[test]
fn a_call_may_be_refused_when_its_headers_are_there() {
    let mut pair = Pair::new(Limits::new());
    let _whole = pair.call(&[("grpc-timeout", "1S")], b"one");
    assert!(matches!(pair.events[..], [CalleeEvent::Arrived(_)]), "its request came along");
    let arrival = pair.arrived().unwrap();
    assert!(
        !pair.callee.refuse_announced(pair.now, arrival.call, &Status::new(Code::DeadlineExceeded, "")),
        "it is there"
    );
    let (_unlimited, _rest) = pair.open(&[]);
    pair.run();
    assert!(pair.events.is_empty(), "it can't be late");
    let (mut response, mut rest) = pair.open(&[("grpc-timeout", "1S")]);
    pair.run();
    assert!(pair.events.is_empty(), "its request may be right behind them");
    let soon = pair.callee.next_timeout();
    assert!(soon <= Time::ZERO + Duration::from_millis(10));
    let Pair { callee, events, .. } = &mut pair;
    assert!(callee.on_timeout(soon, &mut |event| events.push(event)).is_none());
    let [CalleeEvent::Announced { call, method, deadline }] = pair.events[..] else { panic!("it is told of") };
    assert_eq!((method, deadline.expires()), (arrival.method, Some(Time::ZERO + Duration::from_secs(1))));
    assert!(pair.callee.refuse_announced(pair.now, call, &Status::new(Code::DeadlineExceeded, "it takes longer")));
    assert!(!pair.callee.refuse_announced(pair.now, call, &Status::new(Code::DeadlineExceeded, "again")));
    pair.run();
    assert_eq!(pair.failed_with(&mut response), "4");
    // What was under way harms nothing.
    let _ = rest.send_data(framed(b"two"), true);
    pair.run();
    pair.events.clear();
    let mut response = pair.call(&[], b"three");
    let arrival = pair.arrived().unwrap();
    pair.answer(&arrival, Ok(b"four".to_vec()));
    pair.run();
    assert!(matches!(poll(&mut response), Poll::Ready(Ok(_))));
}

/// A peer that takes its time with a stream harms nobody, and is not closed on as long as whoever sends is told.
#[test]
fn who_reads_a_stream_slowly_is_waited_for() {
    let mut pair = Pair::with(Limits::new(), client::Builder::new().initial_window_size(10));
    let _slow = pair.call(&[], b"");
    let arrival = pair.arrived().unwrap();
    pair.callee.send(arrival.call, message(&[7; 100]));
    pair.run();
    assert!(matches!(pair.events[..], [CalleeEvent::Sent(_, Volume { messages: 0, bytes: 5 })]));
    assert_eq!(pair.callee.next_timeout(), Time::MAX);
    pair.answer(&arrival, Ok(Vec::new()));
    assert!(pair.callee.next_timeout() < Time::MAX, "nobody waits for it any more but HTTP/2");
}

/// Headers that begin and don't go on keep nothing.
#[test]
fn headers_that_do_not_go_on_end_the_connection() {
    let limits = Limits::new();
    let mut pair = Pair::new(limits);
    pair.now = Time::from_nanos(1000);
    // HEADERS without END_HEADERS, and a part of CONTINUATION.
    let begun = [&[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83][..], &[0, 0, 9, 9]].concat();
    pair.callee.receive(pair.now, &begun, &mut Vec::with_capacity, &mut |_| {});
    let due = pair.now + limits.handshake_time();
    assert_eq!(pair.callee.next_timeout(), due);
    let more = [0, 0, 0, 0, 1];
    pair.callee.receive(pair.now + limits.handshake_time() / 2, &more, &mut Vec::with_capacity, &mut |_| {});
    assert_eq!(pair.callee.next_timeout(), due);
    assert_eq!(pair.callee.on_timeout(due, &mut |_| {}), Some(Over::Unfinished(limits.handshake_time())));
}

const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7];

/// As long as answers go out it may be asked for each of them.
#[test]
fn who_asks_too_often_whether_this_side_is_there_is_sent_away() {
    let mut pair = Pair::new(Limits::new());
    for _ in 0..20 {
        let _response = pair.call(&[], b"");
        let arrival = pair.arrived().unwrap();
        pair.answer(&arrival, Ok(Vec::new()));
        pair.callee.receive(pair.now, &PING, &mut Vec::with_capacity, &mut |_| {});
    }
    for _ in 0..2 {
        pair.callee.receive(pair.now, &PING, &mut Vec::with_capacity, &mut |_| {});
        assert_eq!(pair.callee.over(), None);
    }
    pair.callee.receive(pair.now, &PING, &mut Vec::with_capacity, &mut |_| {});
    assert!(matches!(pair.callee.over(), Some(Over::Broken(_))));
    pair.callee.transmit(pair.now, &mut pair.wire, &mut |_| {}).unwrap();
    assert!(pair.wire.bytes.ends_with(b"too_many_pings"));
    let settings = GrpcSettings::new().least_between_pings(Duration::ZERO, true);
    let mut pair = Pair::with_settings(Limits::new(), settings, &mut client::Builder::new());
    pair.callee.receive(pair.now, &PING.repeat(100), &mut Vec::with_capacity, &mut |_| {});
    assert_eq!(pair.callee.over(), None);
}

/// Clients find out by PINGs how much can be under way, while a long answer comes.
#[test]
fn who_asks_while_an_answer_goes_out_is_not_sent_away() {
    let mut pair = Pair::with(Limits::new(), client::Builder::new().initial_window_size(1 << 20));
    let _response = pair.call(&[], b"");
    let arrival = pair.arrived().unwrap();
    pair.callee.answer(Answer {
        call: arrival.call,
        result: Ok(vec![7; 60_000]),
        receipt: Receipt::default(),
        deadline: Deadline::NEVER,
        extra: None,
    });
    pair.wire.room = 1000;
    let mut rounds = 0;
    while pair.callee.has_output() {
        pair.callee.transmit(pair.now, &mut pair.wire, &mut |_| {}).unwrap();
        pair.wire.bytes.clear();
        pair.callee.receive(pair.now, &PING, &mut Vec::with_capacity, &mut |_| {});
        rounds += 1;
        assert!(rounds < 70 || pair.callee.over().is_some());
        if pair.callee.http.queued_in_all() > 0 {
            assert_eq!(pair.callee.over(), None);
        }
    }
    assert!(rounds > 50);
}

#[test]
fn who_is_silent_is_asked_and_closed_on_if_it_does_not_answer() {
    let (time, timeout) = (Duration::from_secs(60), Duration::from_secs(5));
    let settings = GrpcSettings::new().keepalive(time, timeout);
    let mut pair = Pair::with_settings(Limits::new(), settings, &mut client::Builder::new());
    for _ in 0..3 {
        pair.now = pair.callee.next_timeout();
        assert_eq!(pair.callee.on_timeout(pair.now, &mut |_| {}), None);
        if pair.callee.has_output() {
            let due = pair.now + timeout;
            assert_eq!(pair.callee.next_timeout(), due);
            pair.run();
        }
    }
    let over = loop {
        pair.now = pair.callee.next_timeout();
        assert!(pair.now < Time::ZERO + 10 * time, "it is never closed on");
        if let Some(over) = pair.callee.on_timeout(pair.now, &mut |_| {}) {
            break over;
        }
    };
    assert_eq!(over, Over::Silent(timeout));
}

#[test]
fn who_has_no_call_for_long_and_who_is_old_is_told_to_go() {
    let idle = GrpcSettings::new().most_idle(Duration::from_secs(60));
    let old = GrpcSettings::new().most_age(Duration::from_secs(60), Duration::from_secs(5));
    for (settings, is_open) in [(idle, false), (old, false), (old, true)] {
        let mut pair = Pair::with_settings(Limits::new(), settings, &mut client::Builder::new());
        let _response = pair.call(&[], b"");
        let arrival = pair.arrived().unwrap();
        if !is_open {
            pair.answer(&arrival, Ok(Vec::new()));
        }
        pair.now = Time::ZERO + Duration::from_secs(60);
        assert_eq!(pair.callee.next_timeout(), pair.now);
        assert_eq!(pair.callee.on_timeout(pair.now, &mut |_| {}), None);
        pair.run();
        assert_eq!(pair.callee.over(), if is_open { None } else { Some(&Over::Closed) });
        if is_open {
            pair.now = pair.now + Duration::from_secs(5);
            assert_eq!(pair.callee.next_timeout(), pair.now);
            assert!(matches!(pair.callee.on_timeout(pair.now, &mut |_| {}), Some(Over::Old(_))));
        }
    }
}
