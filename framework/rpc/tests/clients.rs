//! What clients rely on when several of them share a channel, when they change their minds, and at the limits.

mod block_on;
mod echo;
mod raw;

use block_on::block_on;
use echo::{ECHO, MINUTE, NEVER, echo};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use raw::within_reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

const MODES: [Mode; 3] =
    [Mode::Direct, Mode::Dispatched { delivery: Delivery::Poll }, Mode::Dispatched { delivery: Delivery::Notify }];

fn serve() -> ServerHandle {
    start(ServerConfig::default(), echo())
}

fn start(config: ServerConfig, router: Router) -> ServerHandle {
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
    Server::start(config.listen(listen), router).unwrap()
}

fn channel(server: &ServerHandle) -> Channel {
    channel_with(server, ChannelConfig::default())
}

fn channel_with(server: &ServerHandle, config: ChannelConfig) -> Channel {
    Channel::new(server.addresses()[0].clone(), config).unwrap()
}

#[test]
fn a_future_outlives_its_channel() {
    let server = serve();
    let reply = within_reason("a future without its channel", move || {
        let future = channel(&server).call_async(&Context::with_deadline(MINUTE), ECHO, b"still wanted");
        block_on(future).unwrap()
    });
    assert_eq!(&reply.body[..], b"still wanted");
}

#[test]
fn a_waker_that_panics_harms_no_other_call() {
    struct Panicking;
    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let server = serve();
    let replies = within_reason("a channel with a waker that panics", move || {
        let channel = channel(&server);
        let context = Context::with_deadline(MINUTE);
        let mut panicking = Box::pin(channel.call_async(&context, ECHO, b""));
        let waker = Arc::new(Panicking).into();
        let _pending_or_there = panicking.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        let futures: Vec<_> = (0..20_u8).map(|call| channel.call_async(&context, ECHO, &[call])).collect();
        futures.into_iter().map(|future| block_on(future).unwrap().body[0]).collect::<Vec<u8>>()
    });
    assert_eq!(replies, (0..20).collect::<Vec<u8>>());
}

/// One thread leads with a call that takes for ever; another waits for it, and is cancelled from outside.
#[test]
fn a_call_that_waits_for_another_threads_lead_can_be_cancelled() {
    for mode in MODES {
        // One worker for each, or the one that is served would never let the other have its turn.
        let server = start(ServerConfig::default().workers(2), echo());
        let channel = channel_with(&server, ChannelConfig::default().mode(mode));
        let contexts = [Context::unlimited(), Context::unlimited()];
        let calls = contexts.clone().map(|context| {
            let channel = channel.clone();
            std::thread::spawn(move || channel.call(&context, NEVER, b"").unwrap_err())
        });
        // Both are being served, so whoever leads has sent both.
        raw::eventually("both calls are served", || server.counters().calls == 2);
        for (cancelled, (context, call)) in (1..).zip(contexts.iter().zip(calls)) {
            context.cancel();
            let status = within_reason("a cancelled call", move || call.join().unwrap());
            assert_eq!((status.code, status.reason), (Code::Cancelled, Reason::Cancelled));
            raw::eventually("the server hears of it", || server.counters().cancelled == cancelled);
        }
    }
}

#[test]
fn a_future_that_is_dropped_takes_no_other_call_with_it() {
    let server = serve();
    let channel = channel(&server);
    let (kept, dropped) = (Context::unlimited(), Context::unlimited());
    let waiting = std::thread::spawn({
        let (channel, context) = (channel.clone(), kept.clone());
        move || channel.call(&context, NEVER, b"").unwrap_err()
    });
    let future = channel.call_async(&dropped, NEVER, b"");
    raw::eventually("both calls are served", || server.counters().calls == 2);
    // The waiting call is cancelled when the other is taken back: each has to hear of its own.
    kept.cancel();
    drop(future);
    let status = within_reason("a cancelled call", move || waiting.join().unwrap());
    assert_eq!(status.reason, Reason::Cancelled);
    raw::eventually("the server hears of both", || server.counters().cancelled == 2);
}

#[test]
fn a_streams_call_can_be_cancelled() {
    let server = serve();
    let mut stream = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
    let context = Context::unlimited();
    stream.submit(&context, NEVER, b"", 7);
    raw::eventually("the server has the call", || {
        assert!(stream.take_timeout(Duration::ZERO).is_none());
        server.counters().calls == 1
    });
    context.cancel();
    let done = stream.take_timeout(MINUTE).expect("a completion");
    assert_eq!((done.tag, done.result.unwrap_err().status.reason), (7, Reason::Cancelled));
    stream.flush();
    raw::eventually("the server hears of it", || server.counters().cancelled == 1);
}

#[test]
fn a_call_without_time_left_was_never_sent() {
    let server = serve();
    let status = channel(&server).call(&Context::with_deadline(Duration::ZERO), ECHO, b"").unwrap_err();
    assert_eq!(status.reason, Reason::Expired(Check::Send));
    assert!(status.never_ran());
}

#[test]
fn a_failure_is_told_however_small_the_chunks_are() {
    let failing = Router::new().method("test.Echo/Echo", |_, _, _| Err(Status::new(Code::NotFound, "x".repeat(2000))));
    let small = Limits::default().chunk_bytes(512);
    for (server, client) in [(small, Limits::default()), (Limits::default(), small), (small, small)] {
        for checksums in [false, true] {
            let server = start(ServerConfig::default().limits(server).checksums(checksums), failing.clone());
            let channel = channel_with(&server, ChannelConfig::default().limits(client).checksums(checksums));
            let status = within_reason("a failure with a long text", move || {
                channel.call(&Context::unlimited(), ECHO, b"").unwrap_err()
            });
            assert_eq!(status.code, Code::NotFound);
            assert!(status.message.len() > 400, "as much of the text as fits");
        }
    }
}

#[test]
fn a_failure_is_told_to_a_client_that_takes_small_messages_only() {
    let failing = Router::new().method("test.Echo/Echo", |_, _, _| Err(Status::new(Code::NotFound, "no such thing")));
    let server = start(ServerConfig::default(), failing);
    let limits = Limits::default().message_bytes(4);
    let channel = channel_with(&server, ChannelConfig::default().limits(limits));
    let status = channel.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (Code::NotFound, "no s"));
}

/// The receipts of a fan-out fill whatever room the chunk has; the body must still find a place.
#[test]
fn receipts_leave_room_for_the_answer_whatever_the_size_of_the_chunks() {
    let back = start(ServerConfig::default().name("b".repeat(60)), echo());
    for chunk_bytes in 512..512 + 96 {
        let limits = Limits::default().chunk_bytes(chunk_bytes);
        let behind = channel(&back);
        let front = Router::new().method("test.Front/Ask", move |context, request, reply| {
            for _ in 0..6 {
                reply.extend_from_slice(&behind.call(context, ECHO, request)?.body);
            }
            Ok(())
        });
        let front = start(ServerConfig::default().limits(limits), front);
        let channel = channel(&front);
        let reply = within_reason("an answer with many receipts", move || {
            channel.call(&Context::unlimited(), MethodId::of("test.Front/Ask"), b"four").unwrap()
        });
        assert_eq!(reply.body.len(), 24);
        assert_eq!(reply.receipt.children.len() as u32 + reply.receipt.omitted, 6);
    }
}

#[test]
fn a_server_with_small_chunks_calls_one_with_large_ones() {
    let back = start(ServerConfig::default(), echo());
    let behind = channel(&back);
    let front = Router::new().method("test.Front/Ask", move |context, request, reply| {
        reply.extend_from_slice(&behind.call(context, ECHO, request)?.body);
        Ok(())
    });
    let limits = Limits::default().chunk_bytes(512);
    let front = start(ServerConfig::default().limits(limits), front);
    let request: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
    let reply =
        channel(&front).call(&Context::with_deadline(MINUTE), MethodId::of("test.Front/Ask"), &request).unwrap();
    assert!(reply.body[..] == request[..]);
}

/// Channels come and go; the connections that handlers had over them go too.
#[test]
fn a_handlers_channel_that_is_dropped_takes_its_connection_along() {
    let back = start(ServerConfig::default(), echo());
    let address = back.addresses()[0].clone();
    let front = Router::new().method("test.Front/Ask", move |context, _, _| {
        let behind = Channel::new(address.clone(), ChannelConfig::default()).unwrap();
        behind.call(context, ECHO, b"").map(drop)
    });
    let front = start(ServerConfig::default(), front);
    let channel = channel(&front);
    for _ in 0..50 {
        channel.call(&Context::with_deadline(MINUTE), MethodId::of("test.Front/Ask"), b"").unwrap();
    }
    assert_eq!(back.counters().accepted, 50);
    raw::eventually("connections without a channel are closed", || back.counters().connections <= 2);
}

#[test]
fn a_drained_server_with_workers_answers_what_crossed_its_farewell() {
    for round in 0..10 {
        let server = start(ServerConfig::default().workers(2), echo());
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients: Vec<_> = (0..3)
            .map(|_| {
                let (stop, answered, channel) = (Arc::clone(&stop), Arc::clone(&answered), channel(&server));
                std::thread::spawn(move || {
                    let mut refused = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        match channel.call(&Context::with_deadline(MINUTE), ECHO, b"") {
                            Ok(_) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                            Err(status) => refused.push(status),
                        }
                    }
                    refused
                })
            })
            .collect();
        raw::eventually("calls are made", || answered.load(Ordering::Relaxed) > 20 + round);
        within_reason("draining", move || server.drain(MINUTE));
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            let refused = client.join().unwrap();
            // A call is answered, or certainly never began: none is lost on the way.
            assert!(refused.iter().all(Status::never_ran), "{refused:?}");
        }
    }
}

#[test]
fn what_runs_before_calls_says_who_asks_or_refuses_whichever_way_they_are_made() {
    let router = Router::new()
        .method("test.Who/Asks", |context, _, reply| {
            context.metadata().for_each(|(name, value)| reply.extend([name.as_bytes(), b"=", value, b" "].concat()));
            Ok(())
        })
        .streaming("test.Who/Streams", |context, _, mut outgoing| {
            outgoing.send(context, context.metadata().map(|(_, value)| value.to_vec()).collect::<Vec<_>>().concat())
        });
    let server = start(ServerConfig::default(), router);
    let plain = channel(&server);
    let channel =
        plain.intercept(|context, _| Ok(context.with_metadata("inner", "1").unwrap())).intercept(|context, method| {
            match method.name() {
                Some("test.Who/Secret") => Err(Status::new(Code::PermissionDenied, "not by this channel")),
                _ => Ok(context.with_metadata("outer", "2").unwrap()),
            }
        });
    let context = Context::with_deadline(MINUTE);
    let asks = MethodId::of("test.Who/Asks");
    assert_eq!(&channel.call(&context, asks, b"").unwrap().body[..], b"outer=2 inner=1 ");
    assert_eq!(&block_on(channel.call_async(&context, asks, b"")).unwrap().body[..], b"outer=2 inner=1 ");
    let mut stream = channel.stream().unwrap();
    stream.submit(&context, asks, b"", 7);
    assert_eq!(&stream.take().unwrap().result.unwrap().body[..], b"outer=2 inner=1 ");
    let (_outgoing, incoming) = channel.open(&context, MethodId::of("test.Who/Streams")).unwrap();
    assert_eq!(incoming.only(&context), Ok(b"21".to_vec()));
    assert_eq!(&plain.call(&context, asks, b"").unwrap().body[..], b"");
    let secret = Method::named("test.Who/Secret");
    assert_eq!(channel.call(&context, secret, b"").unwrap_err().code, Code::PermissionDenied);
    assert_eq!(block_on(channel.call_async(&context, secret, b"")).unwrap_err().code, Code::PermissionDenied);
    assert_eq!(channel.open(&context, secret).unwrap_err().code, Code::PermissionDenied);
    stream.submit(&context, secret, b"", 8);
    assert_eq!(stream.take().unwrap().result.unwrap_err().code, Code::PermissionDenied);
}

#[test]
fn what_runs_around_calls_is_told_of_each_end_once_whichever_way_they_are_made() {
    let router = Router::new()
        .method("test.Ends/Well", |context, _, _| {
            context.trail("cost", "7").unwrap();
            Ok(())
        })
        .method("test.Ends/Badly", |_, _, _| Err(Status::new(Code::NotFound, "nothing")))
        .method("test.Ends/Never", |context, _, _| {
            while !context.is_cancelled() {
                context.checkpoint()?;
            }
            Ok(())
        })
        .streaming("test.Ends/Streams", |context, mut incoming, mut outgoing| {
            while let Some(message) = incoming.next(context)? {
                outgoing.send(context, message)?;
            }
            Err(Status::new(Code::DataLoss, "that is all"))
        });
    let server = start(ServerConfig::default(), router);
    let (tell, told) = std::sync::mpsc::channel::<String>();
    let note = |who: &'static str| {
        let tell = tell.clone();
        move |context: &Context, method: &Method| {
            let (tell, called) =
                (tell.clone(), method.name().unwrap_or_default().rsplit('/').next().unwrap().to_owned());
            let after = move |ended: &Ended<'_>| {
                let cost = ended.metadata.and_then(|said| said.trail("cost")).map_or(0, |cost| cost[0] - b'0');
                tell.send(format!("{who} {called} {} {cost}", ended.code())).unwrap();
            };
            Ok((context.clone(), after))
        }
    };
    let plain = channel(&server);
    let inner = plain.intercept_around(note("inner")).intercept(|context, method| match method.name() {
        Some("test.Ends/Secret") => Err(Status::new(Code::PermissionDenied, "not by this channel")),
        _ => Ok(context.clone()),
    });
    let channel = inner.intercept_around(note("outer"));
    let next = || told.recv_timeout(MINUTE).unwrap();
    let both = |called: &str, code: Code, cost: u8| {
        assert_eq!(next(), format!("inner {called} {code} {cost}"));
        assert_eq!(next(), format!("outer {called} {code} {cost}"));
    };
    let context = Context::with_deadline(MINUTE);
    let [well, badly, never, streams, secret] =
        ["test.Ends/Well", "test.Ends/Badly", "test.Ends/Never", "test.Ends/Streams", "test.Ends/Secret"]
            .map(Method::named);

    channel.call(&context, well, b"").unwrap();
    both("Well", Code::Ok, 7);
    channel.call(&context, badly, b"").unwrap_err();
    both("Badly", Code::NotFound, 0);
    block_on(channel.call_async(&context, well, b"")).unwrap();
    both("Well", Code::Ok, 7);
    drop(channel.call_async(&context, never, b""));
    both("Never", Code::Cancelled, 0);

    // What the one added before refused, the one added later had let pass.
    channel.call(&context, secret, b"").unwrap_err();
    assert_eq!(next(), format!("outer Secret {} 0", Code::PermissionDenied));

    let mut stream = channel.stream().unwrap();
    stream.submit(&context, well, b"", 7);
    assert_eq!(stream.take().map(|completion| (completion.tag, completion.result.is_ok())), Some((7, true)));
    both("Well", Code::Ok, 7);
    stream.submit(&Context::with_deadline(Duration::ZERO), well, b"", 8);
    assert_eq!(stream.take().unwrap().tag, 8);
    both("Well", Code::DeadlineExceeded, 0);
    stream.submit(&context, never, b"", 9);
    stream.submit(&context, never, b"", 9);
    stream.cancel(9);
    assert_eq!(stream.take().unwrap().tag, 9);
    both("Never", Code::Cancelled, 0);
    stream.submit(&context, secret, b"", 10);
    assert_eq!(stream.take().unwrap().tag, 10);
    assert_eq!(next(), format!("outer Secret {} 0", Code::PermissionDenied));
    drop(stream);
    both("Never", Code::Cancelled, 0);

    let (mut outgoing, mut incoming) = channel.open(&context, streams).unwrap();
    outgoing.send(&context, b"one".to_vec()).unwrap();
    assert_eq!(incoming.next(&context).unwrap().as_deref(), Some(&b"one"[..]));
    outgoing.end();
    assert_eq!(incoming.next(&context).unwrap_err().code, Code::DataLoss);
    both("Streams", Code::DataLoss, 0);
    let opened = channel.open(&context, streams).unwrap();
    drop(opened);
    both("Streams", Code::Cancelled, 0);
    channel.open(&Context::with_deadline(Duration::ZERO), streams).unwrap_err();
    both("Streams", Code::DeadlineExceeded, 0);
    assert!(told.try_recv().is_err(), "somebody was told twice");
}

#[test]
fn what_runs_around_calls_is_told_of_those_that_handlers_make() {
    let back = start(ServerConfig::default(), Router::new().method("test.Back/Ask", |_, _, _| Ok(())));
    let (tell, told) = std::sync::mpsc::channel::<Code>();
    let behind = channel(&back).intercept_around(move |context, _| {
        let tell = tell.clone();
        Ok((context.clone(), move |ended: &Ended<'_>| tell.send(ended.code()).unwrap()))
    });
    let asks = move |context: &Context, _: &[u8], _: &mut Vec<u8>| {
        behind.call(context, MethodId::of("test.Back/Ask"), b"")?;
        behind.call(context, MethodId::of("test.Back/Nobody"), b"").map(drop)
    };
    let front = start(ServerConfig::default(), Router::new().method("test.Front/Ask", asks));
    channel(&front).call(&Context::with_deadline(MINUTE), MethodId::of("test.Front/Ask"), b"").unwrap_err();
    assert_eq!([told.recv(), told.recv()], [Ok(Code::Ok), Ok(Code::Unimplemented)]);
}
