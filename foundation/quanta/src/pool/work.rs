//! A job on its way: what is run, on what terms, and where its outcome goes.

use super::task::{Awaited, JobError, Outcome};
use crate::clock::monotonic;
use crate::coroutine::message;
use crate::scheduler::Job;
use greenwave_policy::{Budget, Deadline, Time, Urgency};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// On what terms a job is run. A [`Duration`] is a deadline from now; `None` is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    pub(super) deadline: Option<Duration>,
    pub(super) work: Duration,
    pub(super) name: &'static str,
}

impl Terms {
    /// No deadline, no name, nothing known.
    pub const NONE: Self = Self { deadline: None, work: Duration::ZERO, name: "" };

    /// The job is worth beginning for so long from now, and deadline orders go by it.
    #[must_use]
    pub const fn within(deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..Self::NONE }
    }

    /// How long it is expected to compute, for orders by laxity.
    #[must_use]
    pub const fn taking(self, work: Duration) -> Self {
        Self { work, ..self }
    }

    /// What it is called in reports: of a job that doesn't give way, of a stack that overflowed.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(super) fn urgency(&self, now: Time) -> Urgency {
        let deadline = self.deadline.map_or(Deadline::NEVER, |deadline| Deadline::at(now, Budget::expected(deadline)));
        Urgency { arrived: now, birth: now, deadline, here: self.work, ..Urgency::default() }
    }
}

impl From<Duration> for Terms {
    fn from(deadline: Duration) -> Self {
        Self::within(deadline)
    }
}

impl From<Option<Duration>> for Terms {
    fn from(deadline: Option<Duration>) -> Self {
        Self { deadline, ..Self::NONE }
    }
}

/// A job without its types.
pub(super) trait Work: Send + Sync {
    fn urgency(&self) -> &Urgency;

    fn name(&self) -> &'static str;

    /// Runs it, unless it must not begin any more, and tells its task. Once.
    fn run(&self, closed: bool);
}

/// The one allocation of a job: its closure, and its task's outcome.
pub(super) struct Stored<T, F> {
    urgency: Urgency,
    name: &'static str,
    body: Mutex<Option<F>>,
    outcome: Outcome<T>,
}

impl<T, F> Stored<T, F> {
    pub(super) fn new(urgency: Urgency, name: &'static str, body: F) -> Self {
        Self { urgency, name, body: Mutex::new(Some(body)), outcome: Outcome::new() }
    }

    fn may_begin(&self, closed: bool) -> Result<(), JobError> {
        if closed {
            return Err(JobError::Closed);
        }
        if self.urgency.deadline == Deadline::NEVER {
            return Ok(());
        }
        let budget = self.urgency.deadline.budget(monotonic());
        if budget.is_spent() { Err(JobError::Expired { late: budget.late() }) } else { Ok(()) }
    }
}

impl<T, F> Work for Stored<T, F>
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    fn urgency(&self) -> &Urgency {
        &self.urgency
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, closed: bool) {
        let Some(body) = self.body.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.may_begin(closed)?;
            Ok(body())
        }));
        let result = result.unwrap_or_else(|payload| Err(JobError::Panicked { message: message(payload) }));
        self.outcome.tell(result);
    }
}

impl<T: Send, F: Send> Awaited<T> for Stored<T, F> {
    fn outcome(&self) -> &Outcome<T> {
        &self.outcome
    }
}

/// A job as a worker runs it.
pub(super) struct PoolJob {
    pub(super) work: Arc<dyn Work>,
    /// Whether jobs may not begin any more; one for all jobs of a worker.
    pub(super) closed: Rc<Cell<bool>>,
}

impl Job for PoolJob {
    fn run(self) {
        self.work.run(self.closed.get());
    }

    fn name(&self) -> &'static str {
        self.work.name()
    }
}
