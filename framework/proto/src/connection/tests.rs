//! What a single end does with frames, where a whole server would be in the way.

use super::*;
use crate::context::Context;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::receipt::{Receipt, StageReceipt};
use crate::status::{Code, Reason, Status};
use crate::transport::Transport;
use crate::wire::{self, CallHeader, Features, Frame, Hello, MethodId, REPLY_FIXED, StageName};
use greenwave_policy::{Budget, Deadline, DeadlineField, Time};
use std::time::Duration;

/// A serving end, and what it posts to.
struct Bench {
    callee: Callee,
    transport: Memory,
}

impl Bench {
    fn new(limits: Limits, theirs: wire::HelloLimits) -> Self {
        let setup = Setup {
            name: "here",
            limits: &limits,
            serves: true,
            features: Features::KNOWN,
            checksums: false,
            absolute: None,
            sending: crate::Sending::default(),
            waits: false,
        };
        let mut callee = Callee::new(Link::new(&setup, Time::ZERO), &limits);
        let hello = Frame::Hello(Hello::new(Features::RECEIPTS, theirs, StageName::UNNAMED)).encode(false);
        assert!(callee.receive(Time::ZERO, &hello, Vec::with_capacity).is_ok());
        Self { callee, transport: Memory::default() }
    }

    fn call(&mut self, slot: u16, generation: u16) -> CallId {
        let call = call_in(slot.into(), generation);
        let deadline = DeadlineField { budget: Budget::UNLIMITED, parallel_unit: false };
        let header = CallHeader {
            call,
            credits: 0,
            method: MethodId::of("any"),
            deadline,
            elapsed: Duration::ZERO,
            message_len: 0,
            meta_len: 0,
            expires: None,
            streams: false,
        };
        let frame = Frame::Call(wire::Call { header, meta: &[], body: &[] }).encode(false);
        assert!(matches!(
            self.callee.receive(Time::ZERO, &frame, Vec::with_capacity),
            Ok(Some(CalleeEvent::Arrived(_)))
        ));
        call
    }

    fn answer(&mut self, call: CallId, body: &[u8], receipt: Receipt) {
        self.callee.answer(Answer { call, result: Ok(body.to_vec()), receipt, deadline: Deadline::NEVER, extra: None });
    }

    /// Posts what can be posted, and returns the chunks that arrive.
    fn transmit(&mut self) -> Vec<Vec<u8>> {
        self.callee.transmit(Time::ZERO, &mut self.transport, |_| {}).unwrap();
        std::iter::from_fn(|| self.transport.take()).collect()
    }
}

const THEIRS: wire::HelloLimits =
    wire::HelloLimits { credits: 100, chunk_bytes: 2048, message_bytes: 1 << 20, calls: 0 };

fn stage() -> StageReceipt {
    StageReceipt {
        stage: StageName::new(&"behind".repeat(8)).unwrap(),
        branch: None,
        depth: 0,
        sent_after: Duration::ZERO,
        network: Duration::ZERO,
        queue: Duration::ZERO,
        service: Duration::ZERO,
        total: Duration::ZERO,
        status: Code::Ok,
    }
}

/// Receipts that would fill the first chunk to its last byte leave the body no room in it, and so none ever.
#[test]
fn receipts_as_long_as_the_chunk_do_not_stop_the_answer() {
    let mut receipt = Receipt::default();
    (0..6).for_each(|_| receipt.add(stage(), &Receipt::default()));
    let mut encoded = Vec::new();
    receipt.encode_stages(usize::MAX, &mut encoded);
    for spare in [0, 1, 2] {
        let chunk_bytes = (REPLY_FIXED + encoded.len() + spare) as u32;
        for body in [&b""[..], b"b", b"body"] {
            let mut bench = Bench::new(Limits::default(), wire::HelloLimits { chunk_bytes, ..THEIRS });
            let call = bench.call(0, 1);
            bench.answer(call, body, receipt.clone());
            let mut heard = Vec::new();
            for chunk in bench.transmit() {
                match Frame::parse(&chunk, false).unwrap() {
                    Frame::Reply(reply) => heard.extend_from_slice(reply.body),
                    Frame::Data(data) => heard.extend_from_slice(data.body),
                    _ => {}
                }
            }
            assert_eq!(heard, body);
            assert_eq!(bench.callee.unanswered(), 0);
        }
    }
}

/// A caller that doesn't read gets no credits back, so that it can't ask for more; once it reads it does.
#[test]
fn credits_are_kept_back_while_too_much_waits_to_be_read() {
    let limits = Limits::default().credits(4).message_bytes(1000).assembly_bytes(2000);
    let mut bench = Bench::new(limits, wire::HelloLimits { credits: 1, ..THEIRS });
    let returned = |chunks: Vec<Vec<u8>>| -> u32 {
        chunks.iter().map(|chunk| u32::from(Frame::parse(chunk, false).unwrap().credits())).sum()
    };
    let calls: Vec<CallId> = (0..4).map(|slot| bench.call(slot, 1)).collect();
    for call in calls {
        bench.answer(call, &[0; 1000], Receipt::default());
    }
    assert_eq!(returned(bench.transmit()), 0, "one answer leaves with the only credit, and brings none back");
    let credit = Frame::Credit(wire::Credit { credits: 1 }).encode(false);
    bench.callee.receive(Time::ZERO, &credit, Vec::with_capacity).unwrap();
    assert_eq!(returned(bench.transmit()), 4, "two thousand bytes wait, which is not too much");
}

/// An answer to a PING, asked for while a long answer is half sent, goes before the rest of that.
#[test]
fn control_frames_overtake_what_is_left_of_a_message() {
    let mut bench = Bench::new(Limits::default(), wire::HelloLimits { credits: 1, ..THEIRS });
    let call = bench.call(0, 1);
    bench.answer(call, &[7; 10_000], Receipt::default());
    let kinds = |chunks: Vec<Vec<u8>>| -> Vec<wire::Kind> {
        chunks.iter().map(|chunk| Frame::parse(chunk, false).unwrap().kind()).collect()
    };
    assert_eq!(kinds(bench.transmit()).last(), Some(&wire::Kind::Reply), "there is one credit");
    let ping = wire::Ping(wire::Probe { credits: 1, opaque: 5, sent: None });
    bench.callee.receive(Time::ZERO, &Frame::Ping(ping).encode(false), Vec::with_capacity).unwrap();
    assert_eq!(kinds(bench.transmit()), [wire::Kind::Pong, wire::Kind::Data]);
}

#[test]
fn a_generation_comes_again_only_after_all_others() {
    let mut generation = 0;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..u16::MAX {
        generation = next_generation(generation);
        assert!(generation > 0 && seen.insert(generation));
    }
    assert_eq!(next_generation(generation), 1);
}

/// A calling end that has made so many calls, their tokens counted from 0, and posted what it could.
fn calling(calls: usize, theirs: wire::HelloLimits) -> Caller {
    let mut caller = met(theirs);
    for token in 0..calls {
        call(&mut caller, token, Budget::UNLIMITED, 0);
        transmit(&mut caller, Time::ZERO);
    }
    caller
}

/// A calling end that knows its peer.
fn met(theirs: wire::HelloLimits) -> Caller {
    let limits = Limits::default();
    let setup = Setup {
        name: "here",
        limits: &limits,
        serves: false,
        features: Features::KNOWN,
        checksums: false,
        absolute: None,
        sending: crate::Sending::default(),
        waits: false,
    };
    let mut caller = Caller::new(Link::new(&setup, Time::ZERO));
    let hello = Frame::Hello(Hello::new(Features::RECEIPTS, theirs, StageName::UNNAMED)).encode(false);
    caller.receive(Time::ZERO, &hello, Vec::with_capacity, &mut nothing).unwrap();
    caller
}

fn nothing(_: Finished) {
    panic!("nothing has become of any call");
}

/// Makes a call with a request of so many bytes, at the beginning of time.
fn call(caller: &mut Caller, token: usize, budget: Budget, len: usize) {
    let context = Context::born(Time::ZERO, budget, true);
    let request = Request { token, terms: context.into(), method: MethodId::of("any"), started: Time::ZERO };
    crate::fuzzing::call(caller, Time::ZERO, request, vec![0; len], &mut nothing);
}

fn transmit(caller: &mut Caller, now: Time) {
    let mut transport = Memory::default();
    caller.transmit(now, &mut transport, |_| {}).unwrap();
}

/// One that is posted, one that waits for a credit, one that waits for a slot: each is found where it is.
#[test]
fn a_call_is_taken_back_without_a_look_at_the_others() {
    let looks_among = |many: usize| {
        let theirs = wire::HelloLimits { credits: many as u32, calls: 2 * many as u32, ..THEIRS };
        let mut caller = calling(3 * many, theirs);
        let ours = [many / 2, many + many / 2, 2 * many + many / 2].map(|token| (token, caller.slot_of(token)));
        let before = LOOKS.get();
        for (token, slot) in ours {
            assert!(caller.abandon(Time::ZERO, token, slot));
            assert!(!caller.abandon(Time::ZERO, token, slot), "it is gone");
        }
        let looks = LOOKS.get() - before;
        caller.check();
        assert_eq!(caller.unfinished(), 3 * many - 3);
        looks
    };
    assert_eq!(looks_among(10), looks_among(500));
}

/// With one credit, the second of two calls has not been written when its answer comes.
#[test]
fn an_answer_to_what_was_not_asked_yet_is_a_violation() {
    let mut caller = calling(2, wire::HelloLimits { credits: 1, calls: 9, ..THEIRS });
    let mut ended = Vec::new();
    let answer = |slot| {
        let header = wire::ReplyHeader {
            call: call_in(slot, 1),
            credits: 0,
            message_len: 0,
            code: Code::Ok,
            reason: Reason::None,
            by_handler: false,
            receipts_len: 0,
            queue: Duration::ZERO,
            service: Duration::ZERO,
            total: Duration::ZERO,
        };
        Frame::Reply(wire::Reply { header, receipts: &[], body: &[] }).encode(false)
    };
    let unasked = caller.receive(Time::ZERO, &answer(1), Vec::with_capacity, &mut |done| ended.push(done.token));
    assert_eq!(unasked, Err(Violation::UnknownReply(call_in(1, 1))));
    caller.receive(Time::ZERO, &answer(0), Vec::with_capacity, &mut |done| ended.push(done.token)).unwrap();
    assert_eq!(ended, [0]);
}

/// Chunks that no peer would read: HELLO alone is posted before the other's is there.
#[test]
fn nothing_but_hello_is_written_to_a_peer_that_has_not_said_hello() {
    let limits = Limits::default();
    let setup = Setup {
        name: "here",
        limits: &limits,
        serves: false,
        features: Features::KNOWN,
        checksums: false,
        absolute: None,
        sending: crate::Sending::default(),
        waits: false,
    };
    let mut caller = Caller::new(Link::new(&setup, Time::ZERO));
    let mut transport = Memory::default();
    caller.link.go_away("already");
    caller.transmit(Time::ZERO, &mut transport, |_| {}).unwrap();
    let heard: Vec<Vec<u8>> = std::iter::from_fn(|| transport.take()).collect();
    assert_eq!(heard.len(), 1);
    let Ok(Frame::Hello(Hello { name, .. })) = Frame::parse(&heard[0], false) else { panic!("not a HELLO") };
    assert_eq!(name.to_string(), "here");
}

/// The peer has one receive buffer, which holds the first call; the second waits for it.
#[test]
fn a_peer_is_stalled_while_something_waits_for_it_and_no_longer() {
    let one = wire::HelloLimits { credits: 1, calls: 9, ..THEIRS };
    let stall = Limits::default().stall;
    let late = Time::ZERO + stall;
    for (budget, outcome) in [(Budget::UNLIMITED, Err(Violation::Stalled(stall))), (Budget::from_nanos(1000), Ok(()))] {
        for len in [0, 5000] {
            let mut caller = met(one);
            call(&mut caller, 0, Budget::UNLIMITED, 0);
            call(&mut caller, 1, budget, len);
            transmit(&mut caller, Time::ZERO);
            let mut ended = Vec::new();
            let soon = Time::ZERO + stall / 2;
            caller.on_timeout(soon, &mut |done| ended.push(done.token)).unwrap();
            transmit(&mut caller, soon);
            assert_eq!(caller.on_timeout(late, &mut nothing), outcome, "{len} bytes");
            assert_eq!(ended, if outcome.is_ok() { vec![1] } else { vec![] });
            caller.check();
        }
    }
}

/// A connection that is open and of no use: what was sent over it is not answered, and neither is a PING. Or it is of use.
#[test]
fn a_peer_that_lets_a_call_expire_and_says_nothing_any_more_is_given_up() {
    let Limits { stall, handshake, .. } = Limits::default();
    for answers in [false, true] {
        let mut caller = met(wire::HelloLimits { calls: 9, ..THEIRS });
        call(&mut caller, 0, Budget::from_nanos(1000), 0);
        transmit(&mut caller, Time::ZERO);
        let (mut now, mut ended) = (Time::from_nanos(1_000_000), 0);
        caller.on_timeout(now, &mut |_| ended += 1).unwrap();
        assert_eq!(ended, 1);
        now = now + handshake;
        caller.on_timeout(now, &mut nothing).unwrap();
        let mut transport = Memory::default();
        caller.transmit(now, &mut transport, |_| {}).unwrap();
        let posted: Vec<Vec<u8>> = std::iter::from_fn(|| transport.take()).collect();
        let kinds: Vec<_> = posted.iter().map(|chunk| Frame::parse(chunk, false).unwrap().kind()).collect();
        assert!(kinds.contains(&wire::Kind::Ping), "{kinds:?}");
        if answers {
            let probe = wire::Probe { credits: 0, opaque: link::PRESENCE, sent: None };
            let pong = Frame::Pong(wire::Pong(probe)).encode(false);
            caller.receive(now, &pong, Vec::with_capacity, &mut nothing).unwrap();
        }
        let outcome = caller.on_timeout(now + stall, &mut nothing);
        assert_eq!(outcome.is_ok(), answers, "{outcome:?}");
        assert_eq!(caller.link.next_timeout(), Time::MAX, "nothing is waited for");
        caller.check();
    }
}

/// A post that fails may have failed anywhere: what was in it may have been heard of, and isn't sent again.
#[test]
fn what_was_lost_while_it_was_posted_is_lost_and_what_waited_is_not() {
    for len in [500, 5000] {
        let mut caller = met(wire::HelloLimits { calls: 9, ..THEIRS });
        call(&mut caller, 0, Budget::UNLIMITED, len);
        // Its chunks take less than the peer's do.
        assert!(caller.transmit(Time::ZERO, &mut Memory::new(200), |_| {}).is_err());
        call(&mut caller, 1, Budget::UNLIMITED, 5000);
        let unsent: Vec<usize> = caller.take_unsent(Time::ZERO).iter().map(|(request, _)| request.token).collect();
        assert_eq!(unsent, [1], "{len} bytes");
        let mut lost = Vec::new();
        let status = Status::refused(Reason::ConnectionLost, "");
        caller.lose(Time::ZERO, &status, &mut |done| lost.push(done.token));
        assert_eq!(lost, [0], "{len} bytes");
    }
}

/// A transport without room holds up the short queue; once what waits in it is withdrawn, it takes messages again.
#[test]
fn a_short_queue_that_was_emptied_takes_messages_again() {
    let mut caller = met(wire::HelloLimits { calls: 9, ..THEIRS });
    transmit(&mut caller, Time::ZERO);
    let mut full = Memory::new(16 << 10);
    while full.room() > 0 {
        full.post(&[&[0; 16 << 10]]).unwrap();
    }
    call(&mut caller, 0, Budget::UNLIMITED, 0);
    let slot = caller.slot_of(0);
    caller.transmit(Time::ZERO, &mut full, |_| {}).unwrap();
    assert!(!caller.link.may_queue_short(0), "it is held up");
    assert!(caller.abandon(Time::ZERO, 0, slot));
    assert!(caller.link.may_queue_short(0));
}
