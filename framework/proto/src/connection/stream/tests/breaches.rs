//! What an end refuses of a peer's streams.

use super::super::super::*;
use super::Ends;
use crate::limits::Limits;
use crate::status::{Code, Reason};
use crate::wire::{self, Frame, Kind, STREAM_WINDOW};
use std::time::Duration;

#[test]
fn a_callee_closes_on_a_caller_whose_streams_break_the_rules() {
    let call = call_in(0, 1);
    let start = |header: wire::MessageHeader, len: usize| {
        Frame::Message(wire::Message { header, body: &vec![0; len] }).encode(false)
    };
    let header = wire::MessageHeader {
        call,
        credits: 0,
        direction: wire::Direction::Request,
        end: false,
        message_len: 10,
        budget: None,
    };
    let end = Frame::End(wire::End { call, credits: 0 }).encode(false);
    let window = Frame::Window(wire::Window { call, credits: 0, bytes: 1 }).encode(false);
    let wide = wire::MessageHeader { message_len: STREAM_WINDOW, ..header };
    let unknown = wire::MessageHeader { call: call_in(1, 1), ..header };
    let last = wire::MessageHeader { end: true, ..header };
    let stranger = Violation::UnexpectedMessage(call_in(1, 1));
    let cases = [
        (vec![start(header, 3), start(header, 10)], Violation::UnexpectedMessage(call)),
        (vec![start(header, 3), end.clone()], Violation::UnexpectedMessage(call)),
        (vec![start(last, 10), end.clone()], Violation::UnexpectedMessage(call)),
        (vec![end.clone(), start(header, 10)], Violation::UnexpectedMessage(call)),
        (vec![start(unknown, 10)], stranger),
        (vec![window], Violation::Window(call)),
        (
            vec![start(header, 3), {
                let header = wire::DataHeader { call, credits: 0, direction: wire::Direction::Request, offset: 4 };
                Frame::Data(wire::Data { header, body: &[0] }).encode(false)
            }],
            Violation::Offset { call, found: 4, expected: 3 },
        ),
        (
            vec![start(wire::MessageHeader { direction: wire::Direction::Reply, ..header }, 10)],
            Violation::UnexpectedMessage(call),
        ),
        (
            vec![Frame::Begin(wire::Begin { call, credits: 0, meta: &[] }).encode(false)],
            Violation::WrongEnd(Kind::Begin),
        ),
    ];
    let feed = |chunks: Vec<Vec<u8>>| {
        let mut ends = Ends::new(Limits::default());
        ends.stream(0);
        chunks.iter().try_for_each(|it| ends.callee.receive(ends.now, it, Vec::with_capacity).map(drop))
    };
    for (chunks, violation) in cases {
        assert_eq!(feed(chunks), Err(violation));
    }
    let mut whole = vec![start(wide, 3)];
    let parts = (3..STREAM_WINDOW as usize).step_by(16_000).map(|offset| {
        let header = wire::DataHeader { call, credits: 0, direction: wire::Direction::Request, offset: offset as u32 };
        Frame::Data(wire::Data { header, body: &vec![0; 16_000.min(STREAM_WINDOW as usize - offset)] }).encode(false)
    });
    whole.extend(parts);
    assert_eq!(feed(whole.clone()), Ok(()));
    whole.push(start(header, 10));
    assert_eq!(feed(whole), Err(Violation::BeyondWindow(call)));
}

#[test]
fn a_caller_closes_on_a_callee_whose_streams_break_the_rules() {
    let call = call_in(0, 1);
    let header = wire::MessageHeader {
        call,
        credits: 0,
        direction: wire::Direction::Reply,
        end: false,
        message_len: 10,
        budget: None,
    };
    let message = Frame::Message(wire::Message { header, body: &[0; 10] }).encode(false);
    let half = Frame::Message(wire::Message { header, body: &[0; 3] }).encode(false);
    let begin = Frame::Begin(wire::Begin { call, credits: 0, meta: &[] }).encode(false);
    let window = Frame::Window(wire::Window { call, credits: 0, bytes: 1 }).encode(false);
    let reply = |message_len: u32| {
        let header = wire::ReplyHeader {
            call,
            credits: 0,
            message_len,
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
    let cases = [
        (vec![begin.clone(), begin.clone()], Violation::LateBegin(call)),
        (vec![message, begin], Violation::LateBegin(call)),
        (vec![window.clone()], Violation::Window(call)),
        (vec![half, reply(0)], Violation::ReplyWithinStream(call)),
        (vec![reply(1)], Violation::ReplyWithinStream(call)),
        (vec![reply(0), window], Violation::Window(call)),
    ];
    for (chunks, violation) in cases {
        let mut ends = Ends::new(Limits::default());
        ends.stream(0);
        let fed = chunks.iter().try_for_each(|it| ends.caller.receive(ends.now, it, Vec::with_capacity, &mut |_| {}));
        assert_eq!(fed, Err(violation));
    }
}
