//! A client of this crate and a server of `h2`, with memory between them.

mod memory;

use bytes::Bytes;
use greenwave_http2::{Connection, Event, Header, Name, OpenError, Reason, Role, Settings, Stream};
use h2::server::{self, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use memory::{Memory, context, poll};
use std::collections::HashMap;
use std::pin::pin;
use std::task::Poll;

/// A request at the server.
struct Asked {
    request: Request<()>,
    body: RecvStream,
    received: Vec<u8>,
    has_ended: bool,
    respond: SendResponse<Bytes>,
}

struct Pair {
    client: Connection,
    memory: Memory,
    server: server::Connection<Memory, Bytes>,
    input: Vec<u8>,
    step: usize,
    asked: Vec<Asked>,
    answers: HashMap<Stream, Answer>,
    leaves: Vec<(u32, Reason)>,
}

/// What came of a stream at the client.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    trailers: Vec<(String, String)>,
    has_ended: bool,
    reset: Option<Reason>,
}

impl Pair {
    fn new(settings: Settings, server: &mut server::Builder) -> Self {
        let memory = Memory::default();
        let mut client = Connection::new(Role::Client, settings);
        memory.feed(client.output(usize::MAX));
        let len = client.output(usize::MAX).len();
        client.sent(len);
        let mut handshake = pin!(server.handshake(memory.clone()));
        let Poll::Ready(Ok(server)) = poll(&mut handshake) else { panic!("the client has begun") };
        let (asked, answers) = (Vec::new(), HashMap::new());
        let (input, leaves) = (Vec::new(), Vec::new());
        let mut pair = Self { client, memory, server, input, step: usize::MAX, asked, answers, leaves };
        pair.run();
        pair
    }

    fn run(&mut self) {
        loop {
            while let Poll::Ready(Some(Ok((request, respond)))) = self.server.poll_accept(&mut context()) {
                let (request, body) = request.into_parts();
                let request = Request::from_parts(request, ());
                self.asked.push(Asked { request, body, received: Vec::new(), has_ended: false, respond });
            }
            for asked in &mut self.asked {
                while let Poll::Ready(bytes) = asked.body.poll_data(&mut context()) {
                    let Some(Ok(bytes)) = bytes else {
                        asked.has_ended = bytes.is_none();
                        break;
                    };
                    asked.body.flow_control().release_capacity(bytes.len()).unwrap();
                    asked.received.extend_from_slice(&bytes);
                }
            }
            let _ = self.server.poll_accept(&mut context()).is_ready();
            let said = self.memory.take();
            for piece in said.chunks(self.step.min(said.len().max(1))) {
                self.receive(piece);
            }
            let output = self.client.output(50_000).to_vec();
            self.client.sent(output.len());
            if said.is_empty() && output.is_empty() {
                return;
            }
            self.memory.feed(&output);
        }
    }

    fn receive(&mut self, piece: &[u8]) {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(piece);
        let mut rest = &input[..];
        while let Ok(Some(event)) = self.client.read(&mut rest) {
            match event {
                Event::Headers { stream, fields, end } => {
                    let answer = self.answers.get_mut(&stream).unwrap();
                    (answer.status, answer.has_ended) = (fields.status(), end);
                    assert_eq!(fields.value(Name::CONTENT_TYPE), Some(&b"text/plain"[..]));
                }
                Event::Data { stream, bytes, end } => {
                    let (answer, len) = (self.answers.get_mut(&stream).unwrap(), bytes.len());
                    answer.body.extend_from_slice(bytes);
                    answer.has_ended = end;
                    self.client.consumed(stream, len);
                    self.client.release(len);
                }
                Event::Trailers { stream, fields } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let answer = self.answers.get_mut(&stream).unwrap();
                    answer.trailers = fields.iter().map(|field| (text(field.name), text(field.value))).collect();
                    answer.has_ended = true;
                }
                Event::Reset { stream, reason, .. } => {
                    self.answers.get_mut(&stream).unwrap().reset = Some(reason);
                }
                Event::GoAway { last, reason, .. } => self.leaves.push((last, reason)),
                _ => {}
            }
        }
        self.input = rest.to_vec();
    }

    fn open(&mut self, path: &str, end: bool) -> Result<Stream, OpenError> {
        let headers = [
            Header::Plain(b":method", b"POST"),
            Header::Plain(b":scheme", b"http"),
            Header::Plain(b":path", path.as_bytes()),
            Header::Plain(b":authority", b"here"),
            Header::Sensitive(b"x-secret", b"7"),
        ];
        let stream = self.client.open(&headers, end)?;
        self.answers.insert(stream, Answer::default());
        Ok(stream)
    }

    /// The request that came in with this path.
    fn asked(&mut self, path: &str) -> Asked {
        let at = self.asked.iter().position(|asked| asked.request.uri().path() == path).unwrap();
        self.asked.swap_remove(at)
    }

    fn respond(&mut self, mut asked: Asked) -> SendStream<Bytes> {
        let response = Response::builder().header("content-type", "text/plain").body(()).unwrap();
        asked.respond.send_response(response, false).unwrap()
    }
}

fn some(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Bodies both ways through windows much smaller, however they are cut.
#[test]
fn requests_of_any_length_go_out_and_answers_come_in() {
    for (window, step) in [(10, usize::MAX), (70_000, 1), (70_000, usize::MAX), (1 << 20, 1000)] {
        let mut server = server::Builder::new();
        server.initial_window_size(window);
        let mut pair = Pair::new(Settings::new().window(65_535).connection_window(65_535), &mut server);
        pair.step = step;
        let lens = [0, 1, 5000, 20_000];
        let streams = lens.map(|len| {
            let stream = pair.open(&format!("/{len}"), false).unwrap();
            pair.client.send(stream, b"--", some(len), len % 2 == 0);
            if len % 2 == 1 {
                pair.client.end(stream, &[Header::Plain(b"x-sum", b"1")]);
            }
            stream
        });
        pair.run();
        for (len, stream) in lens.into_iter().zip(streams) {
            let asked = pair.asked(&format!("/{len}"));
            assert!(asked.has_ended && asked.received == [b"--", &some(len)[..]].concat());
            assert_eq!(asked.request.headers()["x-secret"], "7");
            let mut body = pair.respond(asked);
            body.send_data(some(10 * len).into(), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-last", "done".parse().unwrap());
            body.send_trailers(trailers).unwrap();
            pair.run();
            let answer = pair.answers.remove(&stream).unwrap();
            assert_eq!((answer.status, answer.body.len(), answer.has_ended), (200, 10 * len, true));
            assert_eq!(answer.trailers, [("x-last".to_owned(), "done".to_owned())]);
        }
        assert_eq!((pair.client.streams(), pair.client.unsent()), (0, 0));
    }
}

#[test]
fn a_reset_of_either_side_ends_a_stream_and_no_other() {
    let mut pair = Pair::new(Settings::new(), &mut server::Builder::new());
    let streams = ["/a", "/b", "/c"].map(|path| pair.open(path, path == "/c").unwrap());
    pair.run();
    pair.asked("/a").respond.send_reset(h2::Reason::REFUSED_STREAM);
    pair.client.reset(streams[1], Reason::CANCEL);
    pair.run();
    assert_eq!(pair.answers[&streams[0]].reset, Some(Reason::REFUSED_STREAM));
    let mut second = pair.asked("/b");
    assert!(matches!(second.respond.poll_reset(&mut context()), Poll::Ready(Ok(h2::Reason::CANCEL))));
    let asked = pair.asked("/c");
    pair.respond(asked).send_data(Bytes::from_static(b"fine"), true).unwrap();
    pair.run();
    assert_eq!(pair.answers[&streams[2]].body, b"fine");
}

#[test]
fn no_more_streams_are_opened_than_the_server_takes() {
    let mut server = server::Builder::new();
    server.max_concurrent_streams(2);
    let mut pair = Pair::new(Settings::new(), &mut server);
    assert_eq!(pair.client.peer_streams(), 2);
    for path in ["/a", "/b"] {
        pair.open(path, true).unwrap();
    }
    assert_eq!(pair.open("/c", true), Err(OpenError::Full));
    pair.run();
    let asked = pair.asked("/a");
    pair.respond(asked).send_data(Bytes::new(), true).unwrap();
    pair.run();
    assert!(pair.client.can_open() && pair.open("/c", true).is_ok());
}

#[test]
fn a_server_that_leaves_is_asked_no_more() {
    let mut pair = Pair::new(Settings::new(), &mut server::Builder::new());
    let stream = pair.open("/a", true).unwrap();
    pair.run();
    pair.server.graceful_shutdown();
    pair.run();
    assert_eq!(pair.leaves[0], (i32::MAX as u32, Reason::NO_ERROR));
    assert_eq!(pair.open("/b", true), Err(OpenError::Closed));
    let asked = pair.asked("/a");
    pair.respond(asked).send_data(Bytes::from_static(b"last"), true).unwrap();
    pair.run();
    assert_eq!((&*pair.answers[&stream].body, pair.answers[&stream].reset), (&b"last"[..], None));
}

/// A stream that the server has not taken in may be tried elsewhere.
#[test]
fn streams_that_a_leaving_server_has_not_taken_in_are_told() {
    let mut client = Connection::new(Role::Client, Settings::new());
    let headers =
        [Header::Plain(b":method", b"GET"), Header::Plain(b":scheme", b"http"), Header::Plain(b":path", b"/")];
    let streams = [(); 3].map(|()| client.open(&headers, true).unwrap());
    // SETTINGS, and GOAWAY after the first.
    let said = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
    let mut rest = &said[..];
    let mut told = Vec::new();
    while let Some(event) = client.read(&mut rest).unwrap() {
        if let Event::Reset { stream, reason, by_peer: true } = event {
            assert_eq!(reason, Reason::REFUSED_STREAM);
            told.push(stream);
        }
    }
    assert_eq!(told, [streams[2], streams[1]]);
    assert_eq!(client.streams(), 1);
}

#[test]
fn a_ping_is_answered() {
    let mut pair = Pair::new(Settings::new(), &mut server::Builder::new());
    assert!(pair.client.ping(*b"are you?") && !pair.client.ping(*b"and now?"));
    pair.run();
    assert!(pair.client.ping(*b"and now?"), "the one before is answered");
}
