//! When a batch is pulled, and how large it may be.

use super::config::BATCH_BYTES_MOST;
use super::{Core, Role, Setting, Sizing};
use crate::batch::COMMAND_OVERHEAD;
use crate::{Index, NodeId};
use raft::{Progress, ProgressState, StateRole};

/// Bytes that the engine counts for an entry beside its data, and some to spare.
const ENTRY_OVERHEAD: u64 = 64;

impl Core {
    /// From now on this peer has this setting, whatever the controller says, until [`resize`](Self::resize).
    pub fn set_sizing(&mut self, peer: NodeId, setting: Setting) {
        self.settings.insert(peer, setting);
        self.apply_sizing();
        self.dirty = true;
    }

    /// The setting in force for a peer. Batches have [`BATCH_BYTES_MOST`] at most all the same.
    #[must_use]
    pub fn sizing(&self, peer: NodeId) -> Setting {
        let general = match self.config.sizing {
            Sizing::Auto(_) => self.control.setting(peer).unwrap_or(Setting::FIRST),
            Sizing::Fixed(setting) => setting,
        };
        self.settings.get(&peer).copied().unwrap_or(general)
    }

    /// How many batches may be on their way to a peer for it to have a slot for another.
    ///
    /// That isn't all it may be sent: one that is farther away than the quorum's has a larger window, so that it keeps
    /// up. If that gave it slots too, batches would go at its pace, and those with smaller windows would be left behind
    /// for good.
    fn slots(&self, peer: NodeId) -> u64 {
        let own = self.settings.get(&peer).copied();
        own.or_else(|| self.control.quorum_setting()).unwrap_or_else(|| self.sizing(peer)).window()
    }

    /// Tells the engine, which forgets when nodes come and go.
    pub(super) fn apply_sizing(&mut self) {
        let (mut largest, mut least) = (0, usize::MAX);
        for node in self.membership.nodes() {
            let setting = self.sizing(node);
            self.node.raft.adjust_max_inflight_msgs(node.number(), setting.window() as usize);
            largest = largest.max(batch_bytes(setting));
            least = least.min(batch_bytes(setting));
        }
        self.least_batch = least;
        self.node.raft.max_msg_size = largest as u64 + ENTRY_OVERHEAD;
    }

    /// How many bytes the next batch may have, if a majority has a slot for it: as many as the slowest of the fastest
    /// peers that make a majority may be sent, for it decides when the batch is committed.
    pub(super) fn slot(&self) -> Option<usize> {
        let me = self.config.node;
        let mut free: Vec<(usize, NodeId)> = self
            .membership
            .voters()
            .chain(self.membership.outgoing.iter().copied())
            .filter(|node| *node != me)
            .filter_map(|node| Some((self.on_their_way(node)?, node)))
            .filter(|(on_their_way, node)| (*on_their_way as u64) < self.slots(*node))
            .collect();
        if !self.membership.has_majority(|node| node == me || free.iter().any(|(_, peer)| *peer == node)) {
            return None;
        }
        free.sort_unstable();
        let decisive = (self.membership.voters.len() / 2).min(free.len());
        let Some((_, peer)) = decisive.checked_sub(1).map(|rank| free[rank]) else {
            // Alone: the own disk is what there is to wait for.
            let setting = self.sizing(me);
            let behind = self.instances.beyond(Index(self.node.raft.raft_log.persisted));
            return ((behind as u64) < setting.window()).then_some(batch_bytes(setting));
        };
        Some(batch_bytes(self.sizing(peer)))
    }

    /// A peer has answered a sign of life. If it has everything, it is sent entries as they come from now on.
    ///
    /// After messages to it were lost, the engine first asks it how far it is, by sending it something. While there is
    /// nothing to send it would stay at that, and commands wait for a slot that never comes.
    pub(super) fn heard_from(&mut self, peer: NodeId) {
        let raft = &mut self.node.raft;
        let (leads, last) = (raft.state == StateRole::Leader, raft.raft_log.last_index());
        let progress = raft.mut_prs().get_mut(peer.number());
        if let Some(progress) = progress.filter(|progress| leads && progress.matched == last)
            && progress.state == ProgressState::Probe
        {
            progress.become_replicate();
        }
    }

    /// How many bytes the next batch may have, if one would be pulled now.
    #[must_use]
    pub fn slot_bytes(&self) -> Option<usize> {
        let pulls = self.status.role == Role::Leader && self.node.raft.lead_transferee.is_none();
        if pulls { self.slot() } else { None }
    }

    /// Whether a command of so many bytes finds the next batch full.
    ///
    /// Who drives a core then takes its outputs before handing that command in, and not only when all that has come is
    /// handled: a full batch doesn't get better by waiting, and the network has something to do meanwhile.
    #[must_use]
    pub fn is_full_for(&self, command: usize) -> bool {
        let bytes = self.queue.bytes() + command + COMMAND_OVERHEAD;
        bytes > self.least_batch && !self.queue.is_empty() && self.slot_bytes().is_some_and(|slot| bytes > slot)
    }

    /// Instances on their way to a peer that takes entries as they come; none for one that has to catch up first.
    ///
    /// Counted here and not by the engine, whose count loses one with each heartbeat that is answered while a window
    /// is full.
    fn on_their_way(&self, peer: NodeId) -> Option<usize> {
        let progress: &Progress = self.node.raft.prs().get(peer.number())?;
        let takes = progress.state == ProgressState::Replicate && !progress.ins.full();
        takes.then(|| self.instances.beyond(Index(progress.matched)))
    }
}

fn batch_bytes(setting: Setting) -> usize {
    setting.batch_bytes().min(BATCH_BYTES_MOST as u64) as usize
}
