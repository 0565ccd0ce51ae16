//! Where requests go out: they are given what is left of the deadline of the request that they are made for.

use crate::body::ResponseBody;
use crate::clock::Clock;
use crate::context::Context;
use crate::refusal::{Answer, Protocol, Why};
use crate::timeout::{self, GRPC_TIMEOUT};
use crate::timer::Timer;
use greenwave_policy::{Budget, Deadline};
use http::{Request, Response};
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use tower_layer::Layer;
use tower_service::Service;

/// Gives outgoing requests the deadline and the trace of the request that their task serves.
///
/// `grpc-timeout` becomes the least of what the request says itself, of what is left of the [current](Context::current)
/// context and of one in the request's extensions. With none of these it stays as it is. A request whose time is up isn't
/// sent: it is answered `DEADLINE_EXCEEDED` at once, or 504 if it isn't gRPC. `traceparent` and `tracestate` go along unless
/// the request has its own.
///
/// Put it around each client: `PropagateService::new(channel)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PropagateLayer;

impl PropagateLayer {
    /// The layer. There is nothing to set.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for PropagateLayer {
    type Service = PropagateService<S>;

    fn layer(&self, inner: S) -> PropagateService<S> {
        PropagateService::new(inner)
    }
}

/// A client whose requests inherit their deadline, as [`PropagateLayer`] has it.
#[derive(Clone, Debug)]
pub struct PropagateService<S> {
    inner: S,
}

impl<S> PropagateService<S> {
    /// Around a client: a channel of tonic's, for instance.
    pub const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, A, B> Service<Request<A>> for PropagateService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = PropagateFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let protocol = Protocol::of(request.headers());
        let Some(timer) = prepare(&mut request) else {
            return PropagateFuture { stage: Stage::Answered { answer: Answer { protocol, why: Why::NotSent } } };
        };
        let future = self.inner.call(request);
        PropagateFuture { stage: Stage::Awaits { future, timer, protocol } }
    }
}

/// Writes down how long the answer is waited for, and in which trace; `None` if there is no time left.
fn prepare<A>(request: &mut Request<A>) -> Option<Timer> {
    let contexts = [Context::current(), request.extensions().get::<Context>().cloned()];
    let (mut clock, mut deadline) = (Clock::default(), Deadline::NEVER);
    for context in contexts.into_iter().flatten() {
        deadline = deadline.tighten(context.deadline());
        context.trace().write(request.headers_mut());
        clock = context.clock().clone();
    }
    let now = clock.now();
    // One of its own that can't be read says nothing; it is for the callee to refuse, unless there is another.
    let own = timeout::grpc_timeout(request.headers()).ok().flatten();
    let own = own.map_or(Deadline::NEVER, |own| Deadline::at(now, Budget::expected(own)));
    deadline = deadline.tighten(own);
    let left = deadline.budget(now);
    if left.is_spent() {
        return None;
    }
    if let Some(left) = left.remaining().filter(|_| deadline != own) {
        request.headers_mut().insert(GRPC_TIMEOUT, timeout::written(left));
    }
    Some(Timer::new(left.remaining()))
}

pin_project_lite::pin_project! {
    /// The response to come of a [`PropagateService`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct PropagateFuture<F> {
        #[pin]
        stage: Stage<F>,
    }
}

pin_project_lite::pin_project! {
    #[project = StageProjection]
    enum Stage<F> {
        Awaits { #[pin] future: F, #[pin] timer: Timer, protocol: Protocol },
        Answered { answer: Answer },
    }
}

impl<F, B, E> Future for PropagateFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        match stage.as_mut().project() {
            StageProjection::Answered { answer } => Poll::Ready(Ok(answer.response())),
            StageProjection::Awaits { future, timer, protocol } => {
                if let Poll::Ready(answered) = future.poll(task) {
                    return Poll::Ready(answered.map(|response| response.map(|body| ResponseBody::served(body, None))));
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

impl<F> std::fmt::Debug for PropagateFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PropagateFuture")
    }
}
