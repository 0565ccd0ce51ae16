//! The fixed part of an outgoing frame, on the stack.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use greenwave_policy::Budget;

use super::header::{FLAGS_OFFSET, HAS_BUDGET, STREAM, put_header};
use super::message::MESSAGE_BUDGET_OFFSET;
use super::{BUDGET_OFFSET, CREDITS_OFFSET, CallId, ELAPSED_OFFSET, Kind};

/// The head of a frame: what precedes metadata, receipts and body. It dereferences to its bytes, to be sent as the
/// first of a gathered chunk's parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; Head::MOST],
    len: u8,
}

impl Head {
    /// Most bytes a head takes: that of a CALL with an expiry.
    pub const MOST: usize = 48;

    pub(super) fn new(kind: Kind, flags: u8, credits: u16, call: Option<CallId>, len: usize) -> Self {
        debug_assert!(len <= Self::MOST);
        let mut head = Self { bytes: [0; Self::MOST], len: len as u8 };
        put_header(&mut head.bytes, kind, flags, credits, call);
        head
    }

    /// A head of these parts.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let mut head = Self { bytes: [0; Self::MOST], len: 0 };
        for part in parts {
            let from = usize::from(head.len);
            head.bytes[from..from + part.len()].copy_from_slice(part);
            head.len += part.len() as u8;
        }
        head
    }

    /// The head with a field in its place.
    pub(super) fn with<const M: usize>(mut self, at: usize, field: [u8; M]) -> Self {
        self.bytes[at..at + M].copy_from_slice(&field);
        self
    }

    /// States how many receive buffers this frame gives back.
    pub fn set_credits(&mut self, credits: u16) {
        *self = self.with(CREDITS_OFFSET, credits.to_le_bytes());
    }

    /// What kind of frame it is the head of.
    #[inline]
    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.bytes[0] == kind as u8
    }

    /// Whether it is the head of a CALL that streams, or of a frame of a stream that may have others behind it.
    #[inline]
    pub(crate) fn is_of_stream(&self) -> bool {
        if self.is(Kind::Call) { self.bytes[FLAGS_OFFSET] & STREAM != 0 } else { self.bytes[0] >= Kind::Message as u8 }
    }

    /// States what is left until a message of a stream is wanted, at the last write. Other heads, and one that doesn't say
    /// so, stay as they are.
    pub fn set_budget(&mut self, budget: Budget) {
        if self.is(Kind::Message) && self.bytes[FLAGS_OFFSET] & HAS_BUDGET != 0 {
            *self = self.with(MESSAGE_BUDGET_OFFSET, budget.as_nanos().to_le_bytes());
        }
    }

    /// States what is left of the call's budget and what it used so far, at the last write. For a CALL alone:
    /// other heads have other fields there and stay as they are.
    pub fn set_time(&mut self, budget: Budget, elapsed: Duration) {
        debug_assert_eq!(self.bytes[0], Kind::Call as u8, "only a CALL has a budget");
        if self.bytes[0] == Kind::Call as u8 {
            *self = self
                .with(BUDGET_OFFSET, budget.as_nanos().to_le_bytes())
                .with(ELAPSED_OFFSET, nanos(elapsed).to_le_bytes());
        }
    }
}

/// A duration as it is written: nanoseconds, at most 2^64 - 1 of them (584 years).
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

impl Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
