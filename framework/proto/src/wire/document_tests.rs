//! Holds `docs/wire.md` to what the encoder writes and the constants say.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use greenwave_policy::{Budget, DeadlineField};

use super::*;
use crate::receipt::{Receipt, STAGES_MOST, StageReceipt};
use crate::status::{Code, Reason};

const DOCUMENT: &str = include_str!("../../../../docs/wire.md");

const US: Duration = Duration::from_micros(1);

/// The examples in the document by name: blocks that are marked `hex NAME`.
fn documented() -> BTreeMap<&'static str, Vec<u8>> {
    let blocks = DOCUMENT.split("```hex ").skip(1);
    let parsed = blocks.map(|block| {
        let (name, rest) = block.split_once('\n').expect("a name and a line");
        let (lines, _) = rest.split_once("```").expect("an end");
        let bytes = lines.lines().flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
        (name, bytes.map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect())
    });
    parsed.collect()
}

fn call_id() -> CallId {
    CallId::in_slot(5, NonZeroU16::MIN)
}

fn call() -> CallHeader {
    CallHeader {
        call: call_id(),
        credits: 3,
        method: MethodId::of("search.Search/Query"),
        deadline: DeadlineField { budget: Budget::expected(Duration::from_millis(200)), parallel_unit: true },
        elapsed: 1500 * US,
        message_len: 5,
        meta_len: 0,
        expires: None,
        streams: false,
    }
}

fn shard(branch: u16, service: u32) -> StageReceipt {
    StageReceipt {
        stage: StageName::new("shard").expect("short"),
        branch: Some(branch),
        depth: 0,
        sent_after: 10 * US,
        network: 50 * US,
        queue: 2 * US,
        service: service * US,
        total: (2 + service) * US,
        status: Code::Ok,
    }
}

fn reply(receipts_len: usize) -> ReplyHeader {
    ReplyHeader {
        call: call_id(),
        credits: 1,
        message_len: 2,
        code: Code::Ok,
        reason: Reason::None,
        by_handler: false,
        receipts_len: receipts_len as u16,
        leading_len: 0,
        trailing_len: 0,
        queue: 5 * US,
        service: 20 * US,
        total: 400 * US,
    }
}

/// The same examples as the encoder writes them.
fn encoded() -> BTreeMap<&'static str, Vec<u8>> {
    let limits = HelloLimits { credits: 256, chunk_bytes: 16 << 10, message_bytes: 16 << 20, calls: 1024 };
    let now = Realtime::from_nanos(1_700_000_000_000_000_000);
    let mut meta = Vec::new();
    push_meta(&mut meta, "user", b"ada").expect("short");
    let long = CallHeader {
        credits: 0,
        deadline: DeadlineField { budget: Budget::UNLIMITED, parallel_unit: false },
        message_len: 100_000,
        meta_len: meta.len() as u16,
        expires: Some(now),
        ..call()
    };
    let mut receipts = Vec::new();
    let spent = Receipt { children: vec![shard(0, 100), shard(1, 300)], omitted: 1, ..Receipt::default() };
    spent.encode_stages(usize::MAX, &mut receipts);
    let text = "needs 8ms, 2ms left";
    let failure = ReplyHeader {
        credits: 0,
        message_len: text.len() as u32,
        code: Code::DeadlineExceeded,
        reason: Reason::Infeasible,
        queue: Duration::ZERO,
        service: Duration::ZERO,
        total: 3 * US,
        ..reply(0)
    };
    let passed_on = ReplyHeader {
        message_len: 0,
        code: Code::Unavailable,
        reason: Reason::Unreachable,
        by_handler: true,
        service: 20 * US,
        total: 25 * US,
        ..failure
    };
    let part = DataHeader { call: call_id(), credits: 0, direction: Direction::Request, offset: 4 };
    let answer_part = DataHeader { direction: Direction::Reply, ..part };
    let stream = CallHeader { message_len: 0, streams: true, ..call() };
    let message = MessageHeader {
        call: call_id(),
        credits: 0,
        direction: Direction::Request,
        end: true,
        message_len: 5,
        budget: Some(Budget::expected(Duration::from_millis(10))),
    };
    let tick = MessageHeader { direction: Direction::Reply, end: false, message_len: 40_000, budget: None, ..message };
    let mut cost = Vec::new();
    push_meta(&mut cost, "cost", b"9").expect("short");
    let ended = ReplyHeader { credits: 0, message_len: 0, trailing_len: cost.len() as u16, ..reply(0) };
    let ping = Ping(Probe { credits: 0, opaque: 42, sent: Some(now) });
    let name = StageName::new("search").expect("short");
    let frames = [
        ("HELLO", Frame::Hello(Hello::new(Features::KNOWN, limits, name))),
        ("CALL", Frame::Call(Call { header: call(), meta: &[], body: b"\x0a\x03foo" })),
        ("CALL-LONG", Frame::Call(Call { header: long, meta: &meta, body: &[1, 2, 3, 4] })),
        ("DATA", Frame::Data(Data { header: part, body: &[5, 6, 7, 8] })),
        (
            "REPLY",
            Frame::Reply(Reply {
                header: reply(receipts.len()),
                receipts: &receipts,
                leading: &[],
                trailing: &[],
                body: b"ok",
            }),
        ),
        (
            "REPLY-FAILURE",
            Frame::Reply(Reply { header: failure, receipts: &[], leading: &[], trailing: &[], body: text.as_bytes() }),
        ),
        (
            "REPLY-PASSED-ON",
            Frame::Reply(Reply { header: passed_on, receipts: &[], leading: &[], trailing: &[], body: &[] }),
        ),
        ("DATA-CRC32C", Frame::Data(Data { header: answer_part, body: &[5, 6, 7, 8] })),
        ("CANCEL", Frame::Cancel(Cancel { call: call_id(), credits: 0 })),
        ("CREDIT", Frame::Credit(Credit { credits: 128 })),
        ("PING", Frame::Ping(ping)),
        ("PONG", Frame::Pong(ping.answer(None))),
        ("CALL-STREAM", Frame::Call(Call { header: stream, meta: &[], body: &[] })),
        ("MESSAGE", Frame::Message(Message { header: message, body: b"\x0a\x03foo" })),
        ("MESSAGE-LONG", Frame::Message(Message { header: tick, body: &[1, 2, 3, 4] })),
        ("END", Frame::End(End { call: call_id(), credits: 0 })),
        ("BEGIN", Frame::Begin(Begin { call: call_id(), credits: 0, meta: &meta })),
        ("WINDOW", Frame::Window(Window { call: call_id(), credits: 0, bytes: 70_000 })),
        (
            "REPLY-STREAM",
            Frame::Reply(Reply { header: ended, receipts: &[], leading: &[], trailing: &cost, body: &[] }),
        ),
        ("GOAWAY", Frame::GoAway(GoAway { credits: 0, code: GoAwayCode::Shutdown, last: None, text: "restart" })),
    ];
    frames.into_iter().map(|(name, frame)| (name, frame.encode(name.ends_with("CRC32C")))).collect()
}

#[test]
fn the_documents_examples_are_what_the_encoder_writes() {
    let (documented, encoded) = (documented(), encoded());
    assert!(documented.keys().eq(encoded.keys()), "{:?}", documented.keys());
    for (name, bytes) in &encoded {
        assert_eq!(documented[name], *bytes, "{name} is {bytes:02x?}");
    }
}

#[test]
fn the_documents_limits_are_the_constants() {
    let limits = [
        ("STAGE_NAME_MOST", STAGE_NAME_MOST),
        ("CHUNK_BYTES_LEAST", CHUNK_BYTES_LEAST as usize),
        ("CHUNK_BYTES_MOST", CHUNK_BYTES_MOST as usize),
        ("CREDITS_MOST", CREDITS_MOST as usize),
        ("RETURN_BYTES", RETURN_BYTES),
        ("CALLS_MOST", CALLS_MOST as usize),
        ("META_BYTES_MOST", META_BYTES_MOST),
        ("FAILURE_TEXT_MOST", FAILURE_TEXT_MOST),
        ("GO_AWAY_TEXT_MOST", GO_AWAY_TEXT_MOST),
        ("RECEIPT_BYTES_MOST", RECEIPT_BYTES_MOST),
        ("STREAM_WINDOW", STREAM_WINDOW as usize),
        ("MESSAGE_COST", MESSAGE_COST as usize),
        ("STAGES_MOST", STAGES_MOST),
    ];
    for (name, value) in limits {
        assert!(DOCUMENT.contains(&format!("| `{name}` | {value} |")), "{name} is {value}");
    }
}

#[test]
fn the_documents_statuses_and_reasons_are_those_of_the_code() {
    for code in Code::ALL {
        assert!(DOCUMENT.contains(&format!("| {} | {code} |", code.as_u8())), "{code}");
    }
    let table = DOCUMENT.split_once("| reason | | with status |").expect("a table of reasons").1;
    let rows = table.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, _, status, refused] = cells[..] else { return None };
        Some((number.parse::<u8>().ok()?, status, refused == "yes"))
    });
    let mut documented = Vec::new();
    for (number, status, refused) in rows {
        let reason = Reason::from_u8(number);
        assert!(!matches!(reason, Reason::Other(_)), "reason {number}");
        assert!(status == "any" || status == reason.code().name(), "reason {number}");
        assert_eq!(refused, reason.is_refusal(), "reason {number}");
        documented.push(number);
    }
    for number in 0..=u8::MAX {
        let is_known = !matches!(Reason::from_u8(number), Reason::Other(_));
        assert_eq!(documented.contains(&number), is_known, "reason {number}");
    }
}
