//! Streams: calls whose request, answer or both are any number of messages.
//!
//! A call that streams is a call like others: one slot, one deadline, one cancellation, one REPLY that ends it. Between its
//! CALL and its REPLY messages go either way, each way in their order and within a window of its own, so that a side that
//! doesn't take them is not sent more than that.

mod inflow;
#[cfg(test)]
mod tests;

use crate::compression::Encoding;
use crate::wire::MESSAGE_COST;
use greenwave_policy::Deadline;
use std::sync::Arc;

pub(super) use inflow::{Inflow, cost};

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMessage {
    /// The message.
    pub body: Vec<u8>,
    /// When it is wanted, if its sender said so; [`Deadline::NEVER`] if it didn't: the call's deadline holds for all of them.
    pub deadline: Deadline,
    /// How the message is compressed, if it is; only gRPC and HTTP have such.
    pub compressed: Option<Encoding>,
}

impl StreamMessage {
    /// A message that isn't compressed, and of which its sender doesn't say when it is wanted.
    #[inline]
    pub const fn new(body: Vec<u8>) -> Self {
        Self { body, deadline: Deadline::NEVER, compressed: None }
    }
}

/// What came for a stream, at the end that made the call.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// Metadata before the first message, as entries on the wire.
    Began {
        /// The call, by its maker's name.
        token: usize,
        /// What was said.
        metadata: Arc<[u8]>,
    },
    /// A message of the answer.
    Message {
        /// The call, by its maker's name.
        token: usize,
        /// The message.
        message: StreamMessage,
    },
    /// So much of the request's messages has gone out since the last of these.
    Sent {
        /// The call, by its maker's name.
        token: usize,
        /// The messages that have gone whole, and the bytes of those and of others.
        volume: Volume,
    },
}

/// How much of a stream: messages, and bytes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// How many.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Volume {
    /// A message of so many bytes.
    pub const fn one(bytes: usize) -> Self {
        Self { messages: 1, bytes }
    }

    /// What they count for in a stream's window, about.
    pub const fn cost(&self) -> usize {
        self.bytes + self.messages * MESSAGE_COST as usize
    }
}

impl std::ops::SubAssign for Volume {
    /// None of the two falls below 0.
    fn sub_assign(&mut self, less: Self) {
        self.messages = self.messages.saturating_sub(less.messages);
        self.bytes = self.bytes.saturating_sub(less.bytes);
    }
}

impl std::ops::AddAssign for Volume {
    fn add_assign(&mut self, more: Self) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }
}

/// What an answer has beside its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Whether the answer is a stream: its messages were [sent](super::Callee::send), and this ends it.
    pub streamed: bool,
    /// Metadata that go before the first message, unless they did: entries as on the wire.
    pub leading: Option<Arc<[u8]>>,
    /// Metadata that go with the end.
    pub trailing: Option<Arc<[u8]>>,
    /// How the answer's one message is compressed, if it is.
    pub compressed: Option<Encoding>,
}
