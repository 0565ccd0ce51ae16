//! What a server that drains owes to its peers, good and bad.

use crate::raw::{call, call_header, call_id, cancel, eventually};
use crate::siege::{COUNT, ECHO, LARGE, LARGE_BYTES, MINUTE, NEVER, Siege};
use greenwave_policy::Budget;
use greenwave_proto::wire::{Call, Credit, Frame, Reply};
use greenwave_rpc::*;
use std::sync::atomic::Ordering;

#[test]
fn a_drained_server_serves_what_crossed_its_farewell_and_refuses_what_comes_later() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    attacker.send(&call(call_id(0, 1), ECHO, b"before"));
    assert_eq!(attacker.reply_to(call_id(0, 1)).2, b"before");
    attacker.send(&call(call_id(1, 1), NEVER, b""));
    eventually("it is served", || siege.begun.load(Ordering::Relaxed) == 1);
    let Siege { server, bystander, counted, .. } = siege;
    bystander.leaves();
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
    let Siege { server, bystander, .. } = siege;
    bystander.leaves();
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
