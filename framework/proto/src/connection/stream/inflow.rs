//! What arrives of a stream, in one direction.
//!
//! Invariants:
//! 1. `window` is what the sender may yet begin: the whole window, less what messages [cost], plus what was given back.
//! 2. `held` is what the message that is half received and those in `untaken` cost; with `discards` it is 0.

use super::StreamMessage;
use crate::connection::assembly::{Assembly, Discarding};
use crate::connection::violation::Violation;
use crate::wire::{CallId, MESSAGE_COST, Message, MessageHeader, STREAM_WINDOW};
use greenwave_policy::Deadline;
use std::collections::VecDeque;

/// What a message of so many bytes takes of a window.
pub(in crate::connection) fn cost(len: usize) -> usize {
    len + MESSAGE_COST as usize
}

/// The receiving side of one direction of a stream.
pub(in crate::connection) struct Inflow {
    window: i64,
    half: Option<Half>,
    /// The lengths of messages that were handed out, and are not known to be consumed.
    untaken: VecDeque<u32>,
    /// What is consumed and not given back.
    owed: usize,
    held: usize,
    /// Whether anything of it came.
    begun: bool,
    /// Whether no further message may begin.
    ended: bool,
    discards: bool,
}

/// A message whose rest is to come.
enum Half {
    Kept(Assembly, Deadline),
    Discarded(Discarding),
}

impl Inflow {
    pub(in crate::connection) fn new() -> Self {
        Self {
            window: STREAM_WINDOW.into(),
            half: None,
            untaken: VecDeque::new(),
            owed: 0,
            held: 0,
            begun: false,
            ended: false,
            discards: false,
        }
    }

    /// What its messages cost that are half received or not consumed.
    pub(in crate::connection) fn held(&self) -> usize {
        self.held
    }

    /// Whether a message is half received that will be handed out.
    pub(in crate::connection) fn is_half(&self) -> bool {
        matches!(self.half, Some(Half::Kept(..)))
    }

    /// Whether the rest of a message is to come, wanted or not.
    pub(in crate::connection) fn is_within(&self) -> bool {
        self.half.is_some()
    }

    /// Whether it has ended and nothing of it is to come.
    pub(in crate::connection) fn is_over(&self) -> bool {
        self.ended && self.half.is_none()
    }

    /// Notes what may only come first.
    pub(in crate::connection) fn preface(&mut self, call: CallId) -> Result<(), Violation> {
        if std::mem::replace(&mut self.begun, true) { Err(Violation::LateBegin(call)) } else { Ok(()) }
    }

    /// Whether the sender may begin this message.
    pub(in crate::connection) fn admit(&self, header: &MessageHeader) -> Result<(), Violation> {
        if self.ended || self.half.is_some() {
            return Err(Violation::UnexpectedMessage(header.call));
        }
        if self.window <= 0 { Err(Violation::BeyondWindow(header.call)) } else { Ok(()) }
    }

    /// A message that was [admitted](Self::admit) begins. It is returned if it is complete.
    pub(in crate::connection) fn begin(
        &mut self,
        message: &Message<'_>,
        deadline: Deadline,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Option<StreamMessage> {
        let len = message.header.message_len as usize;
        let is_complete = message.body.len() == len;
        self.window -= cost(len) as i64;
        self.begun = true;
        self.ended = message.header.end;
        if self.discards {
            self.half = (!is_complete).then(|| Half::Discarded(Discarding::begin(message.body.len(), len)));
            return None;
        }
        self.held += cost(len);
        let body = buffer(Assembly::room(len));
        let assembly = Assembly::begin(body, message.body, len);
        if is_complete {
            return Some(self.hand_out(assembly, deadline));
        }
        self.half = Some(Half::Kept(assembly, deadline));
        None
    }

    /// The next part of the message that is half received. The message is returned once it is complete.
    pub(in crate::connection) fn part(
        &mut self,
        call: CallId,
        offset: u32,
        part: &[u8],
    ) -> Result<Option<StreamMessage>, Violation> {
        let is_complete = match &mut self.half {
            None => return Err(Violation::UnexpectedData(call)),
            Some(Half::Kept(assembly, _)) => assembly.add(call, offset, part)?,
            Some(Half::Discarded(rest)) => rest.add(call, offset, part)?,
        };
        match if is_complete { self.half.take() } else { None } {
            Some(Half::Kept(assembly, deadline)) => Ok(Some(self.hand_out(assembly, deadline))),
            _ => Ok(None),
        }
    }

    fn hand_out(&mut self, assembly: Assembly, deadline: Deadline) -> StreamMessage {
        self.untaken.push_back(assembly.message_len() as u32);
        StreamMessage { deadline, ..StreamMessage::new(assembly.into_body()) }
    }

    /// It ends without a further message.
    pub(in crate::connection) fn end(&mut self, call: CallId) -> Result<(), Violation> {
        if self.half.is_some() || std::mem::replace(&mut self.ended, true) {
            return Err(Violation::UnexpectedMessage(call));
        }
        Ok(())
    }

    /// The sender took it back: it ends here, within a message or not.
    pub(in crate::connection) fn cut(&mut self) {
        if let Some(Half::Kept(assembly, _)) = self.half.take() {
            self.held -= cost(assembly.message_len());
        }
        self.ended = true;
    }

    /// Nobody wants it any more: what comes of it from here on is thrown away.
    pub(in crate::connection) fn discard(&mut self) {
        (self.discards, self.held) = (true, 0);
        self.untaken = VecDeque::new();
        if let Some(Half::Kept(assembly, _)) = &self.half {
            self.half = Some(Half::Discarded(Discarding::begin(assembly.arrived(), assembly.message_len())));
        }
    }

    /// So many of the messages that were handed out are consumed. How much more may be sent, once that is worth telling: who has
    /// consumed everything and isn't told has three quarters of the window left.
    pub(in crate::connection) fn consume(&mut self, messages: usize) -> Option<u32> {
        let messages = messages.min(self.untaken.len());
        for len in self.untaken.drain(..messages) {
            self.held -= cost(len as usize);
            self.owed += cost(len as usize);
        }
        if self.ended || self.discards || self.owed < STREAM_WINDOW as usize / 4 {
            return None;
        }
        let given = u32::try_from(self.owed).unwrap_or(u32::MAX);
        self.owed -= given as usize;
        self.window += i64::from(given);
        Some(given)
    }

    /// Panics unless the invariants hold.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in crate::connection) fn check(&self) {
        let half = match &self.half {
            Some(Half::Kept(assembly, _)) => cost(assembly.message_len()),
            _ => 0,
        };
        let untaken: usize = self.untaken.iter().map(|len| cost(*len as usize)).sum();
        assert_eq!(self.held, half + untaken);
        assert!(!self.discards || self.held == 0);
        assert!(self.window <= STREAM_WINDOW.into());
        assert!(self.untaken.len() <= (STREAM_WINDOW / MESSAGE_COST) as usize);
    }
}
