//! A replica for real: threads, a disk, and the other replicas over greenwave-rpc.
//!
//! # Threads
//! | thread | owns | takes | gives |
//! |---|---|---|---|
//! | `replica`, twice | the [`Core`](crate::core::Core) and the ways to the others (one of the two at a time), the [`Log`](crate::log::Log) (one at a time) | what clients and the others say, what all threads have done | messages, answers, what is durable, and work for the threads below |
//! | `replica-apply` | the [`StateMachine`], unless there is so little to apply that it is done by who drives | committed entries | answers |
//! | `replica-snap` | the snapshot that is being written | views of the state, pieces from the leader | which of them is durable |
//! | `replica-send` | a snapshot that is being sent, one at a time to each peer | | how it went |
//! | `replica-greet` | | a replica that is to be added, one at a time | who it is |
//! | `replica-names`, if members have names | the names of their hosts | which can't be reached | their addresses |
//!
//! and one of greenwave-rpc's that polls the connections to the others. Each has one inbox (`inbox.rs`), and takes all that
//! there is at once: the busier it is, the less each thing costs.
//!
//! Handlers wait for their commands suspended ([`greenwave_rpc::promise()`]), ordinary threads blocked. The deadline of
//! a handler's context is the command's.

mod access;
mod applying;
mod driver;
mod entrance;
mod failure;
pub mod frame;
mod greeter;
mod inbox;
mod links;
mod names;
mod snapshots;
mod start;
#[doc(hidden)]
pub mod stored;
mod writing;

#[cfg(test)]
mod tests;

pub use self::access::{GroupKey, NoKey, PeerAccess};
pub use self::failure::FailureMark;
pub use self::greeter::JoiningError;
pub use self::links::Reach;
pub use self::names::Lookup;
pub use self::start::{ReplicaConfig, ReplicaStartError};

use self::greeter::Greeter;
use self::inbox::{Inbox, now};
use crate::applier::Applied;
use crate::core::{Figures, Inspection, Outcome, Refusal, Role, Sizing, Status as Standing, StopCause};
use crate::founding::{Greeting, Obstacle};
use crate::{Answer, Change, GroupId, Index, Membership, Message, NodeId, Session, SnapshotMeta, StateMachine};
use bytes::Bytes;
use greenwave_policy::{Deadline, Time};
use greenwave_rpc::{Code, Context, Promise, Router, Status, promise};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A replica that was started: what to ask it by, and what the others ask it by.
pub struct Replica {
    /// What to ask it by.
    pub handle: ReplicaHandle,
    /// The methods that the other replicas call, for a server that listens at this replica's address, best one that clients
    /// don't reach. Who is taken for a replica there says [`ReplicaConfig::access`].
    pub router: Router,
}

/// What a replica is asked by. Cheap to clone.
#[derive(Clone)]
pub struct ReplicaHandle(Arc<Shared>);

struct Shared {
    events: Inbox<Event>,
    report: Arc<Mutex<Report>>,
    greeter: Greeter,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// How a replica stands.
#[derive(Clone, Debug)]
pub struct Report {
    /// What its core counts.
    pub figures: Figures,
    /// Who belongs to the group.
    pub membership: Arc<Membership>,
    /// Why it has stopped, if it has.
    pub stopped: Option<StopCause>,
    /// What keeps it from belonging to its group, if it doesn't and that is known.
    pub obstacle: Option<Obstacle>,
    /// How much of what other replicas said wasn't taken, as it wasn't theirs to say.
    pub refused: u64,
}

/// A request to a replica that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The replica says no, and why.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A replica that is to be added isn't the one that is meant, or isn't there. Nothing was done.
    #[error(transparent)]
    Joining(#[from] JoiningError),
    /// The session isn't open, or not any more: open another one. An earlier attempt of the command may have been applied.
    #[error("the session isn't open any more; open a new one, and mind that the command may have been applied")]
    NoSession,
    /// The command was applied, or given up, so long ago that the answer is forgotten.
    #[error("the command's answer is forgotten, as later ones of its session have been answered since")]
    Forgotten,
    /// The wait for the answer ended: the deadline, or a cancellation. The command may be applied all the same.
    #[error("the wait for the replica ended: {0}")]
    Waiting(Status),
}

/// What the replica's thread is told.
enum Event {
    Messages { from: NodeId, group: GroupId, messages: Vec<Message> },
    Greeted(Greeting),
    Submit { session: Session, command: Bytes, deadline: Deadline, promise: Promise<Done> },
    Read { deadline: Deadline, promise: Promise<Done> },
    Change { changes: Vec<Change>, promise: Promise<Done> },
    Transfer { to: NodeId, promise: Promise<Done> },
    Written { number: u64, bytes: u64, took: Duration },
    WriteFailed,
    Applied(Applied),
    Restored(Index),
    MachineFailed,
    SnapshotReady(SnapshotMeta),
    SnapshotFailed,
    SnapshotSent { peer: NodeId, ok: bool },
    Resize(Sizing),
    Inspect { promise: Promise<Box<Inspection>> },
    Stop { until: Time },
}

/// What a promise to who asks brings.
enum Done {
    Outcome(Outcome),
    Read(Index),
}

impl Replica {
    /// Starts a replica: reads what is on disk, and joins the others.
    ///
    /// # Errors
    /// A setting that can't be, a log or a snapshot that can't be read, no thread.
    pub fn start(config: ReplicaConfig, machine: impl StateMachine + 'static) -> Result<Self, ReplicaStartError> {
        start::start(config, machine)
    }
}

impl ReplicaHandle {
    /// Has a command applied, and waits for its answer until the context's deadline.
    ///
    /// With a [session](Session), a command that failed as [uncertain](Refusal::Uncertain) or with
    /// [`ReplicaError::Waiting`] can be sent again, here or to another replica, and is applied once.
    ///
    /// # Errors
    /// Why there is no answer; most say that nothing was done.
    pub fn submit(&self, context: &Context, session: Session, command: Bytes) -> Result<Bytes, ReplicaError> {
        let deadline = context.deadline();
        let bytes = command.len();
        match self.ask_with(context, bytes, |promise| Event::Submit { session, command, deadline, promise })? {
            Done::Outcome(Outcome::Applied(Answer::Done(answer))) => Ok(answer),
            Done::Outcome(Outcome::Applied(Answer::Forgotten)) => Err(ReplicaError::Forgotten),
            Done::Outcome(Outcome::Applied(Answer::NoSession)) => Err(ReplicaError::NoSession),
            done => Err(other(done)),
        }
    }

    /// Waits until the machine may be read: then it has all that was acknowledged before this call, by anybody. Returns
    /// up to which entry it has applied, at least. The machine is read by whatever its maker kept of it.
    ///
    /// # Errors
    /// Why it can't be read here and now.
    pub fn read(&self, context: &Context) -> Result<Index, ReplicaError> {
        let deadline = context.deadline();
        match self.ask(context, |promise| Event::Read { deadline, promise })? {
            Done::Read(index) => Ok(index),
            done => Err(other(done)),
        }
    }

    /// Changes who belongs to the group. Several changes are made as one. A replica that is added is asked for its
    /// incarnation, if that isn't said, so it has to be there.
    ///
    /// # Errors
    /// Why not; also [`Refusal::Uncertain`].
    pub fn change(&self, context: &Context, mut changes: Vec<Change>) -> Result<(), ReplicaError> {
        let Report { membership, figures, .. } = self.report();
        if figures.status.role == Role::Leader {
            for change in &mut changes {
                if let Change::AddVoter(peer) | Change::AddLearner(peer) = change
                    && peer.incarnation.is_none()
                    && membership.address(peer.node).is_none()
                {
                    peer.incarnation = Some(self.0.greeter.ask(context, peer).map_err(ReplicaError::Waiting)??);
                }
            }
        }
        match self.ask(context, |promise| Event::Change { changes, promise })? {
            Done::Outcome(Outcome::Changed) => Ok(()),
            done => Err(other(done)),
        }
    }

    /// Hands over the lead.
    ///
    /// # Errors
    /// Why not.
    pub fn transfer(&self, context: &Context, to: NodeId) -> Result<(), ReplicaError> {
        match self.ask(context, |promise| Event::Transfer { to, promise })? {
            Done::Outcome(Outcome::Transferred) => Ok(()),
            done => Err(other(done)),
        }
    }

    /// Sizes batches and windows in another way from now on: by an aim, or fixed. Says nothing to the other replicas,
    /// which may lead later.
    ///
    /// # Errors
    /// The replica has stopped.
    pub fn resize(&self, sizing: Sizing) -> Result<(), ReplicaError> {
        self.0.events.push(Event::Resize(sizing)).map_err(|_| ReplicaError::Refused(Refusal::Stopped))
    }

    /// What it knows of itself and of its group, how the others are and what its controller has measured included. What
    /// was asked for before, [`resize`](Self::resize) too, has been done by then.
    ///
    /// # Errors
    /// The replica has stopped, has too much to do, or doesn't answer in time.
    pub fn inspect(&self, context: &Context) -> Result<Inspection, ReplicaError> {
        let (promise, awaited) = promise();
        self.offer(Event::Inspect { promise }, 0)?;
        awaited.wait(context).map(|inspection| *inspection).map_err(ReplicaError::Waiting)
    }

    /// How it stands.
    #[must_use]
    pub fn report(&self) -> Report {
        self.lock_report().clone()
    }

    /// Who leads, as far as this replica knows.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.lock_report().figures.status
    }

    /// Stops: hands over the lead if it has it, answers what was proposed, refuses the rest, all within `limit`; then
    /// its threads end. What is durable stays.
    pub fn stop(&self, limit: Duration) {
        let _ = self.0.events.push(Event::Stop { until: now() + limit });
        let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the replica had panicked");
            }
        }
    }

    fn ask(&self, context: &Context, event: impl FnOnce(Promise<Done>) -> Event) -> Result<Done, ReplicaError> {
        self.ask_with(context, 0, event)
    }

    /// The same with something that holds so many bytes.
    fn ask_with(
        &self,
        context: &Context,
        bytes: usize,
        event: impl FnOnce(Promise<Done>) -> Event,
    ) -> Result<Done, ReplicaError> {
        let (promise, awaited) = promise();
        self.offer(event(promise), bytes)?;
        awaited.wait(context).map_err(ReplicaError::Waiting)
    }

    fn offer(&self, event: Event, bytes: usize) -> Result<(), ReplicaError> {
        self.0.events.offer(event, bytes).map_err(|_| {
            let refusal = if self.0.events.is_closed() { Refusal::Stopped } else { Refusal::Busy };
            ReplicaError::Refused(refusal)
        })
    }

    fn lock_report(&self) -> MutexGuard<'_, Report> {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ReplicaHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ReplicaHandle").field(&self.report()).finish()
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.handle.fmt(f)
    }
}

impl From<ReplicaError> for Status {
    fn from(error: ReplicaError) -> Self {
        let code = match &error {
            ReplicaError::Refused(refusal) => match refusal {
                Refusal::NotLeader { .. } => Code::Unavailable,
                // Whoever stops may have sent to the others what was asked: that nothing was done can't be said.
                Refusal::Uncertain { .. } | Refusal::Stopped | Refusal::ChangePending => Code::Aborted,
                Refusal::Busy => Code::ResourceExhausted,
                Refusal::Expired | Refusal::Infeasible { .. } => Code::DeadlineExceeded,
                Refusal::TooLarge { .. } | Refusal::Change(_) => Code::InvalidArgument,
                Refusal::RemovesLeader | Refusal::NotTransferred => Code::FailedPrecondition,
            },
            ReplicaError::NoSession | ReplicaError::Joining(_) => Code::FailedPrecondition,
            ReplicaError::Forgotten => Code::OutOfRange,
            ReplicaError::Waiting(status) => return status.clone(),
        };
        Self::new(code, error.to_string())
    }
}

/// An answer that isn't the one that was asked for.
fn other(done: Done) -> ReplicaError {
    match done {
        Done::Outcome(Outcome::Refused(refusal)) => ReplicaError::Refused(refusal),
        // The core answers each with its own kind.
        _ => ReplicaError::Waiting(Status::new(Code::Internal, "the replica gave an answer to another question")),
    }
}
