//! REPLY: how a call ended, what the callee spent on it, and the first part of the answer.

use std::time::Duration;

use super::fields::{put, u16_at, u32_at, u64_at};
use super::head::nanos;
use super::header::{ANSWER_META, BY_HANDLER, FLAGS_OFFSET, HAS_RECEIPTS, Header, put_header};
use super::{CallId, FAILURE_TEXT_MOST, Head, Kind, META_BYTES_MOST, Problem, RECEIPT_BYTES_MOST, WireError};
use crate::status::{Code, Reason};

pub(super) const REPLY_MESSAGE_OFFSET: usize = 8;
const STATUS_OFFSET: usize = 12;
const REASON_OFFSET: usize = 13;
const RECEIPTS_OFFSET: usize = 14;
const QUEUE_OFFSET: usize = 16;
const SERVICE_OFFSET: usize = 24;
const TOTAL_OFFSET: usize = 32;

/// Bytes of the lengths of metadata, which follow the fixed part if there are any.
pub(crate) const META_LENS_BYTES: usize = 4;

/// Bytes of a REPLY's fixed part.
pub const REPLY_FIXED: usize = 40;

/// What a REPLY states before its receipts and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The call answered, by the caller's number.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// Bytes of the whole message, of which this frame holds the first part; of a failure's text, which is whole.
    pub message_len: u32,
    /// How the call ended.
    pub code: Code,
    /// Why, if it failed.
    pub reason: Reason,
    /// Whether the callee's handler made the failure, or somebody behind it; not, on success.
    pub by_handler: bool,
    /// Bytes of the receipts, which are whole in this frame.
    pub receipts_len: u16,
    /// Bytes of the metadata that go before the answer, which are whole in this frame, behind the receipts.
    pub leading_len: u16,
    /// Bytes of the metadata that go with its end, behind those.
    pub trailing_len: u16,
    /// How long the call waited for the callee's workers.
    pub queue: Duration,
    /// How long it ran.
    pub service: Duration,
    /// How long the callee had it, from the receipt of the CALL to the writing of this frame.
    pub total: Duration,
}

impl ReplyHeader {
    /// The head to send before the receipts and the body.
    pub fn encode(&self) -> Head {
        Head::of(&[&self.fixed()])
    }

    /// Whether there are metadata. Then their [lengths](Self::meta_lens) follow the head.
    #[inline(always)]
    pub(super) fn has_meta(&self) -> bool {
        self.leading_len | self.trailing_len != 0
    }

    /// What follows the head if there are metadata: how long they are.
    pub(crate) fn meta_lens(&self) -> Option<[u8; META_LENS_BYTES]> {
        let lens = u32::from(self.leading_len) | u32::from(self.trailing_len) << 16;
        self.has_meta().then(|| lens.to_le_bytes())
    }

    /// The bytes of the head.
    #[inline(always)]
    pub(crate) fn fixed(&self) -> [u8; REPLY_FIXED] {
        let has_receipts = if self.receipts_len != 0 { HAS_RECEIPTS } else { 0 };
        let has_meta = if self.has_meta() { ANSWER_META } else { 0 };
        let flags = has_receipts | has_meta | if self.by_handler { BY_HANDLER } else { 0 };
        let mut fixed = [0; REPLY_FIXED];
        put_header(&mut fixed, Kind::Reply, flags, self.credits, Some(self.call));
        put(&mut fixed, REPLY_MESSAGE_OFFSET, self.message_len.to_le_bytes());
        put(&mut fixed, STATUS_OFFSET, [self.code.as_u8()]);
        put(&mut fixed, REASON_OFFSET, [self.reason.as_u8()]);
        put(&mut fixed, RECEIPTS_OFFSET, self.receipts_len.to_le_bytes());
        put(&mut fixed, QUEUE_OFFSET, nanos(self.queue).to_le_bytes());
        put(&mut fixed, SERVICE_OFFSET, nanos(self.service).to_le_bytes());
        put(&mut fixed, TOTAL_OFFSET, nanos(self.total).to_le_bytes());
        fixed
    }
}

/// A REPLY as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// What it states.
    pub header: ReplyHeader,
    /// The receipts of the stages behind the callee, of `receipts_len` bytes: see
    /// [`Receipt::decode`](crate::receipt::Receipt::decode).
    pub receipts: &'a [u8],
    /// Metadata that go before the answer, of `leading_len` bytes: see [`Meta`](super::Meta).
    pub leading: &'a [u8],
    /// Metadata that go with its end, of `trailing_len` bytes.
    pub trailing: &'a [u8],
    /// The first part of the answer, or the text of a failure: see [`Reply::failure`].
    pub body: &'a [u8],
}

impl<'a> Reply<'a> {
    /// The text of a failure, `None` if the call succeeded.
    pub fn failure(&self) -> Option<&'a str> {
        // A reply that was parsed is UTF-8; one that was put together by hand need not be.
        (self.header.code != Code::Ok).then(|| std::str::from_utf8(self.body).unwrap_or_default())
    }

    pub(super) fn parse(chunk: &'a [u8]) -> Result<Self, WireError> {
        match chunk.get(FLAGS_OFFSET) {
            Some(flags) if flags & ANSWER_META != 0 => Self::parse_with_meta(chunk),
            _ => Self::parse_plain(chunk),
        }
    }

    /// Any but those with metadata.
    #[inline(always)]
    pub(crate) fn parse_plain(chunk: &'a [u8]) -> Result<Self, WireError> {
        Self::parse_parts(chunk, 0)
    }

    /// One with metadata: what stands around them is as in others.
    #[cold]
    fn parse_with_meta(chunk: &'a [u8]) -> Result<Self, WireError> {
        let Some((_, &lens)) = chunk.get(..REPLY_FIXED + META_LENS_BYTES).and_then(<[u8]>::split_last_chunk) else {
            return Err(WireError::short(Some(Kind::Reply), REPLY_FIXED + META_LENS_BYTES, chunk.len()));
        };
        let [leading_len, trailing_len] = [u16_at::<META_LENS_BYTES>(&lens, 0), u16_at(&lens, 2)];
        if leading_len | trailing_len == 0 {
            return Err(WireError::at(Some(Kind::Reply), REPLY_FIXED, Problem::FlagAgainstLength { len: 0 }));
        }
        if let Some(found) = [leading_len, trailing_len].into_iter().find(|len| usize::from(*len) > META_BYTES_MOST) {
            return Err(WireError::at(Some(Kind::Reply), REPLY_FIXED, Problem::MetaTooLong { found }));
        }
        let meta_len = usize::from(leading_len) + usize::from(trailing_len);
        let mut reply = Self::parse_parts(chunk, META_LENS_BYTES + meta_len)?;
        let behind_receipts = REPLY_FIXED + META_LENS_BYTES + reply.receipts.len();
        let meta = &chunk[behind_receipts..behind_receipts + meta_len];
        (reply.leading, reply.trailing) = meta.split_at(leading_len.into());
        (reply.header.leading_len, reply.header.trailing_len) = (leading_len, trailing_len);
        Ok(reply)
    }

    /// `meta`: how many bytes metadata and their lengths take.
    #[inline(always)]
    fn parse_parts(chunk: &'a [u8], meta: usize) -> Result<Self, WireError> {
        let Some((fixed, rest)) = chunk.split_first_chunk::<REPLY_FIXED>() else {
            return Err(WireError::short(Some(Kind::Reply), REPLY_FIXED, chunk.len()));
        };
        let head = Header::of(fixed);
        let failed = fixed[STATUS_OFFSET] != Code::Ok.as_u8();
        let has_meta = if meta > 0 { ANSWER_META } else { 0 };
        let allowed = if failed { HAS_RECEIPTS | BY_HANDLER } else { HAS_RECEIPTS } | has_meta;
        let call = head.about_a_call(Kind::Reply, allowed)?;
        let message_len = u32_at(fixed, REPLY_MESSAGE_OFFSET);
        let receipts_len = u16_at(fixed, RECEIPTS_OFFSET);
        let (status, reason) = (fixed[STATUS_OFFSET], fixed[REASON_OFFSET]);
        let Some(code) = Code::from_u8(status) else {
            return Err(WireError::at(Some(Kind::Reply), STATUS_OFFSET, Problem::UnknownStatus { found: status }));
        };
        let has_receipts = head.flags & HAS_RECEIPTS != 0;
        if has_receipts != (receipts_len != 0) || usize::from(receipts_len) > RECEIPT_BYTES_MOST {
            return Err(wrong_receipts(has_receipts, receipts_len));
        }
        let before = if meta > 0 { META_LENS_BYTES } else { 0 };
        let Some((receipts, body)) = rest[before..].split_at_checked(usize::from(receipts_len)) else {
            let needed = REPLY_FIXED + before + usize::from(receipts_len);
            return Err(WireError::short(Some(Kind::Reply), needed, chunk.len()));
        };
        let Some(body) = body.get(meta - before..) else {
            let needed = REPLY_FIXED + usize::from(receipts_len) + meta;
            return Err(WireError::short(Some(Kind::Reply), needed, chunk.len()));
        };
        if code != Code::Ok {
            whole_text(chunk, body, message_len)?;
        } else if reason != 0 || body.len() > message_len as usize {
            return Err(wrong_success(chunk, body, message_len, reason));
        }
        let header = ReplyHeader {
            call,
            credits: head.credits,
            message_len,
            code,
            reason: Reason::from_u8(reason),
            by_handler: head.flags & BY_HANDLER != 0,
            receipts_len,
            leading_len: 0,
            trailing_len: 0,
            queue: Duration::from_nanos(u64_at(fixed, QUEUE_OFFSET)),
            service: Duration::from_nanos(u64_at(fixed, SERVICE_OFFSET)),
            total: Duration::from_nanos(u64_at(fixed, TOTAL_OFFSET)),
        };
        Ok(Self { header, receipts, leading: &[], trailing: &[], body })
    }
}

#[cold]
fn wrong_receipts(has_receipts: bool, receipts_len: u16) -> WireError {
    let problem = if has_receipts != (receipts_len != 0) {
        Problem::FlagAgainstLength { len: receipts_len }
    } else {
        Problem::ReceiptsTooLong { found: receipts_len }
    };
    WireError::at(Some(Kind::Reply), RECEIPTS_OFFSET, problem)
}

#[cold]
fn wrong_success(chunk: &[u8], body: &[u8], message_len: u32, reason: u8) -> WireError {
    if reason != 0 {
        return WireError::at(Some(Kind::Reply), REASON_OFFSET, Problem::ReasonOnSuccess { found: reason });
    }
    let problem = Problem::BeyondMessage { part: body.len(), message: message_len };
    WireError::at(Some(Kind::Reply), chunk.len() - body.len(), problem)
}

/// Checks the text of a failure: whole, short enough, UTF-8.
#[cold]
fn whole_text(chunk: &[u8], text: &[u8], message_len: u32) -> Result<(), WireError> {
    let starts = chunk.len() - text.len();
    if text.len() != message_len as usize {
        let problem = Problem::TextNotWhole { stated: message_len, found: text.len() };
        return Err(WireError::at(Some(Kind::Reply), REPLY_MESSAGE_OFFSET, problem));
    }
    if text.len() > FAILURE_TEXT_MOST {
        return Err(WireError::failure_text(starts, text.len()));
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(WireError::at(Some(Kind::Reply), starts + error.valid_up_to(), Problem::NotUtf8)),
    }
}
