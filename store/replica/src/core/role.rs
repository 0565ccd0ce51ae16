//! Elections, and what happens when the lead comes, goes or is handed over.

use super::{Core, Outcome, Output, Refusal, Role, Status};
use crate::{Index, NodeId, Term, Ticket};
use greenwave_policy::Time;
use raft::StateRole;

/// When this replica stands for election, by its own dice: the engine's are of the thread, and no run would be like
/// another.
#[derive(Debug)]
pub(super) struct Elections {
    random: u64,
    /// For which term and state the dice were thrown last.
    thrown_for: (u64, StateRole),
    ticks: usize,
}

/// The lead is to be handed over.
#[derive(Debug)]
pub(super) struct PendingTransfer {
    pub(super) ticket: Ticket,
    to: NodeId,
    until: Time,
}

impl Elections {
    pub(super) fn new(seed: u64, election_ticks: u32) -> Self {
        let mut elections = Self { random: seed, thrown_for: (0, StateRole::Follower), ticks: 0 };
        elections.throw(election_ticks);
        elections
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn throw(&mut self, election_ticks: u32) {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        self.ticks = (u64::from(election_ticks) + mixed % u64::from(election_ticks)) as usize;
    }
}

impl Core {
    /// Time has passed: deadlines, the engine's ticks, a handing over that takes too long.
    pub(super) fn timer(&mut self) {
        self.tick_control();
        let expired = self.queue.expire(self.now);
        self.control.dropped(self.now, expired.len());
        for waiting in expired {
            self.refuse(waiting.ticket, Refusal::Expired);
        }
        for ticket in self.reads.expire(self.now) {
            self.refuse(ticket, Refusal::Expired);
        }
        if self.now < self.next_tick {
            return;
        }
        // Ticks that were missed are not made up for: who was asleep hasn't listened either.
        let next = self.next_tick + self.config.tick;
        self.next_tick = if next > self.now { next } else { self.now + self.config.tick };
        self.tick();
        if let Some(transfer) = self.transfer.take_if(|transfer| transfer.until <= self.now) {
            self.refuse(transfer.ticket, Refusal::NotTransferred);
        }
    }

    /// Hands over the lead.
    pub(super) fn hand_over(&mut self, ticket: Ticket, to: NodeId) {
        if self.status.role != Role::Leader {
            return self.refuse(ticket, Refusal::NotLeader { leader: self.status.leader });
        }
        if to == self.config.node {
            return self.answer(ticket, Outcome::Transferred);
        }
        if !self.membership.is_voter(to) || self.transfer.is_some() {
            return self.refuse(ticket, Refusal::NotTransferred);
        }
        // Who is told to stand for election now does so whenever that reaches it.
        (self.lease, self.lease_off) = (Time::ZERO, true);
        let until = self.now + self.config.tick * (2 * self.config.election_ticks);
        self.transfer = Some(PendingTransfer { ticket, to, until });
        self.node.transfer_leader(to.number());
    }

    /// Notes who leads now, and ends what rested on leading.
    pub(super) fn watch_role(&mut self) {
        let raft = &self.node.raft;
        let status = Status { role: raft.state.into(), leader: NodeId::new(raft.leader_id), term: Term(raft.term) };
        let committed = Index(raft.raft_log.committed);
        if status == self.status {
            return;
        }
        let before = std::mem::replace(&mut self.status, status);
        self.outputs.push_back(Output::Role(status));
        let led = before.role == Role::Leader;
        if led && (status.role != Role::Leader || status.term != before.term) {
            self.lost_lead(committed, before.term);
        }
        if status.role == Role::Leader && before != status {
            (self.lease, self.lease_off) = (Time::ZERO, false);
        }
        if (before.role == Role::Leader, before.term) != (status.role == Role::Leader, status.term) {
            self.begin_control();
            self.apply_sizing();
        }
        if let Some(leader) = status.leader.filter(|leader| *leader != self.config.node)
            && let Some(transfer) = self.transfer.take()
        {
            if leader == transfer.to {
                self.answer(transfer.ticket, Outcome::Transferred);
            } else {
                self.refuse(transfer.ticket, Refusal::NotTransferred);
            }
        }
    }

    fn lost_lead(&mut self, committed: Index, led: Term) {
        let leader = self.status.leader;
        self.lease = Time::ZERO;
        // What is committed by now may be the next leader's, in the place of what this one proposed.
        let log = &self.node.raft.raft_log;
        let is_committed = |index: Index, term: Term| index <= committed && log.match_term(index.0, term.0);
        let proposed: Vec<Ticket> = self
            .instances
            .clear_from(|instance| is_committed(instance.index, instance.term))
            .chain(self.change.take_if(|change| !is_committed(change.index, led)).map(|change| change.ticket))
            .collect();
        proposed.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::Uncertain { leader }));
        let queued = self.queue.clear().into_iter().map(|waiting| waiting.ticket);
        let waiting: Vec<Ticket> = queued.chain(self.reads.clear()).collect();
        waiting.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::NotLeader { leader }));
    }

    fn tick(&mut self) {
        let raft = &mut self.node.raft;
        let leads = raft.state == StateRole::Leader;
        if !leads && raft.raft_log.last_index() != raft.raft_log.persisted {
            // The engine has a candidate's entries durable. With a disk that slow it is no loss.
            return;
        }
        let standing = (raft.term, raft.state);
        if self.elections.thrown_for != standing {
            self.elections.thrown_for = standing;
            self.elections.throw(self.config.election_ticks);
        }
        if raft.randomized_election_timeout() != self.elections.ticks {
            raft.set_randomized_election_timeout(self.elections.ticks);
        }
        self.node.tick();
        if !leads && self.node.raft.election_elapsed == 0 {
            self.elections.throw(self.config.election_ticks);
        }
    }
}
