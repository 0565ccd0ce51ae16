//! A serving end, and what a client of HTTP/1.1 sends it.

use super::*;
use greenwave_policy::Deadline;
use greenwave_proto::connection::{Answer, Extra, StreamMessage, Volume};
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Status};
use greenwave_proto::wire::MethodId;
use greenwave_proto::{Coding, Format};
use proptest::prelude::*;
use std::convert::Infallible;

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

struct Served {
    callee: WebCallee,
    wire: Wire,
    now: Time,
    calls: Vec<Arrival>,
    refused: usize,
    /// Streams' messages that have left.
    sent: Volume,
}

impl Served {
    fn new(limits: Limits, settings: WebSettings) -> Self {
        let wire = Wire { bytes: Vec::new(), room: usize::MAX };
        let callee = WebCallee::new(&limits, settings, Time::ZERO);
        Self { callee, wire, now: Time::ZERO, calls: Vec::new(), refused: 0, sent: Volume::default() }
    }

    fn usual() -> Self {
        Self::new(Limits::new(), WebSettings::new())
    }

    fn send(&mut self, bytes: &[u8]) {
        let Self { callee, calls, refused, now, .. } = self;
        callee.receive(*now, bytes, &mut Vec::with_capacity, &mut |event| match event {
            CalleeEvent::Arrived(arrival) => calls.push(arrival),
            _ => *refused += 1,
        });
        self.transmit();
    }

    fn transmit(&mut self) {
        let Self { callee, wire, calls, refused, now, sent } = self;
        let Ok(()) = callee.transmit(*now, wire, &mut |event| match event {
            CalleeEvent::Arrived(arrival) => calls.push(arrival),
            CalleeEvent::Sent(_, volume) => *sent += volume,
            _ => *refused += 1,
        });
        let open = self.callee.open_calls().count();
        self.callee.check(open);
    }

    /// Answers the call that came last.
    fn answer(&mut self, result: Result<&str, Status>) {
        let arrival = self.calls.pop().expect("a call is there");
        let (call, result) = (arrival.call, result.map(|text| text.as_bytes().to_vec()));
        self.callee.answer(Answer {
            call,
            result,
            receipt: Receipt::default(),
            deadline: Deadline::NEVER,
            extra: None,
        });
        self.transmit();
    }

    /// What was sent since it was last asked.
    fn said(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.wire.bytes)).into_owned()
    }

    fn wait(&mut self, time: Duration) -> Option<Over> {
        self.now = self.now + time;
        let over = self.callee.on_timeout(self.now)?;
        self.callee.dismiss(&mut self.wire, over.clone());
        Some(over)
    }
}

fn post(body: &str) -> String {
    let len = body.len();
    format!(
        "POST /a.A/One HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

fn chunked(kind: &str, chunks: &[&str]) -> String {
    let head =
        format!("POST /a.A/One HTTP/1.1\r\nHost: here\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunks = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    head + &chunks.collect::<String>() + "0\r\n\r\n"
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn status_of(said: &str) -> &str {
    said.get(9..12).unwrap_or("none")
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_call_arrives_and_its_answer_goes_out() {
    let mut served = Served::usual();
    served.send(post("{}").as_bytes());
    let arrival = &served.calls[0];
    assert_eq!((arrival.method, &arrival.body[..]), (MethodId::of("a.A/One"), &b"{}"[..]));
    assert_eq!(arrival.coding, Coding::of(Format::Json, false));
    served.callee.served_by(arrival.call, 7);
    assert_eq!(served.callee.open_calls().collect::<Vec<_>>(), [(arrival.call, Some(7))]);
    served.answer(Ok("{\"a\":1}"));
    assert_eq!(served.said(), ok("{\"a\":1}"));
    served.send(chunked("application/json", &["{\"a\":", "1}"]).as_bytes());
    assert_eq!(served.calls[0].body, b"{\"a\":1}");
    served.answer(Err(Status::new(Code::NotFound, "nobody")));
    let said = served.said();
    assert!(
        said.starts_with("HTTP/1.1 404 Not Found\r\n") && said.ends_with(r#"{"code":"not_found","message":"nobody"}"#)
    );
    assert_eq!((served.callee.over(), served.callee.unanswered()), (None, 0));
}

#[test]
fn requests_sent_ahead_are_served_one_after_the_other() {
    let mut served = Served::usual();
    let all: String = (0..9).map(|number| post(&number.to_string())).collect();
    served.send(all.as_bytes());
    for number in 0..9 {
        assert_eq!(served.calls.len(), 1, "one at a time");
        assert_eq!(served.calls[0].body, number.to_string().as_bytes());
        served.answer(Ok("{}"));
        assert_eq!(served.said(), ok("{}"));
    }
    assert!(served.calls.is_empty());
    // A refused one among them is answered in its place.
    served.send([&post("1"), "PUT / HTTP/1.1\r\nHost: a\r\n\r\n", &post("2")].concat().as_bytes());
    assert_eq!((served.said().as_str(), served.refused), ("", 1));
    served.answer(Ok("{}"));
    let said = served.said();
    assert!(said.starts_with(&ok("{}")) && said[ok("{}").len()..].starts_with("HTTP/1.1 405 "), "{said}");
    assert_eq!(served.calls[0].body, b"2");
}

#[test]
fn who_sends_too_far_ahead_is_closed_on() {
    let mut served = Served::usual();
    let piece = post(&"7".repeat(1000));
    served.send(piece.as_bytes());
    for _ in 0..INPUT_MOST / piece.len() + AHEAD_MOST + 1 {
        served.send(piece.as_bytes());
    }
    assert!(matches!(served.callee.over(), Some(Over::Unread(_))) && served.callee.is_done());
    assert_eq!(served.callee.open_calls().count(), 1, "for the one that has it to cancel");
}

#[test]
fn the_connection_ends_after_an_answer_if_either_side_says_so() {
    let closing = post("{}").replace("Host: here", "Host: here\r\nConnection: close");
    let mut served = Served::usual();
    served.send([&closing, &*post("2")].concat().as_bytes());
    served.answer(Ok("{}"));
    assert_eq!(served.said(), ok("{}").replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
    assert!(served.callee.is_done() && served.calls.is_empty());
    let mut served = Served::usual();
    served.send(post("{}").as_bytes());
    served.callee.go_away();
    served.transmit();
    assert_eq!(served.callee.over(), None);
    served.answer(Ok("{}"));
    assert!(served.said().contains("connection: close") && served.callee.is_done());
    let mut idle = Served::usual();
    idle.callee.go_away();
    idle.transmit();
    assert!(idle.callee.is_done());
}

#[test]
fn who_waits_to_be_told_to_go_on_is_told_so_in_turn() {
    let expecting = post("{}").replace("Host: here", "Host: here\r\nExpect: 100-continue");
    let (head, body) = expecting.split_at(expecting.len() - 2);
    let mut served = Served::usual();
    served.send([&post("1"), head].concat().as_bytes());
    assert_eq!(served.said(), "");
    served.answer(Ok("{}"));
    assert_eq!(served.said(), ok("{}") + "HTTP/1.1 100 Continue\r\n\r\n");
    served.send(body.as_bytes());
    served.answer(Ok("{}"));
    assert_eq!(served.said(), ok("{}"));
    // What is refused is refused before its body comes, and nobody knows whether it will.
    let refused = head.replace("json", "xml");
    served.send(refused.as_bytes());
    let said = served.said();
    assert!(status_of(&said) == "415" && said.contains("connection: close") && served.callee.is_done(), "{said}");
}

#[test]
fn what_is_no_request_ends_the_connection_with_an_answer() {
    for (bytes, status) in [
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
        ("GET\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505"),
        (&format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_MOST)), "431"),
        (&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(101)), "431"),
        (&chunked("application/json", &["{}"]).replace("2\r\n", "x\r\n"), "400"),
        (&chunked("application/grpc-web", &["\u{2}1234"]), "200"),
    ] {
        let mut served = Served::usual();
        served.send([bytes, &post("{}")].concat().as_bytes());
        let said = served.said();
        assert_eq!(status_of(&said), status, "{bytes:.60} {said}");
        assert!(said.contains("connection: close\r\n") && served.callee.is_done(), "{said}");
        assert_eq!((served.calls.len(), served.refused), (0, 1));
    }
}

#[test]
fn the_body_of_a_refused_request_is_read_past_if_it_is_short() {
    let refused = |len: usize| post(&"7".repeat(len)).replace("application/json", "text/plain");
    for (first, stays) in [
        (refused(100), true),
        (refused(PASSED_MOST + 1), false),
        (chunked("text/plain", &["abc"; 50]), true),
        (chunked("text/plain", &[&*"7".repeat(2 * PASSED_MOST)]), false),
    ] {
        let mut served = Served::usual();
        for piece in first.as_bytes().chunks(1000) {
            served.send(piece);
        }
        assert_eq!(status_of(&served.said()), "415");
        assert_eq!(served.callee.over().is_none(), stays);
        served.send(post("{}").as_bytes());
        assert_eq!(served.calls.len(), usize::from(stays));
    }
}

#[test]
fn messages_are_bounded_one_by_one_and_together() {
    let limits = Limits::new().message_bytes(100).assembly_bytes(150);
    let mut served = Served::new(limits, WebSettings::new().json_bytes(60));
    served.send(post(&"7".repeat(61)).as_bytes());
    let said = served.said();
    assert!(status_of(&said) == "429" && said.contains("resource_exhausted"), "{said}");
    served.send(chunked("application/json", &["7".repeat(30).as_str(); 3]).as_bytes());
    assert_eq!(status_of(&served.said()), "429");
    assert!(served.callee.is_done(), "as nobody knows how much is still to come");
    let mut served = Served::new(limits, WebSettings::new());
    served.send(post("1").as_bytes());
    served.send([post(&"7".repeat(100)), post(&"7".repeat(51))].concat().as_bytes());
    assert_eq!(served.refused, 1);
    served.answer(Ok("{}"));
    served.answer(Ok("{}"));
    let said = served.said();
    assert!(said.contains("HTTP/1.1 429 ") && said.contains("151 bytes wait"), "{said}");
}

#[test]
fn no_call_begins_while_answers_pile_up() {
    let mut served = Served::usual();
    served.wire.room = 0;
    served.send([post("1"), post("2")].concat().as_bytes());
    served.answer(Ok(&"7".repeat(OUTPUT_MOST)));
    assert!(served.calls.is_empty());
    assert_eq!(served.callee.next_timeout(), served.now + 30 * SECOND);
    served.wire.room = 1000;
    served.transmit();
    assert!(!served.calls.is_empty(), "with less unsent");
    served.wire.room = usize::MAX;
    served.transmit();
    assert_eq!(served.said(), ok(&"7".repeat(OUTPUT_MOST)));
}

#[test]
fn whoever_is_slow_is_closed_on() {
    let begun = post("{}").into_bytes();
    let mut silent = Served::usual();
    assert_eq!(silent.wait(4 * SECOND), None);
    assert!(matches!(silent.wait(SECOND), Some(Over::Slow(_))) && silent.said().is_empty());
    // A byte now and then doesn't help.
    let mut drip = Served::usual();
    let dripped = begun.chunks(1).find_map(|byte| {
        drip.send(byte);
        drip.wait(SECOND)
    });
    assert!(matches!(dripped, Some(Over::Slow(_))) && status_of(&drip.said()) == "408");
    let mut stalled = Served::usual();
    stalled.send(&begun[..begun.len() - 1]);
    assert_eq!(stalled.wait(29 * SECOND), None);
    assert!(matches!(stalled.wait(SECOND), Some(Over::Stalled(_))) && status_of(&stalled.said()) == "408");
    let mut drip = Served::usual();
    drip.send(post(&"7".repeat(100)).split_at(150).0.as_bytes());
    let dripped = (0..31).find_map(|_| {
        drip.send(b"7");
        drip.wait(SECOND)
    });
    assert!(matches!(dripped, Some(Over::Stalled(_))));
    let mut idle = Served::usual();
    idle.send(&begun);
    assert_eq!(idle.callee.next_timeout(), Time::MAX, "the handler is waited for");
    idle.answer(Ok("{}"));
    assert_eq!(idle.wait(119 * SECOND), None);
    idle.send(b"\r\n");
    assert_eq!(idle.wait(SECOND), None);
    assert!(idle.callee.is_done() && idle.callee.over() == Some(&Over::Closed));
    let mut refused = Served::usual();
    refused.send(post("{}").replace("json", "xml").trim_end_matches("{}").as_bytes());
    assert!(matches!(refused.wait(30 * SECOND), Some(Over::Stalled(_))));
}

#[test]
fn probes_and_pages_are_answered() {
    let mut served = Served::new(Limits::new(), WebSettings::new().origins(["https://a"]));
    served.send(b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(served.calls[0].method, MethodId::of("grpc.health.v1.Health/Check"));
    served.answer(Ok("\u{8}\u{1}"));
    let said = served.said();
    assert!(said.contains("200 OK") && said.contains("content-length: 8") && said.ends_with("\r\n\r\n"), "{said}");
    served.answer(Ok("\u{8}\u{1}"));
    assert!(served.said().ends_with("\r\n\r\nSERVING\n"));
    served.send(
        b"OPTIONS /a.A/One HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\nAccess-Control-Request-Method: POST\r\n\
          Access-Control-Request-Headers: content-type\r\n\r\n",
    );
    let said = served.said();
    assert!(said.starts_with("HTTP/1.1 204 No Content\r\n") && !said.contains("content-length"), "{said}");
    assert!(said.contains("access-control-allow-origin: https://a\r\n"), "{said}");
    assert!(said.contains("access-control-allow-headers: content-type\r\n"), "{said}");
    served.send(post("{}").replace("Host: here", "Host: here\r\nOrigin: https://a").as_bytes());
    served.answer(Ok("{}"));
    assert!(served.said().contains("access-control-allow-origin: https://a\r\n"));
}

#[test]
fn a_stream_of_answers_comes_in_chunks_and_its_sender_hears_what_has_left() {
    let request = post("\0\0\0\0\0").replace("application/json", "application/grpc-web");
    let message = |body: &[u8]| StreamMessage::new(body.to_vec());
    let extra = |streamed| Some(Box::new(Extra { streamed, ..Extra::default() }));
    let end = "15\r\n\u{fffd}\0\0\0\u{10}grpc-status: 0\r\n\r\n0\r\n\r\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/grpc-web+proto\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut served = Served::usual();
    served.send(request.as_bytes());
    let arrival = served.calls.pop().unwrap();
    let call = arrival.call;
    assert!(arrival.answer_streams && !arrival.streams());
    served.callee.send(call, message(b"abc"));
    served.wire.room = head.len() + 5;
    served.transmit();
    assert_eq!(served.sent, Volume::default());
    served.wire.room = usize::MAX;
    served.transmit();
    assert_eq!((served.said(), served.sent), (format!("{head}8\r\n\0\0\0\0\u{3}abc\r\n"), Volume::one(3)));
    let (receipt, deadline) = (Receipt::default(), Deadline::NEVER);
    served.callee.answer(Answer { call, result: Ok(Vec::new()), receipt, deadline, extra: extra(true) });
    served.transmit();
    assert_eq!(served.said(), end);
    // Without a message; and one that fails.
    served.send(request.as_bytes());
    let call = served.calls.pop().unwrap().call;
    let receipt = Receipt::default();
    served.callee.answer(Answer { call, result: Ok(Vec::new()), receipt, deadline, extra: extra(true) });
    served.transmit();
    assert_eq!(served.said(), format!("{head}{end}"));
    served.send(request.as_bytes());
    let call = served.calls[0].call;
    served.callee.begin_answer(call, &[]);
    served.callee.send(call, message(b""));
    served.answer(Err(Status::new(Code::NotFound, "no more")));
    let said = served.said();
    assert!(said.starts_with(head) && said.contains("grpc-status: 5\r\ngrpc-message: no more\r\n"), "{said}");
    assert!(said.ends_with("\r\n0\r\n\r\n"));
    // JSON has no streams, and neither has HTTP/1.0.
    served.send(post("{}").as_bytes());
    assert!(!served.calls[0].answer_streams);
    served.answer(Ok("{}"));
    served.send(request.replace("HTTP/1.1", "HTTP/1.0").as_bytes());
    assert!(!served.calls[0].answer_streams);
}

#[test]
fn answers_to_other_calls_are_dropped() {
    let mut served = Served::usual();
    served.send(post("1").as_bytes());
    let call = served.calls[0].call;
    served.answer(Ok("{}"));
    served.send(post("2").as_bytes());
    served.said();
    let (receipt, deadline) = (Receipt::default(), Deadline::NEVER);
    served.callee.answer(Answer { call, result: Ok(Vec::new()), receipt, deadline, extra: None });
    served.transmit();
    assert_eq!((served.said().as_str(), served.callee.open_calls().count()), ("", 1));
}

proptest! {
    /// However the bytes are cut on their way, the same calls arrive.
    #[test]
    fn requests_may_be_cut_anywhere(
        bodies in prop::collection::vec("[a-z]{0,40}", 1..6),
        coded in prop::collection::vec(any::<bool>(), 6),
        cuts in prop::collection::vec(1_usize..90, 1..20),
    ) {
        let requests = bodies.iter().zip(&coded).map(|(body, coded)| match (coded, &**body) {
            (true, "") => chunked("application/json", &[]),
            (true, body) => chunked("application/json", &[body]),
            (false, body) => post(body),
        });
        let bytes = requests.collect::<String>();
        let mut served = Served::usual();
        let (mut rest, mut cuts, mut seen) = (bytes.as_bytes(), cuts.iter().cycle(), Vec::new());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            served.send(piece);
            rest = after;
            while let Some(arrival) = served.calls.last() {
                seen.push(String::from_utf8(arrival.body.clone()).unwrap());
                served.answer(Ok("{}"));
            }
        }
        prop_assert_eq!(&seen, &bodies);
        prop_assert_eq!(served.said(), ok("{}").repeat(bodies.len()));
    }

    #[test]
    fn whatever_a_peer_sends_the_promises_hold(steps in prop::collection::vec(any::<u8>(), 0..600)) {
        crate::fuzzing::callee(&steps);
    }

    #[test]
    fn whatever_a_server_answers_what_is_read_of_it_is_in_it(
        first in any::<u8>(),
        frames in prop::collection::vec(("[\0\0\0\u{1}\u{2}\u{7f}]", 0_u16..310, prop::collection::vec(any::<u8>(), 0..310)), 0..6),
    ) {
        let frame = |(flags, len, body): (String, u16, Vec<u8>)| {
            let flags = if flags == "\u{7f}" { 0x80 } else { flags.as_bytes()[0] };
            [&[flags, 0, 0], &len.to_be_bytes()[..], &body[..body.len().min(len.into())]].concat()
        };
        crate::fuzzing::client(&[vec![first], frames.into_iter().flat_map(frame).collect()].concat());
    }

    #[test]
    fn no_bytes_make_it_panic(pieces in prop::collection::vec("[GETPOS /a.A:0-9\r\n-]{0,60}", 0..9)) {
        let mut served = Served::usual();
        for piece in pieces {
            served.send(piece.as_bytes());
        }
    }
}
