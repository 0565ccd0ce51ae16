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

const SHORT: Duration = Duration::from_millis(5);

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

/// By the system's own settings, of which every system knows this name.
#[test]
fn a_name_without_a_dns_server_is_resolved_as_the_system_does() {
    let server = serve(echo(Duration::ZERO));
    let target = format!("greenwave://localhost:{}", socket(&server).port()).parse().unwrap();
    let channel = Channel::to(target, ChannelConfig::default()).unwrap();
    assert_eq!(channel.target().name(), Some("localhost"));
    channel.call(&context(), ECHO, b"1").unwrap();
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

fn grpc_connections_of(servers: &[ServerHandle]) -> u64 {
    servers.iter().map(|server| server.counters().grpc_connections).sum()
}

/// As each scheme has it: by the DNS server that the channel's settings name, or the target.
#[test]
fn names_of_every_scheme_are_asked_of_the_channel_s_dns_server() {
    let make = || echo(Duration::ZERO);
    let (servers, port) = fleet(&[&make, &make]);
    let dns = Dns::start();
    dns.addresses("kv.test", 60, [host(1), host(2)]);
    dns.alias("also.test", "kv.test");
    let services = [(10, port, "kv.test.")];
    dns.services("_greenwave._tcp.srv.test", &services);
    dns.services("_grpc._tcp.srv.test", &services);
    for target in [
        format!("greenwave://kv.test:{port}"),
        format!("tcp://kv.test:{port}"),
        format!("dns:///kv.test:{port}"),
        format!("dns:///also.test:{port}"),
        "greenwave://srv.test".into(),
        "greenwave://_greenwave._tcp.srv.test".into(),
        "dns:///srv.test".into(),
        format!("grpc://kv.test:{port}"),
        format!("grpc://also.test.:{port}"),
        "grpc://srv.test".into(),
        dns.target("srv.test"),
    ] {
        let (before, over_grpc) = (calls_of(&servers), grpc_connections_of(&servers));
        let channel = Channel::to(target.parse().unwrap(), dns.config()).unwrap();
        (0..40).for_each(|_| drop(channel.call(&context(), Method::named("test.Echo/Echo"), b"1").unwrap()));
        let after = calls_of(&servers);
        assert!(after.iter().zip(before).all(|(after, before)| *after > before), "{target} {after:?}");
        assert_eq!(grpc_connections_of(&servers) > over_grpc, target.starts_with("grpc"), "{target}");
    }
}

/// The same failures for a channel to gRPC's servers: that there is no such name, and that nobody says.
#[test]
fn names_of_grpc_fail_as_others_do() {
    let server = serve(echo(Duration::ZERO));
    let dns = Dns::start();
    let call = |channel: &Channel, context: &Context| channel.call(context, Method::named("test.Echo/Echo"), b"1");
    for target in [format!("grpc://kv.test:{}", socket(&server).port()), "grpc://kv.test".into()] {
        let channel = Channel::to(target.parse().unwrap(), dns.config()).unwrap();
        let status = call(&channel, &context()).unwrap_err();
        assert_eq!((status.code, status.never_ran()), (Code::Unavailable, true));
        assert!(status.message.contains("NXDOMAIN"), "{status}");
        let channel = Channel::to(target.parse().unwrap(), dns.config()).unwrap();
        dns.silent(true);
        let status = call(&channel, &Context::with_deadline(Duration::from_millis(20))).unwrap_err();
        assert_eq!((status.code, status.reason), (Code::DeadlineExceeded, Reason::Expired(Check::Send)));
        assert!(channel.open(&Context::with_deadline(Duration::from_millis(20)), ECHO).is_err());
        dns.silent(false);
    }
}

/// What doesn't fit a datagram is cut off and asked for again over TCP: all of it counts.
#[test]
fn what_is_too_large_for_udp_is_asked_for_over_tcp() {
    let server = serve_at((Ipv4Addr::UNSPECIFIED, 0).into(), echo(Duration::ZERO)).unwrap();
    let dns = Dns::start();
    dns.addresses("few.test", 60, (1..=3).map(host));
    dns.addresses("many.test", 60, (1..=200).map(host));
    let port = socket(&server).port();
    dns.channel(&format!("few.test:{port}")).call(&context(), ECHO, b"1").unwrap();
    assert_eq!(dns.queries_over_tcp(), 0);
    let channel = dns.channel(&format!("many.test:{port}"));
    (0..400).for_each(|_| drop(channel.call(&context(), ECHO, b"1").unwrap()));
    assert_eq!(dns.queries_over_tcp(), 1);
    // Far more than the 80 addresses that fit the largest datagram that is asked for.
    let connections = server.counters().connections;
    assert!((100..=201).contains(&connections), "{connections}");
}

/// Answers that are out of date at once are not asked for with each call.
#[test]
fn a_ttl_of_nothing_is_a_look_up_at_the_least_interval_and_no_more() {
    let server = serve(echo(Duration::ZERO));
    let dns = Dns::start();
    dns.addresses("kv.test", 0, [host(1)]);
    let config = dns.config().refresh(MINUTE, MINUTE);
    let target = dns.target(&format!("kv.test:{}", socket(&server).port()));
    let channel = Channel::to(target.parse().unwrap(), config).unwrap();
    (0..200).for_each(|_| drop(channel.call(&context(), ECHO, b"1").unwrap()));
    assert_eq!(dns.queries(), 1);
    // With a short one it is looked up again and again, while there are calls.
    let channel = dns.channel(&format!("kv.test:{}", socket(&server).port()));
    raw::eventually("it is looked up again", || {
        channel.call(&context(), ECHO, b"1").unwrap();
        dns.queries() > 10
    });
}

/// Addresses that come and go: the ports of SRV records too, and what had no address of IPv4 has one.
#[test]
fn records_of_services_are_followed_as_they_change() {
    let [one, other] = [(); 2].map(|()| serve(echo(Duration::ZERO)));
    let dns = Dns::start();
    dns.addresses("a.test", 0, [host(1)]);
    dns.services("_grpc._tcp.kv.test", &[(10, socket(&one).port(), "a.test.")]);
    let channel = Channel::to("grpc://kv.test".parse().unwrap(), dns.config().refresh(SHORT, SHORT)).unwrap();
    let call = || channel.call(&context(), Method::named("test.Echo/Echo"), b"1").unwrap();
    call();
    assert_eq!((one.counters().calls, other.counters().calls), (1, 0));
    dns.services("_grpc._tcp.kv.test", &[(10, socket(&other).port(), "a.test.")]);
    raw::eventually("calls go to the other port", || {
        call();
        other.counters().calls > 0
    });
    raw::eventually("nobody keeps the connection", || one.counters().connections == 0);
}

/// Over TLS the certificate is the name's, whichever of its addresses it is.
#[cfg(feature = "tls")]
#[test]
fn servers_of_grpc_over_tls_are_found_by_name_and_believed_by_it() {
    use greenwave_verbs::tls::{Identity, Pem};
    use greenwave_verbs::{TlsClient, TlsServer};
    let own = rcgen::generate_simple_self_signed(["kv.test".to_owned()]).unwrap();
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let pem = || Pem::Bytes(certificate.as_bytes());
    let identity = Identity { certificate: pem(), key: Pem::Bytes(key.as_bytes()) };
    let config = ServerConfig::default().tls(TlsServer::new(identity, None).unwrap());
    let config = config.listen(vec!["tcp://127.0.0.1:0".parse().unwrap()]);
    let server = Server::start(config, echo(Duration::ZERO)).unwrap();
    let dns = Dns::start();
    dns.addresses("kv.test", 60, [host(1)]);
    dns.services("_grpc._tcp.kv.test", &[(10, socket(&server).port(), "kv.test.")]);
    let call = |target: &str, name| {
        let tls = TlsClient::new(pem(), None, Some(name)).unwrap();
        let channel = Channel::to(target.parse().unwrap(), dns.config().tls(tls)).unwrap();
        channel.call(&context(), Method::named("test.Echo/Echo"), b"1")
    };
    for target in [format!("grpcs://kv.test:{}", socket(&server).port()), "grpcs://kv.test".into()] {
        assert!(call(&target, "kv.test").is_ok());
        assert_eq!(call(&target, "other.test").unwrap_err().reason, Reason::Unreachable);
    }
    assert!(server.counters().grpc_connections >= 2);
}
