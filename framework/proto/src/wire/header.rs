//! The eight bytes that every frame begins with: kind, flags, credits, call.

use std::fmt;

use super::fields::{put, u16_at, u32_at};
use super::{CallId, Problem, WireError};

/// Bytes of the header that every frame begins with.
pub const HEADER_BYTES: usize = 8;

/// Where the credits that are given back stand (u16), in every frame.
pub const CREDITS_OFFSET: usize = 2;

pub(super) const FLAGS_OFFSET: usize = 1;
pub(super) const CALL_OFFSET: usize = 4;

/// CALL: the request is a branch of a parallel unit.
pub(super) const PARALLEL_UNIT: u8 = 1 << 0;
/// CALL: metadata follow the fixed part.
pub(super) const HAS_META: u8 = 1 << 1;
/// REPLY: receipts follow the fixed part.
pub(super) const HAS_RECEIPTS: u8 = 1 << 1;
/// REPLY: the callee's handler made the failure, or somebody behind it.
pub(super) const BY_HANDLER: u8 = 1 << 4;
/// CALL: an expiry on the realtime clock follows the fixed part.
pub(super) const ABSOLUTE: u8 = 1 << 2;
/// DATA and MESSAGE: it belongs to the answer; without it, to the request.
pub(super) const REPLY_DATA: u8 = 1 << 3;
/// CALL: request and answer are streams.
pub(crate) const STREAM: u8 = 1 << 5;
/// REPLY: metadata of the answer follow the fixed part.
pub(crate) const ANSWER_META: u8 = 1 << 5;
/// MESSAGE: the request has no further message.
pub(super) const END: u8 = 1 << 6;
/// MESSAGE: what is left until the message is wanted follows the fixed part.
pub(super) const HAS_BUDGET: u8 = 1 << 7;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Who a peer is and what it accepts.
    Hello = 1,
    /// A request, with the first part of its message.
    Call = 2,
    /// The answer to a call, with the first part of its message.
    Reply = 3,
    /// A further part of a message.
    Data = 4,
    /// The caller no longer wants the answer.
    Cancel = 5,
    /// Receive buffers given back, with nothing else to say.
    Credit = 6,
    /// A question that measures the round trip and the clocks.
    Ping = 7,
    /// The answer to it.
    Pong = 8,
    /// The peer will take no further calls.
    GoAway = 9,
    /// A message of a stream, with its first part.
    Message = 10,
    /// The request's stream has no further message.
    End = 11,
    /// What goes before the first message of an answer.
    Begin = 12,
    /// More of a stream may be sent.
    Window = 13,
}

/// Writes the header at the start of a frame's fixed part.
#[inline(always)]
pub(super) fn put_header<const N: usize>(
    fixed: &mut [u8; N],
    kind: Kind,
    flags: u8,
    credits: u16,
    call: Option<CallId>,
) {
    put(fixed, 0, [kind as u8, flags]);
    put(fixed, CREDITS_OFFSET, credits.to_le_bytes());
    put(fixed, CALL_OFFSET, call.map_or(0, CallId::as_u32).to_le_bytes());
}

impl Kind {
    /// The kind with this number.
    pub const fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Hello,
            2 => Self::Call,
            3 => Self::Reply,
            4 => Self::Data,
            5 => Self::Cancel,
            6 => Self::Credit,
            7 => Self::Ping,
            8 => Self::Pong,
            9 => Self::GoAway,
            10 => Self::Message,
            11 => Self::End,
            12 => Self::Begin,
            13 => Self::Window,
            _ => return None,
        })
    }

    /// Whether a chunk of this kind uses one of the receiver's buffers, and so one credit of the sender's. Control
    /// frames don't: the receiver keeps a reserve for them.
    pub const fn uses_credit(self) -> bool {
        matches!(self, Self::Call | Self::Reply | Self::Data | Self::Message | Self::End | Self::Begin)
    }

    /// Its name in the document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Call => "CALL",
            Self::Reply => "REPLY",
            Self::Data => "DATA",
            Self::Cancel => "CANCEL",
            Self::Credit => "CREDIT",
            Self::Ping => "PING",
            Self::Pong => "PONG",
            Self::GoAway => "GOAWAY",
            Self::Message => "MESSAGE",
            Self::End => "END",
            Self::Begin => "BEGIN",
            Self::Window => "WINDOW",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the header of a frame says, once the kind is known.
pub(super) struct Header {
    pub(super) flags: u8,
    pub(super) credits: u16,
    pub(super) call: u32,
}

impl Header {
    /// The header at the start of a frame's fixed part.
    #[inline(always)]
    pub(super) fn of<const N: usize>(fixed: &[u8; N]) -> Self {
        Self { flags: fixed[FLAGS_OFFSET], credits: u16_at(fixed, CREDITS_OFFSET), call: u32_at(fixed, CALL_OFFSET) }
    }

    /// The call of a frame that is about one, with no flag but those `allowed`.
    #[inline(always)]
    pub(super) fn about_a_call(&self, kind: Kind, allowed: u8) -> Result<CallId, WireError> {
        match CallId::new(self.call) {
            Some(call) if self.flags & !allowed == 0 => Ok(call),
            _ => Err(self.wrong_header(kind, allowed)),
        }
    }

    /// Checks a frame that is about the connection: no flags, no call.
    #[inline(always)]
    pub(super) fn about_the_connection(&self, kind: Kind) -> Result<(), WireError> {
        if self.flags == 0 && self.call == 0 { Ok(()) } else { Err(self.wrong_header(kind, 0)) }
    }

    #[cold]
    fn wrong_header(&self, kind: Kind, allowed: u8) -> WireError {
        if self.flags & !allowed != 0 {
            return WireError::at(Some(kind), FLAGS_OFFSET, Problem::Flags { found: self.flags, allowed });
        }
        let problem = match self.call {
            0 => Problem::NoCall,
            found => Problem::UnexpectedCall { found },
        };
        WireError::at(Some(kind), CALL_OFFSET, problem)
    }
}
