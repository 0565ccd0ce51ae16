//! Connect and gRPC-Web over HTTP/2.

use super::*;
use greenwave_proto::connection::{Extra, StreamMessage};
use greenwave_proto::{Coding, Format};
use greenwave_web::WebSettings;

fn pair(limits: Limits, settings: WebSettings) -> Pair {
    let mut pair = Pair::new(limits);
    pair.callee.set_web(settings);
    pair
}

fn usual() -> Pair {
    pair(Limits::new(), WebSettings::new())
}

/// Asks for something, with a body if there is one.
fn ask(pair: &mut Pair, verb: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> ResponseFuture {
    let mut request = Request::builder().method(verb).uri(format!("http://here{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (response, mut stream) = pair.requests.send_request(request.body(()).unwrap(), body.is_none()).unwrap();
    if let Some(body) = body {
        stream.send_data(Bytes::copy_from_slice(body), true).unwrap();
    }
    pair.run();
    response
}

fn post(pair: &mut Pair, kind: &str, body: &[u8]) -> ResponseFuture {
    ask(pair, "POST", "/a.A/One", &[("content-type", &format!("application/{kind}"))], Some(body))
}

/// The status, a header and the body of an answer.
fn told(pair: &mut Pair, response: &mut ResponseFuture, header: &str) -> (u16, String, Vec<u8>) {
    let (head, body, trailers) = pair.outcome(response);
    assert!(trailers.is_empty());
    (head.status().as_u16(), said(head.headers(), header).to_owned(), body)
}

#[test]
fn json_arrives_with_its_mark_and_the_answer_is_plain_http() {
    for step in [1, 7, usize::MAX] {
        let mut pair = usual();
        pair.step = step;
        let headers = [("content-type", "application/json"), ("connect-timeout-ms", "5"), ("x-who", "Ada")];
        let mut response = ask(&mut pair, "POST", "/a.A/One", &headers, Some(b"{}"));
        let arrival = pair.arrived().unwrap();
        assert_eq!((arrival.method, &arrival.body[..]), (MethodId::of("a.A/One"), &b"{}"[..]));
        assert_eq!(arrival.deadline, Deadline::at(pair.now, Budget::from_nanos(5_000_000)));
        assert_eq!(arrival.coding, Coding::of(Format::Json, false));
        let metadata = arrival.metadata.clone().unwrap();
        assert_eq!(Meta::parse(&metadata).unwrap().value("x-who"), Some(&b"Ada"[..]));
        assert!(!arrival.streams() && !arrival.answer_streams && pair.callee.unanswered() == 1);
        pair.answer(&arrival, Ok(b"{\"a\":1}".to_vec()));
        let expected = (200, "application/json".to_owned(), b"{\"a\":1}".to_vec());
        assert_eq!(told(&mut pair, &mut response, "content-type"), expected);
        let mut response = post(&mut pair, "proto", b"");
        let arrival = pair.arrived().unwrap();
        assert_eq!(arrival.coding, Coding::PLAIN);
        pair.answer(&arrival, Err(Status::new(Code::NotFound, "nobody")));
        let expected = br#"{"code":"not_found","message":"nobody"}"#.to_vec();
        assert_eq!(told(&mut pair, &mut response, "content-length"), (404, expected.len().to_string(), expected));
        assert!(pair.callee.unanswered() == 0 && pair.callee.over().is_none());
    }
}

#[test]
fn grpc_web_and_grpc_share_a_connection() {
    let mut pair = usual();
    let mut web = post(&mut pair, "grpc-web+proto", &framed(b"web"));
    let mut grpc = pair.call(&[], b"grpc");
    for (expected, body) in [("web", b"answer to web"), ("grpc", b"answer to it.")] {
        let arrival = pair.arrived().unwrap();
        assert_eq!(arrival.body, expected.as_bytes());
        pair.answer(&arrival, Ok(body.to_vec()));
    }
    let trailers = b"\x80\0\0\0\x10grpc-status: 0\r\n";
    let expected = [&framed(b"answer to web")[..], trailers].concat();
    assert_eq!(told(&mut pair, &mut web, "content-type"), (200, "application/grpc-web+proto".to_owned(), expected));
    let (_, message, trailers) = pair.outcome(&mut grpc);
    assert_eq!((message, said(&trailers, "grpc-status")), (framed(b"answer to it.").to_vec(), "0"));
}

#[test]
fn a_get_a_probe_and_a_page_are_answered() {
    let mut pair = pair(Limits::new(), WebSettings::new().origins(["*"]));
    let mut response = ask(&mut pair, "GET", "/a.A/One?encoding=json&message=%7B%7D", &[], None);
    let arrival = pair.arrived().unwrap();
    assert_eq!((&arrival.body[..], arrival.coding.is_safe()), (&b"{}"[..], true));
    pair.answer(&arrival, Ok(b"{}".to_vec()));
    assert_eq!(told(&mut pair, &mut response, "content-length").1, "2");
    for (verb, expected) in [("GET", "SERVING\n"), ("HEAD", "")] {
        let mut response = ask(&mut pair, verb, "/healthz", &[], None);
        let arrival = pair.arrived().unwrap();
        pair.answer(&arrival, Ok(vec![8, 1]));
        let expected = (200, "8".to_owned(), expected.as_bytes().to_vec());
        assert_eq!(told(&mut pair, &mut response, "content-length"), expected);
    }
    let headers = [("origin", "https://a"), ("access-control-request-method", "POST")];
    let mut response = ask(&mut pair, "OPTIONS", "/a.A/One", &headers, None);
    assert_eq!(told(&mut pair, &mut response, "access-control-allow-origin"), (204, "*".to_owned(), Vec::new()));
}

#[test]
fn what_is_refused_is_refused_as_its_protocol_has_it() {
    let limits = Limits::new().message_bytes(100).assembly_bytes(150);
    let mut pair = pair(limits, WebSettings::new().json_bytes(60));
    for (kind, body, status, text) in [
        ("json", &[b'7'; 61][..], 429, "resource_exhausted"),
        ("proto", &[7; 101], 429, "resource_exhausted"),
        ("grpc-web", &[0, 0, 0, 0, 101], 200, "grpc-status: 8"),
        ("grpc-web", &[0, 0, 0], 200, "grpc-status: 13"),
        // What it says is base64 as well: a frame of trailers.
        ("grpc-web-text", b"*aaa", 200, "gAAAAF"),
        ("xml", b"", 415, "content-type"),
    ] {
        let mut response = post(&mut pair, kind, body);
        let (found, _, told) = told(&mut pair, &mut response, "content-type");
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(found == status && told.contains(text), "{kind}: {found} {told}");
    }
    let mut response = ask(&mut pair, "GET", "/a.A/One?encoding=json&message=", &[], Some(b"body"));
    assert_eq!(told(&mut pair, &mut response, "allow").0, 400);
    assert!(pair.arrived().is_none() && pair.callee.unanswered() == 0);
    assert_eq!(pair.events.iter().filter(|event| matches!(event, CalleeEvent::Refused)).count(), 7);
    pair.callee.check(0);
}

#[test]
fn a_stream_of_answers_ends_with_a_frame_of_trailers() {
    let mut pair = usual();
    let mut response = post(&mut pair, "grpc-web", &framed(b""));
    let arrival = pair.arrived().unwrap();
    assert!(arrival.answer_streams && !arrival.streams());
    for body in [&b"one"[..], b"two"] {
        pair.callee.send(arrival.call, StreamMessage::new(body.to_vec()));
        pair.run();
    }
    let sent = |event: &CalleeEvent| matches!(event, CalleeEvent::Sent(call, _) if *call == arrival.call);
    assert!(pair.events.iter().any(sent));
    let extra = Some(Box::new(Extra { streamed: true, ..Extra::default() }));
    let (receipt, deadline) = (Receipt::default(), Deadline::NEVER);
    pair.callee.answer(Answer { call: arrival.call, result: Ok(Vec::new()), receipt, deadline, extra });
    pair.run();
    let expected = [&framed(b"one")[..], &framed(b"two"), b"\x80\0\0\0\x10grpc-status: 0\r\n"].concat();
    assert_eq!(told(&mut pair, &mut response, "content-type").2, expected);
}

#[test]
fn of_a_request_that_stalls_or_is_taken_back_nothing_is_left() {
    let mut pair = usual();
    let request = Request::post("http://here/a.A/One").header("content-type", "application/json").body(()).unwrap();
    let (mut response, mut stream) = pair.requests.send_request(request, false).unwrap();
    stream.send_data(Bytes::from_static(b"{"), false).unwrap();
    pair.run();
    pair.now = pair.callee.next_timeout();
    assert_eq!(pair.callee.on_timeout(pair.now, &mut |_| {}), None);
    pair.run();
    assert_eq!(told(&mut pair, &mut response, "content-type").0, 504);
    let mut response = post(&mut pair, "json", b"{}");
    let arrival = pair.arrived().unwrap();
    assert!(poll(&mut response).is_pending());
    drop(response);
    pair.run();
    pair.answer(&arrival, Ok(Vec::new()));
    assert_eq!(pair.callee.unanswered(), 0);
    pair.callee.check(0);
}

#[test]
fn without_settings_there_is_grpc_alone() {
    let mut pair = Pair::new(Limits::new());
    let mut response = post(&mut pair, "json", b"{}");
    assert_eq!(told(&mut pair, &mut response, "content-type").0, 415);
}
