//! What a peer did that the protocol doesn't allow.

use crate::wire::{self, CallId, GoAwayCode, Problem, WireError};
use std::time::Duration;

/// What a peer did that the protocol doesn't allow. The connection is closed, and the peer is told this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A frame that can't be read.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// More chunks than it had credits for, or credits for what it was not sent.
    #[error("{0}")]
    Credit(#[from] greenwave_policy::CreditError),
    /// The first frame was not HELLO.
    #[error("the first frame was a {0}, expected HELLO")]
    NoHello(wire::Kind),
    /// HELLO came twice.
    #[error("a second HELLO")]
    SecondHello,
    /// A frame that only the other end may send.
    #[error("a {0} frame is not for this end of a connection")]
    WrongEnd(wire::Kind),
    /// A call in a slot that it was not offered.
    #[error("call {call} has slot {slot}, allowed are {limit}")]
    Slot {
        /// The call.
        call: CallId,
        /// Its slot.
        slot: usize,
        /// How many slots there are.
        limit: u32,
    },
    /// A call of generation 0.
    #[error("call {0} is of generation 0, expected 1 or more")]
    Generation(CallId),
    /// A call in a slot whose call is unanswered.
    #[error("call {0} was begun while the call before it in the same slot is unanswered")]
    Duplicate(CallId),
    /// The same call twice.
    #[error("call {0} was begun again")]
    Again(CallId),
    /// More calls than it was offered, unread replies included.
    #[error("more than {limit} calls are open or their replies unread")]
    Unread {
        /// How many there may be.
        limit: u32,
    },
    /// A part of a message of which no part is expected.
    #[error("DATA for call {0}, which expects none")]
    UnexpectedData(CallId),
    /// A part of a message that doesn't follow the one before.
    #[error("DATA for call {call} at {found}, expected {expected}")]
    Offset {
        /// The call.
        call: CallId,
        /// Where the part is said to begin.
        found: u32,
        /// Where it should.
        expected: usize,
    },
    /// More bytes than the message was to have.
    #[error("DATA for call {call} goes beyond the {message_len} bytes of its message")]
    BeyondMessage {
        /// The call.
        call: CallId,
        /// How many it was to have.
        message_len: usize,
    },
    /// A reply to a call that is not open.
    #[error("REPLY for call {0}, which is not open")]
    UnknownReply(CallId),
    /// A second reply to a call.
    #[error("a second REPLY for call {0}")]
    SecondReply(CallId),
    /// A message, or the end, of a stream that expects none.
    #[error("a message or an end for call {0}, whose stream expects none")]
    UnexpectedMessage(CallId),
    /// A message that was begun without a window.
    #[error("a message of call {0} was begun beyond its window")]
    BeyondWindow(CallId),
    /// A window that grows beyond what was sent.
    #[error("WINDOW for call {0} gives back more than was sent")]
    Window(CallId),
    /// What goes before an answer, after something of it.
    #[error("BEGIN for call {0} after the beginning of its answer")]
    LateBegin(CallId),
    /// The end of a stream that has a message, or comes within one.
    #[error("the REPLY that ends the stream of call {0} has a message, or comes within one")]
    ReplyWithinStream(CallId),
    /// It didn't introduce itself in time.
    #[error("no HELLO within {0:?}")]
    Handshake(Duration),
    /// Nothing moved for too long.
    #[error("no progress for {0:?}")]
    Stalled(Duration),
}

impl Violation {
    /// How a GOAWAY sums it up.
    pub(super) fn code(&self) -> GoAwayCode {
        match self {
            Self::Wire(WireError { problem: Problem::NoCommonVersion { .. }, .. }) => GoAwayCode::Version,
            _ => GoAwayCode::Violation,
        }
    }
}
