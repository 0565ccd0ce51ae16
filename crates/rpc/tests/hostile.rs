//! Peers that break the rules, over real sockets, against a server that others use at the same time.
//!
//! Each attack runs beside a bystander, whose calls must all be answered: before it, during it and after it.

mod raw;

use greenwave_policy::Budget;
use greenwave_rpc::wire::{
    Call, CallId, Credit, Frame, GoAwayCode, Hello, MethodId, Ping, Probe, Reply, Versions, push_meta,
};
use greenwave_rpc::*;
use greenwave_verbs::{Address, Choice};
use raw::{Farewell, Raw, call, call_header, call_id, cancel, data, eventually, part_of_call};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const ECHO: MethodId = MethodId::of("test.Echo/Echo");
const COUNT: MethodId = MethodId::of("test.Echo/Count");
const LARGE: MethodId = MethodId::of("test.Echo/Large");
const NEVER: MethodId = MethodId::of("test.Echo/Never");
const MINUTE: Duration = Duration::from_secs(60);
const LARGE_BYTES: usize = 1 << 20;

/// A server, and somebody who uses it all the time.
struct Siege {
    server: ServerHandle,
    /// How often the method that counts was served.
    counted: Arc<AtomicU64>,
    /// How many calls of the other methods began.
    begun: Arc<AtomicU64>,
    /// How many calls of the bystander were answered.
    calm: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    bystander: Option<std::thread::JoinHandle<()>>,
}

impl Siege {
    fn new() -> Self {
        Self::with(ServerConfig::default())
    }

    fn limited(limits: Limits) -> Self {
        Self::with(ServerConfig { limits, ..Default::default() })
    }

    fn with(config: ServerConfig) -> Self {
        let [counted, begun, calm] = [0; 3].map(|nothing| Arc::new(AtomicU64::new(nothing)));
        let over: Arc<AtomicBool> = Arc::default();
        let counts = Arc::clone(&counted);
        let begins = [Arc::clone(&begun), Arc::clone(&begun)];
        let [large, never] = begins.map(|begun| move || begun.fetch_add(1, Ordering::Relaxed));
        let router = Router::new()
            .method("test.Echo/Echo", |_, request, reply| {
                reply.extend_from_slice(request);
                Ok(())
            })
            .method("test.Echo/Count", move |_, _, _| {
                counts.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .method("test.Echo/Large", move |_, _, reply| {
                large();
                reply.resize(LARGE_BYTES, 7);
                Ok(())
            })
            .method("test.Echo/Never", move |context, _, _| {
                never();
                while context.checkpoint().is_ok() {}
                context.checkpoint()
            });
        let listen: Vec<Address> = vec!["tcp://127.0.0.1:0".parse().unwrap()];
        let server = Server::start(ServerConfig { listen, ..config }, router).unwrap();
        let bystander = std::thread::spawn({
            let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
            let (calm, over) = (Arc::clone(&calm), Arc::clone(&over));
            move || {
                while !over.load(Ordering::Relaxed) {
                    let number = calm.load(Ordering::Relaxed).to_le_bytes();
                    let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &number).unwrap();
                    assert_eq!(&reply.body[..], number);
                    calm.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let siege = Self { server, counted, begun, calm, over, bystander: Some(bystander) };
        siege.others_are_served();
        siege
    }

    fn address(&self) -> &Address {
        &self.server.addresses()[0]
    }

    /// A peer that has introduced itself.
    fn attacker(&self) -> Raw {
        Raw::introduced(self.address())
    }

    /// Waits until the bystander has had some calls answered since now.
    fn others_are_served(&self) {
        let before = self.calm.load(Ordering::Relaxed);
        eventually("the bystander's calls are answered", || {
            let stands = self.bystander.as_ref().is_some_and(|bystander| !bystander.is_finished());
            assert!(stands, "the bystander was harmed");
            self.calm.load(Ordering::Relaxed) >= before + 5
        });
    }

    /// The attacker is closed on for a violation, told so in these words, and nobody else is.
    fn expels(self, attacker: &mut Raw, words: &str) -> Farewell {
        let farewell = attacker.farewell();
        let (code, text) = farewell.told.clone().unwrap_or_else(|| panic!("no GOAWAY; expected: {words}"));
        assert!(text.contains(words), "told `{text}`, expected: {words}");
        assert_eq!(code, GoAwayCode::Violation);
        self.ends_with_violations(1);
        farewell
    }

    /// One more connection is open than this many, which is the bystander's.
    fn ends_with_violations(self, violations: u64) {
        eventually("the violation is counted", || self.server.counters().violations == violations);
        eventually("the connection is closed", || self.server.counters().connections == 1);
        self.ends();
    }

    fn ends(mut self) {
        self.others_are_served();
        self.over.store(true, Ordering::Relaxed);
        let bystander = self.bystander.take().expect("it stands until now");
        bystander.join().expect("every call of the bystander was answered");
        let counters = self.server.counters();
        assert!(counters.answered >= self.calm.load(Ordering::Relaxed));
    }
}

// ---- before HELLO

#[test]
fn a_length_of_zero_or_beyond_the_limit_is_closed_on() {
    for prefix in [0_u32, (16 << 10) + 1, u32::MAX] {
        for introduced in [false, true] {
            let siege = Siege::new();
            let mut attacker = if introduced { siege.attacker() } else { Raw::connect(siege.address()) };
            attacker.write(&prefix.to_le_bytes());
            attacker.write(&[0; 64]);
            assert!(attacker.farewell().told.is_none(), "there is no telling where the next frame would begin");
            siege.ends_with_violations(1);
        }
    }
}

#[test]
fn a_request_in_http_is_closed_on() {
    let siege = Siege::new();
    let mut attacker = Raw::connect(siege.address());
    attacker.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    attacker.farewell();
    siege.ends_with_violations(1);
}

#[test]
fn garbage_instead_of_hello_is_closed_on() {
    let siege = Siege::new();
    let mut attacker = Raw::connect(siege.address());
    attacker.write_chunk(&[0xa5; 100]);
    siege.expels(&mut attacker, "kind 165");
}

#[test]
fn a_call_before_hello_is_closed_on_and_not_served() {
    let siege = Siege::new();
    let mut attacker = Raw::connect(siege.address());
    attacker.send(&call(call_id(0, 1), COUNT, b""));
    let counted = Arc::clone(&siege.counted);
    siege.expels(&mut attacker, "expected HELLO");
    assert_eq!(counted.load(Ordering::Relaxed), 0);
}

#[test]
fn a_version_that_nobody_speaks_is_told_both_ranges() {
    let siege = Siege::new();
    let mut attacker = Raw::connect(siege.address());
    attacker.send(&Frame::Hello(Hello { versions: Versions { min: 7, max: 9 }, ..raw::hello() }));
    let farewell = attacker.farewell();
    let (code, text) = farewell.told.expect("a GOAWAY");
    assert_eq!(code, GoAwayCode::Version);
    assert!(text.contains("7 to 9") && text.contains("1 to 1"), "{text}");
    assert_eq!(farewell.before, ["HELLO"], "so that the other side can find out for itself");
    siege.ends_with_violations(1);
}

#[test]
fn silence_is_closed_on_in_the_end() {
    let limits = Limits { handshake: Duration::from_millis(50), ..Default::default() };
    let siege = Siege::limited(limits);
    let mut attacker = Raw::connect(siege.address());
    siege.expels(&mut attacker, "no HELLO within 50ms");
}

/// A frame that comes byte by byte holds up nobody, and its sender has no longer than others to say HELLO.
#[test]
fn a_trickled_hello_holds_up_nobody_and_is_closed_on() {
    for backend in [Choice::Epoll, Choice::Auto] {
        let limits = Limits { handshake: Duration::from_millis(300), ..Default::default() };
        let siege = Siege::with(ServerConfig { limits, backend, ..Default::default() });
        let mut attacker = Raw::connect(siege.address());
        let hello = Frame::Hello(raw::hello()).encode(false);
        attacker.write(&(hello.len() as u32).to_le_bytes());
        for byte in &hello[..hello.len() - 1] {
            if siege.server.counters().violations > 0 {
                break;
            }
            attacker.write(&[*byte]);
            siege.others_are_served();
        }
        siege.expels(&mut attacker, "no HELLO within 300ms");
    }
}

#[test]
fn a_frame_cut_off_by_the_end_of_the_connection_is_counted() {
    let siege = Siege::new();
    let attacker = &mut siege.attacker();
    attacker.write(&100_u32.to_le_bytes());
    attacker.write(&[2; 30]);
    attacker.finish();
    attacker.farewell();
    eventually("it is counted", || siege.server.counters().truncated == 1);
    siege.ends_with_violations(0);
}

// ---- frames that are none

#[test]
fn garbage_after_hello_is_closed_on() {
    for (garbage, words) in [
        (&[0xff; 32][..], "kind 255"),
        (&[0; 8], "kind 0"),
        (&[2; 9], "ends after 9 bytes"),
        (&[6, 0, 0, 0, 0, 0, 0, 0], "no credits"),
        (&[5, 0, 0, 0, 0, 0, 0, 0], "call is 0"),
        (&[7, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8], "flags"),
    ] {
        let siege = Siege::new();
        let mut attacker = siege.attacker();
        attacker.write_chunk(garbage);
        siege.expels(&mut attacker, words);
    }
}

#[test]
fn flags_and_fields_that_are_reserved_are_closed_on() {
    let sound = call(call_id(0, 1), COUNT, b"body").encode(false);
    for (byte, value, words) in [(1, 0x10, "flags"), (1, 0x80, "flags"), (1, 0x08, "flags"), (38, 1, "reserved")] {
        let siege = Siege::new();
        let mut attacker = siege.attacker();
        let mut chunk = sound.clone();
        chunk[byte] |= value;
        attacker.write_chunk(&chunk);
        let counted = Arc::clone(&siege.counted);
        siege.expels(&mut attacker, words);
        assert_eq!(counted.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_second_hello_is_closed_on() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send(&Frame::Hello(raw::hello()));
    siege.expels(&mut attacker, "second HELLO");
}

#[test]
fn a_frame_that_only_servers_send_is_closed_on() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send(&raw::reply(call_id(0, 1), b"", 0));
    siege.expels(&mut attacker, "REPLY frame is not for this end");
}

#[test]
fn a_feature_that_was_not_agreed_on_is_closed_on() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    let expires = Some(wire::Realtime::from_nanos(1));
    let header = wire::CallHeader { expires, ..call_header(call_id(0, 1), COUNT, 0) };
    attacker.send(&Frame::Call(Call { header, meta: &[], body: &[] }));
    siege.expels(&mut attacker, "did not agree");
}

#[test]
fn a_damaged_call_is_closed_on_and_not_served() {
    let siege = Siege::with(ServerConfig { checksums: true, ..Default::default() });
    let mut attacker = Raw::connect(siege.address());
    let features = raw::hello().features | wire::Features::CRC32C;
    attacker.send(&Frame::Hello(Hello { features, ..raw::hello() }));
    attacker.read().expect("a HELLO");
    attacker.crc = true;
    attacker.send(&call(call_id(0, 1), ECHO, b"sound"));
    assert_eq!(attacker.reply_to(call_id(0, 1)).2, b"sound");
    let mut chunk = call(call_id(0, 2), COUNT, b"damaged").encode(true);
    chunk[41] ^= 1;
    attacker.write_chunk(&chunk);
    let counted = Arc::clone(&siege.counted);
    siege.expels(&mut attacker, "damaged on the way");
    assert_eq!(counted.load(Ordering::Relaxed), 0);
}

#[test]
fn what_follows_a_violation_is_not_served() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send_all(&[
        call(call_id(0, 1), COUNT, b""),
        Frame::Hello(raw::hello()),
        call(call_id(1, 1), COUNT, b""),
        call(call_id(2, 1), COUNT, b""),
    ]);
    let counted = Arc::clone(&siege.counted);
    siege.expels(&mut attacker, "second HELLO");
    assert!(counted.load(Ordering::Relaxed) <= 1, "only what came before it");
}

// ---- calls and their parts

#[test]
fn a_call_in_a_slot_that_is_taken_is_closed_on_and_its_handler_cancelled() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send_all(&[call(call_id(3, 1), NEVER, b""), call(call_id(3, 2), COUNT, b"")]);
    let farewell = attacker.farewell();
    assert!(farewell.told.expect("a GOAWAY").1.contains("same slot is unanswered"));
    eventually("the handler ends", || siege.server.counters().cancelled == 1);
    assert_eq!(siege.counted.load(Ordering::Relaxed), 0);
    siege.ends_with_violations(1);
}

#[test]
fn a_call_that_comes_twice_is_served_once() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send(&call(call_id(0, 1), COUNT, b""));
    assert_eq!(attacker.reply_to(call_id(0, 1)).0, Code::Ok);
    attacker.send(&call(call_id(0, 1), COUNT, b""));
    let counted = Arc::clone(&siege.counted);
    siege.expels(&mut attacker, "begun again");
    assert_eq!(counted.load(Ordering::Relaxed), 1);
}

#[test]
fn a_slot_or_a_generation_outside_its_range_is_closed_on() {
    let no_generation = CallId::new(5).unwrap();
    for (id, words) in
        [(call_id(8, 1), "slot 8"), (call_id(u16::MAX, 1), "slot 65535"), (no_generation, "generation 0")]
    {
        let siege = Siege::limited(Limits { calls: 8, ..Default::default() });
        let mut attacker = siege.attacker();
        attacker.send(&call(id, COUNT, b""));
        siege.expels(&mut attacker, words);
    }
}

#[test]
fn parts_that_do_not_continue_their_message_are_closed_on() {
    let id = call_id(0, 1);
    let begun = part_of_call(id, COUNT, b"0123", 12);
    let attacks: [(&[Frame<'_>], &str); 7] = [
        (&[begun, data(id, 8, b"89ab")], "at 8, expected 4"),
        (&[begun, data(id, 3, b"3456")], "at 3, expected 4"),
        (&[begun, data(id, 4, b"4567"), data(id, 4, b"4567")], "at 4, expected 8"),
        (&[begun, data(id, 4, b"456789abc")], "beyond the 12 bytes"),
        (&[begun, data(call_id(0, 2), 4, b"4567")], "expects none"),
        (&[data(id, 0, b"0123")], "expects none"),
        (&[begun, raw::reply_data(id, 4, b"4567")], "expects none"),
    ];
    for (frames, words) in attacks {
        let siege = Siege::new();
        let mut attacker = siege.attacker();
        attacker.send_all(frames);
        let counted = Arc::clone(&siege.counted);
        siege.expels(&mut attacker, words);
        assert_eq!(counted.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_part_after_the_end_of_its_message_is_closed_on() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send_all(&[call(call_id(0, 1), NEVER, b"whole"), data(call_id(0, 1), 5, b"more")]);
    siege.expels(&mut attacker, "expects none");
}

#[test]
fn a_call_that_was_refused_whole_leaves_its_slot_free() {
    let siege = Siege::limited(Limits { message_bytes: 100, assembly_bytes: 100, ..Default::default() });
    let mut attacker = siege.attacker();
    for generation in 1..5 {
        attacker.send(&call(call_id(0, generation), COUNT, &[0; 101]));
        let (code, reason, _) = attacker.reply_to(call_id(0, generation));
        assert_eq!((code, reason), (Code::ResourceExhausted, Reason::MessageTooLarge));
    }
    attacker.send(&call(call_id(0, 5), ECHO, b"small enough"));
    assert_eq!(attacker.reply_to(call_id(0, 5)).2, b"small enough");
    assert_eq!(siege.server.counters().refused, 4);
    drop(attacker);
    siege.ends_with_violations(0);
}

/// The rest of a message that was refused is thrown away: until it is over, or until CANCEL says that it is.
#[test]
fn a_call_that_was_refused_half_way_is_free_after_its_rest() {
    let siege = Siege::limited(Limits { message_bytes: 100, assembly_bytes: 100, ..Default::default() });
    let mut attacker = siege.attacker();
    let id = call_id(0, 1);
    attacker.send(&part_of_call(id, COUNT, &[0; 50], 300));
    assert_eq!(attacker.reply_to(id).1, Reason::MessageTooLarge);
    attacker.send_all(&[data(id, 50, &[0; 150]), data(id, 200, &[0; 100]), call(call_id(0, 2), ECHO, b"again")]);
    assert_eq!(attacker.reply_to(call_id(0, 2)).2, b"again");
    attacker.send_all(&[part_of_call(call_id(0, 3), COUNT, &[0; 50], 300), cancel(call_id(0, 3))]);
    assert_eq!(attacker.reply_to(call_id(0, 3)).1, Reason::MessageTooLarge);
    attacker.send(&call(call_id(0, 4), ECHO, b"and again"));
    assert_eq!(attacker.reply_to(call_id(0, 4)).2, b"and again");
    assert_eq!(siege.counted.load(Ordering::Relaxed), 0);
    drop(attacker);
    siege.ends_with_violations(0);
}

#[test]
fn messages_that_announce_more_than_may_be_half_received_are_refused() {
    let siege = Siege::limited(Limits { message_bytes: 1000, assembly_bytes: 1500, ..Default::default() });
    let mut attacker = siege.attacker();
    let (first, second) = (call_id(0, 1), call_id(1, 1));
    attacker.send_all(&[part_of_call(first, ECHO, &[1; 10], 1000), part_of_call(second, ECHO, &[1; 10], 600)]);
    assert_eq!(attacker.reply_to(second).1, Reason::TooManyCalls);
    attacker.send_all(&[cancel(second), data(first, 10, &[1; 990])]);
    assert_eq!(attacker.reply_to(first).2, [1; 1000]);
    attacker.send_all(&[part_of_call(call_id(1, 2), ECHO, &[1; 10], 20), data(call_id(1, 2), 10, &[1; 10])]);
    assert_eq!(attacker.reply_to(call_id(1, 2)).2, [1; 20], "there is room again");
    drop(attacker);
    siege.ends_with_violations(0);
}

#[test]
fn a_message_taken_back_half_way_is_answered_once() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    let id = call_id(0, 1);
    attacker.send_all(&[part_of_call(id, COUNT, b"half", 8), cancel(id), cancel(id), cancel(call_id(9, 9))]);
    assert_eq!(attacker.reply_to(id).1, Reason::Cancelled);
    attacker.send(&call(call_id(0, 2), ECHO, b"next"));
    assert_eq!(attacker.reply_to(call_id(0, 2)).2, b"next", "no second answer came in between");
    assert_eq!(siege.counted.load(Ordering::Relaxed), 0);
    drop(attacker);
    siege.ends_with_violations(0);
}

#[test]
fn metadata_that_cannot_be_read_fail_their_call_and_not_the_connection() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    let mut sound = Vec::new();
    push_meta(&mut sound, "user", b"ada").unwrap();
    for (generation, meta, expected) in [(1, &b"\xffgarbage"[..], Reason::Metadata), (2, &sound[..], Reason::None)] {
        let id = call_id(0, generation);
        let header = wire::CallHeader { meta_len: meta.len() as u16, ..call_header(id, COUNT, 0) };
        attacker.send(&Frame::Call(Call { header, meta, body: &[] }));
        assert_eq!(attacker.reply_to(id).1, expected);
    }
    assert_eq!(siege.counted.load(Ordering::Relaxed), 1);
    drop(attacker);
    siege.ends_with_violations(0);
}

// ---- time

#[test]
fn a_budget_may_have_any_value() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    let late = (Code::DeadlineExceeded, Reason::Expired(status::Check::Enqueue));
    let served = (Code::Ok, Reason::None);
    let budgets = [(0, late), (-1, late), (i64::MIN, late), (i64::MAX - 1, served), (i64::MAX, served)];
    for (generation, (nanos, expected)) in (1..).zip(budgets) {
        for elapsed in [Duration::ZERO, Duration::from_nanos(u64::MAX)] {
            let id = call_id(u16::from(!elapsed.is_zero()), generation);
            let mut header = wire::CallHeader { elapsed, ..call_header(id, COUNT, 0) };
            header.deadline.budget = Budget::from_nanos(nanos);
            attacker.send(&Frame::Call(Call { header, meta: &[], body: &[] }));
            let (code, reason, _) = attacker.reply_to(id);
            assert_eq!((code, reason), expected, "a budget of {nanos} ns");
        }
    }
    assert_eq!(siege.counted.load(Ordering::Relaxed), 4);
    assert_eq!(siege.server.counters().expired_on_arrival, 6);
    drop(attacker);
    siege.ends_with_violations(0);
}

// ---- credits, and peers that don't read

#[test]
fn chunks_beyond_the_credits_are_closed_on() {
    let siege = Siege::limited(Limits { credits: 4, ..Default::default() });
    let mut attacker = siege.attacker();
    let calls: Vec<Frame<'_>> = (0..6).map(|slot| call(call_id(slot, 1), NEVER, b"")).collect();
    attacker.send_all(&calls);
    siege.expels(&mut attacker, "beyond the 4 it had credits for");
}

#[test]
fn credits_that_were_never_used_are_closed_on() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send(&Frame::Credit(Credit { credits: 1 }));
    siege.expels(&mut attacker, "returned 1 credits");
}

/// It asks for megabytes, reads none, and says so often that it is alive.
#[test]
fn a_peer_that_reads_no_replies_is_closed_on_however_often_it_pings() {
    let limits = Limits { calls: 64, stall: Duration::from_millis(200), ..Default::default() };
    let siege = Siege::limited(limits);
    let mut attacker = siege.attacker();
    for slot in 0..60 {
        attacker.send(&call(call_id(slot, 1), LARGE, b""));
    }
    let ping = Frame::Ping(Ping(Probe { credits: 0, opaque: 1, sent: None }));
    eventually("it is closed on", || {
        if siege.server.counters().violations == 0 {
            attacker.send(&ping);
        }
        siege.server.counters().violations == 1
    });
    siege.ends_with_violations(1);
}

/// It takes its slots again without reading what it was answered in them.
#[test]
fn replies_that_are_not_read_count_as_calls() {
    let limits = Limits { calls: 16, credits: 1000, ..Default::default() };
    let siege = Siege::limited(limits);
    let mut attacker = siege.attacker();
    for generation in 1..10 {
        for slot in 0..16 {
            attacker.send(&call(call_id(slot, generation), LARGE, b""));
        }
    }
    eventually("it is closed on", || siege.server.counters().violations == 1);
    let served = siege.begun.load(Ordering::Relaxed);
    assert!(served < 16 * 9, "{served} calls were served");
    siege.ends_with_violations(1);
}

#[test]
fn a_message_that_stops_half_way_is_closed_on_however_often_its_sender_pings() {
    let siege = Siege::limited(Limits { stall: Duration::from_millis(100), ..Default::default() });
    let mut attacker = siege.attacker();
    attacker.send(&part_of_call(call_id(0, 1), COUNT, b"half", 8));
    eventually("it is closed on", || {
        attacker.send(&Frame::Ping(Ping(Probe { credits: 0, opaque: 1, sent: None })));
        siege.server.counters().violations == 1
    });
    siege.ends_with_violations(1);
}

/// Chunks of one byte, in time to be progress: slow is no crime, and harms nobody.
#[test]
fn a_message_in_very_small_parts_holds_up_nobody() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    let id = call_id(0, 1);
    attacker.send(&part_of_call(id, ECHO, b"0", 10));
    for at in 1..10 {
        for byte in raw_bytes(&data(id, at, &[b'0' + at as u8])) {
            attacker.write(&[byte]);
        }
        siege.others_are_served();
    }
    assert_eq!(attacker.reply_to(id).2, b"0123456789");
    drop(attacker);
    siege.ends_with_violations(0);
}

fn raw_bytes(frame: &Frame<'_>) -> Vec<u8> {
    let chunk = frame.encode(false);
    [&(chunk.len() as u32).to_le_bytes(), &chunk[..]].concat()
}

#[test]
fn a_flood_of_pings_that_nobody_reads_the_answers_to_is_survived() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    let ping = raw_bytes(&Frame::Ping(Ping(Probe { credits: 0, opaque: 1, sent: None })));
    for _ in 0..100 {
        attacker.write(&ping.repeat(1000));
    }
    siege.others_are_served();
    drop(attacker);
    siege.ends_with_violations(0);
}

#[test]
fn a_hundred_attackers_at_once_harm_nobody() {
    let siege = Siege::limited(Limits { handshake: Duration::from_millis(100), ..Default::default() });
    let mut attackers: Vec<Raw> = (0..100).map(|_| Raw::connect(siege.address())).collect();
    for (number, attacker) in (0_u8..).zip(&mut attackers) {
        match number % 4 {
            0 => attacker.write_chunk(&[number; 40]),
            1 => attacker.write(&[0xff; 40]),
            2 => attacker.write(&[9, 0, 0]),
            _ => {}
        }
    }
    siege.others_are_served();
    attackers.iter_mut().for_each(|attacker| drop(attacker.farewell()));
    siege.ends_with_violations(100);
}

// ---- farewells

#[test]
fn a_drained_server_serves_what_crossed_its_farewell_and_refuses_what_comes_later() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send(&call(call_id(0, 1), ECHO, b"before"));
    assert_eq!(attacker.reply_to(call_id(0, 1)).2, b"before");
    attacker.send(&call(call_id(1, 1), NEVER, b""));
    eventually("it is served", || siege.begun.load(Ordering::Relaxed) == 1);
    let Siege { server, over, bystander, counted, .. } = siege;
    over.store(true, Ordering::Relaxed);
    bystander.expect("it stands").join().unwrap();
    let draining = std::thread::spawn(move || server.drain(MINUTE));
    // GOAWAY, and a PING to see what had been sent before it was read.
    let away = attacker.read().expect("a GOAWAY");
    assert!(matches!(Frame::parse(&away, false), Ok(Frame::GoAway(_))));
    let ping = attacker.read().expect("a PING");
    let Ok(Frame::Ping(ping)) = Frame::parse(&ping, false) else { panic!("expected a PING") };
    // With a deadline, so that it goes before the one that takes for ever.
    let mut header = call_header(call_id(2, 1), COUNT, 0);
    header.deadline.budget = Budget::expected(MINUTE);
    attacker.send_all(&[Frame::Call(Call { header, meta: &[], body: &[] }), Frame::Pong(ping.answer(None))]);
    assert_eq!(attacker.reply_to(call_id(2, 1)).0, Code::Ok);
    attacker.send(&call(call_id(3, 1), COUNT, b""));
    assert_eq!(attacker.reply_to(call_id(3, 1)).1, Reason::GoingAway);
    assert_eq!(counted.load(Ordering::Relaxed), 1);
    attacker.send(&cancel(call_id(1, 1)));
    assert_eq!(attacker.reply_to(call_id(1, 1)).1, Reason::Cancelled);
    assert!(attacker.read().is_none());
    draining.join().unwrap();
}

/// The last answer is far larger than what sockets hold, and its reader slow.
#[test]
fn a_drained_server_delivers_its_last_answer_whole() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send(&call(call_id(0, 1), LARGE, b""));
    eventually("it is served", || siege.begun.load(Ordering::Relaxed) == 1);
    let Siege { server, over, bystander, .. } = siege;
    over.store(true, Ordering::Relaxed);
    bystander.expect("it stands").join().unwrap();
    let draining = std::thread::spawn(move || server.drain(MINUTE));
    let (mut bytes, mut credits) = (0, 0);
    while let Some(chunk) = attacker.read() {
        match Frame::parse(&chunk, false).unwrap() {
            Frame::Reply(Reply { body, .. }) => bytes += body.len(),
            Frame::Data(part) => bytes += part.body.len(),
            _ => continue,
        }
        credits += 1;
        if credits == 32 {
            attacker.send(&Frame::Credit(Credit { credits }));
            credits = 0;
        }
    }
    assert_eq!(bytes, LARGE_BYTES);
    draining.join().unwrap();
}
