//! A client's way to the servers that can answer its calls: one, by its address, or several, by a name or a list.

use super::attempts::Attempts;
use super::config::ChannelConfig;
use super::driven::Request;
use super::line::{Line, LineFuture, Queue, cost};
use super::open_call::OpenCall;
use super::servers::{Chosen, Servers};
use super::shared_stream::ChannelStream;
use super::target::{Kind as TargetKind, Target};
use crate::context::Context;
use crate::local::{self, Mailbox, OutcomeCell, Shared};
use crate::net::{method_names, number};
use crate::receipt::StageReceipt;
use crate::status::{Check, Status};
use crate::stream::{Incoming, Outgoing};
use crate::wire::MethodId;
use greenwave_policy::Time;
use greenwave_proto::outcome::{Failure, Outcome, Reply};
use greenwave_proto::{ConfigError, Method};
use greenwave_verbs::Address;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

/// A way to one server, or to several that can answer the same calls. Cheap to clone; clones share the connections.
///
/// A channel to a name or to several addresses gives each call to one of its servers, by what their answers say of how
/// long one takes, leaves out for a while who fails, and makes calls again that certainly never ran: `docs/names.md`. A
/// channel to one address makes calls again if its [`retries`](ChannelConfig::retries) are set.
#[derive(Clone)]
pub struct Channel {
    kind: Kind,
    before: Option<Arc<Before>>,
}

/// What runs before calls.
pub(super) type Before = dyn Fn(&Context, &Method) -> Result<Context, Status> + Send + Sync;

#[derive(Clone)]
enum Kind {
    One(Line),
    Several(Arc<Servers>),
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
        Self::to(address.into(), config)
    }

    /// A channel to an address, to several, or to a name. A name is resolved with the first call, which waits for that
    /// within its budget, and again when that is no longer valid or a server is gone.
    ///
    /// # Errors
    /// A setting that can't be meant; a name, without the cargo feature `resolver`.
    pub fn to(target: Target, config: ChannelConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        if target.is_grpc() {
            // Before the first call, whose method may be all that is known when the name is resolved.
            let _kept = method_names();
        }
        let authority = target.authority();
        let config = if config.grpc.has_authority() {
            config
        } else {
            ChannelConfig { grpc: config.grpc.authority(authority), ..config }
        };
        let resolves = cfg!(feature = "resolver") || !matches!(target.kind(), TargetKind::Name(_));
        let allowed = "an address or several: this was built without the cargo feature `resolver`";
        ConfigError::unless(resolves, "target", &target, allowed)?;
        let kind = match target.address() {
            Some(address) if !config.repeats_to_one() => {
                config.check(address)?;
                Kind::One(Line::new(address.clone(), &config, Arc::new(Queue::new(&config))))
            }
            _ => {
                target.kind().addresses().iter().try_for_each(|address| config.check(address))?;
                Kind::Several(Servers::new(target, config))
            }
        };
        Ok(Self { kind, before: None })
    }

    /// The same channel, that has this run before each call, where the call is made: it gives the context that the call is made
    /// with, such as one that says who asks, or refuses the call. What was added last runs first. Without any, calls pay
    /// nothing for it.
    ///
    /// ```
    /// # use greenwave_rpc::{Channel, ChannelConfig};
    /// # fn token() -> &'static str { "of-bad-news" }
    /// let channel = Channel::new("tcp://127.0.0.1:7000".parse()?, ChannelConfig::default())?;
    /// let channel = channel.intercept(|context, _| {
    ///     Ok(context.with_metadata("authorization", format!("Bearer {}", token())).expect("it is short"))
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn intercept(
        &self,
        before: impl Fn(&Context, &Method) -> Result<Context, Status> + Send + Sync + 'static,
    ) -> Self {
        let kind = self.kind.clone();
        let before: Arc<Before> = match self.before.clone() {
            None => Arc::new(before),
            Some(earlier) => Arc::new(move |context, method| earlier(&before(context, method)?, method)),
        };
        Self { kind, before: Some(before) }
    }

    /// The context that a call is made with.
    #[inline]
    fn prepared<'a>(&self, context: &'a Context, method: &Method) -> Result<Cow<'a, Context>, Status> {
        match &self.before {
            None => Ok(Cow::Borrowed(context)),
            Some(before) => before(context, method).map(Cow::Owned),
        }
    }

    /// Where it leads.
    pub fn target(&self) -> Target {
        match &self.kind {
            Kind::One(line) => line.address().clone().into(),
            Kind::Several(servers) => servers.target().clone(),
        }
    }

    /// Calls and waits for the answer.
    ///
    /// # Errors
    /// Anything but an answer in time: see [`Code`](crate::Code) and [`Reason`](crate::Reason).
    pub fn call(&self, context: &Context, method: impl Into<Method>, request: &[u8]) -> Result<Reply, Status> {
        self.outcome(context, method.into(), request.into(), false).into_reply().map_err(|failure| failure.status)
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
        self.outcome(context, method.into(), request.into(), false).into_reply()
    }

    /// The same for a method that may run twice for one call: its `.proto` says `option idempotency_level`. Where calls are
    /// made again, so are those that were lost, and where there are several servers one that takes long may be made to
    /// another one too.
    ///
    /// # Errors
    /// Anything but an answer in time.
    pub fn call_repeatable(
        &self,
        context: &Context,
        method: impl Into<Method>,
        request: Vec<u8>,
    ) -> Result<Reply, Failure> {
        self.outcome(context, method.into(), request.into(), true).into_reply()
    }

    fn outcome(&self, context: &Context, method: Method, request: Cow<'_, [u8]>, repeatable: bool) -> Outcome {
        let context = &match self.prepared(context, &method) {
            Ok(context) => context,
            Err(status) => return Outcome::local(status, Duration::ZERO),
        };
        let method = number(method);
        match &self.kind {
            Kind::One(line) => line.call(context, method, request),
            // A handler's calls go over its own cluster's connections, where nobody else could make a second one.
            Kind::Several(servers) if repeatable && servers.hedges() && local::mailbox().is_none() => {
                Attempts::new(servers, context, method, &request, repeatable).wait()
            }
            Kind::Several(servers) => servers.call(context, method, &request, repeatable),
        }
    }

    /// Calls; the answer comes as a future. The dispatcher polls for it, from now on for all calls of the channel's.
    pub fn call_async(&self, context: &Context, method: impl Into<Method>, request: &[u8]) -> CallFuture {
        self.future(context, method.into(), request, false)
    }

    /// The same for a method that may run twice for one call, as for [`call_repeatable`](Self::call_repeatable).
    pub fn call_repeatable_async(&self, context: &Context, method: impl Into<Method>, request: &[u8]) -> CallFuture {
        self.future(context, method.into(), request, true)
    }

    fn future(&self, context: &Context, method: Method, request: &[u8], repeatable: bool) -> CallFuture {
        let context = &match self.prepared(context, &method) {
            Ok(context) => context,
            Err(status) => return CallFuture(Calling::One(LineFuture::failed(status))),
        };
        let method = number(method);
        CallFuture(match &self.kind {
            Kind::One(line) => Calling::One(line.call_async(context, method, request.into())),
            Kind::Several(servers) => {
                Calling::Several(Box::new(Attempts::new(servers, context, method, request, repeatable)))
            }
        })
    }

    /// Makes a call whose request, answer or both are streams of messages: what is sent to it, and what comes of it. Both
    /// ends may go to other threads, and in handlers and tasks of executors they wait as those do. The dispatcher polls for
    /// it, from now on for all calls of the channel's. Such calls are not made again.
    ///
    /// A request that is one message is sent and [ended](Outgoing::end); an answer that is one message is followed by the
    /// end, which tells whether the call succeeded.
    ///
    /// # Errors
    /// As [`stream`](Self::stream), and where the context is cancelled or its deadline has passed. How the call fails is told
    /// by [`Incoming::next`].
    pub fn open(&self, context: &Context, method: impl Into<Method>) -> Result<(Outgoing, Incoming), Status> {
        let method = method.into();
        let context = self.prepared(context, &method)?.into_owned();
        let method = number(method);
        let started = crate::clock::monotonic();
        context.ask(Check::Send, started).into_result()?;
        let (line, chosen) = match &self.kind {
            Kind::One(line) => (line.clone(), None),
            Kind::Several(servers) => {
                let chosen = servers.chosen(&context, None)?;
                (chosen.line.clone(), Some(chosen))
            }
        };
        let (core, connection) = line.used()?;
        let (core, connection) = (Arc::clone(core), Arc::clone(connection));
        let (call, streams) = OpenCall::begin(line, Arc::clone(&core), chosen);
        let (incoming, outgoing) = streams.halves();
        greenwave_quanta::critical(|| core.ask(Request::Open { connection, context, method, started, call, streams }));
        // As with futures.
        core.ensure_dispatcher()?;
        Ok((outgoing, incoming))
    }

    /// A stream of calls over this channel's connection, which other threads can use at the same time. The dispatcher
    /// polls for it, from now on for all calls of the channel's. Not for handlers: waiting for it blocks the thread.
    ///
    /// Of a channel to a name the first stream waits for it to be resolved, for 5 s at most.
    ///
    /// # Errors
    /// `UNAVAILABLE` if no completion queue or no server can be had, `RESOURCE_EXHAUSTED` without a thread for the dispatcher.
    pub fn stream(&self) -> Result<ChannelStream, Status> {
        match &self.kind {
            Kind::One(line) => ChannelStream::over(line.clone(), self.before.clone()),
            Kind::Several(servers) => {
                let chosen = servers.chosen(&Context::with_deadline(Duration::from_secs(5)), None)?;
                ChannelStream::to(Arc::clone(servers), &chosen, self.before.clone())
            }
        }
    }

    /// Asks a handler's head for a call. The handler waits here for a name that is being resolved.
    pub(crate) fn start_in(
        &self,
        mailbox: &Mailbox,
        context: &Context,
        method: MethodId,
        request: Vec<u8>,
    ) -> Suspended {
        let context = match self.prepared(context, &method.into()) {
            Ok(context) => context,
            Err(status) => return Suspended::failed(status),
        };
        let context = &*context;
        let chosen = match &self.kind {
            Kind::One(line) => {
                let cell = line.start_in(mailbox, context, method, request);
                return Suspended { cell, chosen: None };
            }
            Kind::Several(servers) => servers.chosen(context, None),
        };
        match chosen {
            Ok(chosen) => {
                let cell = chosen.line.start_in(mailbox, context, method, request);
                Suspended { cell, chosen: Some(chosen) }
            }
            Err(status) => Suspended::failed(status),
        }
    }

    /// What a call that a handler made has cost, for the handler's own receipt.
    pub(crate) fn cost(&self, mailbox: &Mailbox, sent: Time, branch: Option<u16>, outcome: &Outcome) -> StageReceipt {
        let stage = match &self.kind {
            Kind::One(line) => line.stage(),
            Kind::Several(servers) => servers.stage(),
        };
        cost(stage, mailbox, sent, branch, outcome)
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Channel").field(&self.target().to_string()).finish()
    }
}

/// A call that a handler has made and will be woken for.
pub(crate) struct Suspended {
    cell: Shared<OutcomeCell>,
    /// The server that it was given to, if there were several.
    chosen: Option<Chosen>,
}

impl Suspended {
    /// A call that could not be made.
    fn failed(status: Status) -> Self {
        let cell = Shared::<OutcomeCell>::default();
        cell.outcome.replace(Some(Outcome::local(status, Duration::ZERO)));
        Self { cell, chosen: None }
    }

    /// The outcome, if it is there and wasn't taken before.
    pub(crate) fn take(&mut self) -> Option<Outcome> {
        let outcome = self.cell.take()?;
        if let Some(chosen) = self.chosen.take() {
            chosen.ended(&outcome);
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
pub struct CallFuture(Calling);

enum Calling {
    One(LineFuture),
    Several(Box<Attempts>),
}

impl CallFuture {
    fn poll_outcome(&mut self, task: &mut TaskContext<'_>) -> Poll<Outcome> {
        match &mut self.0 {
            Calling::One(future) => future.poll(task),
            Calling::Several(attempts) => attempts.poll(task),
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

impl Future for CallFuture {
    type Output = Result<Reply, Failure>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.poll_outcome(task).map(Outcome::into_reply)
    }
}
