//! A server of this crate and a client of `h2`, with memory between them.

mod memory;

use bytes::Bytes;
use greenwave_http2::{Connection, Event, Header, Name, Reason, Role, Sent, Settings, Stream};
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use memory::{Memory, context, poll};
use std::collections::HashMap;
use std::pin::pin;
use std::task::Poll;

struct Pair {
    server: Connection,
    memory: Memory,
    client: client::Connection<Memory, Bytes>,
    requests: SendRequest<Bytes>,
    /// How many bytes are handed on at once, in either direction.
    step: usize,
    input: Vec<u8>,
    bodies: HashMap<Stream, Vec<u8>>,
    /// Requests that are whole.
    whole: Vec<(Stream, String, Vec<u8>)>,
    resets: Vec<Reason>,
    trailers: Vec<String>,
}

impl Pair {
    fn new(settings: Settings, client: &mut client::Builder) -> Self {
        let memory = Memory::default();
        let mut handshake = pin!(client.handshake(memory.clone()));
        let Poll::Ready(Ok((requests, client))) = poll(&mut handshake) else { panic!("it needs no answer") };
        let mut pair = Self {
            server: Connection::new(Role::Server, settings),
            memory,
            client,
            requests,
            step: usize::MAX,
            input: Vec::new(),
            bodies: HashMap::new(),
            whole: Vec::new(),
            resets: Vec::new(),
            trailers: Vec::new(),
        };
        pair.run();
        pair
    }

    /// Lets both sides work until neither has anything to say.
    fn run(&mut self) {
        loop {
            let _ = poll(&mut self.client);
            let said = self.memory.take();
            for piece in said.chunks(self.step.min(said.len().max(1))) {
                self.receive(piece);
            }
            let mut heard = Vec::new();
            while self.server.has_output() {
                let room = self.step.min(100_000);
                let output = self.server.output(room);
                let len = output.len().min(room);
                heard.extend_from_slice(&output[..len]);
                self.server.sent(len);
            }
            if said.is_empty() && heard.is_empty() {
                return;
            }
            self.memory.feed(&heard);
        }
    }

    fn receive(&mut self, piece: &[u8]) {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(piece);
        let mut rest = &input[..];
        while let Some(event) = self.server.read(&mut rest).unwrap() {
            let (stream, end) = match event {
                Event::Headers { stream, fields, end } => {
                    let path = fields.value(Name::PATH).unwrap();
                    self.bodies.insert(stream, path.to_vec());
                    (stream, end)
                }
                Event::Data { stream, bytes, end } => {
                    let len = bytes.len();
                    self.bodies.get_mut(&stream).unwrap().extend_from_slice(bytes);
                    self.server.consumed(stream, len);
                    self.server.release(len);
                    (stream, end)
                }
                Event::Trailers { stream, fields } => {
                    let all = fields.iter().map(|it| [it.name, it.value].concat()).collect::<Vec<_>>().concat();
                    self.trailers.push(String::from_utf8(all).unwrap());
                    (stream, true)
                }
                Event::Reset { stream, reason, by_peer } => {
                    assert!(by_peer, "{reason}");
                    self.resets.push(reason);
                    self.bodies.remove(&stream);
                    continue;
                }
                _ => continue,
            };
            if end {
                let mut path = self.bodies.remove(&stream).unwrap();
                let body = path.split_off(2);
                self.whole.push((stream, String::from_utf8(path).unwrap(), body));
            }
        }
        self.input = rest.to_vec();
    }

    fn request(&mut self, path: &str, end: bool) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::post(format!("http://here{path}")).header("x-more", path).body(()).unwrap();
        self.requests.send_request(request, end).unwrap()
    }

    fn answer(&mut self, stream: Stream, body: Vec<u8>) {
        self.server.respond(stream, &[Header::Plain(b":status", b"200"), Header::Plain(b"x-one", b"1")], false);
        self.server.send(stream, b"<>", body, false);
        self.server.end(stream, &[Header::Plain(b"x-last", b"done")]);
    }

    fn outcome(&mut self, response: &mut ResponseFuture) -> (Vec<u8>, HeaderMap) {
        let Poll::Ready(response) = poll(response) else { panic!("there is no answer") };
        let response = response.unwrap();
        assert_eq!((response.status().as_u16(), response.headers()["x-one"].as_bytes()), (200, &b"1"[..]));
        self.rest(response.into_body())
    }

    fn rest(&mut self, mut body: RecvStream) -> (Vec<u8>, HeaderMap) {
        let mut all = Vec::new();
        for round in 0.. {
            assert!(round < 100_000, "it doesn't go on");
            match body.poll_data(&mut context()) {
                Poll::Ready(Some(bytes)) => {
                    let bytes = bytes.unwrap();
                    body.flow_control().release_capacity(bytes.len()).unwrap();
                    all.extend_from_slice(&bytes);
                }
                Poll::Ready(None) => break,
                Poll::Pending => self.run(),
            }
        }
        let Poll::Ready(Ok(trailers)) = body.poll_trailers(&mut context()) else { panic!("they are there") };
        (all, trailers.unwrap_or_default())
    }
}

fn some(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_request_comes_in_and_its_answer_goes_out_however_they_are_cut() {
    for step in [1, 7, usize::MAX] {
        let mut pair = Pair::new(Settings::new(), &mut client::Builder::new());
        pair.step = step;
        for round in 0..3 {
            let (mut response, mut stream) = pair.request("/a", false);
            stream.send_data(some(round * 100).into(), true).unwrap();
            pair.run();
            let (stream, path, body) = pair.whole.pop().unwrap();
            assert_eq!((&*path, body), ("/a", some(round * 100)));
            pair.answer(stream, some(300));
            pair.run();
            let (body, trailers) = pair.outcome(&mut response);
            assert_eq!(body, [b"<>", &some(300)[..]].concat());
            assert_eq!(trailers["x-last"], "done");
            assert_eq!(pair.server.streams(), 0);
        }
    }
}

/// Many streams at once, with bodies of all lengths both ways, through windows much smaller than these.
#[test]
fn many_streams_and_long_bodies_pass_small_windows() {
    for window in [10, 1000, 65_535, 1 << 20] {
        let settings = Settings::new().window(65_535).connection_window(65_535);
        let mut client = client::Builder::new();
        // Those that are not read yet must not keep others from theirs.
        client.initial_window_size(window).initial_connection_window_size(1 << 24).max_frame_size(20_000);
        let mut pair = Pair::new(settings, &mut client);
        let scale = if window == 10 { 100 } else { 10_000 };
        let mut responses = Vec::new();
        for index in 0..30 {
            let (response, mut stream) = pair.request("/b", false);
            stream.send_data(some(index * scale).into(), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "7".parse().unwrap());
            stream.send_trailers(trailers).unwrap();
            responses.push(response);
        }
        pair.run();
        assert_eq!((pair.whole.len(), pair.trailers.len(), &*pair.trailers[0]), (30, 30, "x-sum7"));
        for (stream, _, body) in std::mem::take(&mut pair.whole) {
            pair.answer(stream, body);
        }
        pair.run();
        for (index, response) in responses.iter_mut().enumerate() {
            let (body, trailers) = pair.outcome(response);
            assert_eq!(body, [b"<>", &some(index * scale)[..]].concat());
            assert_eq!(trailers["x-last"], "done");
        }
        assert_eq!((pair.server.streams(), pair.server.unsent()), (0, 0));
    }
}

#[test]
fn a_reset_of_either_side_ends_a_stream_and_no_other() {
    let mut pair = Pair::new(Settings::new(), &mut client::Builder::new());
    let (mut first, mut taken_back) = pair.request("/a", false);
    let (mut refused, _stream) = pair.request("/b", false);
    let (mut fine, _) = pair.request("/c", true);
    pair.run();
    taken_back.send_reset(h2::Reason::CANCEL);
    let stream = *pair.bodies.keys().find(|stream| stream.id() == 3).unwrap();
    pair.server.reset(stream, Reason(1000));
    pair.run();
    assert_eq!(pair.resets, [Reason::CANCEL]);
    assert!(matches!(poll(&mut first), Poll::Ready(Err(_))));
    let Poll::Ready(Err(error)) = poll(&mut refused) else { panic!("it was reset") };
    assert_eq!(error.reason().map(u32::from), Some(1000));
    let (stream, _, _) = pair.whole.pop().unwrap();
    pair.answer(stream, Vec::new());
    pair.run();
    assert_eq!(pair.outcome(&mut fine).0, b"<>");
}

/// An answer that doesn't wait for the whole of the request.
#[test]
fn what_is_answered_early_needs_not_be_sent_further() {
    let mut pair = Pair::new(Settings::new(), &mut client::Builder::new());
    let (mut response, mut sending) = pair.request("/a", false);
    pair.run();
    let stream = *pair.bodies.keys().next().unwrap();
    pair.answer(stream, some(10));
    pair.run();
    assert_eq!(pair.outcome(&mut response).0.len(), 12);
    assert_eq!(pair.server.streams(), 0);
    for _ in 0..2 {
        assert!(sending.poll_reset(&mut context()).is_pending() && pair.server.has_unread());
        pair.server.give_up_unread();
        pair.run();
    }
    assert!(matches!(sending.poll_reset(&mut context()), Poll::Ready(Ok(h2::Reason::NO_ERROR))));
}

#[test]
fn more_streams_than_are_accepted_are_refused_or_wait() {
    let mut pair = Pair::new(Settings::new().streams(2), &mut client::Builder::new());
    let mut responses: Vec<_> = (0..2).map(|_| pair.request("/a", true).0).collect();
    pair.run();
    for round in 0..3 {
        let (stream, _, _) = pair.whole.pop().unwrap();
        pair.answer(stream, vec![round]);
        pair.run();
        assert!(poll(&mut pair.requests.clone().ready()).is_ready() || round > 0);
        responses.push(pair.request("/a", true).0);
        pair.run();
    }
}

#[test]
fn a_server_that_drains_serves_what_was_asked() {
    let mut pair = Pair::new(Settings::new(), &mut client::Builder::new());
    let (mut response, _) = pair.request("/a", true);
    pair.run();
    pair.server.drain();
    assert!(!pair.server.is_drained());
    pair.run();
    let (stream, _, _) = pair.whole.pop().unwrap();
    pair.answer(stream, some(9));
    pair.run();
    assert_eq!(pair.outcome(&mut response).0.len(), 11);
    assert!(pair.server.is_drained());
}

/// What has left a queue is told.
#[test]
fn what_was_sent_is_told() {
    let mut client = client::Builder::new();
    client.initial_window_size(20_000);
    let mut pair = Pair::new(Settings::new(), &mut client);
    let (mut response, _) = pair.request("/a", true);
    pair.run();
    let (stream, _, _) = pair.whole.pop().unwrap();
    pair.server.report_sent(stream, true);
    pair.server.respond(stream, &[Header::Plain(b":status", b"200"), Header::Plain(b"x-one", b"1")], false);
    assert!(pair.server.send(stream, b"", some(50_000), false).is_none());
    pair.run();
    assert_eq!(pair.server.next_sent(), Some((stream, Sent { bytes: 20_000, pieces: 0 })));
    assert_eq!((pair.server.next_sent(), pair.server.queued(stream), pair.server.unsent()), (None, 30_000, 30_000));
    pair.server.send(stream, b"", Vec::new(), true);
    assert_eq!(pair.outcome(&mut response).0, some(50_000));
    assert_eq!((pair.server.next_sent(), pair.server.streams()), (None, 0), "it is over");
}

/// Of what waits, the shortest goes first.
#[test]
fn short_answers_pass_long_ones() {
    let mut client = client::Builder::new();
    client.initial_window_size(1 << 20).initial_connection_window_size(1 << 22);
    let mut pair = Pair::new(Settings::new(), &mut client);
    let mut responses: Vec<_> = (0..2).map(|_| pair.request("/a", true).0).collect();
    pair.run();
    for (index, (stream, _, _)) in std::mem::take(&mut pair.whole).into_iter().enumerate() {
        pair.answer(stream, some([500_000, 20_000][index]));
    }
    let room = 60_000;
    let output = pair.server.output(room)[..room].to_vec();
    pair.server.sent(room);
    pair.memory.feed(&output);
    let _ = poll(&mut pair.client);
    assert_eq!(pair.outcome(&mut responses[1]).0.len(), 20_002);
    assert_eq!(pair.outcome(&mut responses[0]).0.len(), 500_002);
}
