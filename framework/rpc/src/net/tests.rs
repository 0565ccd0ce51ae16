//! What only the connections of a thread can tell of themselves.

use super::ending::CLOSING;
use super::*;
use crate::config::ServerConfig;
use crate::wire::MethodId;
use greenwave_proto::connection::Request;
use greenwave_verbs::Event;
use greenwave_verbs::memory::{Direction, Faults, Network};
use std::sync::atomic::{AtomicU64, Ordering};

const SERVER: &str = "server";

fn queue(network: &Network) -> Box<dyn CompletionQueue> {
    let backend = Choice::Memory(network.clone());
    greenwave_verbs::open(&QueueConfig { backend, ..QueueConfig::default() }).unwrap()
}

/// The connections of a thread, and the clock that it reads.
struct Timed(Net, Arc<AtomicU64>);

fn timed(network: &Network) -> Timed {
    let nanos = Arc::<AtomicU64>::default();
    let clock = Clock::Virtual(Arc::clone(&nanos));
    Timed(Net::new(Choice::Memory(network.clone()), &Limits::default(), clock, false, &[], None).unwrap(), nanos)
}

fn route(to: &str) -> Route {
    let connection = ConnectionConfig::of(&ServerConfig::default());
    Route {
        address: Address::Memory(to.into()),
        connection,
        tls: None,
        grpc: None,
        reconnect: Duration::from_millis(10),
        jitter_seed: Some(1),
    }
}

fn serving(network: &Network) -> Timed {
    let Timed(mut net, nanos) = timed(network);
    let config = ServerConfig::default().name(SERVER);
    // Else there is one thing to wait for: that it was not used for long.
    let usage = Usage::new(config.bounds.idle(Duration::MAX));
    net.serve(ConnectionConfig::of(&config), Arc::default(), usage);
    net.listen(&Address::Memory(SERVER.into()), None, false).unwrap();
    Timed(net, nanos)
}

fn turn(Timed(net, nanos): &mut Timed, now: Time) {
    nanos.store(now.as_nanos(), Ordering::Relaxed);
    let mut events = Events::default();
    net.poll(now, &mut events);
    net.sweep(now, &mut events);
    net.flush(now);
}

/// It breaks the rules and never reads why it is closed on. Without an end of its own the endpoint would stay for ever.
#[test]
fn a_peer_that_does_not_read_its_farewell_is_cut_off() {
    let network = Network::new(0);
    // One chunk fits on the way, so that HELLO keeps GOAWAY from leaving.
    network.set_window(1);
    network.set_faults(SERVER, Direction::FromListener, Faults { stall: true, ..Faults::default() });
    let (mut net, mut peer) = (serving(&network), queue(&network));
    let endpoint = peer.connect(&Address::Memory(SERVER.into())).unwrap();
    peer.post_send(endpoint, &[b"no frame"]).unwrap();
    peer.submit();
    let begun = Time::from_nanos(1);
    for _ in 0..3 {
        turn(&mut net, begun);
    }
    assert_eq!(net.0.ends.counters.violations.load(), 1);
    assert_eq!(net.0.closing.len(), 1, "GOAWAY is still to be written");
    turn(&mut net, begun + (CLOSING - Duration::from_nanos(1)));
    assert_eq!(net.0.closing.len(), 1);
    turn(&mut net, begun + CLOSING);
    assert_eq!((net.0.closing.len(), net.0.ends.peers.len()), (0, 0));
    network.set_faults(SERVER, Direction::FromListener, Faults::default());
    let mut heard = Vec::new();
    peer.poll(begun + CLOSING, &mut |event| match event {
        Event::Received { .. } => heard.push("a chunk"),
        Event::Closed { .. } => heard.push("the end"),
        _ => {}
    });
    assert_eq!(heard.last(), Some(&"the end"));
}

#[test]
fn an_idle_connection_is_never_swept() {
    let network = Network::new(0);
    let mut net = serving(&network);
    let mut client = timed(&network);
    let key = client.0.open(route(SERVER));
    let context = crate::context::Context::unlimited();
    let method = MethodId::of("any");
    let mut events = Events::default();
    let now = Time::from_nanos(1);
    let request = Request { token: 0, terms: context.into(), method, started: now };
    client.0.call(key, request, Vec::new(), now, &mut events);
    for _ in 0..5 {
        turn(&mut client, now);
        turn(&mut net, now);
    }
    assert_eq!(
        net.0.ends.next_sweep.min(now + Duration::from_secs(4)),
        now + Duration::from_secs(4),
        "HELLO was due in 5 s"
    );
    let later = now + Duration::from_secs(6);
    turn(&mut net, later);
    assert_eq!(net.0.ends.next_sweep, Time::MAX);
    client.0.abandon(key, 0, &mut events);
    turn(&mut client, later);
    turn(&mut client, later + Duration::from_secs(6));
    assert_eq!(client.0.ends.next_sweep, Time::MAX);
}

/// What a sweep costs is a matter of the ends that are due, and not of all that there are.
#[test]
fn idle_connections_are_not_visited_by_the_sweeps_for_others() {
    let visits_beside = |idle: usize| {
        let network = Network::new(0);
        let (mut net, mut client) = (serving(&network), timed(&network));
        let method = MethodId::of("any");
        let (mut events, mut now) = (Events::default(), Time::from_nanos(1));
        let keys: Vec<PeerKey> = (0..=idle).map(|_| client.0.open(route(SERVER))).collect();
        for (token, key) in keys.iter().enumerate() {
            let terms = crate::context::Context::unlimited().into();
            client.0.call(*key, Request { token, terms, method, started: now }, Vec::new(), now, &mut events);
        }
        (0..5).for_each(|_| [&mut client, &mut net].into_iter().for_each(|it| turn(it, now)));
        (1..=idle).for_each(|token| client.0.abandon(keys[token], token, &mut events));
        // What was set for the calls that were abandoned, and for HELLO, fires once more.
        for _ in 0..3 {
            now = now + Duration::from_secs(6);
            [&mut client, &mut net].into_iter().for_each(|it| turn(it, now));
        }
        let before = client.0.ends.visited + net.0.ends.visited;
        for _ in 0..100 {
            now = now + Duration::from_millis(20);
            [&mut client, &mut net].into_iter().for_each(|it| turn(it, now));
        }
        client.0.ends.visited + net.0.ends.visited - before
    };
    let visits = visits_beside(1);
    assert_eq!(visits, 100, "the call that is under way is looked at each time: it may be cancelled");
    assert_eq!(visits_beside(300), visits);
}

/// A token is free for the next call as soon as its call was abandoned, although that was over already.
#[test]
fn what_became_of_an_abandoned_call_is_not_reported() {
    let network = Network::new(0);
    let mut client = timed(&network).0;
    let key = client.open(route("nobody"));
    let mut events = Events::default();
    let now = Time::from_nanos(1);
    let context = crate::context::Context::born(now, greenwave_policy::Budget::from_nanos(-5), true);
    let method = MethodId::of("any");
    client.call(key, Request { token: 3, terms: context.into(), method, started: now }, Vec::new(), now, &mut events);
    assert_eq!(events.len(), 1, "it had no time left");
    client.abandon(key, 3, &mut events);
    assert!(events.is_empty());
}

/// The bytes of a long message are told as they are read, before there is a call; of short ones nothing is.
#[test]
fn what_is_read_that_is_long_is_told_before_it_is_a_call() {
    const BYTES: usize = 1 << 20;
    let network = Network::new(0);
    let (mut net, mut client) = (serving(&network), timed(&network));
    net.0.tell_new();
    let (method, now) = (MethodId::of("any"), Time::from_nanos(1));
    let key = client.0.open(route(SERVER));
    let call = |client: &mut Timed, token, body: Vec<u8>| {
        let terms = crate::context::Context::unlimited().into();
        let mut events = Events::default();
        client.0.call(key, Request { token, terms, method, started: now }, body, now, &mut events);
    };
    call(&mut client, 0, vec![7; SMALL / 2]);
    (0..5).for_each(|_| [&mut client, &mut net].into_iter().for_each(|it| turn(it, now)));
    assert!(!net.0.has_long() && net.0.next_long().is_none());
    call(&mut client, 1, vec![7; BYTES]);
    let (mut told, mut told_before, mut calls) = (0, 0, 0);
    while calls == 0 {
        turn(&mut client, now);
        let mut events = Events::default();
        net.0.poll(now, &mut events);
        calls += events.found.iter().filter(|event| matches!(event, crate::net::Event::Call(..))).count();
        let sum = net.0.long_bytes();
        let each: usize = std::iter::from_fn(|| net.0.next_long()).map(|(_, bytes)| bytes).sum();
        assert_eq!(each, sum);
        told += sum;
        told_before = if calls == 0 { told } else { told_before };
        net.0.flush(now);
    }
    assert!(told_before > BYTES / 2, "{told_before}");
    assert!((BYTES - SMALL..BYTES + BYTES / 16).contains(&told), "{told}");
}
