//! Computing for a request on threads that serve the most urgent first.

use crate::context::Context;
use greenwave_quanta::pool::JobError;
use std::fmt;

pub use greenwave_quanta::Pool;
pub use greenwave_quanta::pool::Terms;

/// Runs what computes on a pool, with the deadline of the request that this task serves, and waits for it.
///
/// An async runtime's threads serve tasks one after the other, so a handler that computes for a millisecond holds up all that
/// are behind it. A [`Pool`] has threads of its own, and goes by deadlines if its order does: build it with
/// `.order(Order::EarliestDeadline)`. In a program that `cargo quanta` has built its jobs are preempted.
///
/// A job whose deadline has passed before its turn isn't begun. Once it has begun it runs to its end, also if the request is
/// dropped. The [`Context`] isn't the job's: what it needs of that the closure has to take along.
///
/// ```
/// use greenwave_tower::{Context, Pool, on_pool};
/// # use std::time::Duration;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let pool = Pool::builder().workers(1).build()?;
/// let request = Context::with_deadline(Duration::from_secs(60));
/// let sum = runtime.block_on(request.scope(on_pool(&pool, || (1..=100_u64).sum::<u64>())));
/// assert_eq!(sum, Ok(5050));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`PoolError::Full`] if the pool has as many jobs as it takes, otherwise why the job has no result.
pub async fn on_pool<T, F>(pool: &Pool, job: F) -> Result<T, PoolError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let task = pool.try_spawn(terms(), job).map_err(|_full| PoolError::Full)?;
    task.await.map_err(PoolError::Job)
}

/// On what terms a job is run for the request that this task serves: by its deadline, or none. To be given a
/// [name](Terms::named), or an [estimate](Terms::taking) for orders by laxity, and to [`Pool::try_spawn`].
#[must_use]
pub fn terms() -> Terms {
    Terms::from(Context::current().and_then(|context| context.remaining()))
}

/// Why [`on_pool`] has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The pool has as many unfinished jobs as it takes.
    Full,
    /// The job has none.
    Job(JobError),
}

impl PoolError {
    /// gRPC's code for it: `RESOURCE_EXHAUSTED`, `DEADLINE_EXCEEDED`, `UNAVAILABLE` or `INTERNAL`. With tonic:
    /// `Status::new(error.grpc_code().into(), error.to_string())`.
    #[must_use]
    pub const fn grpc_code(&self) -> i32 {
        match self {
            Self::Full => 8,
            Self::Job(JobError::Expired { .. }) => 4,
            Self::Job(JobError::Closed) => 14,
            Self::Job(JobError::Panicked { .. }) => 13,
        }
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the pool is full: try again later, or give it more capacity"),
            Self::Job(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PoolError {}
