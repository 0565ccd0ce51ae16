//! What a peer did that the protocol doesn't allow.

use crate::wire::{self, CallId, GoAwayCode, Problem, WireError};
use std::time::Duration;

/// What a peer did that the protocol doesn't allow. The connection is closed, and the peer is told this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("{0}")]
    Credit(#[from] greenwave_policy::CreditError),
    #[error("the first frame was a {0}, expected HELLO")]
    NoHello(wire::Kind),
    #[error("a second HELLO")]
    SecondHello,
    #[error("a {0} frame is not for this end of a connection")]
    WrongEnd(wire::Kind),
    #[error("call {call} has slot {slot}, allowed are {limit}")]
    Slot { call: CallId, slot: usize, limit: u32 },
    #[error("call {0} is of generation 0, expected 1 or more")]
    Generation(CallId),
    #[error("call {0} was begun while the call before it in the same slot is unanswered")]
    Duplicate(CallId),
    #[error("call {0} was begun again")]
    Again(CallId),
    #[error("more than {limit} calls are open or their replies unread")]
    Unread { limit: u32 },
    #[error("DATA for call {0}, which expects none")]
    UnexpectedData(CallId),
    #[error("DATA for call {call} at {found}, expected {expected}")]
    Offset { call: CallId, found: u32, expected: usize },
    #[error("DATA for call {call} goes beyond the {message_len} bytes of its message")]
    BeyondMessage { call: CallId, message_len: usize },
    #[error("REPLY for call {0}, which is not open")]
    UnknownReply(CallId),
    #[error("a second REPLY for call {0}")]
    SecondReply(CallId),
    #[error("no HELLO within {0:?}")]
    Handshake(Duration),
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
