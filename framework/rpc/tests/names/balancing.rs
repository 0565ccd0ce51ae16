//! Which server is given a call.

use super::block_on::block_on;
use super::raw::{self, within_reason};
use super::servers::*;
use greenwave_rpc::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const WORK: Duration = Duration::from_micros(300);

/// Calls from several threads, and counts how many each server got.
fn calls(servers: &[ServerHandle], channel: &Channel, threads: usize, calls: usize) -> Vec<u64> {
    let before = calls_of(servers);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..calls {
                    channel.call(&Context::with_deadline(MINUTE), ECHO, b"hello").unwrap();
                }
            });
        }
    });
    calls_of(servers).iter().zip(before).map(|(after, before)| after - before).collect()
}

#[test]
fn a_server_that_is_ten_times_slower_gets_a_small_share_of_the_calls() {
    let (good, slow) = (|| echo(WORK), || echo(WORK * 10));
    let (servers, _) = fleet(&[&good, &slow, &good, &good]);
    let balanced = channel(&servers, ChannelConfig::default());
    let given = calls(&servers, &balanced, 3, 200);
    assert!(given[1] * 20 < given.iter().sum(), "{given:?}");
    let one_by_one = channel(&servers, ChannelConfig::default().balance(BalanceRule::RoundRobin));
    let given = calls(&servers, &one_by_one, 3, 40);
    assert_eq!(given, [30; 4], "a quarter, however long it takes");
}

/// Eight at a time, none of which waits for another one.
#[test]
fn calls_that_wait_for_nobody_avoid_a_slow_server_too() {
    let (good, slow) = (|| echo(Duration::ZERO), || echo(Duration::from_millis(20)));
    let (servers, _) = fleet(&[&good, &slow, &good, &good]);
    let channel = channel(&servers, ChannelConfig::default());
    // Each server has calls, by which it is known.
    let some = || {
        let some: Vec<_> = (0..8).map(|_| channel.call_async(&Context::with_deadline(MINUTE), ECHO, b"8")).collect();
        some.into_iter().for_each(|call| drop(block_on(call).unwrap()));
    };
    raw::eventually("all are known", || {
        some();
        calls_of(&servers).iter().all(|calls| *calls > 0)
    });
    let before = calls_of(&servers)[1];
    (0..50).for_each(|_| some());
    let slow = calls_of(&servers)[1] - before;
    assert!(slow < 20, "{slow} of 400");
}

#[test]
fn every_way_to_call_goes_to_all_servers() {
    let make = || echo(Duration::ZERO);
    let (servers, _) = fleet(&[&make, &make, &make]);
    let context = Context::with_deadline(MINUTE);
    let each = |what: &str, call: &dyn Fn(&Channel)| {
        let channel = channel(&servers, ChannelConfig::default().balance(BalanceRule::RoundRobin));
        let before = calls_of(&servers);
        (0..9).for_each(|_| call(&channel));
        let given: Vec<u64> = calls_of(&servers).iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(given, [3; 3], "{what}");
    };
    each("blocking", &|channel| drop(channel.call(&context, ECHO, b"1").unwrap()));
    each("repeatable", &|channel| drop(channel.call_repeatable(&context, ECHO, b"1".into()).unwrap()));
    each("a future", &|channel| drop(block_on(channel.call_async(&context, ECHO, b"1")).unwrap()));
    each("in a parallel unit", &|channel| {
        let aggregator = Aggregator::new(AggregatorConfig::default());
        assert!(aggregator.unit(&context).branch(channel, ECHO, vec![1]).gather().is_complete());
    });

    let behind = channel(&servers, ChannelConfig::default().balance(BalanceRule::RoundRobin));
    let front = serve(Router::new().method("test.Front/Ask", move |context, request, _| {
        if request.is_empty() {
            return behind.call(context, ECHO, b"1").map(drop);
        }
        let aggregator = Aggregator::new(AggregatorConfig::default());
        let unit = (0..9).fold(aggregator.unit(context), |unit, _| unit.branch(&behind, ECHO, vec![1]));
        assert!(unit.gather().is_complete());
        Ok(())
    }));
    let front = Channel::new(front.addresses()[0].clone(), ChannelConfig::default()).map(|it| (it, front)).unwrap();
    for (request, many) in [(&b""[..], 9), (b"unit", 1)] {
        let before = calls_of(&servers);
        let receipts: Vec<_> = (0..many).map(|_| front.0.call(&context, ASK, request).unwrap().receipt).collect();
        let given: Vec<u64> = calls_of(&servers).iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(given, [3; 3], "in a handler");
        assert_eq!(receipts.iter().map(|receipt| receipt.children.len()).sum::<usize>(), 9);
    }
}

/// Each call of a stream goes to one of the servers, and completes under the name that its maker gave it.
#[test]
fn a_stream_goes_to_all_servers() {
    let make = || echo(Duration::ZERO);
    let (servers, _) = fleet(&[&make, &make, &make]);
    let channel = channel(&servers, ChannelConfig::default().balance(BalanceRule::RoundRobin));
    let mut stream = channel.stream().unwrap();
    let context = Context::with_deadline(MINUTE);
    (0..30_u8).for_each(|call| stream.submit(&context, ECHO, &[call], 1000 + u64::from(call)));
    stream.submit(&Context::with_deadline(Duration::ZERO), ECHO, b"late", 7);
    let mut tags = Vec::new();
    while let Some(completion) = stream.take() {
        tags.push(completion.tag);
        match completion.result {
            Ok(reply) => assert_eq!(u64::from(reply.body[0]) + 1000, completion.tag),
            Err(failure) => assert_eq!((completion.tag, failure.code), (7, Code::DeadlineExceeded)),
        }
    }
    tags.sort_unstable();
    assert_eq!(tags, [7].into_iter().chain(1000..1030).collect::<Vec<_>>());
    assert_eq!(calls_of(&servers), [10; 3]);
}

#[test]
fn a_call_of_a_stream_to_several_servers_is_taken_back_by_its_name() {
    let told = Arc::new(AtomicBool::new(true));
    let servers = [serve(stuck_once(&told)), serve(stuck_once(&told))];
    let channel = channel(&servers, ChannelConfig::default());
    within_reason("calls that are taken back", move || {
        let mut stream = channel.stream().unwrap();
        (0..4).for_each(|tag| stream.submit(&Context::unlimited(), ECHO, b"1", tag));
        stream.flush();
        for tag in [2, 0, 3, 1] {
            stream.cancel(tag);
            let completion = stream.take().unwrap();
            assert_eq!((completion.tag, completion.result.unwrap_err().reason), (tag, Reason::Cancelled));
        }
        assert_eq!(stream.in_flight(), 0);
    });
}

/// In every mode, and whoever polls: all servers' connections are on one completion queue.
#[test]
fn many_threads_share_a_channel_to_several_servers() {
    let make = || echo(Duration::ZERO);
    let (servers, _) = fleet(&[&make, &make, &make]);
    let dispatched = [Delivery::Poll, Delivery::Notify].map(|delivery| Mode::Dispatched { delivery });
    for mode in [Mode::Direct].into_iter().chain(dispatched) {
        let channel = channel(&servers, ChannelConfig::default().mode(mode));
        let copy = channel.clone();
        within_reason("calls of many threads", move || {
            std::thread::scope(|scope| {
                for thread in 0..8_u8 {
                    let channel = &copy;
                    scope.spawn(move || {
                        for call in 0..50_u8 {
                            let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &[thread, call]).unwrap();
                            assert_eq!(&reply.body[..], [thread, call]);
                        }
                    });
                }
            });
        });
        drop(channel);
        raw::eventually("connections end with the channel", || {
            servers.iter().all(|server| server.counters().connections == 0)
        });
    }
}

#[test]
fn a_server_that_disappears_takes_no_call_with_it_and_is_found_again() {
    let make = || echo(Duration::ZERO);
    let (mut servers, port) = fleet(&[&make, &make, &make]);
    let channel = channel(&servers, ChannelConfig::default());
    // What is lost with a connection that nobody has looked at since it was closed may have run.
    let call = || drop(channel.call_repeatable(&Context::with_deadline(MINUTE), ECHO, b"1".into()).unwrap());
    (0..30).for_each(|_| call());
    let gone = servers.remove(1);
    gone.drain(Duration::from_secs(10));
    // What was given to it is given to another one, within the bucket of ten; then it is left out.
    (0..300).for_each(|_| call());
    let back = serve_at(([127, 0, 0, 2], port).into(), echo(Duration::ZERO)).unwrap();
    raw::eventually("it has calls again", || {
        call();
        back.counters().calls > 10
    });
}

#[test]
fn where_nobody_is_there_the_failure_says_so_and_the_budget_is_kept() {
    let target = Target::addresses([nobody(), nobody()]).unwrap();
    let channel = Channel::to(target.clone(), ChannelConfig::default()).unwrap();
    assert_eq!(channel.target(), target);
    let status = channel.call(&Context::with_deadline(MINUTE), ECHO, b"1").unwrap_err();
    assert_eq!((status.reason, status.never_ran()), (Reason::Unreachable, true));
    let status = channel.call(&Context::with_deadline(Duration::ZERO), ECHO, b"1").unwrap_err();
    assert_eq!(status.code, Code::DeadlineExceeded);
    let never = RetryConfig { attempts: 1, ..RetryConfig::default() };
    assert!(Channel::to(target.clone(), ChannelConfig::default().retries(never)).is_ok());
    for config in [
        ChannelConfig::default().hedge_ratio(2.0),
        ChannelConfig::default().retries(RetryConfig { attempts: 0, ..never }),
        ChannelConfig::default().refresh(MINUTE, Duration::ZERO),
        ChannelConfig::default().outliers(OutlierConfig { share: f64::NAN, ..OutlierConfig::default() }),
    ] {
        assert!(Channel::to(target.clone(), config).is_err());
    }
}
