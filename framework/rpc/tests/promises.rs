//! What handlers, threads and futures see of what another thread promises them, over real servers.

mod block_on;
mod raw;

use block_on::block_on;
use greenwave_rpc::*;
use greenwave_verbs::Address;
use raw::within_reason;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const AWAIT: MethodId = MethodId::of("test.Promises/Await");

/// What was promised to a handler, and what it is to be told.
type Promised = (Promise<u64>, u64);

/// A server whose handlers wait for what is promised to them. The promises come out of the receiver.
fn serve(config: ServerConfig) -> (ServerHandle, Receiver<Promised>) {
    let (promises, promised): (Sender<Promised>, _) = channel();
    let router = Router::new().method("test.Promises/Await", move |context, request, reply| {
        let (promise, awaited) = promise();
        let asked = u64::from_le_bytes(request.try_into().map_err(|_| Status::new(Code::InvalidArgument, "8 bytes"))?);
        promises.send((promise, asked)).map_err(|_| Status::new(Code::Unavailable, "nobody keeps promises"))?;
        reply.extend_from_slice(&awaited.wait(context)?.to_le_bytes());
        Ok(())
    });
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
    (Server::start(config.listen(listen), router).unwrap(), promised)
}

fn stream(server: &ServerHandle) -> CallQueue {
    CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap()
}

/// Threads that keep promises, with what was asked plus one, until there are none to come.
fn keepers(promised: Receiver<Promised>, threads: usize, burst: usize) -> Vec<thread::JoinHandle<()>> {
    let promised = Arc::new(Mutex::new(promised));
    let keeper = |_| {
        let promised = Arc::clone(&promised);
        thread::spawn(move || {
            loop {
                let kept: Vec<Promised> = {
                    let promised = promised.lock().unwrap();
                    let Ok(first) = promised.recv() else { return };
                    std::iter::once(first).chain(promised.try_iter().take(burst - 1)).collect()
                };
                kept.into_iter().for_each(|(promise, asked)| promise.keep(asked + 1));
            }
        })
    };
    (0..threads).map(keeper).collect()
}

/// Makes so many calls, so many of them at a time, and sees to it that each is answered with what was promised to it.
fn call(stream: &mut CallQueue, calls: u64, at_a_time: u64) {
    let context = Context::with_deadline(MINUTE);
    let submit = |stream: &mut CallQueue, tag: u64| stream.submit(&context, AWAIT, &tag.to_le_bytes(), tag);
    (0..at_a_time).for_each(|tag| submit(stream, tag));
    let (mut next, mut answered) = (at_a_time, BTreeSet::new());
    while let Some(done) = stream.take() {
        let answer = u64::from_le_bytes(done.result.unwrap().body[..].try_into().unwrap());
        assert!(answer == done.tag + 1 && answered.insert(done.tag));
        if next < calls {
            submit(stream, next);
            next += 1;
        }
    }
    assert_eq!(answered.len() as u64, calls);
}

#[test]
fn ten_thousand_are_kept_while_512_wait_on_heads_and_on_workers() {
    for (clusters, workers, wait) in [(1, 0, Wait::default()), (2, 0, Wait::Block), (1, 2, Wait::Block)] {
        for (threads, burst) in [(1, 512), (4, 1), (2, 64)] {
            within_reason("a burst of promises", move || {
                let (server, promised) = serve(ServerConfig::default().clusters(clusters).workers(workers).wait(wait));
                let keepers = keepers(promised, threads, burst);
                call(&mut stream(&server), 10_000, 512);
                let counters = server.counters();
                assert_eq!((counters.answered, counters.calls), (10_000, 10_000));
                server.drain(MINUTE);
                keepers.into_iter().for_each(|keeper| keeper.join().unwrap());
            });
        }
    }
}

/// Makes so many calls, and goes on when all their handlers wait for what is promised to them.
fn begin(stream: &mut CallQueue, promised: &Receiver<Promised>, calls: u64) -> Vec<Promised> {
    let context = Context::with_deadline(MINUTE);
    (0..calls).for_each(|tag| stream.submit(&context, AWAIT, &7_u64.to_le_bytes(), tag));
    let mut waiting = Vec::new();
    raw::eventually("all have begun", || {
        assert!(stream.take_timeout(Duration::from_millis(1)).is_none());
        waiting.extend(promised.try_iter());
        waiting.len() as u64 == calls
    });
    waiting
}

#[test]
fn a_server_that_drains_waits_for_what_is_promised() {
    let (server, promised) = serve(ServerConfig::default());
    let mut stream = stream(&server);
    let waiting = begin(&mut stream, &promised, 10);
    let drains = thread::spawn(move || server.drain(MINUTE));
    waiting.into_iter().for_each(|(promise, asked)| promise.keep(asked));
    for _ in 0..10 {
        assert_eq!(stream.take().unwrap().result.unwrap().body[..], 7_u64.to_le_bytes());
    }
    drains.join().unwrap();
}

#[test]
fn a_server_that_stops_leaves_nobody_to_hear_of_it() {
    let (server, promised) = serve(ServerConfig::default().workers(1));
    let mut stream = stream(&server);
    let waiting = begin(&mut stream, &promised, 100);
    within_reason("the shutdown", move || server.shutdown());
    waiting.into_iter().for_each(|(promise, asked)| promise.keep(asked));
}

#[test]
fn an_ordinary_thread_is_given_what_was_kept_before_and_what_is_kept_while_it_waits() {
    within_reason("threads that wait", || {
        let context = Context::with_deadline(MINUTE);
        let (kept, awaited) = promise();
        kept.keep(1);
        assert_eq!(awaited.wait(&context), Ok(1));
        // Even if there is no time left for anything else.
        let (kept, awaited) = promise();
        kept.keep(2);
        assert_eq!(awaited.wait(&Context::with_deadline(Duration::ZERO)), Ok(2));
        let (promises, awaiteds): (Vec<_>, Vec<_>) = (0..16).map(|_| promise()).unzip();
        let waiters: Vec<_> =
            awaiteds.into_iter().map(|awaited| thread::spawn(move || awaited.wait(&Context::unlimited()))).collect();
        promises.into_iter().zip(0..).for_each(|(promise, nth)| promise.keep(nth));
        for (waiter, nth) in waiters.into_iter().zip(0..) {
            assert_eq!(waiter.join().unwrap(), Ok(nth));
        }
    });
}

#[test]
fn an_ordinary_threads_wait_ends_with_its_time_its_context_and_its_promise() {
    within_reason("threads that wait in vain", || {
        let code = |awaited: Awaited<()>, context: &Context| awaited.wait(context).unwrap_err().code;
        let (_kept, awaited) = promise();
        assert_eq!(code(awaited, &Context::with_deadline(Duration::from_millis(15))), Code::DeadlineExceeded);
        let (broken, awaited) = promise();
        let drops = thread::spawn(move || drop(broken));
        assert_eq!(code(awaited, &Context::unlimited()), Code::Internal);
        drops.join().unwrap();
        let (_kept, awaited) = promise();
        let context = Context::with_deadline(MINUTE);
        let cancels = thread::spawn({
            let context = context.clone();
            move || context.cancel()
        });
        assert_eq!(code(awaited, &context), Code::Cancelled);
        cancels.join().unwrap();
    });
}

#[test]
fn a_keeper_that_panics_breaks_its_promise() {
    let (promise, awaited) = promise::<()>();
    let panics = thread::spawn(move || {
        let _promise = promise;
        panic!("as the test would have it");
    });
    assert_eq!(awaited.wait(&Context::with_deadline(MINUTE)).unwrap_err().code, Code::Internal);
    assert!(panics.join().is_err());
}

#[test]
fn a_future_is_ready_when_its_promise_is_kept_or_broken() {
    within_reason("futures", || {
        let (early, ready) = promise();
        early.keep(1);
        assert_eq!(block_on(ready), Ok(1));
        for value in 0..1000 {
            let (promise, awaited) = promise();
            let keeps = thread::spawn(move || promise.keep(value));
            assert_eq!(block_on(awaited), Ok(value));
            keeps.join().unwrap();
        }
        let (broken, awaited) = promise::<()>();
        let drops = thread::spawn(move || drop(broken));
        assert_eq!(block_on(awaited), Err(Broken));
        drops.join().unwrap();
    });
}

#[test]
fn a_value_that_nobody_waits_for_is_dropped() {
    let value = Arc::new(());
    let (kept, awaited) = promise();
    drop(awaited);
    kept.keep(Arc::clone(&value));
    let (kept, awaited) = promise();
    kept.keep(Arc::clone(&value));
    drop(awaited);
    assert_eq!(Arc::strong_count(&value), 1);
}
