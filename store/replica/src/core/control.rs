//! What the controller of batches and windows is told, and what it says.
//!
//! It runs in the leader, and begins anew with each leadership: another leader has other paths.

use super::{Core, Role, Setting, Sizing};
use crate::{Index, Message, MessageKind, NodeId};
use greenwave_policy::Time;
use greenwave_policy::replication::{Aim, Controller, PeerId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The controller, and what is counted for it. Without an aim there is none, and nothing is counted.
#[derive(Debug, Default)]
pub(super) struct Control {
    controller: Option<Controller>,
    /// Signs of life that haven't been answered: when they went.
    calls: BTreeMap<NodeId, Time>,
    /// Since the last report of work.
    messages: u64,
    bytes: u64,
    commands: u64,
    /// Commands answered since this began, with an aim or without.
    answered: u64,
}

impl Control {
    /// A leadership begins, or ends; or what it is for has changed.
    fn begin(&mut self, aim: Option<Aim>, others: impl Iterator<Item = NodeId>) {
        *self = Self { controller: aim.map(Controller::new), ..Self::default() };
        self.set_peers(others);
    }

    fn set_peers(&mut self, others: impl Iterator<Item = NodeId>) {
        if let Some(controller) = &mut self.controller {
            others.for_each(|node| controller.add_peer(peer(node)));
        }
    }

    pub(super) const fn controller(&self) -> Option<&Controller> {
        self.controller.as_ref()
    }

    pub(super) const fn answered(&self) -> u64 {
        self.answered
    }

    pub(super) fn setting(&self, node: NodeId) -> Option<Setting> {
        self.controller.as_ref().map(|controller| controller.setting(peer(node)))
    }

    pub(super) fn quorum_setting(&self) -> Option<Setting> {
        self.controller.as_ref().map(Controller::quorum_setting)
    }

    pub(super) fn next_tick(&self) -> Time {
        self.controller.as_ref().map_or(Time::MAX, Controller::next_tick)
    }

    pub(super) fn submitted(&mut self, now: Time) {
        if let Some(controller) = &mut self.controller {
            // Most of what a command costs this thread is taking it in.
            self.commands += 1;
            controller.submitted(now, 1);
        }
    }

    pub(super) fn dropped(&mut self, now: Time, commands: usize) {
        if let Some(controller) = self.controller.as_mut().filter(|_| commands > 0) {
            controller.dropped(now, commands as u64);
        }
    }

    pub(super) fn pulled(&mut self, commands: usize, bytes: usize, full: bool) {
        if let Some(controller) = &mut self.controller {
            controller.pulled(commands as u64, bytes as u64, full);
        }
    }

    pub(super) fn sent(&mut self, now: Time, to: NodeId, message: &Message) {
        let Some(controller) = &mut self.controller else { return };
        match message.kind {
            MessageKind::Append => {
                if let Some(last) = message.entries.last() {
                    let bytes = message.encoded_len() as u64;
                    self.messages += 1;
                    self.bytes += bytes;
                    controller.sent(peer(to), now, last.index.0, bytes);
                }
            }
            MessageKind::Heartbeat => {
                self.calls.entry(to).or_insert(now);
            }
            MessageKind::Snapshot => controller.reset(peer(to), now),
            _ => {}
        }
    }

    pub(super) fn received(&mut self, now: Time, from: NodeId, message: &Message) {
        let Some(controller) = &mut self.controller else { return };
        match message.kind {
            MessageKind::AppendResponse if message.reject => controller.reset(peer(from), now),
            MessageKind::AppendResponse => {
                self.messages += 1;
                self.bytes += message.encoded_len() as u64;
                controller.acked(peer(from), now, message.index.0);
            }
            MessageKind::HeartbeatResponse => {
                if let Some(sent) = self.calls.remove(&from) {
                    controller.echoed(peer(from), now, now.since(sent));
                }
            }
            _ => {}
        }
    }

    pub(super) fn lost(&mut self, now: Time, node: NodeId) {
        if let Some(controller) = &mut self.controller {
            controller.reset(peer(node), now);
        }
    }

    pub(super) fn synced(&mut self, bytes: u64, took: Duration) {
        if let Some(controller) = &mut self.controller {
            controller.synced(bytes, took);
        }
    }

    pub(super) fn committed(&mut self, now: Time, commands: usize, answer_bytes: usize, longest: Duration) {
        self.answered += commands as u64;
        if let Some(controller) = &mut self.controller {
            controller.committed(now, commands as u64, answer_bytes as u64, longest);
        }
    }

    pub(super) fn worked(&mut self, took: Duration) {
        if let Some(controller) = &mut self.controller {
            controller.worked(took, self.messages, self.bytes, self.commands);
            (self.messages, self.bytes, self.commands) = (0, 0, 0);
        }
    }

    /// Whether a setting may have changed.
    fn tick(&mut self, now: Time) -> bool {
        self.controller.as_mut().is_some_and(|controller| controller.tick(now))
    }
}

impl Core {
    /// Sizes batches and windows in another way from now on: by an aim, or fixed.
    pub fn resize(&mut self, sizing: Sizing) {
        self.config.sizing = sizing;
        self.settings.clear();
        self.begin_control();
        self.apply_sizing();
        self.dirty = true;
    }

    /// The controller, if this replica leads and has an aim: what it thinks of the group's environment, and what it
    /// expects.
    #[must_use]
    pub const fn controller(&self) -> Option<&Controller> {
        self.control.controller()
    }

    /// The lead has come or gone.
    pub(super) fn begin_control(&mut self) {
        let aim = match self.config.sizing {
            Sizing::Auto(aim) if self.status.role == Role::Leader => Some(aim),
            _ => None,
        };
        let me = self.config.node;
        let membership = std::sync::Arc::clone(&self.membership);
        self.control.begin(aim, membership.voters().filter(|node| *node != me));
    }

    /// Nodes have come or gone.
    pub(super) fn control_members(&mut self, before: &crate::Membership) {
        let me = self.config.node;
        let now = std::sync::Arc::clone(&self.membership);
        if let Some(controller) = &mut self.control.controller {
            before.voters().filter(|node| !now.is_voter(*node)).for_each(|node| controller.remove_peer(peer(node)));
        }
        self.control.set_peers(now.voters().filter(|node| *node != me));
    }

    pub(super) fn tick_control(&mut self) {
        if self.control.tick(self.now) {
            self.apply_sizing();
        }
    }

    /// Instances that were answered by this replica.
    pub(super) fn note_committed(&mut self, index: Index, answers: Vec<crate::Answer>) {
        let bytes = answers.iter().map(|answer| if let crate::Answer::Done(bytes) = answer { bytes.len() } else { 0 });
        let bytes = bytes.sum();
        let Some(instance) = self.instances.applied(index, self.now) else { return };
        self.control.committed(self.now, instance.tickets.len(), bytes, self.now.since(instance.submitted));
        for (ticket, answer) in instance.tickets.into_iter().zip(answers) {
            self.answer(ticket, super::Outcome::Applied(answer));
        }
    }
}

const fn peer(node: NodeId) -> PeerId {
    PeerId(node.number())
}
