//! What servers of gRPC say of their load, and which of them is given a call for that.

use super::block_on::block_on;
use super::raw;
use super::servers::*;
use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const METHOD: Method = Method::named("test.Echo/Echo");

/// Servers of gRPC at these addresses.
fn channel(servers: &[&ServerHandle]) -> Channel {
    let addresses: Vec<Address> = servers.iter().map(|server| Address::Grpc(socket(server))).collect();
    Channel::to(Target::addresses(addresses).unwrap(), ChannelConfig::default()).unwrap()
}

/// Echoes, and says that it has this utilization by the application, at so many calls a second.
fn says(utilization: f64, calls: f64) -> Router {
    let double = |number: u8, value: f64| [&[number << 3 | 1][..], &value.to_le_bytes()].concat();
    let report = [double(9, utilization), double(6, calls)].concat();
    Router::new().method("test.Echo/Echo", move |context, request, reply| {
        context.trail("endpoint-load-metrics-bin", &report).unwrap();
        reply.extend_from_slice(request);
        Ok(())
    })
}

/// They answer as quickly; one of them says that others ask it for all that it can do.
#[test]
fn a_server_that_says_that_it_is_busy_gets_few_calls() {
    let (idle, busy, other) = (serve(says(0.1, 10.0)), serve(says(0.95, 95.0)), serve(says(0.1, 10.0)));
    let channel = channel(&[&idle, &busy, &other]);
    let context = Context::with_deadline(MINUTE);
    // Eight at a time, so that those that others have don't decide.
    for _ in 0..50 {
        let calls: Vec<_> = (0..8).map(|_| channel.call_async(&context, METHOD, b"1")).collect();
        calls.into_iter().for_each(|call| drop(block_on(call).unwrap()));
    }
    let calls_of = || [&idle, &busy, &other].map(|server| server.counters().calls);
    let calls = calls_of();
    assert!(calls[1] * 10 < calls[0].min(calls[2]), "{calls:?}");
    // The same of streams of calls.
    let mut stream = channel.stream().unwrap();
    for _ in 0..50 {
        (0..8).for_each(|call| stream.submit(&context, METHOD, b"1", call));
        (0..8).for_each(|_| drop(stream.take().unwrap().result.unwrap()));
    }
    let calls = calls_of();
    assert!(calls[1] * 10 < calls[0].min(calls[2]), "{calls:?}");
}

/// Servers of Greenwave that tell their load, one of which has others' work in its queue.
#[test]
fn a_server_with_a_queue_says_so_and_gets_few_calls() {
    let serve = |router| {
        let config = ServerConfig::default().listen(vec!["tcp://127.0.0.1:0".parse().unwrap()]);
        let config = config.grpc(GrpcSettings::new().report_load(true)).order(greenwave_policy::Order::Fcfs);
        Server::start(config, router).unwrap()
    };
    let both = || {
        echo(Duration::ZERO).merge(Router::new().method("test.Front/Ask", |context, _, _| {
            let until = std::time::Instant::now() + Duration::from_millis(2);
            while std::time::Instant::now() < until {
                context.checkpoint()?;
            }
            Ok(())
        }))
    };
    let (idle, loaded) = (serve(both()), serve(both()));
    let (channel, other) =
        (channel(&[&idle, &loaded]), Channel::new(loaded.addresses()[0].clone(), Default::default()));
    let (over, other) = (AtomicBool::new(false), other.unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Sixteen at a time.
            let ask = || other.call_async(&Context::with_deadline(MINUTE), ASK, b"");
            let mut calls: std::collections::VecDeque<_> = (0..16).map(|_| ask()).collect();
            while !over.load(Ordering::Relaxed) {
                block_on(calls.pop_front().unwrap()).unwrap();
                calls.push_back(ask());
            }
        });
        let context = Context::with_deadline(MINUTE);
        let seen = super::grpc_load::channel(&[&loaded]);
        raw::eventually("it says that calls wait", || {
            let reply = seen.call(&context, METHOD, b"1").unwrap();
            let load = reply.metadata.as_ref().and_then(|it| it.trail(Load::NAME)).and_then(Load::parse).unwrap();
            load.wait_seconds.unwrap() > 0.005 && load.application_utilization > 1.0
        });
        let before = idle.counters().calls;
        (0..400).for_each(|_| drop(channel.call(&context, METHOD, b"1").unwrap()));
        let calls = idle.counters().calls - before;
        over.store(true, Ordering::Relaxed);
        assert!(calls > 350, "{calls}");
    });
}
