//! A client's way to the servers that can answer its calls: one, by its address, or several, by a name or a list.

use super::around::{self, After, Before, Ended};
use super::attempts::Attempts;
use super::config::ChannelConfig;
use super::driven::Request;
use super::line::{Line, LineFuture, Queue, cost};
use super::open_call::OpenCall;
use super::servers::Servers;
use super::shared_stream::ChannelStream;
use super::target::{Kind as TargetKind, Target};
use super::under_way::{CallFuture, Calling, Suspended, Watched};
use crate::context::Context;
use crate::local::{self, Mailbox};
use crate::net::{method_names, number};
use crate::receipt::StageReceipt;
use crate::status::{Check, Status};
use crate::stream::{Incoming, Outgoing, StreamCoding};
use crate::transcoding::Decompression;
use crate::wire::MethodId;
use greenwave_policy::Time;
use greenwave_proto::compression::{Encoding, Encodings};
use greenwave_proto::outcome::{Failure, Outcome, Reply};
use greenwave_proto::{ConfigError, Method};
use greenwave_verbs::Address;
use std::borrow::Cow;
use std::sync::Arc;
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
    /// What requests are compressed with, if they are.
    compression: Option<Encoding>,
    decompression: Decompression,
}

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
        let compression = config.grpc.compression().filter(|_| target.is_all_grpc());
        let decompression = Decompression::of(&config.limits);
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
        Ok(Self { kind, before: None, compression, decompression })
    }

    /// The same channel, that has this run before each call, where the call is made: it gives the context that the call is made
    /// with, such as one that says who asks, or refuses the call. What was added last runs first. Without any, calls pay
    /// nothing for it. What also has to know how calls end is added by [`intercept_around`](Self::intercept_around).
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
        self.with(move |context, method, _| before(context, method))
    }

    /// The same channel, whose calls have their requests compressed with this, or sent as they are: for servers of gRPC that are
    /// known to read it, as that doesn't ask them. Requests to Greenwave's own servers are never compressed, nor is what doesn't
    /// become shorter by that. What is the case without is [`GrpcClientSettings::compress`](crate::GrpcClientSettings::compress)'s.
    ///
    /// Answers are decompressed whatever this says: every call to a server of gRPC tells it what this program can read.
    #[must_use]
    pub fn compress(&self, encoding: impl Into<Option<Encoding>>) -> Self {
        let compression = encoding.into().filter(|_| self.target().is_all_grpc());
        Self { compression, ..self.clone() }
    }

    /// The same channel, that has this run around each call: before it, as with [`intercept`](Self::intercept), and what it
    /// returns beside the context once the call has ended, however it has. What was added last runs first, and is told last.
    /// Without any, calls pay nothing for it.
    ///
    /// Who has let a call pass is told of its end exactly once: also of a refusal by what was added before, and of a call that
    /// nobody waits for any more, such as by a future that was dropped (`CANCELLED`). It is told where the end is known first:
    /// on the thread that takes the answer, in the handler that does, and for calls by [`open`](Self::open) on the channel's
    /// dispatcher. So it is not to wait for anything, nor to panic. A call that is [made again](Self::to) is one call. Calls by
    /// a [`CallQueue`](crate::CallQueue), which has no channel, are not among them.
    ///
    /// ```
    /// use greenwave_rpc::{Channel, ChannelConfig, Ended};
    ///
    /// let channel = Channel::new("tcp://127.0.0.1:7000".parse()?, ChannelConfig::default())?;
    /// let traced = channel.intercept_around(|context, method| {
    ///     let called = method.name().unwrap_or("?").to_owned();
    ///     let id = format!("{:016x}", 7);
    ///     let context = context.with_metadata("x-request-id", &id).expect("it is short");
    ///     let after = move |ended: &Ended<'_>| println!("{id} {called}: {} after {:?}", ended.code(), ended.total);
    ///     Ok((context, after))
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn intercept_around<A>(
        &self,
        around: impl Fn(&Context, &Method) -> Result<(Context, A), Status> + Send + Sync + 'static,
    ) -> Self
    where
        A: FnOnce(&Ended<'_>) + Send + 'static,
    {
        self.with(move |context, method, after| {
            let (context, told) = around(context, method)?;
            after.push(told);
            Ok(context)
        })
    }

    /// The same channel with something more that runs first.
    fn with(
        &self,
        before: impl Fn(&Context, &Method, &mut After) -> Result<Context, Status> + Send + Sync + 'static,
    ) -> Self {
        let before: Arc<Before> = match self.before.clone() {
            None => Arc::new(before),
            Some(earlier) => {
                Arc::new(move |context, method, after| earlier(&before(context, method, after)?, method, after))
            }
        };
        Self { before: Some(before), ..self.clone() }
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

    #[inline]
    fn outcome(&self, context: &Context, method: Method, request: Cow<'_, [u8]>, repeatable: bool) -> Outcome {
        match &self.before {
            None => self.made(context, number(method), request, repeatable),
            Some(before) => match around::begin(&**before, context, &method) {
                Ok((context, after)) => {
                    let mut outcome = self.made(&context, number(method), request, repeatable);
                    // What can't be read is told as it is reported.
                    outcome.decompress();
                    after.ended(&outcome);
                    outcome
                }
                Err(status) => Outcome::local(status, Duration::ZERO),
            },
        }
    }

    fn made(&self, context: &Context, method: MethodId, request: Cow<'_, [u8]>, repeatable: bool) -> Outcome {
        if let Some((context, request)) = self.compression.and_then(|with| compressed(with, context, &request)) {
            return self.make(&context, method, request.into(), repeatable);
        }
        self.make(context, method, request, repeatable)
    }

    #[inline]
    fn make(&self, context: &Context, method: MethodId, request: Cow<'_, [u8]>, repeatable: bool) -> Outcome {
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
        match &self.before {
            None => self.made_async(context, number(method), request, repeatable),
            Some(before) => match around::begin(&**before, context, &method) {
                Ok((context, after)) => {
                    let future = self.made_async(&context, number(method), request, repeatable);
                    CallFuture(Calling::Watched(Box::new(Watched { future, after: Some(after) })))
                }
                Err(status) => CallFuture(Calling::One(LineFuture::failed(status))),
            },
        }
    }

    fn made_async(&self, context: &Context, method: MethodId, request: &[u8], repeatable: bool) -> CallFuture {
        let compressed = self.compression.and_then(|with| compressed(with, context, request));
        let (context, request): (&Context, &[u8]) = match &compressed {
            None => (context, request),
            Some((context, request)) => (context, request),
        };
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
        let Some(before) = &self.before else { return self.opened(context.clone(), number(method), &mut None) };
        let (context, after) = around::begin(&**before, context, &method)?;
        let mut after = Some(after);
        let opened = self.opened(context, number(method), &mut after);
        if let (Some(after), Err(status)) = (after, &opened) {
            after.ended(&Outcome::local(status.clone(), Duration::ZERO));
        }
        opened
    }

    /// `after`: what is to be told of the end, left there if the call can't be made.
    fn opened(
        &self,
        mut context: Context,
        method: MethodId,
        after: &mut Option<After>,
    ) -> Result<(Outgoing, Incoming), Status> {
        let decompression = self.decompression.on_stacks(local::is_cramped());
        let mut compression = Encodings::NONE;
        if let Some(encoding) = self.compression.filter(|encoding| encoding.is_built_in()) {
            context = context.with_compressed(encoding);
            compression = encoding.into();
        }
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
        let (call, streams) = OpenCall::begin(line, Arc::clone(&core), chosen, after.take());
        let (incoming, outgoing) = streams.halves(StreamCoding::of_answer(decompression, compression));
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
            Kind::One(line) => ChannelStream::over(line.clone(), self.before.clone(), self.compression),
            Kind::Several(servers) => {
                let chosen = servers.chosen(&Context::with_deadline(Duration::from_secs(5)), None)?;
                ChannelStream::to(Arc::clone(servers), &chosen, self.before.clone(), self.compression)
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
        let Some(before) = &self.before else { return self.started_in(mailbox, context, method, request) };
        match around::begin(&**before, context, &method.into()) {
            Ok((context, after)) => {
                let suspended = self.started_in(mailbox, &context, method, request);
                Suspended { after: Some(Box::new(after)), ..suspended }
            }
            Err(status) => Suspended::failed(status),
        }
    }

    fn started_in(&self, mailbox: &Mailbox, context: &Context, method: MethodId, request: Vec<u8>) -> Suspended {
        let compressed = self.compression.and_then(|with| compressed(with, context, &request));
        let of_compressed;
        let (context, request) = match compressed {
            None => (context, request),
            Some((context, request)) => {
                of_compressed = context;
                (&of_compressed, request)
            }
        };
        let chosen = match &self.kind {
            Kind::One(line) => {
                let cell = line.start_in(mailbox, context, method, request);
                return Suspended { cell, chosen: None, after: None };
            }
            Kind::Several(servers) => servers.chosen(context, None),
        };
        match chosen {
            Ok(chosen) => {
                let cell = chosen.line.start_in(mailbox, context, method, request);
                Suspended { cell, chosen: Some(chosen), after: None }
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

/// A call's context and request where the latter is compressed, if that makes it shorter.
#[cold]
pub(super) fn compressed(encoding: Encoding, context: &Context, request: &[u8]) -> Option<(Context, Vec<u8>)> {
    let compressed = if local::is_cramped() { None } else { encoding.compress(request) }?;
    Some((context.with_compressed(encoding), compressed))
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Channel").field(&self.target().to_string()).finish()
    }
}
