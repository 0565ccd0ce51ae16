//! What can be done to a simulated group.

use super::group::{Group, Told};
use crate::clock::Clock;
use crate::disk::Disk;
use crate::event::Event;
use greenwave_policy::Time;
use greenwave_replica::StateMachine;
use std::time::Duration;

impl<M: StateMachine + Default, D: Event> Group<M, D> {
    /// Ends a replica's process at once, as by `kill -9` and a power cut together: of what its disk hasn't synced some
    /// may stay.
    pub fn kill(&mut self, node: usize) {
        if self.nodes[node].running.is_some() {
            self.nodes[node].stop();
            self.nodes[node].store.crash(&mut self.chance);
            self.watch.stopped(node);
        }
    }

    /// Starts a replica's process again on what is on its disk; nothing if it runs. That it can't is a violation.
    pub fn restart(&mut self, node: usize) {
        if self.nodes[node].running.is_none()
            && self.chance.chance(0.2)
            && let Err(cause) = self.nodes[node].store.rot(&mut self.chance)
        {
            self.watch.unable(node, cause);
        }
        if let Err(error) = self.start(node) {
            self.watch.unable(node, error.to_string());
        }
    }

    /// Changes a replica's clock.
    pub fn jump(&mut self, node: usize, jump: impl FnOnce(&mut Clock)) {
        jump(&mut self.nodes[node].clock);
        // Its timer was set by the old clock.
        if let Some((timer, _)) = self.nodes[node].timer.take() {
            self.simulation.cancel(timer);
        }
        self.set_timer(node);
    }

    /// Lets a replica's clock go so many thousandths of a second in a second from now on.
    pub fn go(&mut self, node: usize, per_mille: u32) {
        let now = self.now();
        self.jump(node, |clock| clock.go(now, per_mille));
    }

    /// What a replica's clock shows.
    #[must_use]
    pub fn shows(&self, node: usize) -> Time {
        self.nodes[node].clock.shows(self.now())
    }

    /// Lets a replica's process stand still.
    pub fn pause(&mut self, node: usize, span: Duration) {
        let until = self.now() + span;
        let paused = &mut self.nodes[node].paused_until;
        *paused = (*paused).max(until);
    }

    /// A replica's disk has room again.
    pub fn make_room(&mut self, node: usize) {
        self.nodes[node].store.mend();
    }

    /// Damages of real logs that were noticed, and torn tails of theirs that were cut off.
    #[must_use]
    pub fn recoveries(&self) -> (u64, u64) {
        let seen = self.nodes.iter().map(|node| node.store.seen());
        seen.fold((0, 0), |(damages, torn), more| (damages + more.0, torn + more.1))
    }

    /// A replica's disk.
    pub fn disk(&mut self, node: usize) -> &mut Disk {
        &mut self.nodes[node].disk
    }

    /// Lets a replica take a snapshot though its core didn't ask for one.
    pub(super) fn take_snapshot_now(&mut self, node: usize) {
        self.take_snapshot(node);
        self.pump(node);
    }

    /// The same as [`Group::kill`] on a disk that lies: even what it has synced is partly gone.
    pub(super) fn kill_with(&mut self, node: usize, forgetful: bool) {
        self.kill(node);
        if forgetful {
            self.nodes[node].store.forget();
        }
    }

    /// From now on cores are told at once that their writes are durable: a defect, for tests of tests.
    pub(super) fn set_early_persisted(&mut self, early: bool) {
        self.early_persisted = early;
    }

    /// As if a replica had said so.
    pub(super) fn tell(&mut self, told: Told) {
        self.told.push_back(told);
    }
}
