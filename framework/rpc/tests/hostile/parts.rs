//! Calls whose parts, slots or numbers are not those of a call.

use crate::raw::{self, call, call_header, call_id, cancel, data, eventually, part_of_call};
use crate::siege::{COUNT, ECHO, NEVER, Siege};
use greenwave_policy::Budget;
use greenwave_proto::wire::{self, Call, CallId, Frame, push_meta};
use greenwave_rpc::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
        let siege = Siege::limited(Limits::default().calls(8));
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
    let siege = Siege::limited(Limits::default().message_bytes(100).assembly_bytes(100));
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
    let siege = Siege::limited(Limits::default().message_bytes(100).assembly_bytes(100));
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
    let siege = Siege::limited(Limits::default().message_bytes(1000).assembly_bytes(1500));
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

#[test]
fn a_budget_may_have_any_value() {
    let siege = Siege::new();
    let mut attacker = siege.attacker();
    let late = (Code::DeadlineExceeded, Reason::Expired(Check::Enqueue));
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
