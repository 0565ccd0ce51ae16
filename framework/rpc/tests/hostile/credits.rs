//! Peers that use more than they were given, that don't read, or that keep others waiting for the rest.

use crate::raw::{Raw, call, call_id, data, eventually, part_of_call};
use crate::siege::{COUNT, ECHO, LARGE, NEVER, Siege};
use greenwave_proto::wire::{Credit, Frame, Ping, Probe};
use greenwave_rpc::*;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn chunks_beyond_the_credits_are_closed_on() {
    let siege = Siege::limited(Limits::default().credits(4));
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
    let limits = Limits::default().calls(64).stall(Duration::from_millis(200));
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
    let limits = Limits::default().calls(16).credits(1000);
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
    let siege = Siege::limited(Limits::default().stall(Duration::from_millis(100)));
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
    let siege = Siege::limited(Limits::default().handshake(Duration::from_millis(100)));
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
