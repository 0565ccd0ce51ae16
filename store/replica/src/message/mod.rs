//! What replicas say to each other.
//!
//! A message has a head of 64 bytes, little-endian: `kind: u8`, `flags: u8` (1 reject, 2 forced), `zero: u16`,
//! `entries: u32` (how many), then as `u64` each `term`, `log_term`, `index`, `commit`, `commit_term`, `reject_hint`
//! and `read`. An [`Append`](MessageKind::Append) goes on with its entries: `term: u64`, `length: u32`, `kind: u8`
//! and the data of each; their indices are the ones after `index`. A [`Snapshot`](MessageKind::Snapshot) goes on with
//! `index: u64`, `term: u64` and a membership. Nothing follows. Each message is written in one way only.
//!
//! What comes from outside is read here and nowhere else, and what a message says is checked against itself here;
//! the core checks it against the replica's state.

mod wire;

#[cfg(test)]
mod tests;

use crate::{Entry, Index, SnapshotMeta, Term};

/// What a message is; see the Raft paper, figure 2, and section 9.6 of the dissertation for pre-votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Entries after `index`, whose term is `log_term`; up to `commit` they are committed.
    Append,
    /// All up to `index` are durable; or, rejected, they don't fit, and `reject_hint` is where they may.
    AppendResponse,
    /// Asks for a vote; the candidate's log ends at `index` with `log_term`. Forced: the leader wants it so.
    Vote,
    /// The vote, or not.
    VoteResponse,
    /// Asks whether a vote would be given.
    PreVote,
    /// Whether it would.
    PreVoteResponse,
    /// A snapshot has been sent beside: go on from there.
    Snapshot,
    /// The leader is there; `read` numbers a round that confirms reads.
    Heartbeat,
    /// It was heard.
    HeartbeatResponse,
    /// Stand for election now.
    TimeoutNow,
}

/// One message, without whom it is from and to: the connection knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: MessageKind,
    /// The sender's term, or the one it would stand in.
    pub term: Term,
    /// The term of the entry at `index`, or at `reject_hint` in a rejection.
    pub log_term: Term,
    /// Where entries attach, or up to where they are durable.
    pub index: Index,
    /// Up to where the sender knows entries to be committed.
    pub commit: Index,
    /// The term of that entry, in votes.
    pub commit_term: Term,
    /// Where entries may fit.
    pub reject_hint: Index,
    /// The round of reads; zero for none.
    pub read: u64,
    /// No.
    pub reject: bool,
    /// Vote although there is a leader: it wants to hand over.
    pub forced: bool,
    /// The entries of an append.
    pub entries: Vec<Entry>,
    /// The snapshot's place.
    pub snapshot: Option<SnapshotMeta>,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// They end early.
    #[error("a message of {found} bytes ends within its {what}")]
    Short {
        /// Bytes there are.
        found: usize,
        /// What is cut off.
        what: &'static str,
    },
    /// They go on after the end.
    #[error("a message is followed by {0} more bytes")]
    Long(usize),
    /// A value that can't be.
    #[error("a message's {what} can't be {found}; do both replicas run the same version?")]
    Value {
        /// Which value.
        what: &'static str,
        /// What it is.
        found: u64,
    },
    /// The snapshot's membership can't be read.
    #[error("a snapshot's membership can't be read")]
    Membership,
}

impl Message {
    /// One of this kind and term that says nothing else.
    #[must_use]
    pub const fn new(kind: MessageKind, term: Term) -> Self {
        Self {
            kind,
            term,
            log_term: Term(0),
            index: Index::ZERO,
            commit: Index::ZERO,
            commit_term: Term(0),
            reject_hint: Index::ZERO,
            read: 0,
            reject: false,
            forced: false,
            entries: Vec::new(),
            snapshot: None,
        }
    }
}

impl MessageKind {
    const ALL: [Self; 10] = [
        Self::Append,
        Self::AppendResponse,
        Self::Vote,
        Self::VoteResponse,
        Self::PreVote,
        Self::PreVoteResponse,
        Self::Snapshot,
        Self::Heartbeat,
        Self::HeartbeatResponse,
        Self::TimeoutNow,
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().position(|kind| *kind == self).map_or(u8::MAX, |code| code as u8)
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}
