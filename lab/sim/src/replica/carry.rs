//! What cores want done, and how the simulated machine does it.

use super::group::{Group, GroupEvent, Packet, Told, bytes_of, id, place};
use super::node::{Running, Task};
use crate::event::Event;
use crate::link::Bandwidth;
use greenwave_replica::core::{Input, Output};
use greenwave_replica::{Index, Message, SnapshotMeta, StateMachine};
use std::time::Duration;

impl<M: StateMachine + Default, D: Event> Group<M, D> {
    pub(super) fn carry_out(&mut self, node: usize, output: Output) {
        let now = self.simulation.now();
        match output {
            Output::Send { to, message } => {
                if let Some(header) = self.header(node, to) {
                    self.send(node, place(to), Packet::Message(header, message));
                }
            }
            Output::Persist(write) => {
                let bytes = write.entries.iter().map(|entry| ENTRY_HEAD + entry.data.len() as u64).sum::<u64>();
                let (number, node_) = (write.number, &mut self.nodes[node]);
                node_.store.write(write);
                let life = node_.life;
                if let Some(end) = node_.disk.write(now, number, WRITE_HEAD + bytes) {
                    self.simulation.at(end, GroupEvent::Synced { node, life });
                }
                if self.early_persisted {
                    self.inbox.push_back(Input::Persisted { number });
                }
            }
            Output::Apply(apply) => {
                let bytes = apply.entries.iter().map(|entry| entry.data.len() as u64).sum::<u64>();
                let leads = self.watch.leads(node);
                let commands = if leads { 0 } else { bytes / self.rule.command_bytes.max(1) };
                let cost = self.rule.follower.command * u32::try_from(commands).unwrap_or(u32::MAX);
                self.task(node, cost, Task::Apply(apply));
            }
            Output::Restore(meta) => self.task(node, Duration::ZERO, Task::Restore(meta)),
            Output::Answer { ticket, outcome } => self.told.push_back(Told { node, ticket, outcome: Some(outcome) }),
            Output::ReadReady { ticket, index } => {
                let applied = self.machine(node).map_or(Index::ZERO, StateMachine::applied);
                self.watch.read(node, index, applied);
                self.told.push_back(Told { node, ticket, outcome: None });
            }
            Output::TakeSnapshot => self.take_snapshot(node),
            Output::SendSnapshot { to, message } => self.send_snapshot(node, place(to), message),
            Output::Compact { up_to, snapshot } => {
                let applied = self.machine(node).map_or(Index::ZERO, StateMachine::applied);
                self.nodes[node].store.compact(up_to, snapshot);
                self.nodes[node].store.prune(applied);
            }
            Output::Role(status) => self.watch.role(node, &status),
            Output::Members(membership) => {
                if let Some(running) = &mut self.nodes[node].running {
                    running.door.membership = membership;
                }
            }
            Output::Stop(_) => {
                self.kill(node);
                self.inbox.clear();
            }
        }
    }

    pub(super) fn send(&mut self, node: usize, to: usize, packet: Packet) {
        let now = self.simulation.now();
        let (bytes, cost) = match &packet {
            Packet::Message(_, message) => (bytes_of(message), self.cost_of(node, message)),
            Packet::Greeting(..) => (64, Duration::ZERO),
            Packet::Snapshot { message, state, .. } => (bytes_of(message) + state.len() as u64, Duration::ZERO),
            Packet::Input(_) => (0, Duration::ZERO),
        };
        let leaves = self.nodes[node].cpu.work(now, cost);
        match self.network.send(leaves, node, to, self.framed(bytes)).arrival() {
            Some(arrival) if self.rule.interface == Bandwidth::UNLIMITED => {
                self.simulation.at(arrival, GroupEvent::Arrives { from: node, to, packet });
            }
            Some(arrival) => drop(self.simulation.at(arrival, GroupEvent::Reaches { from: node, to, bytes, packet })),
            None => match packet {
                Packet::Snapshot { .. } => self.snapshot_sent(node, to, false),
                Packet::Greeting(..) => {}
                // A transport notices some of what it loses.
                _ if self.chance.chance(0.2) => self.inbox.push_back(Input::Unreachable { peer: id(to) }),
                _ => {}
            },
        }
    }

    fn task(&mut self, node: usize, cost: Duration, task: Task) {
        let now = self.simulation.now();
        let done = self.nodes[node].cpu.work(now, cost);
        let life = self.nodes[node].life;
        let Some(running) = &mut self.nodes[node].running else { return };
        running.to_apply.push_back(task);
        if done == now && running.to_apply.len() == 1 {
            self.apply(node);
        } else {
            self.simulation.at(done, GroupEvent::Applies { node, life });
        }
    }

    pub(super) fn apply(&mut self, node: usize) {
        let node_ = &mut self.nodes[node];
        let Some(Running { applier, to_apply, .. }) = &mut node_.running else { return };
        let input = match to_apply.pop_front() {
            None => return,
            Some(Task::Apply(apply)) => {
                if self.rule.watched {
                    self.watch.apply(node, &apply.entries);
                }
                applier.apply(apply).map(Input::Applied)
            }
            Some(Task::Restore(meta)) => {
                let index = meta.index;
                let state = node_.store.state(&meta).unwrap_or_default();
                let restored = applier.restore(meta, &mut state.as_slice()).map(|()| Input::Restored(index));
                node_.store.prune(index);
                restored
            }
        };
        self.inbox.push_back(input.unwrap_or_else(|error| {
            self.watch.failed(node, &error);
            Input::MachineFailed
        }));
    }

    pub(super) fn synced(&mut self, node: usize) {
        let now = self.simulation.now();
        let node_ = &mut self.nodes[node];
        let Some((synced, next)) = node_.disk.finish(now) else { return };
        if let Some(end) = next {
            self.simulation.at(end, GroupEvent::Synced { node, life: node_.life });
        }
        let writes = synced.writes.len();
        let durable = match synced.outcome {
            Ok(()) => node_.store.synced(writes),
            Err(fault) => node_.store.fails(writes, fault, &mut self.chance),
        };
        match synced.writes.last().filter(|_| durable) {
            Some(&number) => {
                self.hears(node, Input::Synced { bytes: synced.bytes, took: synced.took });
                if !self.early_persisted {
                    self.hears(node, Input::Persisted { number });
                }
            }
            None => self.hears(node, Input::PersistFailed),
        }
    }

    /// Of a thread of its own.
    fn hears(&mut self, node: usize, input: Input) {
        self.work(node, node, Duration::ZERO, Packet::Input(input));
    }

    pub(super) fn take_snapshot(&mut self, node: usize) {
        let Some(running) = &mut self.nodes[node].running else { return };
        let mut state = Vec::new();
        let taken = running.applier.snapshot().and_then(|mut view| Ok((view.write(&mut state)?, view.meta)));
        match taken {
            Ok(((), meta)) => self.keep(node, meta, state, None),
            Err(_) => self.inbox.push_back(Input::SnapshotFailed),
        }
    }

    /// Makes a snapshot's state durable, beside what the log writes.
    pub(super) fn keep(&mut self, node: usize, meta: SnapshotMeta, state: Vec<u8>, came: Option<(usize, Message)>) {
        let rule = self.nodes[node].disk.rule();
        let takes = rule.sync + rule.bandwidth.time_for(state.len() as u64);
        let life = self.nodes[node].life;
        self.simulation.after(takes, GroupEvent::Kept { node, life, meta, state, came });
    }

    pub(super) fn kept(&mut self, node: usize, meta: SnapshotMeta, state: Vec<u8>, came: Option<(usize, Message)>) {
        let kept = self.nodes[node].store.keep(meta.clone(), state);
        self.snapshots += u64::from(kept);
        match came {
            None if !kept => self.inbox.push_back(Input::SnapshotFailed),
            Some((from, _)) if !kept => self.snapshot_sent(from, node, false),
            None => self.inbox.push_back(Input::SnapshotReady(meta)),
            Some((from, message)) => {
                self.snapshot_sent(from, node, true);
                self.inbox.push_back(Input::Message { from: id(from), message });
            }
        }
    }

    fn send_snapshot(&mut self, node: usize, to: usize, message: Message) {
        let state = message.snapshot.as_ref().and_then(|meta| self.nodes[node].store.state(meta));
        match state.zip(self.header(node, id(to))) {
            Some((state, header)) => self.send(node, to, Packet::Snapshot { header, message, state }),
            None => self.snapshot_sent(node, to, false),
        }
    }

    /// The sender learns it by what its transport hears, or doesn't.
    pub(super) fn snapshot_sent(&mut self, from: usize, to: usize, ok: bool) {
        let life = self.nodes[from].life;
        let packet = Packet::Input(Input::SnapshotSent { peer: id(to), ok });
        let later = if ok { self.rule.link.delay } else { SILENCE };
        self.simulation.after(later, GroupEvent::Heard { node: from, life, from: to, packet });
    }
}

/// Bytes on disk beside an entry's data, and beside a write's entries.
const ENTRY_HEAD: u64 = 32;
const WRITE_HEAD: u64 = 16;

/// After which a transport takes silence for a failure.
const SILENCE: Duration = Duration::from_millis(500);
