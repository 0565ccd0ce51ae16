//! Peers that introduce themselves badly, late, or not at all.

use crate::raw::{self, Raw, call, call_id, eventually};
use crate::siege::{COUNT, Siege};
use greenwave_proto::wire::{Frame, GoAwayCode, Hello, Versions};
use greenwave_rpc::*;
use greenwave_verbs::Choice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
fn a_request_in_http_is_closed_on_where_none_is_served() {
    let siege = Siege::with(ServerConfig::default().web(None));
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
    let limits = Limits::default().handshake(Duration::from_millis(50));
    let siege = Siege::limited(limits);
    let mut attacker = Raw::connect(siege.address());
    siege.expels(&mut attacker, "no HELLO within 50ms");
}

/// A frame that comes byte by byte holds up nobody, and its sender has no longer than others to say HELLO.
#[test]
fn a_trickled_hello_holds_up_nobody_and_is_closed_on() {
    for backend in [Choice::Epoll, Choice::Auto] {
        let limits = Limits::default().handshake(Duration::from_millis(300));
        let siege = Siege::with(ServerConfig::default().limits(limits).backend(backend));
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
