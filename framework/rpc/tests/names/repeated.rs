//! Which calls are made again, and which are made to another server too.

use super::block_on::block_on;
use super::raw::{self, Raw, within_reason};
use super::servers::*;
use greenwave_proto::wire::Frame;
use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A server that closes the connection when it is given a call; and how many it was given.
fn closes() -> (Address, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, given) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&given);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut raw = Raw::over(stream.unwrap());
            raw.send(&Frame::Hello(raw::server_hello()));
            raw.next_call();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (Address::Tcp(address), given)
}

/// A server that never answers well, and one that does, each asked in turn.
fn beside(bad: Address, config: ChannelConfig) -> (Channel, ServerHandle) {
    let good = serve(echo(Duration::ZERO));
    let target = Target::addresses([good.addresses()[0].clone(), bad]).unwrap();
    // One that lost its connection is connected to again at once.
    let config = config.balance(BalanceRule::RoundRobin).reconnect(Duration::from_nanos(1));
    (Channel::to(target, config).unwrap(), good)
}

#[test]
fn a_call_that_was_lost_is_made_again_only_if_it_may_run_twice() {
    let (bad, given) = closes();
    let (channel, _good) = beside(bad, ChannelConfig::default());
    let context = Context::with_deadline(MINUTE);
    let failures = (0..4).filter_map(|_| channel.call(&context, ECHO, b"once").err());
    assert_eq!(failures.map(|status| status.reason).collect::<Vec<_>>(), [Reason::ConnectionLost; 2]);
    let before = given.load(Ordering::SeqCst);
    for _ in 0..2 {
        assert!(channel.call_repeatable(&context, ECHO, b"or twice".into()).is_ok());
        assert!(block_on(channel.call_repeatable_async(&context, ECHO, b"or twice")).is_ok());
    }
    assert!(given.load(Ordering::SeqCst) > before, "it was among those that were asked");
}

#[test]
fn a_handlers_refusal_is_its_answer_and_not_asked_for_elsewhere() {
    let full = serve(Router::new().method("test.Echo/Echo", |_, _, _| Err(Status::refused(Reason::QueueFull, ""))));
    let (channel, good) = beside(full.addresses()[0].clone(), ChannelConfig::default());
    let context = Context::with_deadline(MINUTE);
    let failed = (0..10).filter(|_| channel.call_repeatable(&context, ECHO, b"1".into()).is_err()).count();
    assert_eq!((failed, good.counters().calls), (5, 5));
}

/// No more calls are made again than the bucket has: where half of the calls fail, the rest of the failures show.
#[test]
fn a_storm_of_failures_makes_few_calls_more() {
    let (bad, given) = closes();
    let retries = RetryConfig { per_second: 0.0, ratio: 0.0, ..RetryConfig::default() };
    let no_outliers = OutlierConfig { consecutive: 0, excess: 1.0, ..OutlierConfig::default() };
    let (channel, good) = beside(bad, ChannelConfig::default().retries(retries).outliers(no_outliers));
    let context = Context::with_deadline(MINUTE);
    let answered = (0..100).filter(|_| channel.call_repeatable(&context, ECHO, b"1".into()).is_ok()).count();
    assert_eq!(given.load(Ordering::SeqCst) + good.counters().calls as usize, 110, "each once, and ten again");
    assert!(answered < 70, "{answered}");
}

/// A deadline of one call is that of all its attempts.
#[test]
fn no_attempt_is_made_that_can_not_be_in_time() {
    let target = Target::addresses([nobody(), nobody()]).unwrap();
    let retries = RetryConfig { pause: Duration::from_secs(3600), ..RetryConfig::default() };
    let channel = Channel::to(target, ChannelConfig::default().retries(retries)).unwrap();
    let other = channel.clone();
    // Both are gone, so the third attempt would be made after a pause; an hour is longer than a minute.
    let status = within_reason("a call without hope", move || {
        channel.call(&Context::with_deadline(MINUTE), ECHO, b"1").unwrap_err()
    });
    assert_eq!(status.reason, Reason::Unreachable);
    let failed = within_reason("the same as a future", move || {
        block_on(other.call_async(&Context::with_deadline(MINUTE), ECHO, b"1")).unwrap_err()
    });
    assert_eq!(failed.status.reason, Reason::Unreachable);
}

#[test]
fn a_hedge_answers_for_a_server_that_is_slow() {
    let told = Arc::new(AtomicBool::new(false));
    let stuck = serve(stuck_once(&told));
    let config = ChannelConfig::default().hedge_ratio(1.0).hedge_quantile(0.5);
    let (channel, _good) = beside(stuck.addresses()[0].clone(), config);
    let (context, other) = (Context::unlimited(), channel.clone());
    // How long calls take is learned.
    (0..20).for_each(|_| drop(channel.call_repeatable(&context, ECHO, b"1".into()).unwrap()));
    told.store(true, Ordering::Relaxed);
    within_reason("hedged calls", move || {
        for _ in 0..5 {
            assert_eq!(&channel.call_repeatable(&context, ECHO, b"hedged".into()).unwrap().body[..], b"hedged");
            let reply = block_on(channel.call_repeatable_async(&context, ECHO, b"hedged")).unwrap();
            assert_eq!(&reply.body[..], b"hedged");
        }
    });
    raw::eventually("what was slow is taken back", || stuck.counters().cancelled > 0);
    told.store(false, Ordering::Relaxed);
    // What may run once only is never made twice.
    let before = other.call(&Context::with_deadline(MINUTE), ECHO, b"1");
    assert!(before.is_ok());
}

#[test]
fn a_call_that_is_dropped_is_taken_back_from_its_server() {
    let told = Arc::new(AtomicBool::new(true));
    let (first, second) = (serve(stuck_once(&told)), serve(stuck_once(&told)));
    let servers = [first, second];
    let channel = channel(&servers, ChannelConfig::default());
    let calls = (0..4).map(|_| channel.call_async(&Context::unlimited(), ECHO, b"1")).collect::<Vec<_>>();
    raw::eventually("all are served", || calls_of(&servers).iter().sum::<u64>() == 4);
    drop(calls);
    raw::eventually("all are taken back", || {
        servers.iter().map(|server| server.counters().cancelled).sum::<u64>() == 4
    });
}
