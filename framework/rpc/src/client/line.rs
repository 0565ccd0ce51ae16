//! A way to one server, by its address: what a channel to an address is, and a channel to a name has one of for each server.
//!
//! In a handler, its calls go over a connection of the handler's own cluster, and waiting suspends the handler.
//! On an ordinary thread they go over the line's own connection; who polls that is [`Mode`]'s to say.

use super::config::{ChannelConfig, Mode};
use super::core::{Connection, Core, Dispatcher};
use super::driven::Request;
use super::oneshot::Oneshot;
use super::starting::Starting;
use crate::context::Context;
use crate::local::{self, Mailbox, OutcomeCell, Shared};
use crate::net::Route;
use crate::receipt::{Receipt, StageReceipt};
use crate::status::{Check, Code, Status};
use crate::wire::{MethodId, StageName};
use greenwave_policy::Time;
use greenwave_proto::outcome::Outcome;
use greenwave_verbs::Address;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

/// A way to one server. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub(crate) struct Line(Arc<Inner>);

struct Inner {
    route: Arc<Route>,
    config: ChannelConfig,
    stage: StageName,
    used: OnceLock<Used>,
    queue: Arc<Queue>,
}

/// The completion queue of the connections of ordinary threads: a line's own, or that of all lines of one channel. Opened
/// by the first call.
pub(super) struct Queue {
    /// Locked by those who make the first call, one at a time.
    starting: Mutex<(Starting, Option<Dispatcher>)>,
}

impl Queue {
    pub(super) fn new(config: &ChannelConfig) -> Self {
        Self { starting: Mutex::new((Starting::new(config.backoff()), config.dispatcher.clone())) }
    }

    fn dispatcher(&self, address: &Address, config: &ChannelConfig) -> Result<Dispatcher, Status> {
        let (starting, opened) = &mut *self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dispatcher) = opened {
            return Ok(dispatcher.clone());
        }
        let dispatcher = starting.attempt(crate::clock::monotonic(), || Dispatcher::of(address, config))?;
        Ok(opened.insert(dispatcher).clone())
    }
}

/// What a channel has once ordinary threads have made calls by it.
struct Used {
    dispatcher: Dispatcher,
    connection: Arc<Connection>,
}

impl Line {
    /// A line to `address`. It connects with the first call, and again when the connection is lost.
    pub(super) fn new(address: Address, config: &ChannelConfig, queue: Arc<Queue>) -> Self {
        let stage = short_name(&address.to_string());
        let route = Arc::new(config.route(address));
        Self(Arc::new(Inner { route, config: config.clone(), stage, used: OnceLock::new(), queue }))
    }

    /// What its stage is called until the server has introduced itself.
    pub(super) fn stage(&self) -> StageName {
        self.0.stage
    }

    /// The address that it leads to.
    pub(super) fn address(&self) -> &Address {
        &self.0.route.address
    }

    /// Calls and waits for the outcome.
    pub(super) fn call(&self, context: &Context, method: MethodId, request: Cow<'_, [u8]>) -> Outcome {
        let started = crate::clock::monotonic();
        let failed = |status| Outcome::local(status, crate::clock::monotonic().since(started));
        if let Err(status) = context.ask(Check::Send, started).into_result() {
            return failed(status);
        }
        if let Some(mailbox) = local::mailbox() {
            return self.call_suspended(&mailbox, context, method, request.into_owned());
        }
        let (core, connection) = match self.used() {
            Ok(used) => used,
            Err(status) => return failed(status),
        };
        if let Mode::Dispatched { .. } = self.0.config.mode
            && let Err(status) = core.ensure_dispatcher()
        {
            return failed(status);
        }
        core.call(connection, context, method, request)
    }

    /// Calls; the outcome comes as a future. The dispatcher polls for it, from now on for all calls of the channel's.
    pub(super) fn call_async(&self, context: &Context, method: MethodId, request: Cow<'_, [u8]>) -> LineFuture {
        let started = crate::clock::monotonic();
        let begun = context.ask(Check::Send, started).into_result().and_then(|()| self.used()).and_then(
            |(core, connection)| {
                let oneshot = core.start(connection, context, method, request, started);
                let under_way = UnderWay { line: self.clone(), oneshot: Some(oneshot) };
                // Not before the call is where the dispatcher looks: one that fails until then would not refuse it.
                core.ensure_dispatcher().map(|()| under_way)
            },
        );
        LineFuture(begun)
    }

    /// The connection for a stream of calls, for which the dispatcher polls.
    pub(super) fn stream(&self) -> Result<(&Arc<Core>, &Arc<Connection>), Status> {
        let (core, connection) = self.used()?;
        core.ensure_dispatcher()?;
        Ok((core, connection))
    }

    pub(super) fn used(&self) -> Result<(&Arc<Core>, &Arc<Connection>), Status> {
        let used = self.0.used.get().map_or_else(|| self.start(), Ok)?;
        Ok((used.dispatcher.core(), &used.connection))
    }

    #[cold]
    fn start(&self) -> Result<&Used, Status> {
        let Inner { route, config, used, queue, .. } = &*self.0;
        let dispatcher = queue.dispatcher(&route.address, config)?;
        Ok(used.get_or_init(|| Used { dispatcher, connection: Arc::new(Connection::new(Arc::clone(route), config)) }))
    }

    /// Calls from a coroutine, which is suspended meanwhile.
    fn call_suspended(&self, mailbox: &Mailbox, context: &Context, method: MethodId, request: Vec<u8>) -> Outcome {
        let sent = crate::clock::monotonic();
        let cell = self.start_in(mailbox, context, method, request);
        let outcome = loop {
            mailbox.sleep(1, None);
            if let Some(outcome) = cell.take() {
                break outcome;
            }
            let now = crate::clock::monotonic();
            if let Err(status) = context.ask(Check::Wait, now).into_result() {
                mailbox.abandon(cell);
                break Outcome::local(status, now.since(sent));
            }
        };
        let nothing = Receipt::default();
        mailbox.record(cost(self.0.stage, mailbox, sent, None, &outcome), outcome.receipt.as_ref().unwrap_or(&nothing));
        outcome
    }

    /// Asks a handler's head for a call.
    pub(super) fn start_in(
        &self,
        mailbox: &Mailbox,
        context: &Context,
        method: MethodId,
        request: Vec<u8>,
    ) -> Shared<OutcomeCell> {
        mailbox.start(&self.0.route, context.clone().into(), method, request)
    }
}

/// What a call that a handler made has cost, for the handler's own receipt. `stage`: what its callee is called unless it has
/// introduced itself.
pub(super) fn cost(
    stage: StageName,
    mailbox: &Mailbox,
    sent: Time,
    branch: Option<u16>,
    outcome: &Outcome,
) -> StageReceipt {
    let (queue, service, total) =
        outcome.receipt.as_ref().map_or_else(Default::default, |it| (it.queue, it.service, it.total));
    StageReceipt {
        stage: outcome
            .stage
            .as_deref()
            .map(|answerer| answerer.name)
            .filter(|it| *it != StageName::UNNAMED)
            .unwrap_or(stage),
        branch,
        depth: 0,
        sent_after: sent.since(mailbox.received.get()),
        network: outcome.total.saturating_sub(total),
        queue,
        service,
        total,
        status: outcome.result.as_ref().map_or_else(|status| status.code, |_| Code::Ok),
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(used) = self.used.get() {
            used.dispatcher.hang_up(&used.connection);
        }
    }
}

/// What a stage is called until it has introduced itself.
pub(super) fn short_name(text: &str) -> StageName {
    StageName::new(&text[..text.floor_char_boundary(64)]).unwrap_or(StageName::UNNAMED)
}

/// A call that is under way. Dropping it takes the call back.
pub(super) struct LineFuture(Result<UnderWay, Status>);

struct UnderWay {
    /// Kept, or the line would end with the call under way.
    line: Line,
    /// Until the outcome was taken.
    oneshot: Option<Arc<Oneshot>>,
}

impl UnderWay {
    fn poll(&mut self, task: &TaskContext<'_>) -> Poll<Outcome> {
        // Asked again although it has answered: as other futures that are over, it never does.
        let Some(oneshot) = &self.oneshot else { return Poll::Pending };
        let outcome = std::task::ready!(oneshot.poll(task));
        if let (Some(oneshot), Ok((core, _))) = (self.oneshot.take(), self.line.used()) {
            core.recycle(oneshot);
        }
        Poll::Ready(outcome)
    }
}

impl LineFuture {
    /// Of a call that could not be made.
    pub(super) fn failed(status: Status) -> Self {
        Self(Err(status))
    }

    /// The outcome, if it is there; otherwise the task will be woken when it is.
    pub(super) fn poll(&mut self, task: &TaskContext<'_>) -> Poll<Outcome> {
        match &mut self.0 {
            Err(status) => Poll::Ready(Outcome::local(status.clone(), Duration::ZERO)),
            Ok(under_way) => under_way.poll(task),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Some(oneshot), Ok((core, _))) = (self.oneshot.take(), self.line.used()) {
            core.ask(Request::Abandon(oneshot));
        }
    }
}
