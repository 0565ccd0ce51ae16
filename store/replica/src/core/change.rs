//! Changes of the membership.

use super::convert::{changes_to_engine, membership_from_engine};
use super::{Core, Outcome, Output, Refusal, Role};
use crate::{Change, Entry, Index, Ticket};
use std::sync::Arc;

/// A change that is on its way.
#[derive(Debug)]
pub(super) struct PendingChange {
    pub(super) ticket: Ticket,
    pub(super) index: Index,
}

impl Core {
    /// Proposes changes as one entry: one change is made in one step, several in two, between which majorities of
    /// the old and of the new voters are needed (Raft paper, section 6).
    pub(super) fn propose_change(&mut self, ticket: Ticket, changes: &[Change]) {
        if self.status.role != Role::Leader {
            return self.refuse(ticket, Refusal::NotLeader { leader: self.status.leader });
        }
        let pending = self.node.raft.has_pending_conf() || self.membership.is_joint() || self.change.is_some();
        if pending || self.node.raft.lead_transferee.is_some() {
            return self.refuse(ticket, Refusal::ChangePending);
        }
        if let Err(error) = self.membership.check_changes(changes) {
            return self.refuse(ticket, Refusal::Change(error));
        }
        let me = self.config.node;
        if changes.iter().any(|change| change.node() == me && !matches!(change, Change::AddVoter(_))) {
            return self.refuse(ticket, Refusal::RemovesLeader);
        }
        let mut context = Vec::new();
        Change::write_all(changes, &mut context);
        match self.node.propose_conf_change(context, changes_to_engine(changes)) {
            Ok(()) => {
                let index = Index(self.node.raft.raft_log.last_index());
                self.change = Some(PendingChange { ticket, index });
            }
            Err(_) => self.refuse(ticket, Refusal::ChangePending),
        }
    }

    /// A change is committed. One that makes no sense changes nothing, on every replica.
    pub(super) fn apply_change(&mut self, entry: &Entry) {
        let Ok(changes) = Change::read_all(entry.data.clone()) else { return };
        let Ok(state) = self.node.apply_conf_change(&changes_to_engine(&changes)) else { return };
        let mut known = (*self.membership).clone();
        for change in changes {
            if let Change::AddVoter(peer) | Change::AddLearner(peer) = change {
                known.enrol(peer, entry.index);
            }
        }
        self.set_membership(membership_from_engine(&state, &known));
        let me = self.config.node;
        let raft = &mut self.node.raft;
        if raft.state == raft::StateRole::Leader && !self.membership.is_voter(me) && !self.membership.is_joint() {
            // It was proposed by another leader, who didn't know that this one would be.
            let term = raft.term;
            raft.become_follower(term, 0);
        }
        if !self.membership.is_joint()
            && let Some(change) = self.change.take_if(|change| change.index <= entry.index)
        {
            self.answer(change.ticket, Outcome::Changed);
        }
    }

    pub(super) fn set_membership(&mut self, membership: crate::Membership) {
        let before = std::mem::replace(&mut self.membership, Arc::new(membership));
        self.control_members(&before);
        self.outputs.push_back(Output::Members(Arc::clone(&self.membership)));
        self.apply_sizing();
    }
}
