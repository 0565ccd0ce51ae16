//! Who is served when, and who isn't: permits, a queue by work and deadline, refusals.

mod counters;
mod learned;
mod limiter;
mod settings;

pub use counters::{Counters, Refusals};
pub use settings::{Settings, SettingsError};

use crate::body::ResponseBody;
use crate::clock::Clock;
use crate::context::Context;
use crate::refusal::{Answer, GRPC_STATUS, Protocol, Why};
use greenwave_policy::{Deadline, Refusal, Time};
use http::{Request, Response, StatusCode};
use limiter::{Arrival, Call, End, Limiter};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll, Waker, ready};
use tower_layer::Layer;
use tower_service::Service;

/// Lets so many requests run at once, in the order of their work and deadlines, and refuses what can't be in time. It is
/// there in place of tower's concurrency limit.
///
/// - A request begins at once if there is a permit. Otherwise it waits: by default the one with the least work left goes
///   first, and before them who could miss its deadline by that. How long a method takes is learned by its path.
/// - What has expired, what needs more time than it has, and what has waited for most of its time while others wait too, is
///   answered `DEADLINE_EXCEEDED`, or 504 if it isn't gRPC; what comes to a full queue `RESOURCE_EXHAUSTED`, or 503.
/// - Dropped while it waits a request gives up its place; dropped while it is served it gives its permit back. The permit
///   is for what the handler does until it has a response: the body is sent without it.
///
/// Deadlines are those of [`DeadlineLayer`](crate::DeadlineLayer), which belongs outside of this one. Clones of the layer,
/// and the services that it makes, share their permits.
#[derive(Clone, Debug)]
pub struct AdmissionLayer {
    shared: Arc<Shared>,
}

impl AdmissionLayer {
    /// An admission with these settings.
    ///
    /// # Errors
    /// A setting that is out of its range.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.validate()?;
        Ok(Self::with_clock(settings, Clock::default()))
    }

    pub(crate) fn with_clock(settings: Settings, clock: Clock) -> Self {
        let limiter = Mutex::new(Limiter::new(&settings));
        Self { shared: Arc::new(Shared { settings, clock, limiter }) }
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters()
    }
}

impl Default for AdmissionLayer {
    fn default() -> Self {
        Self::with_clock(Settings::default(), Clock::default())
    }
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = AdmissionService<S>;

    fn layer(&self, inner: S) -> AdmissionService<S> {
        AdmissionService { shared: Arc::clone(&self.shared), inner }
    }
}

/// A service whose requests wait their turn, made by [`AdmissionLayer`].
#[derive(Clone, Debug)]
pub struct AdmissionService<S> {
    shared: Arc<Shared>,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for AdmissionService<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = AdmissionFuture<S, A, S::Future>;

    /// Always: a request that can't be served now waits in order, or is refused. Whether the inner service is ready is asked
    /// when its turn comes.
    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let protocol = Protocol::of(request.headers());
        let now = self.shared.clock.now();
        let known = request.extensions().get::<Context>().cloned().or_else(Context::current);
        let (arrived, deadline) = known.map_or((now, Deadline::NEVER), |known| (known.arrived(), known.deadline()));
        let path = self.shared.settings.name(request.uri(), request.extensions());
        let arrival = self.shared.arrive(now, path, arrived, deadline);
        let service = self.inner.clone();
        let stage = match arrival {
            Arrival::Begins(call) => {
                let permit = Permit { shared: Arc::clone(&self.shared), began: now, call: Some(call) };
                Stage::Begins { service, request: Some(request), permit: Some(permit) }
            }
            Arrival::Waits(key) => {
                let place = Place { shared: Arc::clone(&self.shared), key: Some(key) };
                Stage::Waits { place, held: Some((service, request)), protocol }
            }
            Arrival::Refused(refusal) => Stage::Refused { answer: Answer { protocol, why: Why::Refused(refusal) } },
        };
        AdmissionFuture { stage }
    }
}

pin_project_lite::pin_project! {
    /// The response to come of an [`AdmissionService`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct AdmissionFuture<S, A, F> {
        #[pin]
        stage: Stage<S, A, F>,
    }
}

pin_project_lite::pin_project! {
    #[project = StageProjection]
    enum Stage<S, A, F> {
        Waits { place: Place, held: Option<(S, Request<A>)>, protocol: Protocol },
        Begins { service: S, request: Option<Request<A>>, permit: Option<Permit> },
        // What the handler holds is let go before others begin.
        Runs { #[pin] future: F, permit: Option<Permit> },
        Refused { answer: Answer },
        Over,
    }
}

impl<S, A, B> Future for AdmissionFuture<S, A, S::Future>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Output = Result<Response<ResponseBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            match stage.as_mut().project() {
                StageProjection::Waits { place, held, protocol } => match ready!(place.poll(task)) {
                    Ok(permit) => {
                        let Some((service, request)) = held.take() else { return Poll::Pending };
                        stage.set(Stage::Begins { service, request: Some(request), permit: Some(permit) });
                    }
                    Err(refusal) => {
                        let answer = Answer { protocol: protocol.clone(), why: Why::Refused(refusal) };
                        stage.set(Stage::Refused { answer });
                    }
                },
                StageProjection::Begins { service, request, permit } => {
                    if let Err(error) = ready!(service.poll_ready(task)) {
                        end(permit.take(), End::Failed { timed_out: false });
                        stage.set(Stage::Over);
                        return Poll::Ready(Err(error));
                    }
                    let Some(request) = request.take() else { return Poll::Pending };
                    let future = service.call(request);
                    let permit = permit.take();
                    stage.set(Stage::Runs { future, permit });
                }
                StageProjection::Runs { future, permit } => {
                    let served = ready!(future.poll(task));
                    let permit = permit.take();
                    stage.set(Stage::Over);
                    end(permit, served.as_ref().map_or(End::Failed { timed_out: false }, end_of));
                    return Poll::Ready(served.map(|response| response.map(|body| ResponseBody::served(body, None))));
                }
                StageProjection::Refused { answer } => {
                    let response = answer.response();
                    stage.set(Stage::Over);
                    return Poll::Ready(Ok(response));
                }
                StageProjection::Over => return Poll::Pending,
            }
        }
    }
}

impl<S, A, F> std::fmt::Debug for AdmissionFuture<S, A, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdmissionFuture")
    }
}

/// What a response says of how the request ended: gRPC's unary errors are in the headers, those of streams are not seen.
fn end_of<B>(response: &Response<B>) -> End {
    let code = response.headers().get(GRPC_STATUS).map(http::HeaderValue::as_bytes);
    let status = response.status();
    match code {
        None | Some(b"0") if status.as_u16() < 400 => End::Served,
        _ => End::Failed { timed_out: code == Some(b"4") || status == StatusCode::GATEWAY_TIMEOUT },
    }
}

fn end(permit: Option<Permit>, end: End) {
    if let Some(mut permit) = permit {
        permit.end(end);
    }
}

/// What the services of one layer share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    clock: Clock,
    limiter: Mutex<Limiter>,
}

impl Shared {
    fn arrive(&self, now: Time, path: &str, arrived: Time, deadline: Deadline) -> Arrival {
        let mut turned_away = Vec::new();
        let arrival = self.lock().arrive(now, path, arrived, deadline, &mut turned_away);
        turned_away.into_iter().for_each(Waker::wake);
        arrival
    }

    /// Gives what permits there are to those that wait. Nobody is woken, and no waker dropped, under the lock.
    fn give(&self, now: Time) {
        let next = || self.lock().give(now);
        std::iter::from_fn(next).for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue.
struct Place {
    shared: Arc<Shared>,
    /// Until it is over.
    key: Option<usize>,
}

impl Place {
    fn poll(&mut self, task: &Task<'_>) -> Poll<Result<Permit, Refusal>> {
        let Some(key) = self.key else { return Poll::Pending };
        let mut waker = Some(task.waker().clone());
        let polled = self.shared.lock().poll(key, &mut waker);
        let outcome = ready!(polled);
        self.key = None;
        let (shared, began) = (Arc::clone(&self.shared), self.shared.clock.now());
        Poll::Ready(outcome.map(|call| Permit { shared, began, call: Some(call) }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let _waker = self.shared.lock().leave(key);
        self.shared.give(self.shared.clock.now());
    }
}

/// Leave to run. Dropped, it goes to the next.
struct Permit {
    shared: Arc<Shared>,
    began: Time,
    call: Option<Call>,
}

impl Permit {
    fn end(&mut self, end: End) {
        let Some(call) = self.call.take() else { return };
        let now = self.shared.clock.now();
        self.shared.lock().finish(now, self.began, call, end);
        self.shared.give(now);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(End::Dropped);
    }
}
