//! Chunks that are no frames, or not for this end.

use crate::raw::{self, Raw, call, call_header, call_id};
use crate::siege::{COUNT, ECHO, Siege};
use greenwave_proto::wire::{self, Call, Frame, Hello};
use greenwave_rpc::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    let siege = Siege::with(ServerConfig::default().checksums(true));
    let mut attacker = Raw::connect(siege.address());
    let features = raw::hello().features | Features::CRC32C;
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
