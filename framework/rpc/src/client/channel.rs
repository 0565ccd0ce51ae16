//! A client's way to a server.
//!
//! In a handler, a channel's calls go over a connection of the handler's own cluster, and waiting suspends the handler.
//! On an ordinary thread they go over the channel's own connection; who polls that is [`Mode`]'s to say.

use super::config::{ChannelConfig, Mode};
use super::core::{Connection, Core, Dispatcher};
use super::driven::Request;
use super::oneshot::Oneshot;
use super::open_call::OpenCall;
use super::shared_stream::ChannelStream;
use super::starting::Starting;
use crate::context::Context;
use crate::local::{self, Mailbox, OutcomeCell, Shared};
use crate::net::Route;
use crate::receipt::{Receipt, StageReceipt};
use crate::status::{Check, Code, Status};
use crate::stream::{Incoming, Outgoing};
use crate::wire::{MethodId, StageName};
use greenwave_policy::Time;
use greenwave_proto::outcome::{Failure, Outcome, Reply};
use greenwave_proto::{ConfigError, Method};
use greenwave_verbs::Address;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

/// A way to one server. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Channel(Arc<Inner>);

struct Inner {
    route: Arc<Route>,
    config: ChannelConfig,
    stage: StageName,
    used: OnceLock<Used>,
    /// Locked by those who make the first call, one at a time.
    starting: Mutex<Starting>,
}

/// What a channel has once ordinary threads have made calls by it.
struct Used {
    dispatcher: Dispatcher,
    connection: Arc<Connection>,
}

impl Channel {
    /// A channel to `address`. It connects with the first call, and again when the connection is lost.
    ///
    /// At an [address of gRPC](Address::Grpc) any server of gRPC may be: a call's budget is its `grpc-timeout`. Methods have
    /// to be called by their names there ([`Method::named`]), as generated clients do.
    ///
    /// # Errors
    /// A setting that can't be meant.
    pub fn new(address: Address, config: ChannelConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let stage = short_name(&address);
        let starting = Mutex::new(Starting::new(config.backoff()));
        let route = Arc::new(config.route(address)?);
        Ok(Self(Arc::new(Inner { route, config, stage, used: OnceLock::new(), starting })))
    }

    /// The address it leads to.
    pub fn address(&self) -> &Address {
        &self.0.route.address
    }

    /// Calls and waits for the answer.
    ///
    /// # Errors
    /// Anything but an answer in time: see [`Code`] and [`Reason`](crate::Reason).
    pub fn call(&self, context: &Context, method: impl Into<Method>, request: &[u8]) -> Result<Reply, Status> {
        self.call_with(context, self.number(method.into()), request.into()).map_err(|failure| failure.status)
    }

    /// Calls and waits; a failure comes with the receipt of where the time went, if there is one.
    ///
    /// # Errors
    /// Anything but an answer in time.
    pub fn call_detailed(
        &self,
        context: &Context,
        method: impl Into<Method>,
        request: Vec<u8>,
    ) -> Result<Reply, Failure> {
        self.call_with(context, self.number(method.into()), request.into())
    }

    /// By what a method is called: its number, of which a server of gRPC is told the name.
    #[inline]
    pub(crate) fn number(&self, method: Method) -> MethodId {
        self.0.route.number(method)
    }

    fn call_with(&self, context: &Context, method: MethodId, request: Cow<'_, [u8]>) -> Result<Reply, Failure> {
        let started = crate::clock::monotonic();
        let failed =
            |status| Failure { status, receipt: None, total: crate::clock::monotonic().since(started), metadata: None };
        context.ask(Check::Send, started).into_result().map_err(failed)?;
        if let Some(mailbox) = local::mailbox() {
            return self.call_suspended(&mailbox, context, method, request.into_owned()).into_reply();
        }
        let (core, connection) = self.used().map_err(failed)?;
        if let Mode::Dispatched { .. } = self.0.config.mode {
            core.ensure_dispatcher().map_err(failed)?;
        }
        core.call(connection, context, method, request).into_reply()
    }

    /// Calls; the answer comes as a future. The dispatcher polls for it, from now on for all calls of the channel's.
    pub fn call_async(&self, context: &Context, method: impl Into<Method>, request: &[u8]) -> CallFuture {
        let method = self.number(method.into());
        let started = crate::clock::monotonic();
        let begun = context.ask(Check::Send, started).into_result().and_then(|()| self.used()).and_then(
            |(core, connection)| {
                let oneshot = core.start(connection, context, method, request.into(), started);
                let under_way = UnderWay { channel: self.clone(), oneshot: Some(oneshot) };
                // Not before the call is where the dispatcher looks: one that fails until then would not refuse it.
                core.ensure_dispatcher().map(|()| under_way)
            },
        );
        CallFuture(begun)
    }

    /// Makes a call whose request, answer or both are streams of messages: what is sent to it, and what comes of it. Both
    /// ends may go to other threads, and in handlers and tasks of executors they wait as those do. The dispatcher polls for
    /// it, from now on for all calls of the channel's.
    ///
    /// A request that is one message is sent and [ended](Outgoing::end); an answer that is one message is followed by the
    /// end, which tells whether the call succeeded.
    ///
    /// # Errors
    /// As [`stream`](Self::stream), and where the context is cancelled or its deadline has passed. How the call fails is told
    /// by [`Incoming::next`].
    pub fn open(&self, context: &Context, method: impl Into<Method>) -> Result<(Outgoing, Incoming), Status> {
        let method = self.number(method.into());
        let started = crate::clock::monotonic();
        context.ask(Check::Send, started).into_result()?;
        let (core, connection) = self.used()?;
        let (connection, context) = (Arc::clone(connection), context.clone());
        let (call, streams) = OpenCall::begin(self.clone(), Arc::clone(core));
        let (incoming, outgoing) = streams.halves();
        greenwave_quanta::critical(|| core.ask(Request::Open { connection, context, method, started, call, streams }));
        // As with futures.
        core.ensure_dispatcher()?;
        Ok((outgoing, incoming))
    }

    /// A stream of calls over this channel's connection, which other threads can use at the same time. The dispatcher
    /// polls for it, from now on for all calls of the channel's. Not for handlers: waiting for it blocks the thread.
    ///
    /// # Errors
    /// `UNAVAILABLE` if no completion queue can be had, `RESOURCE_EXHAUSTED` without a thread for the dispatcher.
    pub fn stream(&self) -> Result<ChannelStream, Status> {
        let (core, connection) = self.used()?;
        core.ensure_dispatcher()?;
        Ok(ChannelStream::new(self.clone(), Arc::clone(core), Arc::clone(connection)))
    }

    fn used(&self) -> Result<(&Arc<Core>, &Arc<Connection>), Status> {
        let used = self.0.used.get().map_or_else(|| self.start(), Ok)?;
        Ok((used.dispatcher.core(), &used.connection))
    }

    #[cold]
    fn start(&self) -> Result<&Used, Status> {
        let Inner { route, config, used, starting, .. } = &*self.0;
        let mut starting = starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = used.get() {
            return Ok(used);
        }
        let dispatcher = match &config.dispatcher {
            Some(shared) => shared.clone(),
            None => starting.attempt(crate::clock::monotonic(), || Dispatcher::of(&route.address, config))?,
        };
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
        mailbox.record(self.cost(mailbox, sent, None, &outcome), outcome.receipt.as_ref().unwrap_or(&nothing));
        outcome
    }

    /// Asks a handler's head for a call.
    pub(crate) fn start_in(
        &self,
        mailbox: &Mailbox,
        context: &Context,
        method: MethodId,
        request: Vec<u8>,
    ) -> Shared<OutcomeCell> {
        mailbox.start(&self.0.route, context.clone().into(), method, request)
    }

    /// What a call that a handler made has cost, for the handler's own receipt.
    pub(crate) fn cost(&self, mailbox: &Mailbox, sent: Time, branch: Option<u16>, outcome: &Outcome) -> StageReceipt {
        let (queue, service, total) =
            outcome.receipt.as_ref().map_or_else(Default::default, |it| (it.queue, it.service, it.total));
        StageReceipt {
            stage: outcome.stage.as_deref().copied().unwrap_or(self.0.stage),
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
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(used) = self.used.get() {
            used.dispatcher.hang_up(&used.connection);
        }
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Channel").field(&self.address().to_string()).finish()
    }
}

/// What a stage is called until it has introduced itself.
fn short_name(address: &Address) -> StageName {
    let text = address.to_string();
    StageName::new(&text[..text.floor_char_boundary(64)]).unwrap_or(StageName::UNNAMED)
}

/// A call that is under way. Dropping it takes the call back.
pub struct CallFuture(Result<UnderWay, Status>);

struct UnderWay {
    /// Kept, or the channel would end with the call under way.
    channel: Channel,
    /// Until the outcome was taken.
    oneshot: Option<Arc<Oneshot>>,
}

impl UnderWay {
    fn poll(&mut self, task: &TaskContext<'_>) -> Poll<Outcome> {
        // Asked again although it has answered: as other futures that are over, it never does.
        let Some(oneshot) = &self.oneshot else { return Poll::Pending };
        let outcome = std::task::ready!(oneshot.poll(task));
        if let (Some(oneshot), Ok((core, _))) = (self.oneshot.take(), self.channel.used()) {
            core.recycle(oneshot);
        }
        Poll::Ready(outcome)
    }
}

impl Future for CallFuture {
    type Output = Result<Reply, Failure>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Err(status) => Poll::Ready(Outcome::local(status.clone(), Duration::ZERO).into_reply()),
            Ok(under_way) => under_way.poll(task).map(Outcome::into_reply),
        }
    }
}

impl CallFuture {
    /// The outcome, if it is there; otherwise `waker` will be woken when it is.
    pub(crate) fn outcome(&mut self, waker: &std::task::Waker) -> Option<Outcome> {
        match &mut self.0 {
            Err(status) => Some(Outcome::local(status.clone(), Duration::ZERO)),
            Ok(under_way) => match under_way.poll(&TaskContext::from_waker(waker)) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            },
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Some(oneshot), Ok((core, _))) = (self.oneshot.take(), self.channel.used()) {
            core.ask(Request::Abandon(oneshot));
        }
    }
}
