//! A calling end and a server's connection, with memory between them.

use super::*;
use greenwave_http2::{Event, Header, Reason as ResetReason};
use greenwave_policy::Budget;
use greenwave_proto::Method;
use greenwave_proto::connection::Terms;
use proptest::prelude::*;
use std::convert::Infallible;

const ONE: Method = Method::named("a.A/One");

/// What is sent, of which so much has room.
struct Wire(Vec<u8>, usize);

impl PlainTransport for Wire {
    type Error = Infallible;

    fn room(&self) -> usize {
        self.1 - self.0.len()
    }

    fn post(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        assert!(bytes.len() <= self.room());
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

struct Pair {
    caller: GrpcCaller,
    server: Connection,
    now: Time,
    /// How many bytes are handed on at once.
    step: usize,
    room: usize,
    /// What the server has of each request.
    requests: Vec<(Stream, Vec<u8>)>,
    headers: Vec<String>,
    done: Vec<Finished>,
    streamed: Vec<StreamEvent>,
}

impl Pair {
    fn new(settings: Settings) -> Self {
        Self::with(settings, GrpcClientSettings::new())
    }

    fn with(server: Settings, settings: GrpcClientSettings) -> Self {
        let names = Arc::<MethodNames>::default();
        names.learn(ONE);
        let limits = Limits::new().message_bytes(1 << 20);
        let now = Time::from_nanos(1);
        let setup = GrpcSetup { limits, settings, authority: "here".to_owned(), secure: false, names };
        let (caller, server) = (GrpcCaller::new(&setup, now), Connection::new(Role::Server, server));
        let (requests, headers, done, streamed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { caller, server, now, step: usize::MAX, room: 64 << 10, requests, headers, done, streamed }
    }

    fn call(&mut self, token: usize, body: Vec<u8>) {
        self.call_with(token, Terms::born(self.now, Budget::UNLIMITED), body);
    }

    fn call_with(&mut self, token: usize, terms: Terms, body: Vec<u8>) {
        let request = Request { token, terms, method: ONE.id(), started: self.now };
        let done = &mut self.done;
        self.caller.take_on(self.now, request, body, &mut |event| {
            if let CallerEvent::Finished(finished) = event {
                done.push(finished);
            }
        });
    }

    /// Lets both sides work until neither has anything to say.
    fn run(&mut self) {
        loop {
            let Self { caller, done, streamed, now, .. } = self;
            let mut sink = |event| match event {
                CallerEvent::Finished(finished) => done.push(finished),
                CallerEvent::Streamed(event) => streamed.push(event),
            };
            let mut wire = Wire(Vec::new(), self.room);
            caller.transmit(*now, &mut wire, &mut Vec::with_capacity, &mut sink).unwrap();
            let said = wire.0;
            for piece in said.chunks(self.step.min(said.len().max(1))) {
                let mut rest = piece;
                while let Some(event) = self.server.read(&mut rest).unwrap() {
                    match event {
                        Event::Headers { stream, fields, .. } => {
                            let line = |field: greenwave_http2::Field<'_>| {
                                let [name, value] = [field.name, field.value].map(String::from_utf8_lossy);
                                format!("{name}={value}")
                            };
                            self.headers.extend(fields.iter().map(line));
                            self.requests.push((stream, Vec::new()));
                        }
                        Event::Data { stream, bytes, .. } => {
                            let len = bytes.len();
                            if let Some((_, body)) = self.requests.iter_mut().find(|(found, _)| *found == stream) {
                                body.extend_from_slice(bytes);
                            }
                            self.server.consumed(stream, len);
                            self.server.release(len);
                        }
                        Event::Reset { stream, .. } => self.requests.retain(|(found, _)| *found != stream),
                        _ => {}
                    }
                }
            }
            let heard = self.server.output(self.room).to_vec();
            self.server.sent(heard.len());
            if said.is_empty() && heard.is_empty() {
                caller.check();
                return;
            }
            for piece in heard.chunks(self.step.min(heard.len().max(1))) {
                caller.receive(*now, piece, &mut Vec::with_capacity, &mut sink);
            }
        }
    }

    /// Answers a request with what it has.
    fn echo(&mut self, at: usize) {
        let (stream, body) = self.requests.remove(at);
        let headers = [Header::Plain(b":status", b"200"), Header::Plain(b"content-type", b"application/grpc")];
        self.server.respond(stream, &headers, false);
        self.server.send(stream, &[], body, false);
        self.server.end(stream, &[Header::Plain(b"grpc-status", b"0")]);
    }

    fn timeout(&mut self) -> Result<(), Over> {
        let Self { caller, done, now, .. } = self;
        caller.on_timeout(*now, &mut |event| {
            if let CallerEvent::Finished(finished) = event {
                done.push(finished);
            }
        })
    }
}

fn failure(finished: Finished) -> Status {
    finished.outcome.result.unwrap_err()
}

#[test]
fn an_answer_that_is_a_failure_has_the_code_that_grpc_says_it_has() {
    let grpc = ("content-type", "application/grpc");
    for (headers, code) in [
        (&[(":status", "200"), grpc, ("grpc-status", "5")][..], Code::NotFound),
        (&[(":status", "503"), ("content-type", "text/html")], Code::Unavailable),
        (&[(":status", "404")], Code::Unimplemented),
        (&[(":status", "401")], Code::Unauthenticated),
        (&[(":status", "500")], Code::Unknown),
        (&[(":status", "503"), ("grpc-status", "8")], Code::ResourceExhausted),
        (&[(":status", "200"), ("content-type", "text/html")], Code::Unknown),
        (&[(":status", "200"), grpc, ("grpc-status", "99")], Code::Unknown),
        (&[(":status", "200"), grpc], Code::Unknown),
        // It succeeds, and says nothing.
        (&[(":status", "200"), grpc, ("grpc-status", "0")], Code::Internal),
    ] {
        let mut pair = Pair::new(Settings::new());
        pair.call(1, b"question".to_vec());
        pair.run();
        let (stream, _) = pair.requests.remove(0);
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| Header::Plain(name.as_bytes(), value.as_bytes())).collect();
        pair.server.respond(stream, &headers, true);
        pair.run();
        let status = failure(pair.done.remove(0));
        assert_eq!(status.code, code, "{status}");
        assert!(!status.never_ran() && pair.caller.unfinished() == 0);
    }
}

#[test]
fn what_is_left_is_told_when_the_headers_are_written_and_not_before() {
    let mut pair = Pair::new(Settings::new().streams(1));
    pair.call_with(1, Terms::born(pair.now, Budget::UNLIMITED), Vec::new());
    pair.run();
    pair.call_with(2, Terms::born(pair.now, Budget::expected(Duration::from_secs(5))), Vec::new());
    pair.now = pair.now + Duration::from_secs(2);
    pair.run();
    pair.now = pair.now + Duration::from_secs(2);
    pair.echo(0);
    pair.run();
    let told: Vec<_> = pair.headers.iter().filter_map(|line| line.strip_prefix("grpc-timeout=")).collect();
    let [told] = told[..] else { panic!("{told:?}") };
    let micros: u64 = told.strip_suffix('u').unwrap().parse().unwrap();
    assert!((900_000..=1_000_000).contains(&micros), "{told}");
    pair.now = pair.now + Duration::from_secs(2);
    pair.timeout().unwrap();
    assert_eq!(failure(pair.done.pop().unwrap()).code, Code::DeadlineExceeded);
    pair.run();
    assert!(pair.requests.is_empty(), "the server was told");
}

#[test]
fn a_server_that_goes_away_finishes_what_it_has_and_the_rest_can_be_made_elsewhere() {
    let mut pair = Pair::new(Settings::new().streams(3));
    (1..=5).for_each(|token| pair.call(token, vec![7; 100 * token]));
    pair.run();
    assert_eq!(pair.requests.len(), 3);
    // It has looked at the first alone.
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let (now, done) = (pair.now, &mut pair.done);
    pair.caller.receive(now, &goaway, &mut Vec::with_capacity, &mut |event| {
        if let CallerEvent::Finished(finished) = event {
            done.push(finished);
        }
    });
    assert!(pair.caller.going().is_some() && pair.done.is_empty());
    let mut unsent = pair.caller.take_unsent();
    unsent.sort_by_key(|call| call.request.token);
    let left: Vec<_> = unsent.iter().map(|call| (call.request.token, call.body.len())).collect();
    assert_eq!(left, [(2, 200), (3, 300), (4, 400), (5, 500)]);
    pair.requests.truncate(1);
    pair.echo(0);
    pair.run();
    assert!(pair.done.pop().unwrap().outcome.result.is_ok() && pair.caller.unfinished() == 0);
}

#[test]
fn a_stream_that_is_refused_never_ran_and_one_that_is_reset_may_have() {
    for (reason, code, never_ran) in [
        (ResetReason::REFUSED_STREAM, Code::Unavailable, true),
        (ResetReason::CANCEL, Code::Cancelled, false),
        (ResetReason::ENHANCE_YOUR_CALM, Code::ResourceExhausted, false),
        (ResetReason::INTERNAL_ERROR, Code::Internal, false),
    ] {
        let mut pair = Pair::new(Settings::new());
        pair.call(1, Vec::new());
        pair.run();
        pair.server.reset(pair.requests[0].0, reason);
        pair.run();
        let status = failure(pair.done.remove(0));
        assert_eq!((status.code, status.never_ran()), (code, never_ran), "{reason}");
    }
}

#[test]
fn a_server_that_gives_up_at_the_time_that_it_was_told_of_is_late_and_before_that_it_cancels() {
    let (left, long) = (Duration::from_secs(10), Duration::from_secs(300));
    for (left, reset_at, code) in [
        (left, left / 2, Code::Cancelled),
        (left, left - Duration::from_millis(1), Code::Cancelled),
        // The deadline hasn't passed here, but what was written was rounded down.
        (left, left - Duration::from_micros(1), Code::DeadlineExceeded),
        (left, left + left, Code::DeadlineExceeded),
        (long, long - Duration::from_millis(10), Code::Cancelled),
        // Eight digits suffice for milliseconds.
        (long, long - Duration::from_millis(1), Code::DeadlineExceeded),
    ] {
        let mut pair = Pair::new(Settings::new());
        let now = pair.now;
        // Nobody here gives up at the deadline.
        let terms = greenwave_proto::Context::born(now, Budget::expected(left), false).into();
        pair.call_with(1, terms, Vec::new());
        pair.run();
        pair.now = now + reset_at;
        pair.server.reset(pair.requests[0].0, ResetReason::CANCEL);
        pair.run();
        assert_eq!(failure(pair.done.remove(0)).code, code, "{reset_at:?}");
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let mut silent = Pair::new(Settings::new());
    silent.call(1, Vec::new());
    silent.now = silent.now + Duration::from_secs(5);
    assert!(matches!(silent.timeout(), Err(Over::Handshake(_))));
    let after = Duration::from_secs(60);
    let mut pair = Pair::with(Settings::new(), GrpcClientSettings::new().keepalive(after, Duration::from_secs(10)));
    pair.call(1, Vec::new());
    pair.run();
    pair.now = pair.now + after;
    pair.timeout().unwrap();
    pair.run();
    pair.now = pair.now + Duration::from_secs(10);
    pair.timeout().unwrap();
    assert!(pair.done.is_empty(), "it was answered");
    pair.now = pair.now + after;
    pair.timeout().unwrap();
    pair.now = pair.now + Duration::from_secs(10);
    assert!(matches!(pair.timeout(), Err(Over::Stalled(_))));
}

#[test]
fn an_answer_of_which_nothing_more_comes_is_given_up_alone() {
    let mut pair = Pair::new(Settings::new());
    (1..=2).for_each(|token| pair.call(token, vec![7; 10]));
    pair.run();
    let (stream, _) = pair.requests.remove(0);
    let headers = [Header::Plain(b":status", b"200"), Header::Plain(b"content-type", b"application/grpc")];
    pair.server.respond(stream, &headers, false);
    pair.server.send(stream, &[0, 0, 0, 0, 9], vec![7; 3], false);
    pair.run();
    pair.now = pair.now + Duration::from_secs(30);
    pair.timeout().unwrap();
    assert_eq!(failure(pair.done.remove(0)).code, Code::Unavailable);
    pair.run();
    pair.echo(0);
    pair.run();
    assert!(pair.done.remove(0).outcome.result.is_ok());
}

proptest! {
    /// Whatever is cut where, and however little room there is.
    #[test]
    fn answers_are_what_was_asked_however_the_bytes_are_cut(
        lens in prop::collection::vec(0_usize..100_000, 1..6),
        step in 1_usize..40_000,
        room in 1_usize..70_000,
    ) {
        let mut pair = Pair::new(Settings::new().window(65_535).connection_window(65_535));
        (pair.step, pair.room) = (step.max(room / 50), room.max(2000));
        for (token, len) in lens.iter().enumerate() {
            pair.call(token, vec![token as u8; *len]);
        }
        pair.run();
        while !pair.requests.is_empty() {
            pair.echo(0);
        }
        pair.run();
        prop_assert_eq!(pair.done.len(), lens.len());
        for Finished { token, outcome } in pair.done {
            prop_assert!(outcome.result.unwrap()[..] == vec![token as u8; lens[token]]);
        }
    }

    #[test]
    fn whatever_a_server_sends_every_call_ends_once(steps in prop::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzzing::caller(&steps);
    }
}
