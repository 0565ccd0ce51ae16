//! What a message may say, given the state it comes to.
//!
//! The engine panics at what no correct replica would say. A replica whose disk was wiped isn't correct, nor is one of
//! another group at a wrong address; what they say is dropped here.

use super::Core;
use crate::{Index, Message, MessageKind};
use raft::StateRole;

impl Core {
    /// Whether the engine can be given a message.
    pub(super) fn is_plausible(&self, message: &Message) -> bool {
        let raft = &self.node.raft;
        let last = Index(raft.raft_log.last_index());
        if message.term.0 < raft.term {
            return true;
        }
        match message.kind {
            // One leader a term: another one in ours isn't one.
            MessageKind::Append | MessageKind::Heartbeat | MessageKind::Snapshot
                if raft.state == StateRole::Leader && message.term.0 == raft.term =>
            {
                false
            }
            // A leader tells nobody that more is committed than that one has said to have.
            MessageKind::Heartbeat => message.commit <= last,
            // What we were told to append is what we say to have.
            MessageKind::AppendResponse => message.index <= last && message.reject_hint <= last,
            // What is committed stays.
            MessageKind::Snapshot => message.snapshot.as_ref().is_some_and(|meta| {
                meta.index.0 != raft.raft_log.committed || raft.raft_log.match_term(meta.index.0, meta.term.0)
            }),
            // Votes are asked for when all is durable, and who is to lead has everything.
            MessageKind::VoteResponse | MessageKind::TimeoutNow => raft.raft_log.persisted == last.0,
            _ => true,
        }
    }
}
