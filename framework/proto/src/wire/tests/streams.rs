//! Frames of streams.

use super::*;

/// A frame of a stream.
pub(super) fn any_frame() -> impl Strategy<Value = Owned> {
    let budget = any::<Option<i64>>().prop_map(|nanos| nanos.map(Budget::from_nanos));
    let message = (call_id(), any::<(u16, bool, bool)>(), budget, 0..1000_u32, bytes(80)).prop_map(
        |(call, (credits, is_reply, end), budget, missing, body)| {
            let direction = if is_reply { Direction::Reply } else { Direction::Request };
            let (end, message_len) = (end && !is_reply, body.len() as u32 + missing);
            Owned::Message(MessageHeader { call, credits, direction, end, message_len, budget }, body)
        },
    );
    let end = (call_id(), any::<u16>()).prop_map(|(call, credits)| Owned::End(End { call, credits }));
    let begin = (call_id(), any::<u16>(), bytes(50))
        .prop_map(|(call, credits, meta)| Owned::Begin(Begin { call, credits, meta: &[] }, meta));
    let window = (call_id(), any::<u16>(), 1..=u32::MAX)
        .prop_map(|(call, credits, bytes)| Owned::Window(Window { call, credits, bytes }));
    prop_oneof![message, end, begin, window]
}

#[test]
fn frames_of_streams_are_refused_for_what_they_say_wrong() {
    let mut chunk = CallHeader { streams: true, message_len: 3, ..simple_call() }.encode().to_vec();
    assert_eq!(
        refusal(&chunk),
        "CALL frame, byte 32: the message has 3 bytes, expected none in a CALL that begins streams"
    );
    let header =
        MessageHeader { call: FIRST, credits: 0, direction: Direction::Reply, end: true, message_len: 1, budget: None };
    let message = |header, body| Frame::Message(Message { header, body }).encode(false);
    assert_eq!(
        refusal(&message(header, &[])),
        "MESSAGE frame, byte 1: the flags are 0x48, expected no bits outside 0x88"
    );
    let header = MessageHeader { direction: Direction::Request, ..header };
    assert_eq!(
        refusal(&message(header, &[0; 2])),
        "MESSAGE frame, byte 12: the part has 2 bytes, expected at most the message's 1"
    );
    chunk = message(MessageHeader { budget: Some(Budget::from_nanos(1)), ..header }, &[]);
    chunk.pop();
    assert_eq!(refusal(&chunk), "MESSAGE frame, byte 19: the chunk ends after 19 bytes, expected at least 20");
    let window = Frame::Window(Window { call: FIRST, credits: 0, bytes: 0 }).encode(false);
    assert_eq!(refusal(&window), "WINDOW frame, byte 8: the window grows by 0 bytes, expected at least one");
    let begin = Frame::Begin(Begin { call: FIRST, credits: 0, meta: &[0; META_BYTES_MOST + 1] }).encode(false);
    assert_eq!(refusal(&begin), "BEGIN frame, byte 8: the metadata have 8193 bytes, expected at most 8192");
}

#[test]
fn metadata_of_an_answer_are_stated_as_long_as_they_are() {
    let reply = Reply { header: simple_failure(), receipts: &[], body: b"oh no" };
    let frame = Frame::ReplyWithMeta(reply, ReplyMeta { leading: &[], trailing: b"abc" });
    let mut chunk = frame.encode(false);
    assert_eq!(Frame::parse(&chunk, false), Ok(frame));
    chunk[42..44].copy_from_slice(&9_u16.to_le_bytes());
    assert_eq!(refusal(&chunk), "REPLY frame, byte 52: the chunk ends after 52 bytes, expected at least 53");
    chunk[42..44].copy_from_slice(&8193_u16.to_le_bytes());
    assert_eq!(refusal(&chunk), "REPLY frame, byte 40: the metadata have 8193 bytes, expected at most 8192");
    chunk[42..44].fill(0);
    assert_eq!(
        refusal(&chunk),
        "REPLY frame, byte 40: the flag and the length (0) disagree on whether the part follows"
    );
}
