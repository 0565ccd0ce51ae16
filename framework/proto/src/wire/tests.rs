//! Properties of the format as a whole, for every kind of frame.

mod streams;

use std::time::Duration;

use greenwave_policy::{Budget, DeadlineField};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::status::{Code, Reason};

const FIRST: CallId = match CallId::new(0x0001_0000) {
    Some(call) => call,
    None => panic!("not zero"),
};

/// A frame that owns its parts, so that it can be made up.
#[derive(Clone, Debug)]
enum Owned {
    Hello(Hello<'static>, Vec<u8>),
    Call(CallHeader, Vec<u8>, Vec<u8>),
    Reply(ReplyHeader, [Vec<u8>; 3], Vec<u8>),
    Data(DataHeader, Vec<u8>),
    Cancel(Cancel),
    Credit(Credit),
    Ping(Ping),
    Pong(Pong),
    GoAway(GoAway<'static>, String),
    Message(MessageHeader, Vec<u8>),
    End(End),
    Begin(Begin<'static>, Vec<u8>),
    Window(Window),
}

impl Owned {
    fn frame(&self) -> Frame<'_> {
        match self {
            Self::Hello(hello, later) => Frame::Hello(Hello { later, ..*hello }),
            Self::Call(header, meta, body) => Frame::Call(Call { header: *header, meta, body }),
            Self::Reply(header, [receipts, leading, trailing], body) => {
                let (reply, meta) = (Reply { header: *header, receipts, body }, ReplyMeta { leading, trailing });
                if meta.is_empty() { Frame::Reply(reply) } else { Frame::ReplyWithMeta(reply, meta) }
            }
            Self::Data(header, body) => Frame::Data(Data { header: *header, body }),
            Self::Cancel(cancel) => Frame::Cancel(*cancel),
            Self::Credit(credit) => Frame::Credit(*credit),
            Self::Ping(ping) => Frame::Ping(*ping),
            Self::Pong(pong) => Frame::Pong(*pong),
            Self::GoAway(away, text) => Frame::GoAway(GoAway { text, ..*away }),
            Self::Message(header, body) => Frame::Message(Message { header: *header, body }),
            Self::End(end) => Frame::End(*end),
            Self::Begin(begin, meta) => Frame::Begin(Begin { meta, ..*begin }),
            Self::Window(window) => Frame::Window(*window),
        }
    }
}

fn call_id() -> impl Strategy<Value = CallId> {
    (1..=u32::MAX).prop_map(|number| CallId::new(number).expect("from 1 up"))
}

fn span() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=most)
}

fn hello() -> impl Strategy<Value = Owned> {
    let versions = (1..=u16::MAX, any::<u16>()).prop_map(|(min, span)| Versions { min, max: min.saturating_add(span) });
    let limits = (1..=CREDITS_MOST, CHUNK_BYTES_LEAST..=CHUNK_BYTES_MOST, any::<u32>(), 0..=CALLS_MOST).prop_map(
        |(credits, chunk_bytes, message_bytes, calls)| HelloLimits { credits, chunk_bytes, message_bytes, calls },
    );
    let name = "[a-zé/0-9]{0,32}".prop_map(|name| StageName::new(&name).expect("at most 64 bytes"));
    (versions, any::<u32>(), limits, name, bytes(20)).prop_map(|(versions, features, limits, name, later)| {
        let features = Features::from_bits(features);
        Owned::Hello(Hello { versions, features, limits, name, later: &[] }, later)
    })
}

fn call() -> impl Strategy<Value = Owned> {
    let deadline = (any::<i64>(), any::<bool>())
        .prop_map(|(nanos, parallel_unit)| DeadlineField { budget: Budget::from_nanos(nanos), parallel_unit });
    let time = (deadline, span(), any::<Option<u64>>());
    (call_id(), any::<(u16, u64, bool)>(), time, 0..1000_u32, bytes(50), bytes(80)).prop_map(
        |(call, (credits, method, streams), (deadline, elapsed, expires), missing, meta, body)| {
            let (missing, body) = if streams { (0, Vec::new()) } else { (missing, body) };
            let header = CallHeader {
                call,
                credits,
                method: MethodId::from_u64(method),
                deadline,
                elapsed,
                message_len: body.len() as u32 + missing,
                meta_len: meta.len() as u16,
                expires: expires.map(Realtime::from_nanos),
                streams,
            };
            Owned::Call(header, meta, body)
        },
    )
}

fn reply() -> impl Strategy<Value = Owned> {
    let success = (bytes(80), 0..1000_u32).prop_map(|(body, missing)| (Code::Ok, Reason::None, body, missing));
    let failure = (select(&Code::ALL[1..]), any::<u8>(), ".{0,40}")
        .prop_map(|(code, reason, text)| (code, Reason::from_u8(reason), text.into_bytes(), 0));
    let head = (call_id(), any::<u16>(), any::<bool>());
    let meta = prop_oneof![Just([Vec::new(), Vec::new()]), [bytes(30), bytes(30)]];
    (head, prop_oneof![success, failure], bytes(50), meta, [span(), span(), span()]).prop_map(
        |((call, credits, by_handler), (code, reason, body, missing), receipts, [leading, trailing], times)| {
            let [queue, service, total] = times;
            let header = ReplyHeader {
                call,
                credits,
                message_len: body.len() as u32 + missing,
                code,
                reason,
                by_handler: by_handler && code != Code::Ok,
                receipts_len: receipts.len() as u16,
                queue,
                service,
                total,
            };
            Owned::Reply(header, [receipts, leading, trailing], body)
        },
    )
}

fn data() -> impl Strategy<Value = Owned> {
    let direction = select(&[Direction::Request, Direction::Reply][..]);
    (call_id(), any::<u16>(), direction, 0..u32::MAX - 80, vec(any::<u8>(), 1..=80)).prop_map(
        |(call, credits, direction, offset, body)| Owned::Data(DataHeader { call, credits, direction, offset }, body),
    )
}

fn control() -> impl Strategy<Value = Owned> {
    let probe = any::<(u16, u64, u64)>().prop_map(|(credits, opaque, sent)| {
        let sent = Some(sent).filter(|nanos| *nanos != 0).map(Realtime::from_nanos);
        Probe { credits, opaque, sent }
    });
    let away = (any::<(u16, u8, u32)>(), ".{0,40}").prop_map(|((credits, code, last), text)| {
        let code = GoAwayCode::from_u8(code);
        Owned::GoAway(GoAway { credits, code, last: CallId::new(last), text: "" }, text)
    });
    prop_oneof![
        (call_id(), any::<u16>()).prop_map(|(call, credits)| Owned::Cancel(Cancel { call, credits })),
        (1..=u16::MAX).prop_map(|credits| Owned::Credit(Credit { credits })),
        probe.clone().prop_map(|probe| Owned::Ping(Ping(probe))),
        probe.prop_map(|probe| Owned::Pong(Pong(probe))),
        away,
    ]
}

fn any_frame() -> impl Strategy<Value = Owned> {
    prop_oneof![hello(), call(), reply(), data(), control(), streams::any_frame()]
}

/// The chunk cut short to a length less than its own.
fn cut(chunk: &[u8], at: Index) -> &[u8] {
    &chunk[..at.index(chunk.len())]
}

proptest! {
    #[test]
    fn a_frame_comes_back_as_it_was_written(owned in any_frame(), crc: bool) {
        let frame = owned.frame();
        let chunk = frame.encode(crc);
        prop_assert_eq!(Frame::parse(&chunk, crc), Ok(frame));
    }

    #[test]
    fn bytes_that_parse_are_the_only_way_to_write_their_frame(mut chunk in bytes(120), kind in 0_u8..15) {
        if let Some(first) = chunk.first_mut() {
            *first = kind;
        }
        if let Ok(frame) = Frame::parse(&chunk, false) {
            prop_assert_eq!(frame.encode(false), chunk);
        }
    }

    /// Near a valid frame, where almost everything is right, a parser is tried harder than by noise.
    #[test]
    fn a_frame_with_bytes_changed_is_refused_or_another_frame(
        owned in any_frame(),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let mut chunk = owned.frame().encode(false);
        for (at, byte) in changes {
            let at = at.index(chunk.len());
            chunk[at] = byte;
        }
        if let Ok(frame) = Frame::parse(&chunk, false) {
            prop_assert_eq!(frame.encode(false), chunk);
        }
    }

    #[test]
    fn a_frame_cut_short_of_its_body_is_refused(owned in any_frame(), at: Index) {
        let frame = owned.frame();
        let chunk = frame.encode(false);
        // What may be any length can't tell that it was cut; the transport or the checksum has to.
        let open_end = match frame {
            Frame::Call(call) => call.body.len(),
            Frame::Reply(reply) | Frame::ReplyWithMeta(reply, _) if reply.header.code == Code::Ok => reply.body.len(),
            Frame::Data(data) => data.body.len() - 1,
            Frame::GoAway(away) => away.text.len(),
            Frame::Message(message) => message.body.len(),
            Frame::Begin(begin) => begin.meta.len(),
            Frame::Hello(hello) => hello.later.len(),
            _ => 0,
        };
        let cut = cut(&chunk[..chunk.len() - open_end], at);
        prop_assert!(Frame::parse(cut, false).is_err());
    }

    #[test]
    fn a_chunk_with_a_checksum_is_refused_wherever_it_is_cut(owned in any_frame(), at: Index) {
        let chunk = owned.frame().encode(true);
        prop_assert!(Frame::parse(cut(&chunk, at), true).is_err());
    }

    #[test]
    fn a_checksum_detects_any_byte_that_changed(owned in any_frame(), at: Index, flip in 1..=u8::MAX) {
        let mut chunk = owned.frame().encode(true);
        let at = at.index(chunk.len());
        chunk[at] ^= flip;
        let error = Frame::parse(&chunk, true).unwrap_err();
        prop_assert!(matches!(error.problem, Problem::Checksum { .. }), "{error}");
    }

    #[test]
    fn what_is_patched_at_the_last_write_is_what_arrives(
        owned in call(), credits: u16, budget: i64, elapsed: u64,
    ) {
        let Frame::Call(call) = owned.frame() else { unreachable!("a call was asked for") };
        let (budget, elapsed) = (Budget::from_nanos(budget), Duration::from_nanos(elapsed));
        let mut head = call.header.encode();
        head.set_credits(credits);
        head.set_time(budget, elapsed);
        let chunk = [&head, call.meta, call.body].concat();
        let deadline = DeadlineField { budget, ..call.header.deadline };
        let header = CallHeader { credits, deadline, elapsed, ..call.header };
        prop_assert_eq!(Frame::parse(&chunk, false), Ok(Frame::Call(Call { header, ..call })));
    }

    #[test]
    fn both_peers_come_to_the_same_agreement(one in hello(), other in hello()) {
        let (Frame::Hello(one), Frame::Hello(other)) = (one.frame(), other.frame()) else {
            unreachable!("two hellos were asked for")
        };
        match (Hello::negotiate(&one, &other), Hello::negotiate(&other, &one)) {
            (Ok(here), Ok(there)) => {
                prop_assert_eq!((here.version, here.features), (there.version, there.features));
                prop_assert_eq!((here.send, here.receive), (there.receive, there.send));
                prop_assert!((one.versions.min..=one.versions.max).contains(&here.version));
                prop_assert!((other.versions.min..=other.versions.max).contains(&here.version));
            }
            (Err(_), Err(_)) => prop_assert!(
                one.versions.max < other.versions.min || other.versions.max < one.versions.min
            ),
            _ => prop_assert!(false, "one peer agrees and the other doesn't"),
        }
    }
}

/// The error in a chunk, as text.
fn refusal(chunk: &[u8]) -> String {
    Frame::parse(chunk, false).unwrap_err().to_string()
}

fn simple_call() -> CallHeader {
    CallHeader {
        call: FIRST,
        credits: 0,
        method: MethodId::of("a.B/C"),
        deadline: DeadlineField { budget: Budget::UNLIMITED, parallel_unit: false },
        elapsed: Duration::ZERO,
        message_len: 0,
        meta_len: 0,
        expires: None,
        streams: false,
    }
}

fn simple_failure() -> ReplyHeader {
    ReplyHeader {
        call: FIRST,
        credits: 0,
        message_len: 5,
        code: Code::Internal,
        reason: Reason::Panicked,
        by_handler: false,
        receipts_len: 0,
        queue: Duration::ZERO,
        service: Duration::ZERO,
        total: Duration::ZERO,
    }
}

#[test]
fn a_refusal_names_the_frame_the_byte_and_what_was_expected() {
    assert_eq!(refusal(&[]), "chunk, byte 0: the chunk ends after 0 bytes, expected at least 8");
    assert_eq!(refusal(&[0; 8]), "chunk, byte 0: the frame is of kind 0, expected 1 to 13");
    assert_eq!(refusal(b"GET / HTTP/1.1"), "chunk, byte 0: the frame is of kind 71, expected 1 to 13");

    let mut chunk = simple_call().encode().to_vec();
    chunk[1] = 1 << 4;
    assert_eq!(refusal(&chunk), "CALL frame, byte 1: the flags are 0x10, expected no bits outside 0x27");
    chunk[1] = 0;
    chunk[38] = 7;
    assert_eq!(refusal(&chunk), "CALL frame, byte 38: the reserved field is 7, expected 0");
    chunk[38] = 0;
    chunk.push(0);
    assert_eq!(refusal(&chunk), "CALL frame, byte 40: the part has 1 bytes, expected at most the message's 0");
    chunk[4..8].fill(0);
    assert_eq!(refusal(&chunk), "CALL frame, byte 4: the call is 0, expected the number of a call");
}

#[test]
fn a_feature_is_used_only_where_both_offered_it() {
    let limits = HelloLimits { credits: 8, chunk_bytes: 16 << 10, message_bytes: 1 << 20, calls: 4 };
    let with = Hello::new(Features::KNOWN, limits, StageName::UNNAMED);
    let without = Hello::new(Features::RECEIPTS, limits, StageName::UNNAMED);
    let header = CallHeader { expires: Some(Realtime::from_nanos(1)), ..simple_call() };
    let call = Frame::Call(Call { header, meta: &[], body: &[] });

    let agreed = Hello::negotiate(&with, &with).unwrap();
    assert_eq!(agreed.check(&call), Ok(()));
    assert_eq!(agreed.chunk_room(), (16 << 10) - 4);

    let agreed = Hello::negotiate(&with, &without).unwrap();
    assert!(!agreed.crc());
    assert_eq!(
        agreed.check(&call).unwrap_err().to_string(),
        "CALL frame, byte 40: the frame uses ABSOLUTE_DEADLINE, expected none of it: the peers did not agree on it"
    );
}

#[test]
fn an_answer_longer_than_offered_is_refused_and_a_request_is_left_to_the_callee() {
    let limits = HelloLimits { credits: 8, chunk_bytes: 16 << 10, message_bytes: 1000, calls: 4 };
    let hello = Hello::new(Features::NONE, limits, StageName::UNNAMED);
    let agreed = Hello::negotiate(&hello, &hello).unwrap();
    let call = CallHeader { message_len: 1001, ..simple_call() };
    assert_eq!(agreed.check(&Frame::Call(Call { header: call, meta: &[], body: &[] })), Ok(()));
    let header = ReplyHeader { code: Code::Ok, reason: Reason::None, message_len: 1001, ..simple_failure() };
    assert_eq!(
        agreed.check(&Frame::Reply(Reply { header, receipts: &[], body: &[] })).unwrap_err().to_string(),
        "REPLY frame, byte 8: the message has 1001 bytes, expected at most the 1000 that were offered"
    );
}

#[test]
fn what_a_later_version_offers_is_passed_over() {
    let limits = HelloLimits { credits: 8, chunk_bytes: 16 << 10, message_bytes: 1 << 20, calls: 4 };
    let ours = Hello::new(Features::KNOWN, limits, StageName::UNNAMED);
    let versions = Versions { min: 1, max: 9 };
    let theirs = Hello { versions, features: Features::from_bits(u32::MAX), later: b"more", ..ours };
    let chunk = Frame::Hello(theirs).encode(false);
    let Ok(Frame::Hello(theirs)) = Frame::parse(&chunk, false) else { panic!("a later HELLO parses") };
    let agreed = Hello::negotiate(&ours, &theirs).unwrap();
    assert_eq!((agreed.version, agreed.features), (1, Features::KNOWN));
}

#[test]
fn versions_without_overlap_name_both_ranges() {
    let limits = HelloLimits { credits: 8, chunk_bytes: 16 << 10, message_bytes: 1 << 20, calls: 4 };
    let ours = Hello::new(Features::NONE, limits, StageName::UNNAMED);
    let theirs = Hello { versions: Versions { min: 2, max: 3 }, ..ours };
    assert_eq!(
        Hello::negotiate(&ours, &theirs).unwrap_err().to_string(),
        "HELLO frame, byte 12: the peer speaks versions 2 to 3, expected one of 1 to 1: update the older of the two"
    );
}

#[test]
fn a_hello_outside_the_limits_is_refused() {
    let limits = HelloLimits { credits: 8, chunk_bytes: 16 << 10, message_bytes: 1 << 20, calls: 0 };
    let refused = |limits| {
        let hello = Hello::new(Features::NONE, limits, StageName::UNNAMED);
        refusal(&Frame::Hello(hello).encode(false))
    };
    assert_eq!(
        refused(HelloLimits { credits: 0, ..limits }),
        "HELLO frame, byte 20: 0 credits are offered, expected 1 to 65535"
    );
    assert_eq!(
        refused(HelloLimits { chunk_bytes: 255, ..limits }),
        "HELLO frame, byte 24: chunks of 255 bytes are offered, expected 256 to 1048576"
    );
    let hello =
        Hello { versions: Versions { min: 0, max: 1 }, ..Hello::new(Features::NONE, limits, StageName::UNNAMED) };
    assert_eq!(
        refusal(&Frame::Hello(hello).encode(false)),
        "HELLO frame, byte 12: versions 0 to 1 are offered, expected a range from 1 up"
    );
}

#[test]
fn a_failures_text_is_whole_and_utf_8() {
    let header = simple_failure();
    let chunk = |header: ReplyHeader, body: &[u8]| [&header.encode(), body].concat();
    assert_eq!(
        refusal(&chunk(header, b"oh")),
        "REPLY frame, byte 8: the failure's text is stated as 5 bytes, expected the 2 that follow"
    );
    assert_eq!(refusal(&chunk(header, b"oh n\xff")), "REPLY frame, byte 44: the text is not UTF-8");
    let long = ReplyHeader { message_len: 1025, ..header };
    assert_eq!(
        refusal(&chunk(long, &[b'x'; 1025])),
        "REPLY frame, byte 40: the text has 1025 bytes, expected at most 1024"
    );
    let whole = chunk(header, b"oh no");
    let Ok(Frame::Reply(reply)) = Frame::parse(&whole, false) else { panic!("a failure parses") };
    assert_eq!(reply.failure(), Some("oh no"));
    let success = ReplyHeader { code: Code::Ok, ..header };
    assert_eq!(refusal(&chunk(success, b"oh no")), "REPLY frame, byte 13: the reason is 12 on a success, expected 0");
}

#[test]
fn features_have_names() {
    assert_eq!("all".parse(), Ok(Features::KNOWN));
    assert_eq!("none".parse(), Ok(Features::NONE));
    assert_eq!(
        "receipts, PROMPT-CREDITS,streams".parse(),
        Ok(Features::RECEIPTS | Features::PROMPT_CREDITS | Features::STREAMS)
    );
    for bits in 0..64 {
        let features = Features::from_bits(bits);
        assert_eq!(features.to_string().parse(), Ok(features));
    }
    for wrong in ["", "receipts,", "stream"] {
        let told = wrong.parse::<Features>().unwrap_err().to_string();
        assert!(
            told.ends_with(
                "there are: all, none, crc32c, absolute-deadline, receipts, prompt-credits, origins, streams"
            ),
            "{told}"
        );
    }
}
