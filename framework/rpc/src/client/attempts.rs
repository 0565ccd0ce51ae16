//! A call to one of several servers, as a future: it waits for the name, is made again where that is allowed, and to
//! another server too where the first one is slow.

use super::alarm::Alarm;
use super::line::LineFuture;
use super::servers::{Choice, Chosen, Servers};
use crate::clock::monotonic;
use crate::context::Context;
use crate::promise::Awaited;
use crate::status::{Reason, Status};
use crate::waiter::Unpark;
use crate::wire::MethodId;
use greenwave_policy::Time;
use greenwave_policy::balance::Server;
use greenwave_proto::outcome::Outcome;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

/// All attempts at one call.
pub(super) struct Attempts {
    servers: Arc<Servers>,
    context: Context,
    method: MethodId,
    request: Vec<u8>,
    /// Whether it may run twice.
    repeatable: bool,
    started: Time,
    made: u32,
    /// The server of the last attempt.
    avoided: Option<Server>,
    stage: Stage,
}

enum Stage {
    Choosing,
    /// For the name, until the deadline.
    Waiting(Awaited<()>, Option<Alarm>),
    UnderWay {
        first: Attempt,
        second: Option<Attempt>,
        /// When the second is made, unless it has been.
        hedge: Option<Alarm>,
    },
    /// Before it is made again.
    Pausing(Alarm),
    Over,
}

struct Attempt {
    chosen: Chosen,
    future: LineFuture,
}

impl Attempts {
    pub(super) fn new(
        servers: &Arc<Servers>,
        context: &Context,
        method: MethodId,
        request: &[u8],
        repeatable: bool,
    ) -> Self {
        let (servers, context, request) = (Arc::clone(servers), context.clone(), request.to_vec());
        let (started, stage) = (monotonic(), Stage::Choosing);
        let mut attempts =
            Self { servers, context, method, request, repeatable, started, made: 0, avoided: None, stage };
        // As of any call: it is made now, not when somebody asks for its outcome.
        attempts.choose();
        attempts
    }

    /// Gives the call to a server, or says what is to be waited for.
    fn choose(&mut self) -> Option<Status> {
        match self.servers.choose(self.avoided) {
            Choice::Chosen(chosen) => {
                let hedge = self.repeatable && self.servers.hedges() && self.made == 0;
                let hedge = hedge.then(|| self.servers.hedge_delay(self.method)).flatten();
                let hedge = hedge.and_then(|delay| Alarm::at(chosen.made + delay).ok());
                self.made += 1;
                self.avoided = Some(chosen.server);
                self.stage = Stage::UnderWay { first: self.attempt(chosen), second: None, hedge };
                None
            }
            Choice::Wait(awaited) => {
                let closes = Some(self.context.gate().closes()).filter(|closes| *closes < Time::MAX);
                match closes.map(Alarm::at).transpose() {
                    Ok(alarm) => self.stage = Stage::Waiting(awaited, alarm),
                    Err(status) => return Some(status),
                }
                None
            }
            Choice::Nobody(status) => Some(status),
        }
    }

    fn attempt(&self, chosen: Chosen) -> Attempt {
        let future = chosen.line.call_async(&self.context, self.method, Cow::Borrowed(&self.request));
        Attempt { chosen, future }
    }

    /// The outcome, if it is there; otherwise the task will be woken when there is more.
    pub(super) fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<Outcome> {
        loop {
            match &mut self.stage {
                Stage::Choosing => {
                    if let Some(status) = self.choose() {
                        return self.over(Outcome::local(status, monotonic().since(self.started)));
                    }
                }
                Stage::Waiting(awaited, deadline) => {
                    if Pin::new(awaited).poll(task).is_ready() {
                        self.stage = Stage::Choosing;
                        continue;
                    }
                    let Some(deadline) = deadline else { return Poll::Pending };
                    std::task::ready!(deadline.poll(task));
                    let expired = Status::refused(Reason::Expired(crate::status::Check::Send), "");
                    let status = self.servers.unresolved(expired);
                    return self.over(Outcome::local(status, monotonic().since(self.started)));
                }
                Stage::UnderWay { .. } => {
                    let outcome = std::task::ready!(self.under_way(task));
                    let Some(server) = self.avoided else { return self.over(outcome) };
                    let again = self.servers.again(&self.context, self.made, server, &outcome, self.repeatable);
                    match again.map(|pause| (pause, (!pause.is_zero()).then(|| Alarm::at(monotonic() + pause)))) {
                        None | Some((_, Some(Err(_)))) => return self.over(outcome),
                        Some((_, None)) => self.stage = Stage::Choosing,
                        Some((_, Some(Ok(alarm)))) => self.stage = Stage::Pausing(alarm),
                    }
                }
                Stage::Pausing(alarm) => {
                    std::task::ready!(alarm.poll(task));
                    self.stage = Stage::Choosing;
                }
                // Asked again although it has answered: as other futures that are over, it never does.
                Stage::Over => return Poll::Pending,
            }
        }
    }

    fn over(&mut self, mut outcome: Outcome) -> Poll<Outcome> {
        self.stage = Stage::Over;
        outcome.total = monotonic().since(self.started);
        Poll::Ready(outcome)
    }

    /// The answer of either attempt, or the failure of the last one.
    fn under_way(&mut self, task: &mut TaskContext<'_>) -> Poll<Outcome> {
        let Stage::UnderWay { first, second, hedge } = &mut self.stage else { return Poll::Pending };
        let slow = hedge.as_mut().is_some_and(|hedge| hedge.poll(task).is_ready());
        if slow {
            *hedge = None;
            if self.servers.try_hedge(&self.context, self.method)
                && let Choice::Chosen(chosen) = self.servers.choose(self.avoided)
                && chosen.server != first.chosen.server
            {
                let future = chosen.line.call_async(&self.context, self.method, Cow::Borrowed(&self.request));
                *second = Some(Attempt { chosen, future });
            }
        }
        let mut outcome = first.future.poll(task);
        let mut of_first = true;
        if let (Poll::Pending, Some(attempt)) = (&outcome, second.as_mut()) {
            outcome = attempt.future.poll(task);
            of_first = outcome.is_pending();
        }
        let outcome = std::task::ready!(outcome);
        let Stage::UnderWay { first, second, .. } = std::mem::replace(&mut self.stage, Stage::Choosing) else {
            return Poll::Pending;
        };
        let (over, other) = match (of_first, second) {
            (false, Some(second)) => (second, Some(first)),
            (_, second) => (first, second),
        };
        over.chosen.ended(&outcome);
        match (&outcome.result, other) {
            (Err(_), Some(other)) => {
                // It may still answer.
                self.avoided = Some(other.chosen.server);
                self.stage = Stage::UnderWay { first: other, second: None, hedge: None };
                return self.under_way(task);
            }
            (_, other) => other.into_iter().for_each(Attempt::taken_back),
        }
        if outcome.result.is_ok() && self.repeatable && self.servers.hedges() {
            self.servers.took(self.method, outcome.total);
        }
        Poll::Ready(outcome)
    }

    /// Waits for the outcome on the calling thread.
    pub(super) fn wait(mut self) -> Outcome {
        let waker = Unpark::current();
        let mut task = TaskContext::from_waker(&waker);
        loop {
            match self.poll(&mut task) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        if let Stage::UnderWay { first, second, .. } = std::mem::replace(&mut self.stage, Stage::Over) {
            [Some(first), second].into_iter().flatten().for_each(Attempt::taken_back);
        }
    }
}

impl Attempt {
    /// Nobody waits for it any more.
    fn taken_back(self) {
        self.chosen.unanswered();
    }
}
