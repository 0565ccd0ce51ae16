//! What a replica says of itself when it is asked: for people, and for tools that size or change the group.

use super::{Core, Figures, Role, Setting, Sizing};
use crate::{Index, Membership, NodeId};
use greenwave_policy::replication::{Controller, Environment};
use raft::ProgressState;
use std::sync::Arc;

/// What a replica knows of itself and of its group at one moment.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What its core counts.
    pub figures: Figures,
    /// Who belongs to the group.
    pub membership: Arc<Membership>,
    /// How batches and windows are to be sized when it leads.
    pub sizing: Sizing,
    /// What is in force for the follower whose free window pulls the next batch; in one that doesn't lead, what would
    /// be at first.
    pub setting: Setting,
    /// How far the others are, as the leader knows. Empty in one that doesn't lead.
    pub others: Vec<Other>,
    /// What the controller thinks the group runs on. `None` in one that doesn't lead, with sizes that are fixed, and
    /// before enough was seen.
    pub environment: Option<Environment>,
    /// Commands that wait or are on their way.
    pub in_system: usize,
    /// Commands answered since it leads, or since [`Core::resize`]; from two of these follows a rate.
    pub answered: u64,
}

/// How far another replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Which one.
    pub node: NodeId,
    /// Up to which entry it has said to have the log on disk.
    pub matched: Index,
    /// What it is sent at present.
    pub sent: Sent,
    /// The setting in force for it.
    pub setting: Setting,
}

/// What another replica is sent at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is asked how far it is; one that doesn't answer stays here.
    Question,
    /// Entries, as they come.
    Entries,
    /// A snapshot.
    Snapshot,
}

impl Core {
    /// What this replica knows of itself and of its group. Costs a little for each command that is open.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let leads = self.status.role == Role::Leader;
        let me = self.config.node;
        let others = self.membership.nodes().filter(|node| leads && *node != me);
        let controller = self.controller();
        let setting = controller.map_or_else(|| self.sizing(me), Controller::quorum_setting);
        Inspection {
            figures: self.figures(),
            membership: Arc::clone(&self.membership),
            sizing: self.config.sizing,
            setting,
            others: others.filter_map(|node| self.other(node)).collect(),
            environment: controller.and_then(|controller| controller.environment().copied()),
            in_system: self.queue.len() + self.instances.commands(),
            answered: self.control.answered(),
        }
    }

    fn other(&self, node: NodeId) -> Option<Other> {
        let progress = self.node.raft.prs().get(node.number())?;
        let sent = match progress.state {
            ProgressState::Probe => Sent::Question,
            ProgressState::Replicate => Sent::Entries,
            ProgressState::Snapshot => Sent::Snapshot,
        };
        Some(Other { node, matched: Index(progress.matched), sent, setting: self.sizing(node) })
    }
}
