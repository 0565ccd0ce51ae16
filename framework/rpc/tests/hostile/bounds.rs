//! Peers that keep to the rules, of whom there are too many, or who make the server hold too much.

use crate::raw::{Raw, call, call_id, cancel, data, eventually, part_of_call};
use crate::siege::{COUNT, ECHO, LARGE, LARGE_BYTES, NEVER, Siege};
use greenwave_proto::wire::{Credit, Frame};
use greenwave_rpc::*;
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MESSAGE: usize = 256 << 10;
const PART: usize = 15 << 10;
const CONNECTION: usize = 4 * MESSAGE;
const SERVER: usize = 6 * MESSAGE;

/// Room for four messages of a connection, and six of all.
fn short_of_memory() -> Siege {
    let bounds = Bounds::new().memory(SERVER).connection_memory(CONNECTION);
    Siege::with(ServerConfig::default().limits(Limits::default().message_bytes(MESSAGE)).bounds(bounds))
}

/// Sends the whole of a call's message, in parts.
fn send_long(raw: &mut Raw, call: greenwave_proto::wire::CallId, method: MethodId, len: usize) {
    let body = vec![7; len];
    raw.send(&part_of_call(call, method, &body[..PART], len));
    for (part, bytes) in body.chunks(PART).enumerate().skip(1) {
        raw.send(&data(call, (part * PART) as u32, bytes));
    }
}

/// Nobody is told the reason: not a byte of such a connection is read.
fn is_closed_at_once(address: &greenwave_verbs::Address) -> bool {
    let mut one = TcpStream::connect(crate::raw::socket_of(address)).unwrap();
    !matches!(one.read(&mut [0; 1]), Ok(1))
}

#[test]
fn a_connection_too_many_is_closed_at_once_and_there_is_room_again_when_another_ends() {
    for (bounds, clusters) in
        [(Bounds::new().connections(4), 1), (Bounds::new().connections_each(4), 1), (Bounds::new().connections(4), 2)]
    {
        let siege = Siege::with(ServerConfig::default().bounds(bounds).clusters(clusters));
        let mut others: Vec<Raw> = (0..3).map(|_| siege.attacker()).collect();
        for refused in 1..=3 {
            assert!(is_closed_at_once(siege.address()));
            eventually("it is counted", || siege.server.counters().connections_refused == refused);
        }
        siege.others_are_served();
        others.pop();
        eventually("it is gone", || siege.server.counters().connections == 3);
        let mut next = siege.attacker();
        next.send(&call(call_id(0, 1), ECHO, b"there is room"));
        assert_eq!(next.reply_to(call_id(0, 1)).2, b"there is room");
        drop((others, next));
        siege.ends_with_violations(0);
    }
}

#[test]
fn who_has_as_many_connections_as_an_address_may_takes_none_from_another() {
    let siege = Siege::with(ServerConfig::default().bounds(Bounds::new().connections_each(4)));
    let others: Vec<Raw> = (0..3).map(|_| siege.attacker()).collect();
    assert!(is_closed_at_once(siege.address()));
    let mut elsewhere = Raw::introduced_from([127, 0, 0, 2].into(), siege.address());
    elsewhere.send(&call(call_id(0, 1), ECHO, b"from another address"));
    assert_eq!(elsewhere.reply_to(call_id(0, 1)).2, b"from another address");
    assert_eq!(siege.server.counters().connections_refused, 1);
    drop((others, elsewhere));
    siege.ends_with_violations(0);
}

#[test]
fn requests_that_wait_are_bounded_in_bytes_for_each_connection_and_for_all() {
    let siege = short_of_memory();
    let mut one = siege.attacker();
    for slot in 0..4 {
        send_long(&mut one, call_id(slot, 1), NEVER, MESSAGE);
    }
    eventually("four are served", || siege.begun.load(Ordering::Relaxed) == 4);
    send_long(&mut one, call_id(4, 1), NEVER, MESSAGE);
    let (code, reason, text) = one.reply_to(call_id(4, 1));
    assert_eq!((code, reason), (Code::ResourceExhausted, Reason::TooManyCalls), "{}", String::from_utf8_lossy(&text));
    one.send(&call(call_id(5, 1), COUNT, b"short"));
    assert_eq!(one.reply_to(call_id(5, 1)).0, Code::Ok, "short calls go on");
    let mut other = siege.attacker();
    for slot in 0..2 {
        send_long(&mut other, call_id(slot, 1), NEVER, MESSAGE);
    }
    eventually("two more are served", || siege.begun.load(Ordering::Relaxed) == 6);
    send_long(&mut other, call_id(2, 1), NEVER, MESSAGE);
    assert_eq!(other.reply_to(call_id(2, 1)).0, Code::ResourceExhausted, "the server has no more");
    siege.others_are_served();
    // What is taken back leaves room.
    one.send(&cancel(call_id(0, 1)));
    assert_eq!(one.reply_to(call_id(0, 1)).0, Code::Cancelled);
    send_long(&mut other, call_id(3, 1), ECHO, MESSAGE);
    assert_eq!(other.reply_to(call_id(3, 1)).0, Code::Ok);
    assert!(siege.server.most_held() <= SERVER + 2 * MESSAGE, "{} bytes", siege.server.most_held());
    drop((one, other));
    siege.ends_with_violations(0);
}

#[test]
fn messages_half_received_are_bounded_for_all_connections_together() {
    let siege = short_of_memory();
    let mut many: Vec<Raw> = (0..12).map(|_| siege.attacker()).collect();
    for one in &mut many {
        one.send(&part_of_call(call_id(0, 1), COUNT, &[7; PART], MESSAGE));
        one.send(&call(call_id(1, 1), ECHO, b"short"));
        while one.reply_to_any().0 != call_id(1, 1) {}
    }
    let refused = siege.server.counters().refused;
    assert!((6..=7).contains(&refused), "{refused} of 12 were refused, there is room for six");
    siege.others_are_served();
    drop(many);
    siege.ends_with_violations(0);
}

#[test]
fn answers_that_are_not_read_are_bounded_in_bytes() {
    let bounds = Bounds::new().memory(8 * LARGE_BYTES).connection_memory(4 * LARGE_BYTES);
    let limits = Limits::default().message_bytes(LARGE_BYTES).credits(64);
    let siege = Siege::with(ServerConfig::default().limits(limits).bounds(bounds));
    let mut one = siege.attacker();
    for slot in 0..48 {
        one.send(&call(call_id(slot, 1), LARGE, b""));
    }
    eventually("all are served", || siege.begun.load(Ordering::Relaxed) == 48);
    eventually("some were refused", || siege.server.counters().memory_refused > 0);
    siege.others_are_served();
    assert!(siege.server.most_held() <= 9 * LARGE_BYTES, "{} bytes", siege.server.most_held());
    drop(one);
    siege.ends_with_violations(0);
}

#[test]
fn the_same_holds_for_calls_of_grpc() {
    let siege = short_of_memory();
    let grpc: greenwave_verbs::Address = siege.address().to_string().replace("tcp://", "grpc://").parse().unwrap();
    let channel =
        Channel::new(grpc, ChannelConfig::default().limits(Limits::default().message_bytes(MESSAGE))).unwrap();
    let waits = Context::unlimited();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let (channel, context) = (channel.clone(), waits.clone());
                scope.spawn(move || channel.call(&context, Method::named("test.Echo/Never"), &[7; MESSAGE]).map(drop))
            })
            .collect();
        // Of those that arrive together some may be refused for others that then are refused too.
        eventually("what there is no room for is refused", || {
            let refused = calls.iter().filter(|call| call.is_finished()).count();
            refused >= 4 && refused as u64 + siege.begun.load(Ordering::Relaxed) == 8
        });
        assert!(siege.begun.load(Ordering::Relaxed) > 0);
        siege.others_are_served();
        waits.cancel();
        let codes: Vec<Code> = calls.into_iter().map(|call| call.join().unwrap().unwrap_err().code).collect();
        assert!(codes.iter().all(|code| [Code::ResourceExhausted, Code::Cancelled].contains(code)), "{codes:?}");
        assert!(codes.contains(&Code::ResourceExhausted));
    });
    assert!(siege.server.most_held() <= SERVER + 2 * MESSAGE, "{} bytes", siege.server.most_held());
    drop(channel);
    siege.ends_with_violations(0);
}

#[test]
fn a_client_that_has_nothing_to_do_is_sent_away_and_comes_back_when_it_has() {
    let bounds = Bounds::new().idle(Duration::from_secs(1));
    let siege = Siege::with(ServerConfig::default().bounds(bounds));
    let channel = Channel::new(siege.address().clone(), ChannelConfig::default()).unwrap();
    for round in 0..2_u8 {
        let reply = channel
            .call(&Context::unlimited(), ECHO, &[round])
            .unwrap_or_else(|failure| panic!("{round}: {failure:?}"));
        assert_eq!(&reply.body[..], [round]);
        eventually("it is sent away", || siege.server.counters().connections == 1);
    }
    assert_eq!(siege.server.counters().violations, 0);
    drop(channel);
    siege.ends_with_violations(0);
}

#[test]
fn a_silent_client_that_does_not_leave_is_closed_on() {
    let bounds = Bounds::new().idle(Duration::from_secs(1));
    let siege = Siege::with(ServerConfig::default().bounds(bounds));
    let mut silent = siege.attacker();
    let farewell = silent.farewell();
    assert!(farewell.told.expect("a GOAWAY").1.contains("was not used for long"));
    siege.ends_with_violations(0);
}

/// It has been told, and goes on as if it hadn't.
#[test]
fn who_stays_on_a_connection_that_is_too_old_is_refused_and_what_it_began_goes_on() {
    let siege = Siege::with(ServerConfig::default().bounds(Bounds::new().age(Duration::from_secs(1))));
    let mut stays = siege.attacker();
    stays.send(&call(call_id(0, 1), NEVER, b""));
    eventually("it is begun", || siege.begun.load(Ordering::Relaxed) == 1);
    // Each call has a number of its own.
    let refused = (0..).find_map(|made: u32| {
        let id = call_id(1 + (made % 500) as u16, 1 + (made / 500) as u16);
        stays.send(&call(id, ECHO, b"still here"));
        let (code, reason, _) = stays.reply_to(id);
        stays.send(&Frame::Credit(Credit { credits: 1 }));
        (code != Code::Ok).then_some((code, reason))
    });
    assert_eq!(refused, Some((Code::Unavailable, Reason::GoingAway)));
    assert_eq!(siege.server.counters().cancelled, 0, "what was begun goes on");
    stays.send(&cancel(call_id(0, 1)));
    assert_eq!(stays.reply_to(call_id(0, 1)).0, Code::Cancelled);
    drop(stays);
    siege.ends_with_violations(0);
}
