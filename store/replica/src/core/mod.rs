//! A replica without I/O: what it decides, from what it is told.
//!
//! [`Core::handle`] takes what has happened, [`Core::poll`] gives what is to be done. Several inputs may be handled
//! before the outputs are taken: they make one *turn*, and the commands among them one batch. A turn costs about the
//! same for one command as for many, so who drives a core gives it all that has come, and then polls until there is
//! nothing more.
//!
//! The engine is raft-rs, in its asynchronous way: an entry is sent when it is proposed, and written at the same time.
//! An entry is one instance of consensus with a batch of commands (see [`batch`](crate::batch)).
//!
//! A snapshot is taken when the log has grown, or when a peer needs what the log has forgotten:
//! [`Output::TakeSnapshot`], [`Input::SnapshotReady`], and then [`Output::Compact`] and perhaps
//! [`Output::SendSnapshot`], which the transport brings over before the message that goes with it. There it becomes an
//! [`Input::Message`], the log begins anew ([`Write::snapshot`]), and [`Output::Restore`] replaces the state.

mod change;
mod config;
mod control;
mod convert;
mod guard;
mod inspect;
mod instances;
mod io;
mod pace;
mod queue;
mod reads;
mod role;
mod sizing;
mod start;
mod store;
mod submit;
mod turn;

#[cfg(test)]
mod tests;

pub use self::config::{BATCH_BYTES_MOST, ConfigError, CoreConfig, Limits, Reads, Sizing};
pub use self::inspect::{Inspection, Other, Sent};
pub use self::io::{Apply, Input, Outcome, Output, Refusal, Role, Status, StopCause, Write};
pub use self::start::{BOOTSTRAP, Recovered, StartError};
pub use greenwave_policy::replication::{Aim, Setting};

use self::change::PendingChange;
use self::control::Control;
use self::instances::Instances;
use self::queue::Queue;
use self::reads::ReadQueue;
use self::role::{Elections, PendingTransfer};
use self::store::Store;
use self::turn::Unwritten;
use crate::applier::Applied;
use crate::{HardState, Index, Membership, Message, MessageKind, NodeId, SnapshotMeta, Term, Ticket};
use greenwave_policy::Time;
use raft::{RawNode, SnapshotStatus};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A replica without I/O.
///
/// 1. Each ticket is answered once: by an answer, a read or a refusal.
/// 2. Nothing leaves for others before the writes that it rests on are durable: what waits for a write stands in
///    `writes`, in the order of numbers. A leader's entries rest on nothing, as it counts itself only once they are.
/// 3. `applied` is at most what was handed out, and that at most what is committed and durable.
/// 4. Commands wait in `queue`, and have instances in `instances`, only while this replica leads; but instances that
///    are committed stay until they are answered.
/// 5. After [`Output::Stop`] there is no output but refusals.
pub struct Core {
    config: CoreConfig,
    node: RawNode<Store>,
    now: Time,
    /// When a leader was last heard; at first, when this replica started.
    heard: Time,
    next_tick: Time,
    elections: Elections,
    status: Status,
    membership: Arc<Membership>,
    settings: BTreeMap<NodeId, Setting>,
    control: Control,
    queue: Queue,
    /// Of all peers' batches, the least: with fewer bytes in the queue none is full.
    least_batch: usize,
    instances: Instances,
    reads: ReadQueue,
    /// Reads need no round until then.
    lease: Time,
    /// No lease in this term any more: it was tried to hand over the lead.
    lease_off: bool,
    writes: VecDeque<Unwritten>,
    unwritten_bytes: usize,
    written: HardState,
    applied: Index,
    /// What was handed out and isn't applied: up to which index, and how many bytes.
    unapplied: VecDeque<(Index, usize)>,
    unapplied_bytes: usize,
    change: Option<PendingChange>,
    transfer: Option<PendingTransfer>,
    snapshot: SnapshotState,
    /// The snapshot that came last, as the engine doesn't know addresses.
    incoming: Option<SnapshotMeta>,
    outputs: VecDeque<Output>,
    /// Something was handled since the last turn.
    dirty: bool,
    stopped: bool,
}

/// Where taking snapshots stands.
#[derive(Debug, Default)]
struct SnapshotState {
    /// One has been asked for.
    taking: bool,
    /// Bytes of entries written since the last one.
    fresh: usize,
    /// None is asked for before, as the last one failed.
    not_before: Time,
}

/// Figures of a core, for those who watch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Who leads.
    pub status: Status,
    /// The last entry of the log.
    pub last: Index,
    /// The last entry known to be committed.
    pub committed: Index,
    /// The last entry that was applied.
    pub applied: Index,
    /// Commands that wait, and their bytes.
    pub queued: (usize, usize),
    /// Bytes of the log in memory.
    pub log_bytes: usize,
    /// Instances on their way.
    pub instances: usize,
}

impl Core {
    /// Something has happened, at `now`. What it leads to comes out of [`poll`](Self::poll).
    ///
    /// `now` is of one clock and never goes back; if it does, it is taken to stand still.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        if self.stopped {
            return self.refuse_input(&input);
        }
        self.dirty = true;
        match input {
            Input::Message { from, message } => self.receive(from, message),
            Input::Submit { ticket, session, command, deadline } => self.submit(ticket, session, command, deadline),
            Input::Read { ticket, deadline } => self.read(ticket, deadline),
            Input::Change { ticket, changes } => self.propose_change(ticket, &changes),
            Input::Transfer { ticket, to } => self.hand_over(ticket, to),
            Input::Persisted { number } => self.persisted(number),
            Input::PersistFailed => self.stop(StopCause::Disk),
            Input::Applied(applied) => self.note_applied(applied),
            Input::Restored(index) => self.restored(index),
            Input::MachineFailed => self.stop(StopCause::Machine),
            Input::SnapshotReady(meta) => self.snapshot_ready(meta),
            Input::SnapshotFailed => self.snapshot_failed(),
            Input::SnapshotSent { peer, ok } => {
                let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
                self.node.report_snapshot(peer.number(), status);
            }
            Input::Unreachable { peer } => {
                self.control.lost(self.now, peer);
                self.node.report_unreachable(peer.number());
            }
            Input::Synced { bytes, took } => self.control.synced(bytes, took),
            Input::Worked(took) => self.control.worked(took),
            Input::Stop => self.stop(StopCause::Asked),
            Input::Timer => self.timer(),
        }
    }

    /// The next thing to be done. None: nothing until there is more input.
    pub fn poll(&mut self) -> Option<Output> {
        if self.outputs.is_empty() && self.dirty && !self.stopped {
            self.dirty = false;
            self.turn();
        }
        self.outputs.pop_front()
    }

    /// When to say [`Input::Timer`], unless something else is said before.
    #[must_use]
    pub fn next_timer(&self) -> Time {
        if self.stopped {
            return Time::MAX;
        }
        self.next_tick.min(self.queue.earliest()).min(self.reads.earliest()).min(self.control.next_tick())
    }

    /// Who leads, as far as this replica knows.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Who belongs to the group.
    #[must_use]
    pub const fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// To whom the lead is best handed over: the other voter that has most of the log. None: there is none, or this
    /// one doesn't lead.
    #[must_use]
    pub fn heir(&self) -> Option<NodeId> {
        let others = self.membership.voters().filter(|node| *node != self.config.node);
        let matched = |node: NodeId| Some((self.node.raft.prs().get(node.number())?.matched, node));
        let leads = self.status.role == Role::Leader;
        others.filter_map(matched).max().filter(|_| leads).map(|(_, node)| node)
    }

    /// Figures for those who watch.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let log = &self.node.raft.raft_log;
        Figures {
            status: self.status,
            last: Index(log.last_index()),
            committed: Index(log.committed),
            applied: self.applied,
            queued: (self.queue.len(), self.queue.bytes()),
            log_bytes: log.store.bytes(),
            instances: self.instances.beyond(Index::ZERO),
        }
    }

    fn receive(&mut self, from: NodeId, message: Message) {
        let me = self.config.node;
        // Who has heard a leader has given its word not to elect another for an election's time. The engine takes it
        // back when it hears of a newer term, whoever says so; and one that has just started has forgotten to whom it
        // gave it.
        let vote = matches!(message.kind, MessageKind::Vote | MessageKind::PreVote) && !message.forced;
        let bound = matches!(self.config.reads, Reads::Lease { .. })
            && self.now.since(self.heard) < self.config.tick * self.config.election_ticks;
        // What isn't taken in is sent again, more slowly.
        let swamped = !message.entries.is_empty() && self.is_swamped();
        if from == me || vote && bound || swamped || !self.is_plausible(&message) {
            return;
        }
        // An address is learned with the snapshot that brings the membership.
        if let Some(meta) = &message.snapshot {
            self.incoming = Some(meta.clone());
        }
        self.control.received(self.now, from, &message);
        let alive = message.kind == MessageKind::HeartbeatResponse && message.term.0 == self.node.raft.term;
        let leads = matches!(message.kind, MessageKind::Append | MessageKind::Heartbeat | MessageKind::Snapshot);
        let term = message.term.0;
        if let Some(message) = convert::message_to_engine(from, me, message) {
            // What it refuses is from nobody it knows.
            let _ = self.node.step(message);
        }
        if alive {
            self.heard_from(from);
        }
        if leads && term == self.node.raft.term {
            self.heard = self.now;
        }
    }

    /// Whether what waits for the disk or the machine is more than may wait.
    fn is_swamped(&self) -> bool {
        let limits = &self.config.limits;
        self.unwritten_bytes > limits.backlog_bytes
            || self.unapplied_bytes > limits.backlog_bytes
            || self.node.store().bytes() > limits.log_bytes.saturating_mul(4)
    }

    fn note_applied(&mut self, applied: Applied) {
        self.note_applied_to(applied.up_to);
        for (index, answers) in applied.answers {
            self.note_committed(index, answers);
        }
    }

    fn note_applied_to(&mut self, index: Index) {
        self.applied = self.applied.max(index);
        while let Some((_, bytes)) = self.unapplied.pop_front_if(|(last, _)| *last <= index) {
            self.unapplied_bytes -= bytes;
        }
    }

    /// A snapshot has taken the place of entries up to `index`: what became of those that were this replica's isn't known.
    fn restored(&mut self, index: Index) {
        self.note_applied_to(index);
        let leader = self.status.leader;
        let change = self.change.take_if(|change| change.index <= index).map(|change| change.ticket);
        let tickets: Vec<Ticket> = self.instances.clear_up_to(index).chain(change).collect();
        tickets.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::Uncertain { leader }));
    }

    fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        self.outputs.push_back(Output::Answer { ticket, outcome });
    }

    fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        self.answer(ticket, Outcome::Refused(refusal));
    }

    fn refuse_input(&mut self, input: &Input) {
        if let Input::Submit { ticket, .. }
        | Input::Read { ticket, .. }
        | Input::Change { ticket, .. }
        | Input::Transfer { ticket, .. } = input
        {
            self.refuse(*ticket, Refusal::Stopped);
        }
    }

    fn stop(&mut self, cause: StopCause) {
        self.outputs.retain(|output| matches!(output, Output::Answer { .. } | Output::ReadReady { .. }));
        self.stopped = true;
        self.outputs.push_back(Output::Stop(cause));
        let waiting = self.queue.clear().into_iter().map(|waiting| waiting.ticket);
        let tickets: Vec<Ticket> = waiting
            .chain(self.instances.clear_from(|_| false))
            .chain(self.reads.clear())
            .chain(self.change.take().map(|change| change.ticket))
            .chain(self.transfer.take().map(|transfer| transfer.ticket))
            .collect();
        tickets.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::Stopped));
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("node", &self.config.node)
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

impl From<raft::StateRole> for Role {
    fn from(role: raft::StateRole) -> Self {
        match role {
            raft::StateRole::Leader => Self::Leader,
            raft::StateRole::Follower => Self::Follower,
            raft::StateRole::Candidate | raft::StateRole::PreCandidate => Self::Candidate,
        }
    }
}

impl Status {
    const fn unknown(term: Term) -> Self {
        Self { role: Role::Follower, leader: None, term }
    }
}
