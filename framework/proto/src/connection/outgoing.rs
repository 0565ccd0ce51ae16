//! A message on its way out.

use crate::wire::{self, CallId, Direction, Head};
use greenwave_policy::{Deadline, Time};
use std::sync::Arc;

/// A message, and how much of it was posted. No more than 128 bytes, beyond which moves become calls of `memcpy`.
pub(crate) struct Outgoing {
    pub(super) call: CallId,
    pub(super) direction: Direction,
    pub(super) head: Head,
    /// What stands between the head and the body in the first chunk: metadata or receipts. With the head it leaves
    /// room for a byte of the body at least.
    pub(super) extra: Box<[u8]>,
    pub(super) body: Vec<u8>,
    /// The body instead, from when a long part of it is posted: then the queue has a share in it.
    pub(super) shared: Option<Arc<Vec<u8>>>,
    /// For a call: when it expires and was born, to state what is left at the last write.
    pub(super) deadline: Deadline,
    pub(super) birth: Time,
    pub(super) sent: usize,
    pub(super) begun: bool,
}

/// What had not been posted of a message when it was withdrawn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    Nothing,
    Rest,
    /// The peer has not heard of it; this is the body.
    All(Vec<u8>),
}

const _: () = assert!(size_of::<Outgoing>() <= 128);

impl Outgoing {
    pub(crate) fn new(
        call: CallId,
        direction: Direction,
        head: Head,
        extra: Box<[u8]>,
        body: Vec<u8>,
        deadline: Deadline,
        birth: Time,
    ) -> Self {
        Self { call, direction, head, extra, body, shared: None, deadline, birth, sent: 0, begun: false }
    }

    /// How many bytes of the body fit into the next chunk of `room` bytes.
    pub(super) fn part(&self, room: usize) -> usize {
        let before = if self.begun { wire::DATA_FIXED } else { self.head.len() + self.extra.len() };
        debug_assert!(before < room, "the head and what follows it take up the whole chunk");
        room.saturating_sub(before)
    }
}
