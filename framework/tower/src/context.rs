//! What is known of the request that a task serves.

use crate::clock::Clock;
use crate::trace::Trace;
use greenwave_policy::{Budget, Deadline, Time};
use http::HeaderValue;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CURRENT: Context;
}

/// A request's deadline, when it arrived, and the trace it belongs to. Cheap to clone; clones are the same request.
///
/// [`DeadlineLayer`](crate::DeadlineLayer) makes one of each request. It is in the request's extensions, and
/// [`current`](Self::current) finds it in whatever the task runs for the request.
#[derive(Clone, Debug)]
pub struct Context(Arc<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    clock: Clock,
    arrived: Time,
    deadline: Deadline,
    trace: Trace,
}

impl Context {
    /// That of a request which is made here and now, and has to be answered within `deadline`.
    #[must_use]
    pub fn with_deadline(deadline: Duration) -> Self {
        Self::made(Clock::default(), Budget::expected(deadline))
    }

    /// That of a request which is made here and now, and has no deadline.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::made(Clock::default(), Budget::UNLIMITED)
    }

    pub(crate) fn made(clock: Clock, budget: Budget) -> Self {
        let arrived = clock.now();
        Self::received(clock, arrived, Deadline::at(arrived, budget), Trace::default())
    }

    pub(crate) fn received(clock: Clock, arrived: Time, deadline: Deadline, trace: Trace) -> Self {
        Self(Arc::new(Parts { clock, arrived, deadline, trace }))
    }

    /// That of the request which this task serves; `None` outside of [`scope`](Self::scope).
    ///
    /// A task that is spawned is another task, and serves none unless it is told to:
    /// `tokio::spawn(context.scope(work))`.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_get().ok()
    }

    /// When the time is up, on this machine's monotonic clock.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.0.deadline
    }

    /// What is left now.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.0.deadline.budget(self.now())
    }

    /// How long an answer is waited for from now on: zero once the deadline has passed, `None` if there is none.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.budget().remaining()
    }

    /// When the request reached this process, or was made, on this machine's monotonic clock.
    #[must_use]
    pub fn arrived(&self) -> Time {
        self.0.arrived
    }

    /// The request's `traceparent`, as it came.
    #[must_use]
    pub fn traceparent(&self) -> Option<&HeaderValue> {
        self.0.trace.parent()
    }

    /// The same request with this much time from now on, if that is less than it has.
    #[must_use]
    pub fn tighten(&self, limit: Duration) -> Self {
        self.tighten_to(Deadline::at(self.now(), Budget::expected(limit)))
    }

    pub(crate) fn tighten_to(&self, limit: Deadline) -> Self {
        if self.0.deadline <= limit {
            return self.clone();
        }
        Self(Arc::new(Parts { deadline: limit, ..Parts::clone(&self.0) }))
    }

    /// The same request without its deadline, for what has to be done however late it is.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self(Arc::new(Parts { deadline: Deadline::NEVER, ..Parts::clone(&self.0) }))
    }

    /// Runs a future for this request: within it, this is [`current`](Self::current).
    pub fn scope<F: Future>(self, future: F) -> InScope<F> {
        InScope { future: CURRENT.scope(self, future) }
    }

    /// Runs a closure for this request.
    pub(crate) fn within<R>(self, run: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self, run)
    }

    pub(crate) fn now(&self) -> Time {
        self.0.clock.now()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.0.trace
    }
}

pin_project_lite::pin_project! {
    /// A future that runs for a request, made by [`Context::scope`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct InScope<F> {
        #[pin]
        future: TaskLocalFuture<Context, F>,
    }
}

impl<F: Future> Future for InScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut std::task::Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(task)
    }
}

impl<F> std::fmt::Debug for InScope<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InScope")
    }
}
