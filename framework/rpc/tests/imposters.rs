//! Servers that break the rules, against our clients: a call ends with a status that says so, never with a hang or a
//! panic, and whoever calls again is connected again.

mod block_on;
mod raw;

use block_on::block_on;
use greenwave_proto::wire::{CallId, Credit, Frame, GoAway, GoAwayCode, Hello, HelloLimits, MethodId, Versions};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use raw::{Raw, reply, reply_data, server_hello, within_reason};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const ECHO: MethodId = MethodId::of("test.Echo/Echo");
const MINUTE: Duration = Duration::from_secs(60);

/// A server by hand.
struct Imposter {
    address: Address,
    accepted: Arc<AtomicUsize>,
}

impl Imposter {
    /// Deals with each connection in this way, on a thread of its own.
    fn new(deal: impl Fn(usize, &mut Raw) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        // Ends with the test's process: nobody tells it that the test is over.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (deal, mut raw) = (deal.clone(), Raw::over(stream.unwrap()));
                std::thread::spawn(move || deal(number, &mut raw));
            }
        });
        Self { address, accepted }
    }

    /// Does this after the HELLOs.
    fn introduced(deal: impl Fn(usize, &mut Raw) + Clone + Send + 'static) -> Self {
        Self::new(move |number, raw| {
            raw.send(&Frame::Hello(server_hello()));
            if raw.read().is_some() {
                deal(number, raw);
            }
        })
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Limits under which nobody is given up for being slow, on a machine that may be slow itself.
const PATIENT: Limits = Limits::new().message_bytes(1 << 20).assembly_bytes(1 << 20).handshake(MINUTE).stall(MINUTE);

/// What each kind of client makes of it; without a deadline, so that nothing but the fault can end the call.
fn each_client(imposter: &Imposter, limits: Limits) -> [Status; 3] {
    let address = imposter.address.clone();
    let config = ChannelConfig::default().limits(limits);
    within_reason("a call to an imposter", move || {
        let channel = || Channel::new(address.clone(), config.clone()).unwrap();
        let direct = channel().call(&Context::unlimited(), ECHO, b"request").unwrap_err();
        let future = block_on(channel().call_async(&Context::unlimited(), ECHO, b"request")).unwrap_err();
        let mut stream = CallQueue::connect(&address, &config).unwrap();
        stream.submit(&Context::unlimited(), ECHO, b"request", 0);
        let stream = stream.take().expect("a completion").result.unwrap_err().status;
        [direct, future.into(), stream]
    })
}

/// All kinds of clients fail for this reason, in these words.
fn fails_with(imposter: &Imposter, reason: Reason, words: &str) {
    fails_within(PATIENT, imposter, reason, words);
}

fn fails_within(limits: Limits, imposter: &Imposter, reason: Reason, words: &str) {
    for status in each_client(imposter, limits) {
        assert_eq!(status.reason, reason, "{status}");
        assert!(status.message.contains(words), "{status}; expected: {words}");
    }
}

#[test]
fn garbage_for_a_hello_is_named() {
    let imposter = Imposter::new(|_, raw| raw.write_chunk(&[0xee; 50]));
    fails_with(&imposter, Reason::Unreachable, "kind 238");
}

#[test]
fn another_protocol_is_named() {
    let imposter = Imposter::new(|_, raw| raw.write(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    fails_with(&imposter, Reason::Unreachable, "announced a chunk of");
}

#[test]
fn versions_that_do_not_meet_are_named() {
    let imposter = Imposter::new(|_, raw| {
        raw.send(&Frame::Hello(Hello { versions: Versions { min: 3, max: 4 }, ..server_hello() }));
        raw.farewell();
    });
    fails_with(&imposter, Reason::Unreachable, "speaks versions 3 to 4");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let imposter = Imposter::new(|_, raw| drop(raw.farewell()));
    let limits = PATIENT.handshake(Duration::from_millis(100));
    fails_within(limits, &imposter, Reason::Unreachable, "no HELLO within 100ms");
}

#[test]
fn a_server_that_closes_at_once_is_unreachable() {
    let imposter = Imposter::new(|_, _| {});
    fails_with(&imposter, Reason::Unreachable, "");
}

#[test]
fn a_server_that_accepts_no_calls_is_not_waited_for() {
    let imposter = Imposter::new(|_, raw| {
        raw.send(&Frame::Hello(Hello { limits: HelloLimits { calls: 0, ..server_hello().limits }, ..server_hello() }));
        raw.farewell();
    });
    fails_with(&imposter, Reason::TooManyCalls, "accepts none");
}

#[test]
fn a_connection_that_breaks_before_the_answer_is_lost() {
    let imposter = Imposter::introduced(|_, raw| drop(raw.next_call()));
    fails_with(&imposter, Reason::ConnectionLost, "");
}

#[test]
fn a_connection_that_breaks_within_the_answer_is_lost() {
    let imposter = Imposter::introduced(|_, raw| {
        let (header, _) = raw.next_call();
        raw.send(&reply(header.call, &[1; 100], 1000));
        raw.send(&reply_data(header.call, 100, &[1; 100]));
    });
    fails_with(&imposter, Reason::ConnectionLost, "");
}

#[test]
fn an_answer_that_stops_half_way_is_given_up() {
    let imposter = Imposter::introduced(|_, raw| {
        let (header, _) = raw.next_call();
        raw.send(&reply(header.call, &[1; 100], 1000));
        raw.farewell();
    });
    let limits = PATIENT.stall(Duration::from_millis(100));
    fails_within(limits, &imposter, Reason::Violation, "no progress for 100ms");
}

/// After a call, does this, which no server does.
fn breach(deal: impl Fn(CallId, &mut Raw) + Clone + Send + 'static) -> Imposter {
    Imposter::introduced(move |_, raw| {
        let (header, _) = raw.next_call();
        deal(header.call, raw);
        raw.farewell();
    })
}

#[test]
fn what_no_server_sends_fails_the_calls_under_way() {
    let other = |call: CallId| CallId::new(call.as_u32() + (1 << 16)).unwrap();
    let too_long = vec![0; 100];
    let breaches = [
        (breach(move |call, raw| raw.send(&reply(other(call), b"", 0))), "not open"),
        (breach(|call, raw| raw.send(&reply(raw::call_id(9, call.generation()), b"", 0))), "not open"),
        (breach(|call, raw| raw.send(&reply_data(call, 0, b"data"))), "expects none"),
        (breach(|call, raw| raw.send(&raw::data(call, 0, b"data"))), "expects none"),
        (breach(|call, raw| raw.send_all(&[reply(call, b"1", 9), reply(call, b"1", 9)])), "a second REPLY"),
        (breach(|call, raw| raw.send_all(&[reply(call, b"1", 9), reply(call, b"", 0)])), "a second REPLY"),
        (breach(|call, raw| raw.send_all(&[reply(call, b"1", 9), reply_data(call, 5, b"5")])), "at 5, expected 1"),
        (breach(|call, raw| raw.send_all(&[reply(call, b"1", 2), reply_data(call, 1, b"23")])), "beyond the 2 bytes"),
        (breach(move |call, raw| raw.send(&reply(call, &too_long, 2 << 20))), "expected at most"),
        (breach(|_, raw| raw.send(&Frame::Credit(Credit { credits: 100 }))), "returned 100 credits"),
        (breach(|call, raw| raw.send(&raw::call(call, ECHO, b""))), "not for this end"),
        (breach(|_, raw| raw.send(&Frame::Hello(server_hello()))), "second HELLO"),
        (breach(|_, raw| raw.write_chunk(&[0x77; 60])), "kind 119"),
    ];
    for (imposter, words) in breaches {
        fails_with(&imposter, Reason::Violation, words);
    }
}

#[test]
fn a_chunk_beyond_the_limit_loses_the_connection() {
    let imposter = breach(|_, raw| raw.write(&u32::MAX.to_le_bytes()));
    fails_with(&imposter, Reason::ConnectionLost, "announced a chunk of");
}

/// More chunks at once than the client has room for.
#[test]
fn answers_beyond_the_credits_fail_the_calls() {
    let imposter = breach(|call, raw| {
        let parts: Vec<Frame<'_>> = (0..20).map(|at| reply_data(call, 1 + at, b"x")).collect();
        raw.send_all(&[&[reply(call, b"x", 1000)][..], &parts].concat());
    });
    let address = imposter.address.clone();
    let limits = Limits::default().credits(8);
    let status = within_reason("a call to an imposter", move || {
        let channel = Channel::new(address, ChannelConfig::default().limits(limits)).unwrap();
        channel.call(&Context::unlimited(), ECHO, b"").unwrap_err()
    });
    assert_eq!(status.reason, Reason::Violation);
    assert!(status.message.contains("beyond the 8"), "{status}");
}

/// A request in many chunks, to a server that gives no credits back.
#[test]
fn a_request_that_finds_no_credits_is_given_up() {
    let imposter = Imposter::introduced(|_, raw| drop(raw.farewell()));
    let address = imposter.address.clone();
    let status = within_reason("a call to an imposter", move || {
        let limits = PATIENT.stall(Duration::from_millis(100));
        let channel = Channel::new(address, ChannelConfig::default().limits(limits)).unwrap();
        channel.call(&Context::unlimited(), ECHO, &vec![0; 4 << 20]).unwrap_err()
    });
    assert_eq!(status.reason, Reason::Violation);
    assert!(status.message.contains("no progress for 100ms"), "{status}");
}

#[test]
fn a_server_that_says_why_it_closes_is_quoted() {
    let imposter = breach(|_, raw| {
        let text = "call 65536 has slot 0";
        raw.send(&Frame::GoAway(GoAway { credits: 0, code: GoAwayCode::Violation, last: None, text }));
    });
    for status in each_client(&imposter, PATIENT) {
        assert_eq!(status.code, Code::Unavailable, "{status}");
        assert!(status.message.contains("call 65536 has slot 0"), "{status}");
    }
}

/// The old connection answers what it has heard of, the new one gets everything else.
#[test]
fn after_a_goaway_calls_are_made_on_a_new_connection() {
    let imposter = Imposter::introduced(|number, raw| {
        let (first, _) = raw.next_call();
        if number == 0 {
            let text = "restart";
            raw.send(&Frame::GoAway(GoAway { credits: 0, code: GoAwayCode::Shutdown, last: None, text }));
            // The client has closed on us once it was answered, so it has gone to the new connection by then.
            raw.send(&reply(first.call, b"old", 3));
            assert!(raw.farewell().before.is_empty(), "no further call comes over this connection");
        } else {
            raw.send(&reply(first.call, b"new", 3));
            raw.farewell();
        }
    });
    let address = imposter.address.clone();
    let bodies = within_reason("calls around a GOAWAY", move || {
        let channel = Channel::new(address, ChannelConfig::default()).unwrap();
        [(); 2].map(|()| channel.call(&Context::unlimited(), ECHO, b"").unwrap().body.into_vec())
    });
    assert_eq!(bodies, [b"old", b"new"]);
    assert_eq!(imposter.accepted(), 2);
}

/// Of calls made together, the server takes one and goes away; the others had no slot yet.
#[test]
fn calls_that_wait_for_a_slot_move_to_the_new_connection() {
    let imposter = Imposter::new(|number, raw| {
        let limits = HelloLimits { calls: if number == 0 { 1 } else { 16 }, ..server_hello().limits };
        raw.send(&Frame::Hello(Hello { limits, ..server_hello() }));
        raw.read();
        let (first, _) = raw.next_call();
        if number == 0 {
            let text = "restart";
            raw.send(&Frame::GoAway(GoAway { credits: 0, code: GoAwayCode::Shutdown, last: None, text }));
            raw.send(&reply(first.call, b"old", 3));
            raw.farewell();
        } else {
            raw.send(&reply(first.call, b"new", 3));
            for _ in 0..3 {
                let (next, _) = raw.next_call();
                raw.send(&reply(next.call, b"new", 3));
            }
            raw.farewell();
        }
    });
    let address = imposter.address.clone();
    let mut bodies = within_reason("calls around a GOAWAY", move || {
        let mut stream = CallQueue::connect(&address, &ChannelConfig::default()).unwrap();
        (0..5).for_each(|tag| stream.submit(&Context::unlimited(), ECHO, b"", tag));
        (0..5).map(|_| stream.take().unwrap().result.unwrap().body.into_vec()).collect::<Vec<_>>()
    });
    bodies.sort();
    assert_eq!(bodies, [&b"new"[..], b"new", b"new", b"new", b"old"]);
}

#[test]
fn a_server_that_goes_away_at_once_every_time_is_not_asked_for_ever() {
    let imposter = Imposter::introduced(|_, raw| {
        raw.send(&Frame::GoAway(GoAway { credits: 0, code: GoAwayCode::Shutdown, last: None, text: "full" }));
    });
    for status in each_client(&imposter, PATIENT) {
        assert_eq!(status.code, Code::Unavailable, "{status}");
    }
    assert!(imposter.accepted() <= 6, "each client tried once or twice, not {} in all", imposter.accepted());
}

/// It accepts and closes: that is no connection that worked, so the pause between attempts is kept.
#[test]
fn attempts_to_reach_a_server_that_only_accepts_are_spaced_out() {
    let imposter = Imposter::new(|_, _| {});
    let config = ChannelConfig::default().reconnect(MINUTE);
    let address = imposter.address.clone();
    within_reason("calls to a server that only accepts", move || {
        let channel = Channel::new(address, config).unwrap();
        for _ in 0..20 {
            let status = channel.call(&Context::unlimited(), ECHO, b"").unwrap_err();
            assert_eq!(status.reason, Reason::Unreachable);
        }
    });
    assert_eq!(imposter.accepted(), 1);
}

/// The length of its first answer is wrong, as a broken network can make it: whatever else it sends is taken for the rest of
/// that. It has the connection open, and keeps to the rules.
#[test]
fn calls_that_nothing_is_heard_of_are_not_made_over_the_same_connection_for_ever() {
    let imposter = Imposter::introduced(|number, raw| {
        let (mut header, _) = raw.next_call();
        if number == 0 {
            raw.write(&4000_u32.to_le_bytes());
            raw.write(&[0; 60]);
            raw.farewell();
            return;
        }
        loop {
            raw.send(&reply(header.call, b"fine", 4));
            (header, _) = raw.next_call();
        }
    });
    let address = imposter.address.clone();
    within_reason("calls over a connection that is of no use", move || {
        let short = Duration::from_millis(50);
        let config = ChannelConfig::default().limits(PATIENT.handshake(short).stall(3 * short));
        let channel = Channel::new(address, config).unwrap();
        while channel.call(&Context::with_deadline(short), ECHO, b"").is_err() {}
    });
    assert!(imposter.accepted() >= 2);
}

/// Whatever one connection did, the next call is made on another.
#[test]
fn a_client_recovers_from_a_breach() {
    let imposter = Imposter::introduced(|number, raw| {
        let (mut header, _) = raw.next_call();
        if number < 3 {
            raw.write_chunk(&[0x77; 60]);
        } else {
            loop {
                raw.send(&reply(header.call, b"fine", 4));
                (header, _) = raw.next_call();
            }
        }
    });
    let address = imposter.address.clone();
    within_reason("calls to a server that recovers", move || {
        let config = ChannelConfig::default().reconnect(Duration::from_nanos(1));
        let channel = Channel::new(address, config).unwrap();
        let mut failures = 0;
        while let Err(status) = channel.call(&Context::unlimited(), ECHO, b"") {
            assert!(matches!(status.reason, Reason::Violation | Reason::ConnectionLost), "{status}");
            failures += 1;
        }
        assert_eq!(failures, 3);
        for _ in 0..10 {
            assert_eq!(&channel.call(&Context::unlimited(), ECHO, b"").unwrap().body[..], b"fine");
        }
    });
}
