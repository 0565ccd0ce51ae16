//! Ends whose rings are of different sizes, and messages larger than rings.

use crate::raw::{self, Raw, call, call_id};
use crate::siege::{Bystander, ECHO, LARGE, LARGE_BYTES, MINUTE, Methods, Siege};
use greenwave_proto::wire::{self, Credit, Frame, Hello};
use greenwave_rpc::*;
use greenwave_verbs::Choice;

const SMALL: Limits = ROOMY.credits(4).chunk_bytes(512);
const LARGEST: Limits = ROOMY.credits(65535).chunk_bytes(1 << 20);
const ROOMY: Limits = Limits::new().handshake(MINUTE).stall(MINUTE);

#[test]
fn rings_of_very_different_sizes_carry_messages_of_all_sizes_both_ways() {
    let few = LARGEST.credits(4);
    let short = SMALL.credits(65535);
    for (ours, theirs) in [(SMALL, LARGEST), (LARGEST, SMALL), (SMALL, SMALL), (few, short), (short, few)] {
        for backend in [Choice::Auto, Choice::Epoll] {
            let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
            let config = ServerConfig::default().listen(listen).backend(backend).limits(theirs);
            let server = Server::start(config, Methods::default().router()).unwrap();
            let address = &server.addresses()[0];
            let bystander = Bystander::at(address);
            let channel = Channel::new(address.clone(), ChannelConfig::default().limits(ours)).unwrap();
            // Several at a time, so that large and small ones share the credits that there are.
            std::thread::scope(|scope| {
                for sizes in [[0, 1, 300_000], [511, 512, 513], [4096, 1_500_000, 7]] {
                    let channel = channel.clone();
                    scope.spawn(move || {
                        for size in sizes {
                            let request: Vec<u8> = (0..size).map(|at: usize| (at % 251) as u8).collect();
                            let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &request).unwrap();
                            assert!(reply.body[..] == request[..], "{size} bytes come back as they were");
                        }
                    });
                }
            });
            bystander.leaves();
            let counters = server.counters();
            assert_eq!((counters.violations, counters.refused, counters.truncated), (0, 0, 0));
        }
    }
}

#[test]
fn a_reply_beyond_what_the_caller_accepts_fails_with_both_numbers() {
    let siege = Siege::new();
    let limits = Limits::default().message_bytes(1000);
    let channel = Channel::new(siege.address().clone(), ChannelConfig::default().limits(limits)).unwrap();
    let failure = channel.call(&Context::with_deadline(MINUTE), LARGE, b"").unwrap_err();
    assert_eq!((failure.code, failure.reason), (Code::ResourceExhausted, Reason::ReplyTooLarge));
    assert!(!failure.never_ran(), "it has made the reply");
    assert!(failure.message.contains("1048576 bytes, the caller accepts 1000"), "{}", failure.message);
    // The connection is as good as before.
    assert_eq!(&channel.call(&Context::with_deadline(MINUTE), ECHO, b"short").unwrap().body[..], b"short");
    drop(channel);
    siege.ends_with_violations(0);
}

/// The ring has four places of 512 bytes, the reply two thousand parts.
#[test]
fn a_reply_larger_than_the_ring_comes_whole_and_short_ones_overtake_it() {
    let siege = Siege::new();
    let mut peer = Raw::connect(siege.address());
    let limits = wire::HelloLimits { credits: 4, chunk_bytes: 512, ..raw::hello().limits };
    peer.send(&Frame::Hello(Hello { limits, ..raw::hello() }));
    peer.read().expect("a HELLO");
    let large = call_id(0, 1);
    peer.send(&call(large, LARGE, b""));
    let (mut bytes, mut made, mut overtook) = (0, 0, 0);
    while bytes < LARGE_BYTES {
        let chunk = peer.read().expect("the connection lasts");
        assert!(chunk.len() <= 512, "a chunk of {} bytes", chunk.len());
        match Frame::parse(&chunk, false).unwrap() {
            Frame::Reply(reply) if reply.header.call == large => bytes += reply.body.len(),
            Frame::Reply(reply) => {
                assert_eq!((reply.header.code, reply.body), (Code::Ok, &b"short"[..]));
                overtook += 1;
            }
            Frame::Data(part) => {
                assert_eq!((part.header.call, part.header.offset as usize), (large, bytes));
                bytes += part.body.len();
            }
            _ => continue,
        }
        if made == overtook && made < 20 {
            made += 1;
            peer.send(&call(call_id(made, 1), ECHO, b"short"));
        }
        peer.send(&Frame::Credit(Credit { credits: 1 }));
    }
    assert_eq!((bytes, overtook), (LARGE_BYTES, 20), "all twenty came before the end of the large one");
    drop(peer);
    siege.ends_with_violations(0);
}
