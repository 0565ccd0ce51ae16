//! A message that arrives in parts.

use super::violation::Violation;
use crate::wire::CallId;

/// What has arrived of a message. Grows with what arrives, not with what was announced.
pub(super) struct Assembly {
    body: Vec<u8>,
    message_len: usize,
}

impl Assembly {
    /// A message of `message_len` bytes that begins with `first`.
    pub(super) fn begin(mut body: Vec<u8>, first: &[u8], message_len: usize) -> Self {
        body.clear();
        body.extend_from_slice(first);
        Self { body, message_len }
    }

    /// Adds the next part. Whether the message is complete.
    pub(super) fn add(&mut self, call: CallId, offset: u32, part: &[u8]) -> Result<bool, Violation> {
        check(call, offset, part.len(), self.body.len(), self.message_len)?;
        self.body.extend_from_slice(part);
        Ok(self.is_complete())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.body.len() == self.message_len
    }

    pub(super) fn arrived(&self) -> usize {
        self.body.len()
    }

    pub(super) fn message_len(&self) -> usize {
        self.message_len
    }

    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }
}

/// A message whose parts are counted and thrown away, because it was refused.
pub(super) struct Discarding {
    arrived: usize,
    message_len: usize,
}

impl Discarding {
    pub(super) fn begin(arrived: usize, message_len: usize) -> Self {
        Self { arrived, message_len }
    }

    /// Counts the next part. Whether it was the last.
    pub(super) fn add(&mut self, call: CallId, offset: u32, part: &[u8]) -> Result<bool, Violation> {
        check(call, offset, part.len(), self.arrived, self.message_len)?;
        self.arrived += part.len();
        Ok(self.arrived == self.message_len)
    }
}

fn check(call: CallId, found: u32, part: usize, expected: usize, message_len: usize) -> Result<(), Violation> {
    if found as usize != expected {
        return Err(Violation::Offset { call, found, expected });
    }
    // What has arrived was checked when it did, so it is no more than the message.
    if part > message_len - expected { Err(Violation::BeyondMessage { call, message_len }) } else { Ok(()) }
}
