//! What goes into a core and what comes out of it.

use crate::applier::Applied;
use crate::{
    Answer, Change, Entry, HardState, Index, Membership, MembershipError, Message, NodeId, Session, SnapshotMeta, Term,
    Ticket,
};
use bytes::Bytes;
use greenwave_policy::Deadline;
use std::sync::Arc;
use std::time::Duration;

/// Something has happened.
#[derive(Debug)]
pub enum Input {
    /// A message came from another replica. That of a snapshot is given when all of the snapshot is at hand and
    /// durable.
    Message {
        /// From whom; the transport knows.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// A client wants a command to be applied. Answered by [`Output::Answer`].
    Submit {
        /// What the answer is known by.
        ticket: Ticket,
        /// The session that it belongs to, or [`Session::NONE`].
        session: Session,
        /// The command.
        command: Bytes,
        /// When the answer is worth nothing any more.
        deadline: Deadline,
    },
    /// A client wants to read what is newest. Answered by [`Output::ReadReady`] or [`Output::Answer`].
    Read {
        /// What the answer is known by.
        ticket: Ticket,
        /// When the answer is worth nothing any more.
        deadline: Deadline,
    },
    /// Change who belongs to the group; several changes are one step for all. Answered by [`Output::Answer`].
    Change {
        /// What the answer is known by.
        ticket: Ticket,
        /// The changes.
        changes: Vec<Change>,
    },
    /// Hand over the lead. Answered by [`Output::Answer`].
    Transfer {
        /// What the answer is known by.
        ticket: Ticket,
        /// To whom.
        to: NodeId,
    },
    /// The write of this number is durable, and so are all before it.
    Persisted {
        /// [`Write::number`].
        number: u64,
    },
    /// A write failed. Nothing can be acknowledged any more.
    PersistFailed,
    /// Entries have been applied.
    Applied(Applied),
    /// The snapshot that came from the leader has taken the state's place: [`Output::Restore`] is done.
    Restored(Index),
    /// The state machine can't go on.
    MachineFailed,
    /// A snapshot is durable, and can be sent.
    SnapshotReady(SnapshotMeta),
    /// No snapshot could be taken; it is asked for again later.
    SnapshotFailed,
    /// A snapshot has been sent, and the peer has all of it, or it hasn't.
    SnapshotSent {
        /// To whom.
        peer: NodeId,
        /// Whether the peer has it.
        ok: bool,
    },
    /// Messages to this peer are being lost.
    Unreachable {
        /// Which peer.
        peer: NodeId,
    },
    /// A sync of so many bytes of entries took so long: for the controller.
    Synced {
        /// Bytes of entries' data.
        bytes: u64,
        /// How long.
        took: Duration,
    },
    /// Whoever drives the core was busy with it for so long since this was last said: for the controller.
    Worked(Duration),
    /// Stop: whatever is open is refused.
    Stop,
    /// The time that [`next_timer`](super::Core::next_timer) named has come. One that comes early does no harm.
    Timer,
}

/// Something to be done, in the order in which they come.
#[derive(Debug)]
pub enum Output {
    /// Send this, in order or not at all; a transport that loses some says [`Input::Unreachable`].
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// Make this durable, in order, and say [`Input::Persisted`]; several can be made durable at once.
    Persist(Write),
    /// Apply these entries, in order, and say [`Input::Applied`].
    Apply(Apply),
    /// What became of a command, a change or a transfer, or why there will be no read.
    Answer {
        /// The one that it was given with.
        ticket: Ticket,
        /// What became of it.
        outcome: Outcome,
    },
    /// The state may be read now: it has all that was acknowledged before the read was asked for.
    ReadReady {
        /// The one that it was given with.
        ticket: Ticket,
        /// Up to here entries have been applied, at least.
        index: Index,
    },
    /// Take a snapshot of the state as it is, make it durable, and say [`Input::SnapshotReady`].
    TakeSnapshot,
    /// Send the snapshot that was last ready, then this message, and say [`Input::SnapshotSent`].
    SendSnapshot {
        /// To whom.
        to: NodeId,
        /// The message that goes with it.
        message: Message,
    },
    /// The snapshot that came with a message, which is durable by now, takes the state's place, before any entry that
    /// is handed out after this. Then say [`Input::Restored`].
    Restore(SnapshotMeta),
    /// The log may forget the entries up to `up_to`, as the snapshot stands for them.
    Compact {
        /// The last one that may go.
        up_to: Index,
        /// The snapshot, which may be newer.
        snapshot: SnapshotMeta,
    },
    /// Who leads, as far as this replica knows.
    Role(Status),
    /// Who belongs to the group now, and where they are reached.
    Members(Arc<Membership>),
    /// This replica is over: stop, and start again from what is durable.
    Stop(StopCause),
}

/// Something to be made durable. What a snapshot replaces goes first, then entries from the first one's index on are
/// replaced by these, then the hard state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Grows from write to write.
    pub number: u64,
    /// The new one, if it has changed.
    pub hard_state: Option<HardState>,
    /// Entries; there may have been others at these indices and after them, which are gone.
    pub entries: Vec<Entry>,
    /// The log begins after this snapshot now; what it had is gone.
    pub snapshot: Option<SnapshotMeta>,
}

/// Entries that are committed and durable.
#[derive(Clone, Debug)]
pub struct Apply {
    /// In the order of indices.
    pub entries: Vec<Entry>,
    /// The membership after the last of them.
    pub membership: Arc<Membership>,
}

/// What became of what a ticket stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A command went through the log.
    Applied(Answer),
    /// The membership is as was asked for.
    Changed,
    /// Another one leads now.
    Transferred,
    /// No.
    Refused(Refusal),
}

/// Why something wasn't done, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another replica leads. Nothing was done; ask there.
    #[error("this replica doesn't lead{}", hint(.leader))]
    NotLeader {
        /// Who does, if anybody is known to.
        leader: Option<NodeId>,
    },
    /// The lead was lost after the command was proposed: it may be applied or not. Send it again, under the same
    /// session and number, and it is applied once.
    #[error("the lead was lost on the way, the command may be applied or not; send it again in its session{}", hint(.leader))]
    Uncertain {
        /// Who leads, if anybody is known to.
        leader: Option<NodeId>,
    },
    /// The queue is full. Nothing was done; come back later.
    #[error("the queue of commands is full; send less, or later")]
    Busy,
    /// The deadline has passed. Nothing was done.
    #[error("the deadline passed before the command was proposed")]
    Expired,
    /// The deadline can't be met. Nothing was done.
    #[error("the deadline can't be met: a commit takes {needed:?} at least")]
    Infeasible {
        /// What a commit takes, at the least.
        needed: Duration,
    },
    /// The command is too long. Nothing was done.
    #[error("the command has {bytes} bytes, at most {most} are allowed")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        most: usize,
    },
    /// Another change of the membership isn't finished.
    #[error("another change of the membership isn't finished; try again later")]
    ChangePending,
    /// The change can't be made.
    #[error(transparent)]
    Change(#[from] MembershipError),
    /// The leader would remove itself.
    #[error("the leader can't remove itself; hand over the lead first")]
    RemovesLeader,
    /// The lead can't be handed over to this one, or it didn't take it in time.
    #[error("the lead wasn't handed over: the other one isn't a voter, or didn't take it in time")]
    NotTransferred,
    /// This replica has stopped. What was proposed may be applied or not.
    #[error("the replica has stopped; ask another one")]
    Stopped,
}

/// What a replica is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It follows, or looks for somebody to follow.
    Follower,
    /// It stands for election.
    Candidate,
    /// It leads.
    Leader,
}

/// Who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What this replica is.
    pub role: Role,
    /// Who leads, if known.
    pub leader: Option<NodeId>,
    /// In which term.
    pub term: Term,
}

/// Why a replica is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopCause {
    /// A write failed, so what is on disk isn't known. Read it again, by starting again.
    #[error("a write to the log failed; see to the disk and start the replica again")]
    Disk,
    /// It was asked to.
    #[error("it was asked to stop")]
    Asked,
    /// The state machine failed.
    #[error("the state machine failed; start the replica again")]
    Machine,
}

fn hint(leader: &Option<NodeId>) -> String {
    leader.map_or_else(String::new, |leader| format!("; replica {leader} does"))
}
