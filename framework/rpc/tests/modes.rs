//! What holds in every mode in which a client can have its completion queue polled.

mod block_on;
mod echo;
mod raw;

use block_on::block_on;
use echo::{ECHO, MINUTE, NEVER, echo};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use raw::within_reason;
use std::time::{Duration, Instant};

const NOTIFY: Mode = Mode::Dispatched { delivery: Delivery::Notify };
const POLL: Mode = Mode::Dispatched { delivery: Delivery::Poll };
const MODES: [Mode; 3] = [Mode::Direct, POLL, NOTIFY];
const WAITS: [Wait; 3] = [Wait::Spin, Wait::Block, Wait::Adaptive { spin: Duration::from_micros(20) }];

fn serve() -> ServerHandle {
    serve_at("tcp://127.0.0.1:0")
}

fn serve_at(address: &str) -> ServerHandle {
    let listen = vec![address.parse::<Address>().unwrap()];
    Server::start(ServerConfig::default().listen(listen).workers(2), echo()).unwrap()
}

fn channel(server: &ServerHandle, config: ChannelConfig) -> Channel {
    Channel::new(server.addresses()[0].clone(), config).unwrap()
}

/// How many threads of this process are dispatchers.
fn dispatchers() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    names
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "greenwave-dispa\n"))
        .count()
}

/// Every thread makes calls of its own and sees to it that each is answered with what it asked.
fn many_threads_call(channels: Vec<Channel>, calls: u32) {
    within_reason("many threads' calls", move || {
        std::thread::scope(|scope| {
            for (thread, channel) in channels.into_iter().enumerate() {
                scope.spawn(move || {
                    let context = Context::with_deadline(MINUTE);
                    for call in 0..calls {
                        let request = format!("{thread} {call}");
                        let reply = channel.call(&context, ECHO, request.as_bytes()).unwrap();
                        assert_eq!(&reply.body[..], request.as_bytes());
                    }
                });
            }
        });
    });
}

#[test]
fn each_of_many_threads_gets_its_own_answers_in_every_mode() {
    let server = serve();
    for mode in MODES {
        for wait in WAITS {
            let shared = channel(&server, ChannelConfig::default().mode(mode).wait(wait));
            // Those that spin for ever take turns on the machine's cores.
            many_threads_call(vec![shared; if wait == Wait::Spin { 3 } else { 16 }], 100);
        }
    }
}

#[test]
fn each_of_many_channels_gets_its_own_answers_over_one_dispatcher() {
    let servers = [serve(), serve()];
    let dispatcher = Dispatcher::new(&ChannelConfig::default()).unwrap();
    for mode in [POLL, NOTIFY] {
        let config = || ChannelConfig::default().mode(mode).dispatcher(dispatcher.clone());
        many_threads_call((0..16).map(|one| channel(&servers[one % 2], config())).collect(), 100);
    }
    assert_eq!(servers.each_ref().map(|server| server.counters().accepted), [16, 16]);
    raw::eventually("connections end with their channels", || {
        servers.iter().all(|server| server.counters().connections == 0)
    });
}

#[test]
fn a_dispatcher_ends_with_the_last_of_its_channels() {
    // In a process of its own, so that no other test's dispatchers are counted.
    if std::env::var_os("COUNT_DISPATCHERS").is_none() {
        let this = std::env::current_exe().unwrap();
        let alone = std::process::Command::new(this)
            .args(["--exact", "a_dispatcher_ends_with_the_last_of_its_channels", "--test-threads=1"])
            .env("COUNT_DISPATCHERS", "1")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
        return;
    }
    let server = serve();
    let dispatcher = Dispatcher::new(&ChannelConfig::default()).unwrap();
    let shared = ChannelConfig::default().mode(NOTIFY).dispatcher(dispatcher);
    let own = ChannelConfig::default().mode(NOTIFY);
    let mut channels = [channel(&server, shared.clone()), channel(&server, shared), channel(&server, own)].map(Some);
    for channel in channels.iter().flatten() {
        channel.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap();
    }
    assert_eq!(dispatchers(), 2, "one for two, one of its own");
    channels[0] = None;
    let left = channels[1].as_ref().unwrap();
    left.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap();
    assert_eq!(dispatchers(), 2, "the other channel is still in use");
    channels[1] = None;
    raw::eventually("the shared dispatcher ends", || dispatchers() == 1);
    let mut stream = channels[2].as_ref().unwrap().stream().unwrap();
    channels[2] = None;
    stream.submit(&Context::with_deadline(MINUTE), ECHO, b"", 0);
    assert!(stream.take().unwrap().result.is_ok(), "a stream is a use of its channel");
    drop(stream);
    raw::eventually("the channel's own dispatcher ends", || dispatchers() == 0);
}

#[test]
fn a_dispatcher_that_would_not_be_used_is_refused() {
    let dispatcher = Some(Dispatcher::new(&ChannelConfig::default()).unwrap());
    assert_eq!(ChannelConfig::default().dispatcher(dispatcher).validate().unwrap_err().key, "mode");
}

#[test]
fn a_call_ends_with_its_deadline_in_every_mode() {
    let server = serve();
    for mode in MODES {
        let channel = channel(&server, ChannelConfig::default().mode(mode));
        let late = within_reason("late calls of many threads", move || {
            let calls = [(); 4].map(|()| {
                let channel = channel.clone();
                std::thread::spawn(move || channel.call(&Context::with_deadline(Duration::from_millis(20)), NEVER, b""))
            });
            calls.map(|call| call.join().unwrap().unwrap_err())
        });
        assert!(late.iter().all(|status| status.code == Code::DeadlineExceeded), "{late:?}");
    }
}

/// The thread that leads has a short call, the others long ones: it leaves while they wait, again and again.
#[test]
fn calls_that_wait_do_not_stall_when_the_leader_leaves() {
    let server = serve();
    let channel = channel(&server, ChannelConfig::default().wait(Wait::Block));
    let others: Vec<_> = (1..4)
        .map(|rounds| {
            let channel = channel.clone();
            std::thread::spawn(move || {
                for round in 1..=10 * rounds {
                    let context = Context::with_deadline(Duration::from_millis(round % 4));
                    assert!(channel.call(&context, NEVER, b"").is_err());
                }
            })
        })
        .collect();
    let leader = std::thread::spawn(move || {
        for _ in 0..2_000 {
            channel.call(&Context::with_deadline(MINUTE), ECHO, b"short").unwrap();
        }
    });
    within_reason("calls of threads that do not lead", move || {
        others.into_iter().chain([leader]).for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_server_that_restarts_is_found_again_in_every_mode() {
    for mode in MODES {
        let server = serve();
        let address = server.addresses()[0].to_string();
        let config = ChannelConfig::default().mode(mode).reconnect(Duration::from_millis(1));
        let channel = channel(&server, config);
        let mut stream = channel.stream().unwrap();
        channel.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap();
        server.drain(Duration::from_secs(1));
        let server = serve_at(&address);
        raw::eventually("threads are answered again", || {
            channel.call(&Context::with_deadline(MINUTE), ECHO, b"").is_ok()
        });
        stream.submit(&Context::with_deadline(MINUTE), ECHO, b"", 7);
        assert!(stream.take().unwrap().result.is_ok(), "and so are streams");
        drop(server);
    }
}

#[test]
fn a_future_that_is_dropped_takes_its_call_back_over_a_shared_dispatcher() {
    let server = serve();
    let dispatcher = Some(Dispatcher::new(&ChannelConfig::default()).unwrap());
    let config = ChannelConfig::default().mode(NOTIFY).dispatcher(dispatcher);
    let (one, other) = (channel(&server, config.clone()), channel(&server, config));
    let dropped = one.call_async(&Context::unlimited(), NEVER, b"");
    raw::eventually("it is served", || server.counters().calls == 1);
    drop((dropped, one));
    raw::eventually("the server hears of it", || server.counters().cancelled == 1);
    let kept = other.call_async(&Context::with_deadline(MINUTE), ECHO, b"kept");
    assert_eq!(&within_reason("a future", move || block_on(kept)).unwrap().body[..], b"kept");
}

#[test]
fn streams_and_threads_use_one_connection() {
    let server = serve();
    for mode in MODES {
        let before = server.counters().accepted;
        let channel = channel(&server, ChannelConfig::default().mode(mode));
        let streaming = channel.clone();
        let streams = std::thread::spawn(move || {
            let (context, mut streams) =
                (Context::with_deadline(MINUTE), [(); 2].map(|()| streaming.stream().unwrap()));
            for round in 0..50_u64 {
                for (which, stream) in (0..).zip(&mut streams) {
                    (0..10_u64).for_each(|call| stream.submit(&context, ECHO, &[which, call as u8], round * 10 + call));
                    stream.flush();
                }
                for (which, stream) in (0_u8..).zip(&mut streams) {
                    let mut tags: Vec<u64> = (0..10)
                        .map(|_| {
                            let done = stream.take().expect("calls are under way");
                            assert_eq!(done.result.unwrap().body[..], [which, (done.tag % 10) as u8]);
                            done.tag
                        })
                        .collect();
                    tags.sort_unstable();
                    assert_eq!(tags, (round * 10..round * 10 + 10).collect::<Vec<_>>());
                    assert!(stream.take().is_none() && stream.poll().is_none(), "none is under way");
                }
            }
        });
        many_threads_call(vec![channel; 4], 100);
        within_reason("streams", move || streams.join().unwrap());
        assert_eq!(server.counters().accepted - before, 1);
    }
}

#[test]
fn a_channels_stream_hands_out_each_call_once_whatever_becomes_of_it() {
    let server = serve();
    let mut stream = channel(&server, ChannelConfig::default()).stream().unwrap();
    stream.submit(&Context::unlimited(), NEVER, b"", 1);
    stream.submit(&Context::with_deadline(Duration::ZERO), ECHO, b"", 2);
    stream.submit(&Context::with_deadline(Duration::from_millis(5)), NEVER, b"", 3);
    stream.submit(&Context::with_deadline(MINUTE), ECHO, b"", 4);
    stream.cancel(1);
    stream.cancel(99);
    let mut reasons: Vec<_> = (0..4)
        .map(|_| stream.take_timeout(MINUTE).expect("a completion"))
        .map(|done| (done.tag, done.result.map(drop).map_err(|failure| failure.status.code)))
        .collect();
    reasons.sort_unstable_by_key(|(tag, _)| *tag);
    let late = Err(Code::DeadlineExceeded);
    assert_eq!(reasons, [(1, Err(Code::Cancelled)), (2, late), (3, late), (4, Ok(()))]);
    stream.cancel(4);
    assert_eq!((stream.in_flight(), stream.take().is_none()), (0, true), "what is over stays as it was");
}

#[test]
fn a_stream_that_is_dropped_takes_its_calls_back() {
    let server = serve();
    let channel = channel(&server, ChannelConfig::default());
    let mut stream = channel.stream().unwrap();
    (0..3).for_each(|tag| stream.submit(&Context::unlimited(), NEVER, b"", tag));
    stream.flush();
    raw::eventually("they are there", || server.counters().calls == 3);
    drop(stream);
    raw::eventually("the server hears of it", || server.counters().cancelled == 3);
    assert!(channel.call(&Context::with_deadline(MINUTE), ECHO, b"").is_ok(), "the connection is as it was");
}

#[test]
fn a_stream_wakes_the_task_that_asks_it() {
    let server = serve();
    let replies = within_reason("a task", move || {
        let mut stream = channel(&server, ChannelConfig::default()).stream().unwrap();
        (0..5).for_each(|tag| stream.submit(&Context::with_deadline(MINUTE), ECHO, b"", tag));
        let mut tags = Vec::new();
        while let Some(done) = block_on(std::future::poll_fn(|task| stream.poll_next(task))) {
            assert!(done.result.is_ok());
            tags.push(done.tag);
        }
        tags.sort_unstable();
        tags
    });
    assert_eq!(replies, [0, 1, 2, 3, 4]);
}

#[test]
fn a_streams_call_that_is_cancelled_completes_once_and_at_once() {
    let server = serve();
    let mut stream = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
    stream.submit(&Context::unlimited(), NEVER, b"", 7);
    stream.submit(&Context::unlimited(), NEVER, b"", 8);
    raw::eventually("both are served", || {
        assert!(stream.poll().is_none());
        server.counters().calls == 2
    });
    stream.cancel(7);
    let done = stream.poll().expect("no need to wait for the server");
    assert_eq!((done.tag, done.result.unwrap_err().status.reason), (7, Reason::Cancelled));
    stream.cancel(7);
    assert_eq!(stream.in_flight(), 1, "the other one");
    raw::eventually("the server hears of it", || {
        assert!(stream.poll().is_none(), "it completes once");
        server.counters().cancelled == 1
    });
}

#[test]
fn a_stream_waits_for_as_long_as_it_is_told_and_not_for_ever() {
    let server = serve();
    let address = &server.addresses()[0];
    for wait in WAITS {
        let config = ChannelConfig::default().wait(wait).mode(POLL);
        let mut direct = CallQueue::connect(address, &config).unwrap();
        let mut dispatched = Channel::new(address.clone(), config).unwrap().stream().unwrap();
        direct.submit(&Context::unlimited(), NEVER, b"", 0);
        dispatched.submit(&Context::unlimited(), NEVER, b"", 0);
        for timeout in [Duration::ZERO, Duration::from_millis(3)] {
            let begun = Instant::now();
            assert!(direct.take_timeout(timeout).is_none());
            assert!(dispatched.take_timeout(timeout).is_none());
            assert!(begun.elapsed() >= 2 * timeout);
        }
        assert_eq!((direct.in_flight(), dispatched.in_flight()), (1, 1));
        // Without time to wait, what is there is found all the same.
        direct.cancel(0);
        direct.submit(&Context::with_deadline(MINUTE), ECHO, b"", 1);
        assert_eq!(direct.take_timeout(Duration::ZERO).expect("a completion").tag, 0);
        raw::eventually("it is answered", || direct.take_timeout(Duration::ZERO).is_some_and(|done| done.tag == 1));
    }
}
