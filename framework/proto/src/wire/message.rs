//! The frames of calls that stream: MESSAGE, END, BEGIN and WINDOW.
//!
//! A MESSAGE begins one message of a stream; DATA of the same call and direction bring the rest of it. END says that the
//! request has no further message, BEGIN what goes before the answer's first. WINDOW lets the peer send more.

use super::fields::{bytes_at, u32_at};
use super::header::{END, HAS_BUDGET, Header, REPLY_DATA};
use super::{CallId, Direction, HEADER_BYTES, Head, Kind, META_BYTES_MOST, Problem, WireError};
use greenwave_policy::Budget;

const LENGTH_OFFSET: usize = HEADER_BYTES;

/// Bytes of a MESSAGE's fixed part.
pub const MESSAGE_FIXED: usize = 12;

/// Where the budget of a MESSAGE stands that has one.
pub(super) const MESSAGE_BUDGET_OFFSET: usize = MESSAGE_FIXED;

const BUDGET_BYTES: usize = 8;

/// What a MESSAGE states before the first part of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// The call, by the caller's number.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// Whether it belongs to the request's stream or to the answer's.
    pub direction: Direction,
    /// Whether it is the last one; of the request alone, as an answer ends with the REPLY.
    pub end: bool,
    /// Bytes of the whole message, of which this frame holds the first part.
    pub message_len: u32,
    /// What is left until the message is wanted, on arrival, if its sender says.
    pub budget: Option<Budget>,
}

impl MessageHeader {
    /// The head to send before the body. Patch what changes until the last write with [`Head::set_credits`] and
    /// [`Head::set_budget`].
    pub fn encode(&self) -> Head {
        let direction = if self.direction == Direction::Reply { REPLY_DATA } else { 0 };
        let end = if self.end { END } else { 0 };
        let (has_budget, len) =
            if self.budget.is_some() { (HAS_BUDGET, MESSAGE_FIXED + BUDGET_BYTES) } else { (0, MESSAGE_FIXED) };
        let head = Head::new(Kind::Message, direction | end | has_budget, self.credits, Some(self.call), len)
            .with(LENGTH_OFFSET, self.message_len.to_le_bytes());
        match self.budget {
            Some(budget) => head.with(MESSAGE_BUDGET_OFFSET, budget.as_nanos().to_le_bytes()),
            None => head,
        }
    }
}

/// A MESSAGE as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it states.
    pub header: MessageHeader,
    /// The first part of the message: at most `message_len` bytes. DATA frames bring the rest.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    pub(super) fn parse(chunk: &'a [u8]) -> Result<Self, WireError> {
        let kind = Some(Kind::Message);
        let Some((fixed, rest)) = chunk.split_first_chunk::<MESSAGE_FIXED>() else {
            return Err(WireError::short(kind, MESSAGE_FIXED, chunk.len()));
        };
        let head = Header::of(fixed);
        let allowed = if head.flags & REPLY_DATA != 0 { REPLY_DATA | HAS_BUDGET } else { END | HAS_BUDGET };
        let call = head.about_a_call(Kind::Message, allowed)?;
        let (budget, body) = if head.flags & HAS_BUDGET == 0 {
            (None, rest)
        } else {
            let Some((nanos, body)) = rest.split_first_chunk::<BUDGET_BYTES>() else {
                return Err(WireError::short(kind, MESSAGE_FIXED + BUDGET_BYTES, chunk.len()));
            };
            (Some(Budget::from_nanos(i64::from_le_bytes(bytes_at(nanos, 0)))), body)
        };
        let message_len = u32_at(fixed, LENGTH_OFFSET);
        if body.len() > message_len as usize {
            let problem = Problem::BeyondMessage { part: body.len(), message: message_len };
            return Err(WireError::at(kind, chunk.len() - body.len(), problem));
        }
        let direction = if head.flags & REPLY_DATA != 0 { Direction::Reply } else { Direction::Request };
        let (credits, end) = (head.credits, head.flags & END != 0);
        Ok(Self { header: MessageHeader { call, credits, direction, end, message_len, budget }, body })
    }
}

/// END: a call's request has no further message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The call.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
}

impl End {
    /// The frame.
    pub fn encode(&self) -> Head {
        Head::new(Kind::End, 0, self.credits, Some(self.call), HEADER_BYTES)
    }

    pub(super) fn parse(chunk: &[u8]) -> Result<Self, WireError> {
        let head = Header::of(super::control::exactly::<HEADER_BYTES>(Kind::End, chunk)?);
        Ok(Self { call: head.about_a_call(Kind::End, 0)?, credits: head.credits })
    }
}

/// BEGIN: metadata that go before the first message of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin<'a> {
    /// The call.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// The metadata, whole: see [`Meta`](super::Meta).
    pub meta: &'a [u8],
}

impl<'a> Begin<'a> {
    /// The head to send before the metadata.
    pub fn encode(&self) -> Head {
        Head::new(Kind::Begin, 0, self.credits, Some(self.call), HEADER_BYTES)
    }

    pub(super) fn parse(chunk: &'a [u8]) -> Result<Self, WireError> {
        let kind = Some(Kind::Begin);
        let Some((fixed, meta)) = chunk.split_first_chunk::<HEADER_BYTES>() else {
            return Err(WireError::short(kind, HEADER_BYTES, chunk.len()));
        };
        let head = Header::of(fixed);
        let call = head.about_a_call(Kind::Begin, 0)?;
        if meta.len() > META_BYTES_MOST {
            let found = u16::try_from(meta.len()).unwrap_or(u16::MAX);
            return Err(WireError::at(kind, HEADER_BYTES, Problem::MetaTooLong { found }));
        }
        Ok(Self { call, credits: head.credits, meta })
    }
}

const BYTES_OFFSET: usize = HEADER_BYTES;
const WINDOW_BYTES: usize = 12;

/// WINDOW: so much more of the other peer's stream may be sent, of the request's if the callee says so, of the answer's if
/// the caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The call.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// How much, 1 or more.
    pub bytes: u32,
}

impl Window {
    /// The frame.
    pub fn encode(&self) -> Head {
        Head::new(Kind::Window, 0, self.credits, Some(self.call), WINDOW_BYTES)
            .with(BYTES_OFFSET, self.bytes.to_le_bytes())
    }

    pub(super) fn parse(chunk: &[u8]) -> Result<Self, WireError> {
        let fixed = super::control::exactly::<WINDOW_BYTES>(Kind::Window, chunk)?;
        let head = Header::of(fixed);
        let call = head.about_a_call(Kind::Window, 0)?;
        match u32_at(fixed, BYTES_OFFSET) {
            0 => Err(WireError::at(Some(Kind::Window), BYTES_OFFSET, Problem::NoWindow)),
            bytes => Ok(Self { call, credits: head.credits, bytes }),
        }
    }
}
