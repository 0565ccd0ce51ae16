//! Futures that handlers and ordinary threads poll while other threads wake them, over real servers.

mod raw;

use greenwave_rpc::*;
use raw::within_reason;
use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const ADD: MethodId = MethodId::of("test.Futures/Add");

/// A handler that awaits two things which other threads bring about, one after the other and both at once, and adds them up.
fn adder(keep: Sender<(Promise<u64>, u64)>) -> Router {
    Router::new().method("test.Futures/Add", move |context, request, reply| {
        let asked = u64::from_le_bytes(request.try_into().map_err(|_| Status::new(Code::InvalidArgument, "8 bytes"))?);
        let begin = || {
            let (promise, awaited) = promise();
            keep.send((promise, asked)).map(|()| awaited).map_err(|_| Status::new(Code::Unavailable, "nobody keeps it"))
        };
        let sum = block_on(context, async {
            let first = begin()?.await?;
            let (second, third) = (begin()?, begin()?);
            Ok::<_, Status>(first + second.await? + third.await?)
        })??;
        reply.extend_from_slice(&sum.to_le_bytes());
        Ok(())
    })
}

#[test]
fn no_wake_is_lost_among_thousands_on_heads_and_on_workers() {
    for (clusters, workers) in [(1, 0), (1, 2)] {
        within_reason("futures in handlers", move || {
            let (keep, kept) = channel();
            let config = ServerConfig::default().clusters(clusters).workers(workers).wait(Wait::Block);
            let server = Server::start(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]), adder(keep)).unwrap();
            let kept = Arc::new(Mutex::new(kept));
            let keepers: Vec<_> = (0..2)
                .map(|_| {
                    let kept = Arc::clone(&kept);
                    thread::spawn(move || {
                        loop {
                            let next: Result<(Promise<u64>, u64), _> = kept.lock().unwrap().recv();
                            let Ok((promise, asked)) = next else { return };
                            promise.keep(asked);
                        }
                    })
                })
                .collect();
            let mut queue = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
            let context = Context::with_deadline(MINUTE);
            let (mut next, calls) = (0_u64, 3000);
            let mut answered = BTreeSet::new();
            while answered.len() < calls as usize {
                while next < calls && queue.in_flight() < 256 {
                    queue.submit(&context, ADD, &next.to_le_bytes(), next);
                    next += 1;
                }
                let done = queue.take().expect("calls are under way");
                let sum = u64::from_le_bytes(done.result.unwrap().body[..].try_into().unwrap());
                assert!(sum == 3 * done.tag && answered.insert(done.tag));
            }
            server.drain(MINUTE);
            keepers.into_iter().for_each(|keeper| keeper.join().unwrap());
        });
    }
}

#[test]
fn an_ordinary_thread_is_blocked_until_it_is_ready_or_its_context_ends() {
    within_reason("threads that poll", || {
        for value in 0..1000 {
            let (promise, awaited) = promise();
            let keeps = thread::spawn(move || promise.keep(value));
            assert_eq!(block_on(&Context::unlimited(), awaited), Ok(Ok(value)));
            keeps.join().unwrap();
        }
        let never = std::future::pending::<()>;
        let failed = |context: &Context| block_on(context, never()).unwrap_err().code;
        assert_eq!(failed(&Context::with_deadline(Duration::from_millis(15))), Code::DeadlineExceeded);
        let context = Context::unlimited();
        context.cancel();
        assert_eq!(failed(&context), Code::Cancelled);
        // What is ready is given, whatever the context says.
        assert_eq!(block_on(&context, async { 1 }), Ok(1));
    });
}
