//! DATA: a further part of a message that did not fit in the chunk of its CALL or REPLY.

use super::fields::u32_at;
use super::header::{Header, REPLY_DATA};
use super::{CallId, HEADER_BYTES, Head, Kind, Problem, WireError};

const PART_OFFSET: usize = HEADER_BYTES;

/// Bytes of a DATA's fixed part.
pub const DATA_FIXED: usize = 12;

/// Which of a call's two messages a part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The request: it goes from the caller to the callee.
    Request,
    /// The answer: it goes from the callee to the caller.
    Reply,
}

/// What a DATA states before its part of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The call, by the caller's number.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// Which of the call's messages this is a part of.
    pub direction: Direction,
    /// Where in the message the part begins: as many bytes as were sent of it before.
    pub offset: u32,
}

impl DataHeader {
    /// The head to send before the part.
    pub fn encode(&self) -> Head {
        let flags = match self.direction {
            Direction::Request => 0,
            Direction::Reply => REPLY_DATA,
        };
        Head::new(Kind::Data, flags, self.credits, Some(self.call), DATA_FIXED)
            .with(PART_OFFSET, self.offset.to_le_bytes())
    }
}

/// A DATA as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// What it states.
    pub header: DataHeader,
    /// The part, of one byte or more.
    pub body: &'a [u8],
}

impl<'a> Data<'a> {
    #[inline(always)]
    pub(super) fn parse(chunk: &'a [u8]) -> Result<Self, WireError> {
        let Some((fixed, body)) = chunk.split_first_chunk::<DATA_FIXED>() else {
            return Err(WireError::short(Some(Kind::Data), DATA_FIXED, chunk.len()));
        };
        let head = Header::of(fixed);
        let call = head.about_a_call(Kind::Data, REPLY_DATA)?;
        let direction = if head.flags & REPLY_DATA != 0 { Direction::Reply } else { Direction::Request };
        let offset = u32_at(fixed, PART_OFFSET);
        if body.is_empty() {
            return Err(WireError::at(Some(Kind::Data), DATA_FIXED, Problem::Empty));
        }
        if (u32::MAX - offset) < u32::try_from(body.len()).unwrap_or(u32::MAX) {
            return Err(WireError::at(Some(Kind::Data), PART_OFFSET, Problem::BeyondRange));
        }
        Ok(Self { header: DataHeader { call, credits: head.credits, direction, offset }, body })
    }
}
