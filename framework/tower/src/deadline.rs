//! Where requests come in: their deadline is read, and goes along with them.

use crate::body::ResponseBody;
use crate::clock::Clock;
use crate::context::{Context, InScope};
use crate::refusal::{Answer, Protocol, Why};
use crate::timeout::{self, Malformed};
use crate::timer::Timer;
use crate::trace::Trace;
use greenwave_policy::{Budget, Deadline, Time};
use http::header::HeaderMap;
use http::{Extensions, Request, Response};
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// Reads each request's deadline as it arrives, and makes its [`Context`]: put it outermost.
///
/// A deadline is the least of what the request says by `grpc-timeout` (and by Envoy's header, if that is
/// [trusted](Self::trust_envoy)), of [`at_most`](Self::at_most), and of the context it is made in if it comes from within
/// the process. If none of these says anything it is the [default](Self::default_deadline), or there is none.
///
/// A request whose `grpc-timeout` is malformed is answered `INVALID_ARGUMENT`, or 400 if it isn't gRPC. Late ones are
/// passed on: to refuse them is for [`AdmissionLayer`](crate::AdmissionLayer).
#[derive(Clone, Debug, Default)]
pub struct DeadlineLayer {
    trust_envoy: bool,
    default: Option<Duration>,
    most: Option<Duration>,
    clock: Clock,
}

impl DeadlineLayer {
    /// Reads `grpc-timeout`, and sets no deadline of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    pub(crate) fn with_clock(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Whether `x-envoy-expected-rq-timeout-ms` counts, by default not: anybody can write it, unless a proxy in front strips
    /// it.
    #[must_use]
    pub fn trust_envoy(self, trust: bool) -> Self {
        Self { trust_envoy: trust, ..self }
    }

    /// The deadline of requests that say none, from their arrival; by default they have none.
    #[must_use]
    pub fn default_deadline(self, deadline: Duration) -> Self {
        Self { default: Some(deadline), ..self }
    }

    /// The longest deadline that a request may have, from its arrival; by default any.
    #[must_use]
    pub fn at_most(self, most: Duration) -> Self {
        Self { most: Some(most), ..self }
    }

    /// The context of a request that arrives.
    fn read(&self, now: Time, headers: &HeaderMap, extensions: &Extensions) -> Result<Context, Malformed> {
        let (before, task) = (extensions.get::<Context>(), Context::current());
        let envoy = if self.trust_envoy { timeout::envoy_timeout(headers) } else { None };
        let said = [timeout::grpc_timeout(headers)?, envoy].into_iter().flatten().min();
        let at =
            |left: Option<Duration>| left.map_or(Deadline::NEVER, |left| Deadline::at(now, Budget::expected(left)));
        let around = [before, task.as_ref()].into_iter().flatten();
        let mut deadline = around.map(Context::deadline).fold(at(said), Deadline::tighten);
        if deadline == Deadline::NEVER {
            deadline = at(self.default);
        }
        let trace = Trace::of(headers).or_else(|| Some(before.or(task.as_ref())?.trace().clone()));
        let arrived = before.map_or(now, Context::arrived);
        let clock = self.clock.clone();
        Ok(Context::received(clock, arrived, deadline.tighten(at(self.most)), trace.unwrap_or_default()))
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> DeadlineService<S> {
        DeadlineService { layer: self.clone(), inner }
    }
}

/// A service whose requests have a [`Context`], made by [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub struct DeadlineService<S> {
    layer: DeadlineLayer,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for DeadlineService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let protocol = Protocol::of(request.headers());
        let now = self.layer.clock.now();
        let stage = match self.layer.read(now, request.headers(), request.extensions()) {
            Err(Malformed) => Stage::Answered { answer: Answer { protocol, why: Why::MalformedTimeout } },
            Ok(context) => {
                request.extensions_mut().insert(context.clone());
                let future = context.clone().within(|| self.inner.call(request));
                let timer = Timer::new(context.remaining());
                Stage::Serves { future: context.clone().scope(future), timer, context, protocol }
            }
        };
        DeadlineFuture { stage }
    }
}

pin_project_lite::pin_project! {
    /// The response to come of a [`DeadlineService`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct DeadlineFuture<F> {
        #[pin]
        stage: Stage<F>,
    }
}

pin_project_lite::pin_project! {
    #[project = StageProjection]
    enum Stage<F> {
        Serves { #[pin] future: InScope<F>, #[pin] timer: Timer, context: Context, protocol: Protocol },
        Answered { answer: Answer },
    }
}

impl<F, B, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        match stage.as_mut().project() {
            StageProjection::Answered { answer } => Poll::Ready(Ok(answer.response())),
            StageProjection::Serves { future, timer, context, protocol } => {
                if let Poll::Ready(served) = future.poll(task) {
                    let scope = Some(context.clone());
                    return Poll::Ready(served.map(|response| response.map(|body| ResponseBody::served(body, scope))));
                }
                ready!(timer.poll_rung(task));
                let answer = Answer { protocol: protocol.clone(), why: Why::RanOut };
                let response = answer.response();
                // What is given up is dropped at once.
                stage.set(Stage::Answered { answer });
                Poll::Ready(Ok(response))
            }
        }
    }
}

impl<F> std::fmt::Debug for DeadlineFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeadlineFuture")
    }
}
