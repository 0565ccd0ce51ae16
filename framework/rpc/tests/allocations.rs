//! In the steady state a null call allocates nothing, on either side.
//!
//! A process of its own, as everything that the process allocates is counted.

use greenwave_rpc::{CallQueue, ChannelConfig, MethodId, Router, Server, ServerConfig};
use greenwave_verbs::{Address, Choice};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NULL: MethodId = MethodId::of("test.Null/Call");
const MINUTE: Duration = Duration::from_secs(60);

/// Makes so many batches of calls, each answered before the next.
fn call(stream: &mut CallQueue, batch: u64, batches: usize) {
    for _ in 0..batches {
        (0..batch).for_each(|tag| stream.submit_within(MINUTE, NULL, &[7; 64], tag));
        for _ in 0..batch {
            let reply = stream.take().unwrap().result.unwrap();
            assert_eq!(*reply.body, [7; 64]);
            stream.recycle(reply);
        }
    }
}

#[test]
fn a_null_call_allocates_nothing_once_warm() {
    for backend in [Choice::Auto, Choice::Epoll] {
        let router = Router::new().method("test.Null/Call", |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        });
        let listen = vec![Address::Tcp(([127, 0, 0, 1], 0).into())];
        let config = ServerConfig::default().listen(listen).backend(backend.clone());
        let server = Server::start(config, router).unwrap();
        let config = ChannelConfig::default().backend(backend.clone());
        let mut stream = CallQueue::connect(&server.addresses()[0], &config).unwrap();
        for batch in [1, 64] {
            call(&mut stream, batch, 2000);
            // A queue grows when it is deeper than ever before, which a busy machine may bring about in any of these. What
            // calls allocate, each or now and then, is in all of them.
            let counted: Vec<_> = (0..5).map(|_| counted(|| call(&mut stream, batch, 2000))).collect();
            let none = counted.iter().any(|counted| counted.allocations + counted.reallocations == 0);
            assert!(none, "over {backend:?}, {batch} at a time: {counted:#?}");
        }
    }
}

/// What the process allocates meanwhile.
fn counted(work: impl FnOnce()) -> Stats {
    let region = Region::new(ALLOCATOR);
    work();
    region.change()
}
