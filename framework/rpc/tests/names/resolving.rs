//! Names, and what becomes of a channel when what they stand for changes.

use super::block_on::block_on;
use super::dns::Dns;
use super::raw::{self, within_reason};
use super::servers::*;
use greenwave_rpc::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

fn host(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

fn context() -> Context {
    Context::with_deadline(MINUTE)
}

#[test]
fn calls_go_to_all_addresses_of_a_name() {
    let make = || echo(Duration::ZERO);
    let (servers, port) = fleet(&[&make, &make, &make]);
    let dns = Dns::start();
    dns.addresses("kv.test", 60, (1..=3).map(host));
    let channel = dns.channel(&format!("kv.test:{port}"));
    (0..60).for_each(|_| drop(channel.call(&context(), ECHO, b"1").unwrap()));
    assert!(calls_of(&servers).iter().all(|calls| *calls > 0), "{:?}", calls_of(&servers));
    // One look-up for all; that of a future and that of a handler wait in their own ways.
    let channel = dns.channel(&format!("kv.test:{port}"));
    assert!(block_on(channel.call_async(&context(), ECHO, b"1")).is_ok());
    let behind = dns.channel(&format!("kv.test:{port}"));
    let front = serve(Router::new().method("test.Front/Ask", move |context, _, _| {
        let aggregator = Aggregator::new(AggregatorConfig::default());
        assert!(aggregator.unit(context).branch(&behind, ECHO, vec![1]).gather().is_complete());
        behind.call(context, ECHO, b"1").map(drop)
    }));
    let channel = Channel::new(front.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    assert_eq!(channel.call(&context(), ASK, b"").unwrap().receipt.children.len(), 2);
}

#[test]
fn many_that_call_first_wait_for_one_look_up() {
    let server = serve(echo(Duration::ZERO));
    let dns = Dns::start();
    dns.silent(true);
    dns.addresses("kv.test", 60, [host(1)]);
    let channel = dns.channel(&format!("kv.test:{}", socket(&server).port()));
    std::thread::scope(|scope| {
        let threads = (0..8).map(|_| scope.spawn(|| channel.call(&context(), ECHO, b"1"))).collect::<Vec<_>>();
        let futures = (0..8).map(|_| channel.call_async(&context(), ECHO, b"1")).collect::<Vec<_>>();
        raw::eventually("the name is asked for", || dns.queries() > 0);
        dns.silent(false);
        threads.into_iter().for_each(|thread| drop(thread.join().unwrap().unwrap()));
        futures.into_iter().for_each(|future| drop(block_on(future).unwrap()));
    });
    // The first query, its repetitions, and no more: the address is valid for a minute.
    assert!(dns.queries() < 8, "{}", dns.queries());
}

#[test]
fn addresses_of_ipv6_are_taken_where_there_are_no_others() {
    let Ok(server) = serve_at((Ipv6Addr::LOCALHOST, 0).into(), echo(Duration::ZERO)) else {
        return eprintln!("there is no IPv6 here");
    };
    let dns = Dns::start();
    dns.addresses("six.test", 60, [Ipv6Addr::LOCALHOST.into()]);
    let channel = dns.channel(&format!("six.test:{}", socket(&server).port()));
    channel.call(&context(), ECHO, b"1").unwrap();
    assert_eq!(server.counters().calls, 1);
}

#[test]
fn srv_records_say_the_ports_and_who_comes_first() {
    let [one, other, spare] = [(); 3].map(|()| serve(echo(Duration::ZERO)));
    let port = |server| socket(server).port();
    let dns = Dns::start();
    dns.addresses("a.test", 60, [host(1)]);
    dns.addresses("b.test", 60, [host(1)]);
    let services = [(20, port(&spare), "a.test."), (10, port(&one), "a.test."), (10, port(&other), "b.test.")];
    dns.services("_greenwave._tcp.kv.test", &services);
    dns.services("_rpc._tcp.kv.test", &[(5, port(&spare), "gone.test."), (10, port(&spare), "a.test.")]);
    let channel = dns.channel("kv.test");
    (0..40).for_each(|_| drop(channel.call(&context(), ECHO, b"1").unwrap()));
    assert!(one.counters().calls > 0 && other.counters().calls > 0 && spare.counters().calls == 0);
    // A priority whose targets have no addresses is passed over.
    dns.channel("_rpc._tcp.kv.test").call(&context(), ECHO, b"1").unwrap();
    assert_eq!(spare.counters().calls, 1);
}

#[test]
fn a_name_that_does_not_exist_is_a_failure_that_says_so_until_it_does() {
    let server = serve(echo(Duration::ZERO));
    let dns = Dns::start();
    let channel = dns.channel(&format!("kv.test:{}", socket(&server).port()));
    let status = channel.call(&context(), ECHO, b"1").unwrap_err();
    assert_eq!((status.reason, status.never_ran()), (Reason::Unreachable, true));
    assert!(status.message.contains("kv.test") && status.message.contains("NXDOMAIN"), "{status}");
    let failed = block_on(channel.call_async(&context(), ECHO, b"1")).unwrap_err();
    assert_eq!(failed.reason, Reason::Unreachable);
    // It has addresses of no kind; then it has one.
    dns.addresses("kv.test", 60, []);
    raw::eventually("it is known to be empty", || {
        channel.call(&context(), ECHO, b"1").unwrap_err().message.contains("no addresses")
    });
    dns.addresses("kv.test", 60, [host(1)]);
    raw::eventually("it is found", || channel.call(&context(), ECHO, b"1").is_ok());
}

#[test]
fn a_dns_server_that_does_not_answer_takes_the_budget_and_no_more() {
    let server = serve(echo(Duration::ZERO));
    let dns = Arc::new(Dns::start());
    dns.addresses("kv.test", 60, [host(1)]);
    dns.silent(true);
    let channel = dns.channel(&format!("kv.test:{}", socket(&server).port()));
    let short = || Context::with_deadline(Duration::from_millis(20));
    for _ in 0..3 {
        let status = channel.call(&short(), ECHO, b"1").unwrap_err();
        assert_eq!((status.reason, status.never_ran()), (Reason::Expired(Check::Send), true));
        assert!(status.message.contains("not resolved"), "{status}");
        let failed = block_on(channel.call_async(&short(), ECHO, b"1")).unwrap_err();
        assert_eq!(failed.reason, Reason::Expired(Check::Send));
    }
    let cancelled = Context::unlimited();
    let (waiting, behind) = (channel.clone(), cancelled.clone());
    let thread = std::thread::spawn(move || waiting.call(&behind, ECHO, b"1"));
    cancelled.cancel();
    assert_eq!(thread.join().unwrap().unwrap_err().reason, Reason::Cancelled);
    dns.silent(false);
    within_reason("it answers now", move || channel.call(&context(), ECHO, b"1").unwrap());
}

#[test]
fn when_the_addresses_change_calls_and_connections_follow() {
    let make = || echo(Duration::ZERO);
    let (servers, port) = fleet(&[&make, &make]);
    let dns = Dns::start();
    dns.addresses("kv.test", 0, [host(1)]);
    let channel = dns.channel(&format!("kv.test:{port}"));
    channel.call(&context(), ECHO, b"1").unwrap();
    assert_eq!(calls_of(&servers), [1, 0]);
    dns.addresses("kv.test", 0, [host(2)]);
    raw::eventually("calls go to the other one", || {
        channel.call(&context(), ECHO, b"1").unwrap();
        servers[1].counters().calls > 0
    });
    let before = servers[0].counters().calls;
    (0..20).for_each(|_| drop(channel.call(&context(), ECHO, b"1").unwrap()));
    assert_eq!(servers[0].counters().calls, before);
    raw::eventually("nobody keeps the connection", || servers[0].counters().connections == 0);
}

#[test]
fn addresses_are_kept_when_a_later_look_up_fails() {
    let server = serve(echo(Duration::ZERO));
    let dns = Dns::start();
    dns.addresses("kv.test", 0, [host(1)]);
    let channel = dns.channel(&format!("kv.test:{}", socket(&server).port()));
    channel.call(&context(), ECHO, b"1").unwrap();
    dns.forget();
    let before = dns.queries();
    raw::eventually("it is looked up in vain", || {
        channel.call(&context(), ECHO, b"1").unwrap();
        dns.queries() > before + 3
    });
}

/// A server that is gone is reason enough to look again, long before the addresses are out of date.
#[test]
fn a_server_that_is_gone_has_the_name_looked_up_again() {
    let make = || echo(Duration::ZERO);
    let (mut servers, port) = fleet(&[&make, &make]);
    let dns = Dns::start();
    dns.addresses("kv.test", 3600, [host(1)]);
    let channel = dns.channel(&format!("kv.test:{port}"));
    channel.call(&context(), ECHO, b"1").unwrap();
    dns.addresses("kv.test", 3600, [host(2)]);
    drop(servers.remove(0));
    raw::eventually("the other one is found", || channel.call(&context(), ECHO, b"1").is_ok());
    assert!(servers[0].counters().calls > 0);
}

#[test]
fn a_channel_without_calls_asks_for_nothing() {
    let server = serve(echo(Duration::ZERO));
    let dns = Dns::start();
    dns.addresses("kv.test", 0, [host(1)]);
    let target: Target = dns.target(&format!("kv.test:{}", socket(&server).port())).parse().unwrap();
    let often = ChannelConfig::default().refresh(Duration::from_micros(1), Duration::from_micros(2));
    let (idle, busy) = (Channel::to(target.clone(), often).unwrap(), dns.channel("other.test:1"));
    assert_eq!(dns.queries(), 0, "nobody has called");
    idle.call(&context(), ECHO, b"1").unwrap();
    // While another name is looked up often, by calls that fail, this one is only if there was a call.
    assert!(busy.call(&context(), ECHO, b"1").is_err());
    raw::eventually("the other name is asked for", || dns.queries() > 20 || busy.call(&context(), ECHO, b"1").is_ok());
    let before = dns.queries();
    drop(busy);
    idle.call(&context(), ECHO, b"1").unwrap();
    raw::eventually("it is asked for with the next call", || dns.queries() > before);
}

/// What a DNS server can make a client hold is bounded: connections to 256 servers. All addresses of 127.0.0.0/8 are this
/// machine's, and the server listens at all of them.
#[test]
fn of_thousands_of_addresses_some_are_used() {
    let server = serve_at((Ipv4Addr::UNSPECIFIED, 0).into(), echo(Duration::ZERO)).unwrap();
    let dns = Dns::start();
    let many = (0..2000_u16).map(|host| Ipv4Addr::new(127, 1, (host >> 8) as u8, host as u8).into());
    dns.addresses("many.test", 60, many);
    let channel = dns.channel(&format!("many.test:{}", socket(&server).port()));
    (0..1500).for_each(|_| drop(channel.call(&context(), ECHO, b"1").unwrap()));
    let connections = server.counters().connections;
    assert!((100..=256).contains(&connections), "{connections}");
}
