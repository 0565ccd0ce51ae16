//! What an end knows of a call that it is to make, apart from the message.

use crate::compression::Encoding;
use crate::context::Context;
use crate::gate::{Gate, Ruling};
use crate::status::Check;
use crate::wire::{CallHeader, CallId, MethodId};
use greenwave_policy::{Budget, Deadline, DeadlineField, Time};
use std::time::Duration;

/// A call to be made. `token` is its maker's name for it.
pub struct Request {
    /// Its maker's name for it.
    pub token: usize,
    /// What is said of its time.
    pub terms: Terms,
    /// The method to call.
    pub method: MethodId,
    /// When its maker began to wait for it.
    pub started: Time,
}

/// What is said of a call's time, and who may take it back.
pub struct Terms {
    pub(super) gate: Gate,
    birth: Time,
    parallel_unit: bool,
    streams: bool,
    /// What it was made with; `None` for a request of its own, which nobody can cancel and of which nothing is said.
    context: Option<Context>,
}

/// A cancellation by another thread rings no bell, so calls that are under way are looked at this often.
pub(super) const CANCEL_CHECK: Duration = Duration::from_millis(10);

impl Request {
    /// What the head of its CALL says before that is posted.
    #[inline(always)]
    pub(super) fn header(&self, call: CallId, message_len: usize) -> CallHeader {
        CallHeader {
            call,
            credits: 0,
            method: self.method,
            // The budget and the time elapsed are written when the frame is.
            deadline: DeadlineField { budget: Budget::UNLIMITED, parallel_unit: self.terms.parallel_unit },
            elapsed: Duration::ZERO,
            message_len: message_len as u32,
            meta_len: self.terms.metadata().len() as u16,
            expires: None,
            streams: self.terms.streams,
        }
    }
}

impl Terms {
    /// Of a request that is made here and now, and that its maker gives up at its deadline.
    #[inline]
    pub fn born(now: Time, budget: Budget) -> Self {
        let gate = Gate::new(Deadline::at(now, budget), true);
        Self { gate, birth: now, parallel_unit: false, streams: false, context: None }
    }

    /// The same of a call whose request and answer are streams.
    #[must_use]
    pub fn streaming(self) -> Self {
        Self { streams: true, ..self }
    }

    /// Whether request and answer are streams.
    #[inline]
    pub fn streams(&self) -> bool {
        self.streams
    }

    /// Lets go of what they share with others; the call is over.
    #[inline]
    pub(super) fn release(&mut self) {
        self.context = None;
    }

    /// When the answer is expected.
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.gate.deadline()
    }

    #[inline]
    pub(super) fn birth(&self) -> Time {
        self.birth
    }

    /// Entries as they are on the wire.
    #[inline]
    pub fn metadata(&self) -> &[u8] {
        self.context.as_ref().map_or(&[], Context::encoded_metadata)
    }

    /// How the request is compressed, if it is.
    #[inline]
    pub fn compressed(&self) -> Option<Encoding> {
        self.context.as_ref().and_then(Context::compressed)
    }

    /// When it is to be looked at, at the latest.
    #[inline]
    pub fn look_at(&self, now: Time) -> Time {
        let closes = self.gate.closes();
        if self.may_be_cancelled() { closes.min(now + CANCEL_CHECK) } else { closes }
    }

    /// Whether somebody may say that the answer is no longer wanted.
    #[inline]
    pub fn may_be_cancelled(&self) -> bool {
        self.context.is_some()
    }

    /// Whether the call goes on at this check.
    #[inline]
    pub fn ask(&self, check: Check, now: Time) -> Ruling {
        self.gate.ask(check, now, self.context.as_ref().is_some_and(Context::is_cancelled))
    }
}

impl From<Context> for Terms {
    fn from(context: Context) -> Self {
        Self {
            gate: context.gate(),
            birth: context.birth(),
            parallel_unit: context.parallel_unit(),
            streams: false,
            context: Some(context),
        }
    }
}
