//! Servers of several threads, over real sockets: what their clients see of stealing, instances, and a head that dies.

use super::inbox::Message;
use super::{Server, ServerHandle};
use crate::CallQueue;
use crate::client::channel::Channel;
use crate::client::config::ChannelConfig;
use crate::config::{Instance, ServerConfig};
use crate::context::Context;
use crate::service::Router;
use crate::status::{Code, Status};
use crate::wire::MethodId;
use greenwave_policy::StealRule;
use greenwave_verbs::Address;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

fn anywhere() -> Vec<Address> {
    vec![Address::Tcp(([127, 0, 0, 1], 0).into())]
}

/// Computes for about ten microseconds, or a hundred on a slow machine.
fn work() -> u64 {
    (0..20_000_u64).fold(1, |sum, round| std::hint::black_box(sum ^ round).rotate_left(7))
}

/// `Hold` goes on until there were as many `Release`s as its one byte says; `Who` tells which thread serves it.
fn router() -> Router {
    let released = Arc::new(AtomicUsize::new(0));
    let release = Arc::clone(&released);
    Router::new()
        .method("test.Steal/Hold", move |context, request, _| {
            while released.load(Ordering::Relaxed) < request.first().copied().unwrap_or_default().into() {
                if context.is_cancelled() || context.is_spent() {
                    return Err(Status::new(Code::Aborted, "nobody released it"));
                }
                std::hint::spin_loop();
            }
            Ok(())
        })
        .method("test.Steal/Release", move |_, _, _| {
            std::hint::black_box(work());
            release.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .method("test.Steal/Who", |_, _, reply| {
            std::hint::black_box(work());
            reply.extend_from_slice(std::thread::current().name().unwrap_or_default().as_bytes());
            Ok(())
        })
}

const HOLD: MethodId = MethodId::of("test.Steal/Hold");
const RELEASE: MethodId = MethodId::of("test.Steal/Release");
const WHO: MethodId = MethodId::of("test.Steal/Who");

/// Gives away whatever there is something beside.
const EAGER: StealRule = StealRule { busy_rounds: 0, least_work: Duration::ZERO, waiting: 64 };

fn start(clusters: usize, steal: Option<StealRule>) -> ServerHandle {
    Server::start(ServerConfig::default().listen(anywhere()).clusters(clusters).steal(steal), router()).unwrap()
}

fn stream(server: &ServerHandle) -> CallQueue {
    CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap()
}

/// Has the server learn what a method is for work.
fn teach(stream: &mut CallQueue, method: MethodId) {
    for _ in 0..40 {
        stream.submit(&Context::unlimited(), method, b"", 0);
        stream.take().unwrap().result.unwrap();
    }
}

#[test]
fn a_call_behind_a_busy_head_is_served_by_another() {
    let server = start(2, Some(EAGER));
    let mut stream = stream(&server);
    teach(&mut stream, RELEASE);
    for released in 41..61 {
        // They arrive together, the shorter first, which is kept and holds its head until the other was served elsewhere.
        let context = Context::with_deadline(MINUTE);
        stream.submit(&context, HOLD, &[released], 1);
        stream.submit(&context, RELEASE, b"longer", 2);
        for _ in 0..2 {
            stream.take().unwrap().result.unwrap();
        }
    }
    let counters = server.counters();
    assert!(counters.given_away >= counters.stolen && counters.stolen == 20, "{counters:?}");
}

#[test]
fn without_stealing_a_connections_calls_stay_with_its_head() {
    let server = start(2, None);
    let mut stream = stream(&server);
    let mut served = BTreeSet::new();
    for _ in 0..500 {
        (0..8).for_each(|tag| stream.submit(&Context::with_deadline(MINUTE), WHO, b"", tag));
        for _ in 0..8 {
            served.insert(stream.take().unwrap().result.unwrap().body.into_vec());
        }
    }
    assert_eq!(served.len(), 1);
    assert_eq!((server.counters().given_away, server.counters().stolen), (0, 0));
}

#[test]
fn every_call_of_many_connections_is_answered_once_while_heads_steal() {
    let server = start(3, Some(EAGER));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = stream(&server);
            std::thread::spawn(move || {
                let mut tags = BTreeSet::new();
                for round in 0..500 {
                    (0..16).for_each(|nth| stream.submit(&Context::unlimited(), WHO, b"", round * 16 + nth));
                    while let Some(done) = stream.take() {
                        assert!(done.result.is_ok() && tags.insert(done.tag));
                    }
                }
                tags.len()
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), 500 * 16);
    }
    let counters = server.counters();
    assert!(counters.stolen > 0 && counters.answered == counters.calls, "{counters:?}");
    // What was given away and not stolen was taken back.
    assert!(counters.stolen <= counters.given_away);
    server.drain(MINUTE);
}

/// A call that a caller takes back while another head serves it is told so.
#[test]
fn a_stolen_call_can_be_cancelled() {
    let server = start(2, Some(EAGER));
    let mut stream = stream(&server);
    teach(&mut stream, HOLD);
    // The more urgent is kept, and holds the head of the connection for its time. Who of the two sides notices its end
    // first is a race.
    stream.submit(&Context::with_deadline(Duration::from_millis(200)), HOLD, &[u8::MAX], 1);
    stream.submit(&Context::with_deadline(10 * MINUTE), HOLD, &[u8::MAX], 2);
    let kept = stream.take().unwrap();
    assert_eq!(kept.tag, 1);
    assert!(matches!(kept.result.unwrap_err().status.code, Code::DeadlineExceeded | Code::Aborted));
    assert_eq!(server.counters().stolen, 1);
    stream.cancel(2);
    assert_eq!(stream.take().unwrap().result.unwrap_err().status.code, Code::Cancelled);
    // The server is told with this, and waits for who doesn't notice.
    stream.submit(&Context::with_deadline(MINUTE), WHO, b"", 3);
    stream.take().unwrap().result.unwrap();
    let began = Instant::now();
    server.drain(MINUTE);
    assert!(began.elapsed() < MINUTE);
}

#[test]
fn instances_serve_their_own_addresses_with_their_own_heads() {
    let further = Instance::default().listen(anywhere()).clusters(2);
    let config = ServerConfig::default().listen(anywhere()).steal(None).instances(vec![further]);
    let server = Server::start(config, router()).unwrap();
    let served_at = |address: &Address| {
        let who = (0..8).map(|_| {
            let channel = Channel::new(address.clone(), ChannelConfig::default()).unwrap();
            let reply = channel.call(&Context::with_deadline(MINUTE), WHO, b"").unwrap();
            String::from_utf8(reply.body.into_vec()).unwrap()
        });
        who.collect::<BTreeSet<String>>()
    };
    let [first, second] = server.addresses() else { panic!("{:?}", server.addresses()) };
    assert!(served_at(first).into_iter().eq(["greenwave-head-0"]));
    assert!(served_at(second).is_subset(&["greenwave-head-1".to_owned(), "greenwave-head-2".to_owned()].into()));
}

/// The clients of other heads notice nothing; those of the dead one connect again, to its successor.
#[test]
fn a_head_that_dies_costs_its_own_connections_alone() {
    let server = start(2, None);
    let who = |channel: &Channel| {
        channel
            .call(&Context::with_deadline(MINUTE), WHO, b"")
            .map(|reply| String::from_utf8(reply.body.into_vec()).unwrap())
    };
    let connect = || Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    let channels: Vec<Channel> = (0..16).map(|_| connect()).collect();
    let heads: Vec<String> = channels.iter().map(|channel| who(channel).unwrap()).collect();
    // The one that accepts.
    server.inboxes[0].send(Message::Die);
    let until = Instant::now() + MINUTE;
    while server.counters().threads_died == 0 {
        assert!(Instant::now() < until, "it didn't die");
        std::thread::yield_now();
    }
    for (channel, head) in channels.iter().zip(&heads) {
        if head == "greenwave-head-1" {
            assert_eq!(who(channel).unwrap(), *head);
        } else {
            // Its connection is gone, which it may learn of by this call; then it connects again.
            while who(channel).is_err() {
                assert!(Instant::now() < until, "no head followed");
                std::thread::yield_now();
            }
        }
    }
    assert!(who(&connect()).is_ok());
    server.drain(MINUTE);
}

#[test]
fn a_handler_that_blocks_its_head_is_counted_once() {
    let (free, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let router = Router::new().method("test.Blocks/Block", move |_, _, _| {
        held.lock().unwrap().recv().unwrap();
        Ok(())
    });
    let server = Server::start(ServerConfig::default().listen(anywhere()), router).unwrap();
    let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    let block = move || channel.call(&Context::with_deadline(MINUTE), MethodId::of("test.Blocks/Block"), b"").is_ok();
    let caller = std::thread::spawn(block);
    let until = Instant::now() + MINUTE;
    while server.counters().held_up == 0 {
        assert!(Instant::now() < until, "nobody noticed");
        std::thread::yield_now();
    }
    free.send(()).unwrap();
    assert!(caller.join().unwrap());
    assert_eq!(server.counters().held_up, 1);
}

#[test]
fn a_server_that_cant_listen_everywhere_serves_nowhere() {
    let taken = start(1, None);
    let further = Instance::default().listen(taken.addresses().to_vec());
    let config = ServerConfig::default().listen(anywhere()).instances(vec![further]);
    assert!(Server::start(config, router()).is_err());
}

/// With more calls than the queue holds it is the long ones that are turned away, as soon as the server knows which those are.
#[test]
fn a_full_queue_turns_away_what_takes_long() {
    const LONG: MethodId = MethodId::of("test.Full/Long");
    const SHORT: MethodId = MethodId::of("test.Full/Short");
    let router = Router::new()
        .method("test.Full/Long", |_, _, _| {
            std::hint::black_box((0..100).fold(0, |sum, _| sum ^ work()));
            Ok(())
        })
        .method("test.Full/Short", |_, _, _| {
            std::hint::black_box(work());
            Ok(())
        });
    let mut config = ServerConfig::default().listen(anywhere());
    config.admission.max_queue = 32;
    let server = Server::start(config, router).unwrap();
    let mut stream = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
    let context = Context::with_deadline(MINUTE);
    for tag in 0..40 {
        stream.submit(&context, if tag % 2 == 0 { LONG } else { SHORT }, b"", tag);
        assert!(stream.take().unwrap().result.is_ok());
    }
    // Written together, so that they are found together or nearly so: as many long ones as there is room for, and as many
    // short ones behind them.
    (0..32).for_each(|tag| stream.submit(&context, LONG, b"", tag));
    (32..64).for_each(|tag| stream.submit(&context, SHORT, b"", tag));
    let ended: Vec<_> = (0..64).map(|_| stream.take().unwrap()).collect();
    let refused = |short: bool| ended.iter().filter(|end| (end.tag >= 32) == short && end.result.is_err()).count();
    assert_eq!(refused(true), 0);
    assert!(refused(false) >= 20, "{} long calls were turned away", refused(false));
    assert_eq!(server.counters().queue_full, refused(false) as u64);
}
