//! What the servers of the services have in common: work that watches its budget, and why they don't start.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use greenwave::{ConfigError, Context, StartError, Status, Typed};
use greenwave_kv::KvError;
use greenwave_policy::ServiceTimes;
use thiserror::Error;

use crate::checkpoint::{Checkpoint, Pass};
use crate::recommend::store::StoreError;
use crate::replicated::member::MemberError;
use crate::search::shard::ShardError;

/// Why a service doesn't start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A setting of a channel can't be meant.
    #[error(transparent)]
    Channel(#[from] ConfigError),
    /// The shard can't be opened.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// The stage's store can't be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store of keys and values can't be opened.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// The replica can't be started.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The server can't start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Whether a service does less when its budget is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adapt(pub(crate) bool);

impl Adapt {
    /// Does work that passes checkpoints, keeping `ahead` of the budget back for the stages behind this one.
    ///
    /// # Errors
    /// What a checkpoint said, if it called the work off.
    pub(crate) fn work<T>(
        self,
        context: &Context,
        ahead: Duration,
        work: impl FnOnce(Pass<'_>) -> T,
    ) -> Result<T, Status> {
        let mut refused = None;
        let result = work(&mut || match context.checkpoint() {
            Ok(()) => Checkpoint { left: self.left(context, ahead), stop: false },
            Err(status) => {
                refused = Some(status);
                Checkpoint { left: None, stop: true }
            }
        });
        refused.map_or(Ok(result), Err)
    }

    fn left(self, context: &Context, ahead: Duration) -> Option<Duration> {
        let left = context.budget().remaining().filter(|_| self.0);
        left.map(|left| left.saturating_sub(ahead))
    }
}

/// How long the stages behind this one take, learned from their answers.
pub(crate) struct Ahead(Mutex<ServiceTimes>);

impl Ahead {
    pub(crate) fn unknown() -> Self {
        Self(Mutex::new(ServiceTimes::new()))
    }

    /// Takes note of how long an answer took.
    pub(crate) fn noted<T>(&self, answer: Typed<T>) -> T {
        self.times().observe(answer.total);
        answer.into_inner()
    }

    /// What most answers take; nothing until one was seen.
    pub(crate) fn expected(&self) -> Duration {
        self.times().quantile(0.9).unwrap_or_default()
    }

    fn times(&self) -> MutexGuard<'_, ServiceTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many hits or crates are wanted, when the request leaves it open.
pub(crate) fn limit_or_default(limit: u32) -> usize {
    if limit == 0 { 10 } else { limit as usize }
}
