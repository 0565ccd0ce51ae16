//! What clients want: commands and reads.

use super::queue::Waiting;
use super::reads::Read;
use super::{Core, Refusal, Role};
use crate::batch::COMMAND_OVERHEAD;
use crate::{Index, Session, Ticket};
use bytes::Bytes;
use greenwave_policy::{Deadline, Span, Time};

impl Core {
    /// A command: refused at once, or put into the queue.
    pub(super) fn submit(&mut self, ticket: Ticket, session: Session, command: Bytes, deadline: Deadline) {
        if let Some(refusal) = self.objection(&command, deadline) {
            return self.refuse(ticket, refusal);
        }
        self.control.submitted(self.now);
        self.queue.push(Waiting { ticket, session, command, deadline, submitted: self.now });
    }

    /// A read: refused at once, confirmed by a lease, or put into the queue for the next round.
    pub(super) fn read(&mut self, ticket: Ticket, deadline: Deadline) {
        if self.status.role != Role::Leader {
            return self.refuse(ticket, Refusal::NotLeader { leader: self.status.leader });
        }
        if deadline.is_past(self.now) {
            return self.refuse(ticket, Refusal::Expired);
        }
        if self.reads.len() >= self.config.limits.reads {
            return self.refuse(ticket, Refusal::Busy);
        }
        let read = Read { ticket, deadline };
        if self.now < self.lease && self.node.raft.commit_to_current_term() {
            self.reads.push_confirmed(Index(self.node.raft.raft_log.committed), read);
        } else {
            self.reads.push(read);
        }
    }

    /// Begins a round for reads that wait, if one can be begun: not before something of this term is committed, as
    /// what came before may be unknown till then.
    pub(super) fn begin_round(&mut self) {
        if self.status.role == Role::Leader
            && self.node.raft.commit_to_current_term()
            && let Some(number) = self.reads.begin(self.now)
        {
            self.node.read_index(number.to_le_bytes().to_vec());
        }
    }

    /// A majority answered in a round of reads: that is also worth a lease.
    pub(super) fn round_succeeded(&mut self, number: u64, index: Index) {
        let Some(began) = self.reads.succeeded(number, index) else { return };
        if let Some(lease) = self.config.lease().filter(|_| !self.lease_off) {
            self.lease = self.lease.max(began + lease);
        }
    }

    /// What a command needs at the least, if so many bytes go before it.
    pub(super) fn needed(&self, bytes_before: usize) -> Span {
        let setting = self.sizing(self.config.node);
        self.instances.pace().needed(self.now, bytes_before / setting.batch_bytes() as usize, setting.window() as usize)
    }

    fn objection(&self, command: &Bytes, deadline: Deadline) -> Option<Refusal> {
        if self.status.role != Role::Leader {
            return Some(Refusal::NotLeader { leader: self.status.leader });
        }
        let limits = &self.config.limits;
        if command.len() > limits.command_bytes {
            return Some(Refusal::TooLarge { bytes: command.len(), most: limits.command_bytes });
        }
        if deadline.is_past(self.now) {
            return Some(Refusal::Expired);
        }
        let bytes = self.queue.bytes() + command.len() + COMMAND_OVERHEAD;
        // A command that is longer than the queue may be still goes, alone.
        if self.queue.len() >= limits.queue_commands || bytes > limits.queue_bytes && !self.queue.is_empty() {
            return Some(Refusal::Busy);
        }
        let needed = self.needed(self.queue.bytes());
        is_infeasible(deadline, self.now, needed).then(|| Refusal::Infeasible { needed: needed.into() })
    }
}

/// Whether there is less time than that.
pub(super) fn is_infeasible(deadline: Deadline, now: Time, needed: Span) -> bool {
    deadline.expires().is_some_and(|expires| expires.span_since(now) < needed)
}
