//! Streams of messages between a client and a server of Greenwave's own.

use greenwave_rpc::{
    Channel, ChannelConfig, Code, Context, Features, Incoming, MethodId, Outgoing, Reason, Router, Server,
    ServerConfig, ServerHandle, Status, promise,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ECHO: MethodId = MethodId::of("test.Streams/Echo");
const COUNT: MethodId = MethodId::of("test.Streams/Count");
const POUR: MethodId = MethodId::of("test.Streams/Pour");
const SUM: MethodId = MethodId::of("test.Streams/Sum");
const STUCK: MethodId = MethodId::of("test.Streams/Stuck");
const UNARY: MethodId = MethodId::of("test.Streams/Unary");

/// What handlers were seen to do.
#[derive(Default)]
struct Seen {
    sent: AtomicUsize,
    ends: Mutex<Vec<Result<(), Code>>>,
}

impl Seen {
    fn note(&self, end: Result<(), Status>) -> Result<(), Status> {
        self.ends.lock().unwrap().push(end.as_ref().map_err(|status| status.code).copied());
        end
    }
}

fn echo(context: &Context, incoming: &mut Incoming, outgoing: &mut Outgoing) -> Result<(), Status> {
    for (name, value) in context.metadata() {
        context.lead(&format!("led-{name}"), value).unwrap();
        context.trail(&format!("trailed-{name}"), value).unwrap();
    }
    while let Some((message, deadline)) = incoming.next_due(context)? {
        let dated = context.metadata().any(|(name, _)| name == "dated") && message == [7];
        assert_eq!(deadline.expires().is_some(), dated, "its sender says when it is wanted");
        outgoing.send(context, message)?;
    }
    Ok(())
}

fn router(seen: &Arc<Seen>) -> Router {
    let [echoing, counting, pouring, stuck] = [0; 4].map(|_| Arc::clone(seen));
    Router::new()
        .streaming("test.Streams/Echo", move |context, mut incoming, mut outgoing| {
            echoing.note(echo(context, &mut incoming, &mut outgoing))
        })
        .streaming("test.Streams/Count", move |context, incoming, mut outgoing| {
            let request = incoming.only(context)?;
            let (count, len) = (usize::from(request[0]), usize::from(request[1]) << 10);
            for number in 0..count {
                outgoing.send(context, vec![number as u8; len])?;
                counting.sent.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        })
        .streaming("test.Streams/Pour", move |context, incoming, mut outgoing| {
            drop(incoming);
            loop {
                outgoing.send(context, Vec::new())?;
                pouring.sent.fetch_add(1, Ordering::SeqCst);
            }
        })
        .streaming("test.Streams/Sum", |context, mut incoming, mut outgoing| {
            let mut sum = 0_u64;
            while let Some(message) = incoming.next(context)? {
                sum += message.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            }
            outgoing.send(context, sum.to_le_bytes().to_vec())
        })
        .streaming("test.Streams/Stuck", move |context, _incoming, _outgoing| {
            let (_promise, awaited) = promise::<()>();
            stuck.note(awaited.wait(context))
        })
        .method("test.Streams/Unary", |context, request, reply| {
            context.lead("led", "before").unwrap();
            context.trail("trailed", "after").unwrap();
            reply.extend_from_slice(request);
            Ok(())
        })
}

fn start(config: ServerConfig) -> (ServerHandle, Channel, Arc<Seen>) {
    let seen = Arc::default();
    let server = Server::start(config.listen(vec!["tcp://127.0.0.1:0".parse().unwrap()]), router(&seen)).unwrap();
    let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    (server, channel, seen)
}

fn context() -> Context {
    Context::with_deadline(Duration::from_secs(60))
}

/// Waits for what another thread brings about.
fn until(mut what: impl FnMut() -> bool) {
    let context = context();
    while !what() {
        assert!(!context.is_spent(), "it should have come about by now");
        std::thread::yield_now();
    }
}

#[test]
fn messages_come_back_in_their_order_whatever_their_lengths_and_wherever_they_are_served() {
    let in_place = ServerConfig::default();
    let by_workers = ServerConfig::default().workers(2);
    let by_heads = ServerConfig::default().clusters(2);
    for config in [in_place, by_workers, by_heads] {
        let (_server, channel, _) = start(config);
        let context = context();
        let (mut outgoing, mut incoming) = channel.open(&context, ECHO).unwrap();
        let lengths = [0, 1, 100, 20_000, 3, 300_000, 2, 1 << 20, 5, 70_000];
        // One after the other, and all at once by another thread.
        for length in lengths {
            outgoing.send(&context, vec![length as u8; length]).unwrap();
            assert_eq!(incoming.next(&context).unwrap(), Some(vec![length as u8; length]));
        }
        let sending = context.clone();
        let sender = std::thread::spawn(move || {
            for length in lengths.repeat(20) {
                outgoing.send(&sending, vec![length as u8; length]).unwrap();
            }
        });
        for length in lengths.repeat(20) {
            assert_eq!(incoming.next(&context).unwrap(), Some(vec![length as u8; length]));
        }
        sender.join().unwrap();
        assert_eq!(incoming.next(&context), Ok(None));
        assert!(incoming.receipt().is_some(), "the end tells where the time went");
    }
}

#[test]
fn a_handler_waits_for_a_client_that_does_not_take_what_it_sends() {
    let (_server, channel, seen) = start(ServerConfig::default());
    let context = context();
    let (mut outgoing, mut incoming) = channel.open(&context, COUNT).unwrap();
    // 255 messages of 64 KiB: 16 MiB in all.
    outgoing.send(&context, vec![255, 64]).unwrap();
    outgoing.end();
    for taken in 0..255 {
        assert_eq!(incoming.next(&context).unwrap(), Some(vec![taken as u8; 64 << 10]));
        let ahead = seen.sent.load(Ordering::SeqCst).saturating_sub(taken + 1);
        // What may wait with the handler, what may be under way, and what was taken and not told of.
        assert!(ahead <= 2 + (256 + 256 + 32) / 64 * 2, "{ahead} messages were sent ahead");
    }
    assert_eq!(incoming.next(&context), Ok(None));
}

/// What holds memory is counted, and not the bytes alone.
#[test]
fn empty_messages_wait_as_others_do() {
    let (_server, channel, seen) = start(ServerConfig::default());
    let context = context();
    let (_outgoing, mut incoming) = channel.open(&context, POUR).unwrap();
    for taken in 0..100_000 {
        assert_eq!(incoming.next(&context).unwrap(), Some(Vec::new()));
        let ahead = seen.sent.load(Ordering::SeqCst).saturating_sub(taken + 1);
        // As above: each counts for 64 bytes. Of what has left, the last 16 KiB may not have been told of.
        assert!(ahead <= 2 + ((256 + 256 + 32 + 16) << 10) / 64, "{ahead} messages were sent ahead");
    }
}

#[test]
fn a_client_waits_for_a_handler_that_takes_nothing_until_its_time_is_up() {
    let (_server, channel, seen) = start(ServerConfig::default());
    let context = Context::with_deadline(Duration::from_millis(300));
    let (mut outgoing, mut incoming) = channel.open(&context, STUCK).unwrap();
    let mut sent = 0;
    let failed = loop {
        match outgoing.send(&context, vec![0; 32 << 10]) {
            Ok(()) => sent += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(failed.code, Code::DeadlineExceeded);
    assert!(sent <= 2 + (256 + 256) / 32, "{sent} messages were sent ahead");
    assert_eq!(incoming.next(&context).unwrap_err().code, Code::DeadlineExceeded);
    until(|| !seen.ends.lock().unwrap().is_empty());
    // Its own deadline, or the client's word, whichever it hears first.
    assert!(matches!(seen.ends.lock().unwrap()[..], [Err(Code::DeadlineExceeded | Code::Cancelled)]));
}

#[test]
fn requests_are_many_and_the_answer_is_one() {
    let (_server, channel, _) = start(ServerConfig::default());
    let context = context();
    let (mut outgoing, incoming) = channel.open(&context, SUM).unwrap();
    for number in 0..5000_u32 {
        outgoing.send(&context, vec![number as u8; 3]).unwrap();
    }
    outgoing.end();
    let sum = u64::from_le_bytes(incoming.only(&context).unwrap().try_into().unwrap());
    assert_eq!(sum, (0..5000_u64).map(|number| 3 * (number & 0xff)).sum::<u64>());
}

#[test]
fn who_takes_a_stream_back_is_heard_by_its_handler() {
    let (_server, channel, seen) = start(ServerConfig::default());
    // By its context, and by letting go of what comes.
    let (context, other) = (context(), context());
    let (mut outgoing, mut incoming) = channel.open(&context, ECHO).unwrap();
    outgoing.send(&context, vec![1]).unwrap();
    assert_eq!(incoming.next(&context).unwrap(), Some(vec![1]));
    context.cancel();
    assert_eq!(incoming.next(&context).unwrap_err().code, Code::Cancelled);
    until(|| seen.ends.lock().unwrap().len() == 1);
    let (mut outgoing, mut incoming) = channel.open(&other, ECHO).unwrap();
    outgoing.send(&other, vec![1]).unwrap();
    assert_eq!(incoming.next(&other).unwrap(), Some(vec![1]));
    drop(incoming);
    until(|| seen.ends.lock().unwrap().len() == 2);
    assert_eq!(*seen.ends.lock().unwrap(), [Err(Code::Cancelled), Err(Code::Cancelled)]);
    until(|| outgoing.send(&other, vec![1]).is_err());
}

#[test]
fn a_method_is_called_as_what_it_is() {
    let (_server, channel, _) = start(ServerConfig::default());
    let context = context();
    let unary = channel.call(&context, ECHO, b"x").unwrap_err();
    assert_eq!((unary.code, unary.reason), (Code::Unimplemented, Reason::UnknownMethod), "{unary}");
    let (_outgoing, mut incoming) = channel.open(&context, UNARY).unwrap();
    let streamed = incoming.next(&context).unwrap_err();
    assert_eq!((streamed.code, streamed.reason), (Code::Unimplemented, Reason::UnknownMethod), "{streamed}");
}

#[test]
fn metadata_go_before_the_messages_and_with_the_end() {
    let (_server, channel, _) = start(ServerConfig::default());
    let context = context().with_metadata("color", "blue").unwrap();
    let (mut outgoing, mut incoming) = channel.open(&context, ECHO).unwrap();
    outgoing.send(&context, vec![1]).unwrap();
    assert_eq!(incoming.next(&context).unwrap(), Some(vec![1]));
    assert_eq!(incoming.leading().find("led-color"), Some(&b"blue"[..]));
    outgoing.end();
    assert_eq!(incoming.next(&context), Ok(None));
    assert_eq!(incoming.trailing().find("trailed-color"), Some(&b"blue"[..]));
}

#[test]
fn a_message_may_have_a_deadline_of_its_own() {
    let (_server, channel, _) = start(ServerConfig::default());
    let context = Context::unlimited().with_metadata("dated", "the first").unwrap();
    let (mut outgoing, mut incoming) = channel.open(&context, ECHO).unwrap();
    outgoing.send_within(&context, vec![7], Duration::from_secs(5)).unwrap();
    outgoing.send(&context, vec![8]).unwrap();
    assert_eq!(incoming.next(&context).unwrap(), Some(vec![7]));
    assert_eq!(incoming.next(&context).unwrap(), Some(vec![8]));
}

#[test]
fn futures_stream_as_well_and_many_streams_share_a_connection() {
    let (_server, channel, _) = start(ServerConfig::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let local = tokio::task::LocalSet::new();
        let streams = (0..200_u8).map(|number| {
            let (mut outgoing, mut incoming) = channel.open(&context(), ECHO).unwrap();
            local.spawn_local(async move {
                for _ in 0..20 {
                    outgoing.send_async(vec![number; 1000]).await.unwrap();
                    assert_eq!(incoming.message().await.unwrap(), Some(vec![number; 1000]));
                }
                outgoing.end();
                assert_eq!(incoming.message().await, Ok(None));
            })
        });
        let streams: Vec<_> = streams.collect();
        local.await;
        for stream in streams {
            stream.await.unwrap();
        }
    });
}

#[test]
fn a_server_that_drains_lets_a_stream_end() {
    let (server, channel, _) = start(ServerConfig::default());
    let context = context();
    let (mut outgoing, mut incoming) = channel.open(&context, ECHO).unwrap();
    outgoing.send(&context, vec![1]).unwrap();
    assert_eq!(incoming.next(&context).unwrap(), Some(vec![1]));
    let draining = std::thread::spawn(move || server.drain(Duration::from_secs(30)));
    for number in 0..100 {
        outgoing.send(&context, vec![number]).unwrap();
        assert_eq!(incoming.next(&context).unwrap(), Some(vec![number]));
    }
    outgoing.end();
    assert_eq!(incoming.next(&context), Ok(None));
    draining.join().unwrap();
}

#[test]
fn a_lost_server_ends_a_stream() {
    let (server, channel, _) = start(ServerConfig::default());
    let context = context();
    let (mut outgoing, mut incoming) = channel.open(&context, ECHO).unwrap();
    outgoing.send(&context, vec![1]).unwrap();
    assert_eq!(incoming.next(&context).unwrap(), Some(vec![1]));
    server.shutdown();
    assert_eq!(incoming.next(&context).unwrap_err().code, Code::Unavailable);
    until(|| outgoing.send(&context, vec![1]).is_err());
}

#[test]
fn a_handler_that_waits_hears_of_a_cancellation_by_whoever_has_a_clone_of_its_context() {
    let router = Router::new().streaming("test.Streams/Own", |context, mut incoming, _outgoing| {
        let own = context.clone();
        std::thread::spawn(move || own.cancel());
        incoming.next(context).map(|_| ())
    });
    let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
    let server = Server::start(ServerConfig::default().listen(listen), router).unwrap();
    let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    let context = context();
    let (_outgoing, mut incoming) = channel.open(&context, MethodId::of("test.Streams/Own")).unwrap();
    assert_eq!(incoming.next(&context).unwrap_err().code, Code::Cancelled);
}

#[test]
fn who_offers_no_features_is_called_as_the_first_release_was() {
    let (server, channel, _) = start(ServerConfig::default().features(Features::NONE));
    let old = ChannelConfig::default().features(Features::NONE);
    let old = Channel::new(server.addresses()[0].clone(), old).unwrap();
    let context = context();
    for channel in [&channel, &old] {
        channel.call(&context, UNARY, b"x").unwrap();
        let (_outgoing, mut incoming) = channel.open(&context, ECHO).unwrap();
        let refused = incoming.next(&context).unwrap_err();
        assert!(refused.message.contains("too old for streams"), "{refused}");
    }
}
