//! A message that arrives in parts.

use super::violation::Violation;
use crate::wire::CallId;

/// What has arrived of a message.
///
/// Its memory is made in one go up to [`Assembly::ANNOUNCED`], and from there grows with what arrives, to twice as much
/// at most: who announces much and sends little costs address space rather than memory, and that is bounded too.
pub(super) struct Assembly {
    body: Vec<u8>,
    message_len: usize,
}

impl Assembly {
    /// So many bytes are made room for on the peer's word alone.
    const ANNOUNCED: usize = 1 << 20;

    /// How large a buffer for a message of `message_len` bytes is to be at first.
    #[inline]
    pub(super) fn room(message_len: usize) -> usize {
        message_len.min(Self::ANNOUNCED)
    }

    /// A message of `message_len` bytes that begins with `first`.
    #[inline]
    pub(super) fn begin(mut body: Vec<u8>, first: &[u8], message_len: usize) -> Self {
        body.clear();
        body.extend_from_slice(first);
        Self { body, message_len }
    }

    /// Adds the next part. Whether the message is complete.
    pub(super) fn add(&mut self, call: CallId, offset: u32, part: &[u8]) -> Result<bool, Violation> {
        check(call, offset, part.len(), self.body.len(), self.message_len)?;
        let needed = self.body.len() + part.len();
        if needed > self.body.capacity() {
            let capacity = needed.max(self.message_len.min(self.body.capacity() * 2));
            self.body.reserve_exact(capacity - self.body.len());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_made_once_for_what_is_usual_and_grows_with_what_arrives_beyond() {
        let call = CallId::new(1).unwrap();
        for message_len in [100_000, Assembly::ANNOUNCED, 16 << 20] {
            let body = Vec::with_capacity(Assembly::room(message_len));
            let mut assembly = Assembly::begin(body, &[7; 1000], message_len);
            let mut moves = 0;
            loop {
                let (arrived, before) = (assembly.arrived(), assembly.body.capacity());
                let part = vec![7; (message_len - arrived).min(16_000)];
                let complete = assembly.add(call, arrived as u32, &part).unwrap();
                moves += usize::from(assembly.body.capacity() != before);
                assert!(assembly.body.capacity() <= Assembly::ANNOUNCED.max(2 * assembly.arrived()).min(message_len));
                if complete {
                    break;
                }
            }
            assert_eq!(moves, message_len.div_ceil(Assembly::ANNOUNCED).ilog2() as usize);
            assert_eq!(assembly.into_body(), vec![7; message_len]);
        }
    }
}
