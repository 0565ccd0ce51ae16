//! Channels to servers of gRPC: tonic's, which know nothing of Greenwave, and our own.

mod as_is;
mod block_on;
mod tonic_server;

use block_on::block_on;
use greenwave_rpc::*;
use greenwave_verbs::{Address, Choice};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tonic_server::Tonic;

const MINUTE: Duration = Duration::from_secs(60);
const BACKENDS: [Choice; 2] = [Choice::Epoll, Choice::Auto];
const ECHO: Method = Method::named("test.Echo/Echo");
const NEVER: Method = Method::named("test.Echo/Never");
const SAID: Method = Method::named("test.Echo/Said");
const FAIL: Method = Method::named("test.Echo/Fail");
const COUNT: Method = Method::named("test.Echo/Count");
const MANY: Method = Method::named("test.Echo/Many");

fn address(tonic: &Tonic) -> Address {
    Address::Grpc(tonic.socket)
}

fn channel(tonic: &Tonic, backend: Choice) -> Channel {
    Channel::new(address(tonic), ChannelConfig::default().backend(backend)).unwrap()
}

fn minute() -> Context {
    Context::with_deadline(MINUTE)
}

#[test]
fn calls_of_all_lengths_come_back_in_every_way_to_call() {
    let tonic = Tonic::start(|server| server);
    for backend in BACKENDS {
        let direct = channel(&tonic, backend.clone());
        let plain = ChannelConfig::default().backend(backend.clone());
        let mode = Mode::Dispatched { delivery: Delivery::Notify };
        let config = plain.clone().mode(mode);
        let dispatched = Channel::new(address(&tonic), config).unwrap();
        let mut queue = CallQueue::connect(&address(&tonic), &plain).unwrap();
        let mut stream = direct.stream().unwrap();
        for (tag, len) in (0..).zip([0, 1, 64, 1000, 20_000, 300_000, 5_000_000]) {
            let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            for channel in [&direct, &dispatched] {
                let reply = channel.call(&minute(), ECHO, &body).unwrap();
                assert!(reply.body[..] == body, "{len} bytes");
                let reply = block_on(channel.call_async(&minute(), ECHO, &body)).unwrap();
                assert!(reply.body[..] == body, "{len} bytes");
            }
            queue.submit_within(MINUTE, ECHO, &body, tag);
            stream.submit(&minute(), ECHO, &body, tag);
            for done in [queue.take().unwrap(), stream.take().unwrap()] {
                assert!(done.tag == tag && done.result.unwrap().body[..] == body, "{len} bytes");
            }
        }
    }
}

#[test]
fn a_handler_calls_a_server_of_grpc_and_waits_as_for_any_other() {
    let tonic = Tonic::start(|server| server);
    let behind = channel(&tonic, Choice::Auto);
    let router = Router::new().method("test.Front/Ask", move |context, request, reply| {
        reply.extend_from_slice(&behind.call(context, ECHO, request)?.body);
        Ok(())
    });
    let listen = ["tcp://127.0.0.1:0".parse().unwrap()];
    let server = Server::start(ServerConfig::default().listen(listen), router).unwrap();
    let front = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    for number in 0..20_u8 {
        let reply = front.call(&minute(), MethodId::of("test.Front/Ask"), &[number; 100]).unwrap();
        assert_eq!(reply.body[..], [number; 100]);
    }
}

#[test]
fn what_is_left_of_the_time_goes_along_and_so_do_metadata() {
    let tonic = Tonic::start(|server| server);
    let channel = channel(&tonic, Choice::Auto);
    let context = Context::with_deadline(Duration::from_secs(5)).with_metadata("key", "value").unwrap();
    let context = context.with_metadata("te", "left out").unwrap();
    let said = channel.call(&context, SAID, b"").unwrap();
    let said = String::from_utf8(said.body.into_vec()).unwrap();
    let find =
        |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
    assert_eq!((find("key"), find("te")), ("value", "trailers"));
    assert!(find("user-agent").starts_with("grpc-rust-greenwave/"), "{said}");
    let micros: u64 = find("grpc-timeout").strip_suffix('u').unwrap().parse().unwrap();
    assert!((1..5_000_000).contains(&micros), "{said}");
    let said = channel.call(&Context::unlimited(), SAID, b"").unwrap();
    assert!(!said.body.windows(12).any(|part| part == b"grpc-timeout"));
    let refused = channel.call(&minute().with_metadata("key", "\n").unwrap(), SAID, b"").unwrap_err();
    assert_eq!(refused.reason, Reason::Metadata);
}

#[test]
fn a_failure_comes_with_its_code_and_its_text() {
    let tonic = Tonic::start(|server| server);
    let channel = channel(&tonic, Choice::Auto);
    let failed = channel.call(&minute(), FAIL, b"").unwrap_err();
    assert_eq!((failed.code, &*failed.message), (Code::NotFound, "nobody is called \"7\": 100 %\nünknown"));
    assert!(!failed.never_ran());
    let unknown = channel.call(&minute(), Method::named("test.Nobody/Call"), b"").unwrap_err();
    assert_eq!(unknown.code, Code::Unimplemented);
    let nameless = channel.call(&minute(), MethodId::of("test.Echo/Other"), b"").unwrap_err();
    assert!(nameless.code == Code::InvalidArgument && nameless.message.contains("Method::named"), "{nameless}");
    // The name of one that was called is known.
    channel.call(&minute(), ECHO, b"").unwrap();
    channel.call(&minute(), ECHO.id(), b"").unwrap();
}

#[test]
fn messages_go_both_ways_at_once_however_small_the_windows_are() {
    let tonic = Tonic::start(|server| server.initial_stream_window_size(65_535).initial_connection_window_size(65_535));
    for backend in BACKENDS {
        let config = ChannelConfig::default().backend(backend).grpc(GrpcClientSettings::new().window(65_535));
        let channel = Channel::new(address(&tonic), config).unwrap();
        let context = minute();
        let (mut requests, mut replies) = channel.open(&context, ECHO).unwrap();
        let lens = [0, 1, 100_000, 5, 3_000_000, 70_000];
        for (first, len) in (1..).zip(lens) {
            requests.send(&context, vec![first; len]).unwrap();
            assert!(replies.next(&context).unwrap() == Some(vec![first; len]), "{len} bytes");
        }
        let leading = replies.leading();
        assert_eq!(leading.find("leading"), Some(&b"first"[..]));
        requests.end();
        assert_eq!(replies.next(&context).unwrap(), None);
        let count = channel.open(&context, COUNT).unwrap();
        let (mut requests, replies) = count;
        (0..200).for_each(|number| requests.send(&context, vec![number; 10_000]).unwrap());
        requests.end();
        let sum = replies.only(&context).unwrap();
        assert_eq!(sum, [200_u32.to_le_bytes(), 2_000_000_u32.to_le_bytes()].concat());
    }
}

#[test]
fn an_answer_that_is_not_taken_holds_up_its_own_stream_alone() {
    let tonic = Tonic::start(|server| server);
    let channel = channel(&tonic, Choice::Auto);
    let context = minute();
    let (mut requests, mut replies) = channel.open(&context, MANY).unwrap();
    let many = [1000_u32.to_le_bytes(), 20_000_u32.to_le_bytes()].concat();
    requests.send(&context, many).unwrap();
    requests.end();
    let first = replies.next(&context).unwrap().unwrap();
    for _ in 0..50 {
        assert_eq!(channel.call(&context, ECHO, &first).unwrap().body[..], first);
    }
    let mut count = 1;
    let failed = loop {
        match replies.next(&context) {
            Ok(Some(message)) => {
                assert!(message == first);
                count += 1;
            }
            Ok(None) => panic!("it ends with a failure"),
            Err(failed) => break failed,
        }
    };
    assert_eq!((count, failed.code, &*failed.message), (1000, Code::DataLoss, "that is all"));
}

#[test]
fn a_call_ends_at_its_deadline_and_when_it_is_taken_back_and_the_server_hears_of_it() {
    let tonic = Tonic::start(|server| server);
    let channel = channel(&tonic, Choice::Auto);
    channel.call(&minute(), ECHO, b"").unwrap();
    let late = channel.call(&Context::with_deadline(Duration::from_millis(30)), NEVER, b"").unwrap_err();
    assert_eq!(late.code, Code::DeadlineExceeded);
    drop(channel.call_async(&minute(), NEVER, b""));
    let cancelled = minute();
    let call = channel.call_async(&cancelled, NEVER, b"");
    while tonic.seen.begun.load(SeqCst) < 3 {
        std::thread::yield_now();
    }
    cancelled.cancel();
    assert_eq!(block_on(call).unwrap_err().code, Code::Cancelled);
    let (requests, replies) = channel.open(&minute(), NEVER).unwrap();
    while tonic.seen.begun.load(SeqCst) < 4 {
        std::thread::yield_now();
    }
    drop((requests, replies));
    // One may have been taken back before it was sent.
    while tonic.seen.dropped.load(SeqCst) < tonic.seen.begun.load(SeqCst) - 1 {
        std::thread::yield_now();
    }
    channel.call(&minute(), ECHO, b"still there").unwrap();
}

#[test]
fn calls_beyond_what_the_server_takes_at_once_wait_and_their_time_runs() {
    let tonic = Tonic::start(|server| server.max_concurrent_streams(3));
    let channel = channel(&tonic, Choice::Auto);
    let calls: Vec<_> = (0..50_u8).map(|number| channel.call_async(&minute(), ECHO, &[number])).collect();
    for (number, call) in (0..).zip(calls) {
        assert_eq!(block_on(call).unwrap().body[..], [number]);
    }
    assert!(tonic.seen.most.load(SeqCst) <= 3);
    let held: Vec<_> = (0..3).map(|_| channel.call_async(&minute(), NEVER, b"")).collect();
    while tonic.seen.begun.load(SeqCst) < 53 {
        std::thread::yield_now();
    }
    let waits = channel.call(&Context::with_deadline(Duration::from_millis(20)), ECHO, b"").unwrap_err();
    assert!(waits.reason == Reason::Expired(Check::Send) && waits.never_ran(), "{waits}");
    drop(held);
    channel.call(&minute(), ECHO, b"").unwrap();
}

#[test]
fn a_server_that_goes_away_answers_what_it_has_and_another_takes_what_comes_then() {
    for backend in BACKENDS {
        let mut tonic = Tonic::start(|server| server);
        let channel = channel(&tonic, backend);
        let context = minute();
        let (mut requests, mut replies) = channel.open(&context, ECHO).unwrap();
        requests.send(&context, vec![1]).unwrap();
        assert_eq!(replies.next(&context).unwrap(), Some(vec![1]));
        tonic.go_away();
        // The stream goes on until it ends, on the connection that takes nothing else any more.
        for number in 2..20 {
            requests.send(&context, vec![number]).unwrap();
            assert_eq!(replies.next(&context).unwrap(), Some(vec![number]));
        }
        let socket = tonic.socket;
        requests.end();
        assert_eq!(replies.next(&context).unwrap(), None);
        drop(tonic);
        let _again = Tonic::start_at(socket, |server| server);
        loop {
            match channel.call(&context, ECHO, b"again") {
                Ok(reply) => break assert_eq!(&reply.body[..], b"again"),
                Err(status) => assert_eq!(status.code, Code::Unavailable, "{status}"),
            }
        }
    }
}

#[test]
fn our_own_server_tells_where_the_time_went_by_grpc_too() {
    let router = Router::new().method("test.Echo/Echo", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    for backend in BACKENDS {
        let listen = ["tcp://127.0.0.1:0".parse().unwrap()];
        let config = ServerConfig::default().backend(backend.clone()).listen(listen);
        let server = Server::start(config, router.clone()).unwrap();
        let Address::Tcp(socket) = server.addresses()[0] else { panic!("it listens at a socket") };
        let config = ChannelConfig::default().backend(backend);
        let channel = Channel::new(Address::Grpc(socket), config).unwrap();
        for len in [0, 10, 100_000, 2_000_000] {
            let reply = channel.call(&minute(), ECHO, &vec![7; len]).unwrap();
            assert_eq!(reply.body.len(), len);
            assert!(reply.receipt.total > Duration::ZERO && reply.receipt.total <= reply.total, "{reply:?}");
        }
        let calls: Vec<_> = (0..100_u8).map(|number| channel.call_async(&minute(), ECHO, &[number])).collect();
        for (number, call) in (0..).zip(calls) {
            assert_eq!(block_on(call).unwrap().body[..], [number]);
        }
        server.drain(Duration::from_secs(5));
        let gone = channel.call(&minute(), ECHO, b"").unwrap_err();
        assert_eq!(gone.code, Code::Unavailable, "{gone}");
    }
}

#[test]
fn what_is_no_server_of_grpc_is_told_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        use std::io::Write as _;
        listener.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let channel = Channel::new(Address::Grpc(socket), ChannelConfig::default()).unwrap();
    let failed = channel.call(&minute(), ECHO, b"").unwrap_err();
    assert!(failed.code == Code::Unavailable && failed.never_ran(), "{failed}");
    thread.join().unwrap();
    let secured = Channel::new(Address::Grpcs(socket), ChannelConfig::default()).unwrap_err();
    assert_eq!(secured.key, "tls");
}
