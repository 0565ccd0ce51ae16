//! Messages that are short as they come, and long once they are decompressed.

use crate::http::Http;
use crate::raw::{eventually, socket_of};
use crate::siege::{Methods, Siege};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MESSAGE: usize = 1 << 20;
const CONNECTION: usize = 4 * MESSAGE;
const SERVER: usize = 6 * MESSAGE;
const ECHO: Method = Method::named("test.Echo/Echo");
const NEVER: Method = Method::named("test.Echo/Never");
const KEEP: Method = Method::named("test.Echo/Keep");

/// What becomes of the messages that `Keep` takes.
#[derive(Default)]
struct Kept {
    /// How many it was given.
    given: AtomicU64,
    /// Whether it is done with each at once, and takes the next.
    goes_on: AtomicBool,
}

/// Room for four messages of a connection, and six of all. `Keep` takes a stream's messages and keeps them.
fn short_of_memory() -> (Siege, Arc<Kept>) {
    let bounds = Bounds::new().memory(SERVER).connection_memory(CONNECTION);
    let config = ServerConfig::default().limits(Limits::default().message_bytes(MESSAGE)).bounds(bounds);
    let (methods, kept) = (Methods::default(), Arc::<Kept>::default());
    let keeps = kept.clone();
    let keep = move |context: &Context, mut incoming: Incoming, _: Outgoing| {
        while incoming.next(context)?.is_some() {
            keeps.given.fetch_add(1, Ordering::Relaxed);
            while !keeps.goes_on.load(Ordering::Relaxed) {
                context.checkpoint()?;
            }
        }
        Ok(())
    };
    let router = methods.router().streaming("test.Echo/Keep", keep);
    (Siege::serving(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]), &methods, router), kept)
}

fn encodings() -> impl Iterator<Item = Encoding> {
    [Encoding::Gzip, Encoding::Zstd].into_iter().filter(|encoding| encoding.is_built_in())
}

fn channel(siege: &Siege) -> Channel {
    let config = ChannelConfig::default().limits(Limits::default().message_bytes(MESSAGE));
    Channel::new(Address::Grpc(socket_of(siege.address())), config).unwrap()
}

/// No more was ever held than may be, and one message for what counts at the same time.
fn is_within_bounds(siege: &Siege) {
    let held = siege.server.most_held();
    assert!((2 * MESSAGE..=SERVER + MESSAGE).contains(&held), "{held} bytes");
}

#[test]
fn requests_count_as_they_are_once_they_are_decompressed() {
    for encoding in encodings() {
        let (siege, _) = short_of_memory();
        let channels = [channel(&siege), channel(&siege)].map(|channel| channel.compress(encoding));
        let waits = Context::unlimited();
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..16)
                .map(|number| {
                    let (channel, context) = (channels[number % 2].clone(), waits.clone());
                    scope.spawn(move || channel.call(&context, NEVER, &[0; MESSAGE]).map(drop))
                })
                .collect();
            let refused = || calls.iter().filter(|call| call.is_finished()).count() as u64;
            eventually("what there is no room for is refused", || {
                refused() + siege.begun.load(Ordering::Relaxed) == 16
            });
            // What it takes to read one counts too, so that not all of the room may be had for messages.
            assert!((2..=6).contains(&siege.begun.load(Ordering::Relaxed)), "{encoding:?}: {:?}", siege.begun);
            assert_eq!(siege.server.counters().memory_refused, refused());
            siege.others_are_served();
            waits.cancel();
            for call in calls {
                let status = call.join().unwrap().unwrap_err();
                let is_refused = status.code == Code::ResourceExhausted && status.message.contains("to decompress it");
                assert!(status.code == Code::Cancelled || is_refused, "{status:?}");
            }
        });
        eventually("there is room again", || channels[0].call(&Context::unlimited(), ECHO, &[0; MESSAGE]).is_ok());
        is_within_bounds(&siege);
        drop(channels);
        siege.ends_with_violations(0);
    }
}

#[test]
fn so_do_messages_of_streams_until_the_next_is_taken() {
    for encoding in encodings() {
        let (siege, kept) = short_of_memory();
        let channel = channel(&siege).compress(encoding);
        let context = Context::unlimited();
        let mut streams: Vec<_> = (0..8).map(|_| channel.open(&context, KEEP).unwrap()).collect();
        for (outgoing, _) in &mut streams {
            outgoing.send(&context, vec![0; MESSAGE]).unwrap();
        }
        let refused = || siege.server.counters().memory_refused;
        let given = || kept.given.load(Ordering::Relaxed);
        eventually("what there is no room for is refused", || given() + refused() == 8);
        assert!((2..=4).contains(&given()), "{encoding:?}: {}", given());
        siege.others_are_served();
        drop(streams);
        kept.goes_on.store(true, Ordering::Relaxed);
        // One after the other there is room for any number of them.
        eventually("there is room again", || {
            let (mut outgoing, mut incoming) = channel.open(&context, KEEP).unwrap();
            for _ in 0..8 {
                // It may have failed already.
                let _sent = outgoing.send(&context, vec![0; MESSAGE]);
            }
            outgoing.end();
            incoming.next(&context).is_ok()
        });
        is_within_bounds(&siege);
        drop(channel);
        siege.ends_with_violations(0);
    }
}

#[test]
fn so_do_those_of_http() {
    for encoding in encodings() {
        let (siege, _) = short_of_memory();
        let message = encoding.compress(&vec![0; MESSAGE]).unwrap();
        let headers = format!("content-encoding: {}\r\n", encoding.name());
        let mut many: Vec<Http<TcpStream>> = (0..12).map(|_| Http::connect(socket_of(siege.address()))).collect();
        for one in &mut many {
            one.send(&crate::http::post("test.Echo/Never", "proto", &headers, &message));
        }
        let refused = || siege.server.counters().memory_refused;
        let begun = || siege.begun.load(Ordering::Relaxed);
        eventually("what there is no room for is refused", || begun() + refused() == 12);
        assert!((2..=6).contains(&begun()), "{encoding:?}: {}", begun());
        siege.others_are_served();
        drop(many);
        is_within_bounds(&siege);
        siege.ends_with_violations(0);
    }
}
