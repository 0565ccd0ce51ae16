//! Short messages beside long ones.

use greenwave_rpc::*;
use greenwave_verbs::Choice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SMALL: MethodId = MethodId::of("test.Flows/Small");
const BULK: MethodId = MethodId::of("test.Flows/Bulk");
const MINUTE: Duration = Duration::from_secs(60);
const BULK_BYTES: usize = 16 << 20;

/// A server of small and large replies, and how many of the large ones it has handed over.
fn serve(backend: &Choice, sending: Sending, clusters: usize) -> (ServerHandle, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let making = Arc::clone(&made);
    let router = Router::new()
        .method("test.Flows/Small", |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .method("test.Flows/Bulk", move |_, _, reply| {
            reply.resize(BULK_BYTES, 7);
            making.fetch_add(1, Ordering::Release);
            Ok(())
        });
    let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
    let config = ServerConfig::default().listen(listen).sending(sending).clusters(clusters).backend(backend.clone());
    (Server::start(config, router).unwrap(), made)
}

/// Asks for a large reply, and for a small one when the large one has been handed over. The tags in the order in which
/// they complete: 1 is the large one.
fn order(backend: &Choice, sending: Sending, apart: bool) -> Vec<u64> {
    let (server, made) = serve(backend, sending, 1);
    let config = ChannelConfig::default().backend(backend.clone());
    let address = &server.addresses()[0];
    let mut stream = CallQueue::connect(address, &config).unwrap();
    let other = stream.open(address, &config).unwrap();
    stream.submit_within(MINUTE, SMALL, b"", 0);
    stream.submit_within_on(other, MINUTE, SMALL, b"", 0);
    [(); 2].iter().for_each(|()| assert!(stream.take().unwrap().result.is_ok()));
    stream.submit_within(MINUTE, BULK, b"", 1);
    stream.flush();
    while made.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    if apart {
        stream.submit_within_on(other, MINUTE, SMALL, b"small", 2);
    } else {
        stream.submit_within(MINUTE, SMALL, b"small", 2);
    }
    let mut tags = Vec::new();
    while let Some(done) = stream.take() {
        let expected = if done.tag == 1 { BULK_BYTES } else { b"small".len() };
        assert_eq!(done.result.unwrap().body.len(), expected);
        tags.push(done.tag);
    }
    tags
}

fn backends() -> Vec<Choice> {
    let config = greenwave_verbs::QueueConfig { backend: Choice::Uring, ..Default::default() };
    let uring = greenwave_verbs::open(&config).is_ok().then_some(Choice::Uring);
    uring.into_iter().chain([Choice::Epoll]).collect()
}

#[test]
fn a_small_reply_overtakes_a_large_one_that_was_handed_over_before_it() {
    for backend in backends() {
        for apart in [false, true] {
            assert_eq!(order(&backend, Sending::default(), apart), [2, 1], "{backend:?}, apart: {apart}");
        }
    }
}

#[test]
fn in_order_a_small_reply_comes_after_the_large_one() {
    let sending = Sending::default().order(SendOrder::InOrder);
    for backend in backends() {
        assert_eq!(order(&backend, sending, false), [1, 2], "{backend:?}");
    }
}

#[test]
fn replies_that_are_tagged_arrive_as_all_others_do() {
    let sending = Sending::default().marking(Marking::RECOMMENDED);
    for backend in backends() {
        assert_eq!(order(&backend, sending, false), [2, 1], "{backend:?}");
    }
}

/// Credits come back soon, so with ever so few of them, and more replies than credits, nothing comes to a halt; nor do
/// heads of one instance that hold their connections back for one another's.
#[test]
fn many_long_replies_over_several_connections_all_arrive() {
    for (backend, clusters) in backends().into_iter().flat_map(|backend| [(backend.clone(), 1), (backend, 3)]) {
        let (server, _) = serve(&backend, Sending::default(), clusters);
        let limits = Limits::default().credits(4);
        let config = ChannelConfig::default().backend(backend.clone()).limits(limits);
        let address = &server.addresses()[0];
        let mut stream = CallQueue::connect(address, &config).unwrap();
        let others: Vec<_> = (0..5).map(|_| stream.open(address, &config).unwrap()).collect();
        for (tag, other) in (0..).zip(others.iter().chain(&others)) {
            stream.submit_within_on(*other, MINUTE, BULK, b"", tag);
            stream.submit_within_on(*other, MINUTE, SMALL, b"small", 100 + tag);
        }
        let mut arrived = 0;
        while let Some(done) = stream.take() {
            arrived += done.result.unwrap().body.len();
        }
        assert_eq!(arrived, 10 * (BULK_BYTES + 5), "{backend:?}, {clusters} clusters");
    }
}

#[test]
fn a_tag_that_there_is_not_is_refused_at_start() {
    let sending = Sending::default().marking(Marking::Bands { small: 18, large: 64 });
    let wrong = ChannelConfig::default().sending(sending).validate().unwrap_err();
    assert_eq!(wrong.to_string(), "setting `sending.marking.large` is 64; allowed: 0 to 63");
}
