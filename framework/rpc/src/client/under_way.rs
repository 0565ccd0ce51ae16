//! Calls that were made by a channel and are waited for: in a handler, which is suspended, or as a future.

use super::around::After;
use super::attempts::Attempts;
use super::line::LineFuture;
use super::servers::Chosen;
use crate::local::{self, Mailbox, OutcomeCell, Shared};
use crate::status::{Code, Status};
use greenwave_proto::outcome::{Failure, Outcome, Reply};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

/// A call that a handler has made and will be woken for.
pub(crate) struct Suspended {
    pub(super) cell: Shared<OutcomeCell>,
    /// The server that it was given to, if there were several.
    pub(super) chosen: Option<Chosen>,
    /// What is to be told of its end.
    pub(super) after: Option<Box<After>>,
}

impl Suspended {
    /// A call that could not be made.
    pub(super) fn failed(status: Status) -> Self {
        let cell = Shared::<OutcomeCell>::default();
        cell.outcome.replace(Some(Outcome::local(status, Duration::ZERO)));
        Self { cell, chosen: None, after: None }
    }

    /// The outcome, if it is there and wasn't taken before.
    pub(crate) fn take(&mut self) -> Option<Outcome> {
        let mut outcome = self.cell.take()?;
        if let Some(chosen) = self.chosen.take() {
            chosen.ended(&outcome);
        }
        if let Some(after) = self.after.take() {
            // What can't be read is told as it is reported. On small stacks that was done before.
            outcome.decompress();
            after.ended(&outcome);
        }
        Some(outcome)
    }

    /// Nobody waits for it any more.
    pub(crate) fn abandon(self, mailbox: &Mailbox) {
        mailbox.abandon(self.cell);
        if let Some(chosen) = self.chosen {
            chosen.unanswered();
        }
    }
}

/// A call that is under way. Dropping it takes the call back.
pub struct CallFuture(pub(super) Calling);

pub(super) enum Calling {
    One(LineFuture),
    Several(Box<Attempts>),
    Watched(Box<Watched>),
}

/// A call whose end something is told of.
pub(super) struct Watched {
    /// Dropped first, so that the call is taken back before that is told.
    pub(super) future: CallFuture,
    /// Until it was told.
    pub(super) after: Option<After>,
}

impl CallFuture {
    fn poll_outcome(&mut self, task: &mut TaskContext<'_>) -> Poll<Outcome> {
        match &mut self.0 {
            Calling::One(future) => future.poll(task).map(readable),
            Calling::Several(attempts) => attempts.poll(task).map(readable),
            Calling::Watched(watched) => {
                let mut outcome = std::task::ready!(watched.future.poll_outcome(task));
                outcome.decompress();
                if let Some(after) = watched.after.take() {
                    after.ended(&outcome);
                }
                Poll::Ready(outcome)
            }
        }
    }

    /// The outcome, if it is there; otherwise `waker` will be woken when it is.
    pub(crate) fn outcome(&mut self, waker: &std::task::Waker) -> Option<Outcome> {
        match self.poll_outcome(&mut TaskContext::from_waker(waker)) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }
}

/// An answer that came compressed can't be decompressed on a small stack, such as that of a handler that polls for it.
#[inline]
fn readable(outcome: Outcome) -> Outcome {
    if outcome.is_compressed() && local::is_cramped() { unread(outcome.total) } else { outcome }
}

#[cold]
fn unread(total: Duration) -> Outcome {
    let text = "the answer is compressed, which takes a stack of 384 KiB (ServerConfig::stack)";
    Outcome::local(Status::new(Code::Unimplemented, text), total)
}

impl Future for CallFuture {
    type Output = Result<Reply, Failure>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.poll_outcome(task).map(Outcome::into_reply)
    }
}
