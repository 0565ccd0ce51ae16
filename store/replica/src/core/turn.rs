//! A turn: what has been handled becomes proposals, writes, messages, and entries to apply.
//!
//! Messages and writes of a turn go out side by side. Of a leader's messages nothing waits but for its own vote, which
//! is durable already unless it is the only voter: its entries count for it only once they are durable. Anything else that a replica says rests on what it has just written (a vote on the
//! term, an acknowledgement on the entries), so it stands in `writes` behind that write. Answers to signs of life are
//! an exception, as they rest on the term alone: a slow disk doesn't keep a follower from being heard.

use super::convert::{entry_bytes, entry_from_engine, hard_state_from_engine, message_from_engine, read_round};
use super::instances::Instance;
use super::submit::is_infeasible;
use super::{Apply, Core, Output, Refusal, Role, Write};
use crate::{Entry, EntryKind, Index, SnapshotMeta};
use raft::Ready;
use raft::eraftpb::{self, MessageType};
use std::sync::Arc;

/// What waits for a write.
#[derive(Debug)]
pub(super) struct Unwritten {
    number: u64,
    /// Whether there is something to be written; otherwise it waits for the ones before it.
    write: bool,
    /// Whether a term or a vote is among it.
    vote: bool,
    bytes: usize,
    messages: Vec<eraftpb::Message>,
    restore: Option<SnapshotMeta>,
}

impl Unwritten {
    pub(super) fn of(write: &Write) -> Self {
        let bytes = write.entries.iter().map(|entry| entry.data.len()).sum();
        let restore = write.snapshot.clone().filter(|meta| meta.index > super::BOOTSTRAP);
        Self { number: write.number, write: true, vote: true, bytes, messages: Vec::new(), restore }
    }
}

impl Core {
    /// All that follows from what was handled.
    pub(super) fn turn(&mut self) {
        loop {
            self.watch_role();
            self.begin_round();
            self.pull();
            if !self.node.has_ready() {
                break;
            }
            self.take_ready();
        }
        for (ticket, index) in self.reads.ready(self.applied) {
            self.outputs.push_back(Output::ReadReady { ticket, index });
        }
        self.ask_for_snapshot();
    }

    /// The write of this number, and all before it, are durable.
    pub(super) fn persisted(&mut self, number: u64) {
        let (mut durable, mut restored) = (None, None);
        // Those that have nothing to write go with the one before them.
        while let Some(done) = self.writes.pop_front_if(|front| front.number <= number || !front.write) {
            durable = Some(done.number);
            self.unwritten_bytes -= done.bytes;
            self.send(done.messages);
            if let Some(meta) = done.restore {
                restored = Some(meta.index);
                self.outputs.push_back(Output::Restore(meta));
            }
        }
        if let Some(number) = durable {
            self.node.on_persist_ready(number);
        }
        // What the snapshot stands for is applied, to the engine: it must not look for entries that aren't there.
        if let Some(index) = restored.filter(|index| index.0 > self.node.raft.raft_log.applied) {
            self.node.advance_apply_to(index.0);
        }
    }

    /// A snapshot of our own is durable.
    pub(super) fn snapshot_ready(&mut self, meta: SnapshotMeta) {
        let old = self.node.store().snapshot_meta();
        if meta.index > self.applied || meta.index < old.index {
            // One that was taken before another came from the leader.
            self.snapshot.taking = false;
            return;
        }
        let retain = self.config.limits.log_bytes / 2;
        let store = self.node.mut_store();
        self.snapshot = super::SnapshotState { fresh: store.bytes_after(meta.index), ..Default::default() };
        let up_to = store.compact(meta.clone(), retain);
        self.outputs.push_back(Output::Compact { up_to, snapshot: meta });
    }

    /// No snapshot came of it. It is asked for again after a while, whether or not the log grows: a log that is full
    /// can't.
    pub(super) fn snapshot_failed(&mut self) {
        self.snapshot.taking = false;
        self.snapshot.not_before = self.now + self.config.tick * self.config.election_ticks;
    }

    /// Proposes what waits, while a majority has a slot free.
    fn pull(&mut self) {
        while self.status.role == Role::Leader
            && !self.queue.is_empty()
            && self.node.raft.lead_transferee.is_none()
            && !self.is_swamped()
            && let Some(batch_bytes) = self.slot()
        {
            let (now, needed) = (self.now, self.needed(0));
            let mut refused = Vec::new();
            let pulled = self.queue.pull(
                batch_bytes,
                |waiting| waiting.deadline.is_past(now) || is_infeasible(waiting.deadline, now, needed),
                |waiting| refused.push(waiting),
            );
            self.control.dropped(now, refused.len());
            for waiting in refused {
                let late = waiting.deadline.is_past(now);
                let refusal = if late { Refusal::Expired } else { Refusal::Infeasible { needed: needed.into() } };
                self.refuse(waiting.ticket, refusal);
            }
            let Some(pulled) = pulled else { return };
            let (commands, bytes) = (pulled.tickets.len(), pulled.data.len());
            // There was no room for another like these.
            let full = bytes + bytes / commands.max(1) > batch_bytes;
            self.control.pulled(commands, bytes, full);
            let entry = eraftpb::Entry { data: pulled.data, ..eraftpb::Entry::default() };
            let proposal = eraftpb::Message {
                msg_type: MessageType::MsgPropose,
                from: self.config.node.number(),
                entries: vec![entry].into(),
                ..eraftpb::Message::default()
            };
            if self.node.step(proposal).is_err() {
                let leader = self.status.leader;
                pulled.tickets.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::NotLeader { leader }));
                return;
            }
            let index = Index(self.node.raft.raft_log.last_index());
            self.instances.push(Instance {
                index,
                term: self.status.term,
                tickets: pulled.tickets,
                proposed: now,
                submitted: pulled.submitted,
            });
        }
    }

    fn take_ready(&mut self) {
        let mut ready = self.node.ready();
        for state in ready.take_read_states() {
            self.round_succeeded(read_round(&state.request_ctx), Index(state.index));
        }
        let committed = ready.take_committed_entries();
        self.write(&mut ready);
        let number = ready.number();
        self.node.advance_append_async(ready);
        if self.writes.is_empty() {
            self.node.on_persist_ready(number);
        }
        self.watch_role();
        self.hand_out(committed);
    }

    /// What a ready has to be written goes out, and what waits for it stands behind it.
    fn write(&mut self, ready: &mut Ready) {
        let number = ready.number();
        let snapshot = (!ready.snapshot().is_empty()).then(|| self.snapshot_of(ready.snapshot()));
        let entries = ready.take_entries();
        let hard_state = ready.hs().map(hard_state_from_engine);
        let write = snapshot.is_some() || !entries.is_empty() || ready.must_sync();
        let mut unwritten = Unwritten { number, write, vote: false, bytes: 0, messages: Vec::new(), restore: None };
        // What is committed alone isn't worth a write: it goes with the next one, or is learned again.
        if write {
            let hard_state = hard_state.unwrap_or_else(|| hard_state_from_engine(&self.node.raft.hard_state()));
            unwritten.vote = (hard_state.term, hard_state.vote) != (self.written.term, self.written.vote);
            unwritten.bytes = entries.iter().map(entry_bytes).sum();
            unwritten.restore = snapshot.clone();
            let changed = (hard_state != self.written).then_some(hard_state);
            self.written = hard_state;
            self.outputs.push_back(Output::Persist(Write {
                number,
                hard_state: changed,
                entries: entries.iter().cloned().map(entry_from_engine).collect(),
                snapshot: snapshot.clone(),
            }));
        }
        self.unwritten_bytes += unwritten.bytes;
        self.snapshot.fresh += unwritten.bytes;
        if let Some(meta) = snapshot {
            let membership = meta.membership.clone();
            self.node.mut_store().restore(meta);
            self.snapshot = super::SnapshotState::default();
            self.set_membership(membership);
        }
        self.node.mut_store().append(entries);
        let mut messages = ready.take_messages();
        let persisted = ready.take_persisted_messages();
        if unwritten.vote || self.writes.iter().any(|before| before.vote) {
            messages.extend(persisted);
        } else {
            let heard = |message: &eraftpb::Message| message.get_msg_type() == MessageType::MsgHeartbeatResponse;
            let (at_once, later): (Vec<_>, _) = persisted.into_iter().partition(heard);
            messages.extend(at_once);
            self.send(std::mem::replace(&mut messages, later));
        }
        if write || !self.writes.is_empty() {
            unwritten.messages = messages;
            self.writes.push_back(unwritten);
        } else {
            self.send(messages);
        }
    }

    /// Committed entries go to the machine; changes of the membership are made here.
    fn hand_out(&mut self, committed: Vec<eraftpb::Entry>) {
        let Some(last) = committed.last().map(|entry| entry.index) else { return };
        let mut entries: Vec<Entry> = Vec::with_capacity(committed.len());
        for entry in committed {
            let entry = entry_from_engine(entry);
            let change = (entry.kind == EntryKind::Change).then(|| entry.clone());
            entries.push(entry);
            if let Some(change) = change {
                self.apply_change(&change);
                // The machine knows the membership at the end of what it is given.
                self.push_apply(std::mem::take(&mut entries));
            }
        }
        if !entries.is_empty() {
            self.push_apply(entries);
        }
        self.node.advance_apply_to(last);
    }

    fn push_apply(&mut self, entries: Vec<Entry>) {
        let bytes = entries.iter().map(|entry| entry.data.len() + 16).sum();
        if let Some(last) = entries.last() {
            self.unapplied.push_back((last.index, bytes));
            self.unapplied_bytes += bytes;
        }
        self.outputs.push_back(Output::Apply(Apply { entries, membership: Arc::clone(&self.membership) }));
    }

    fn send(&mut self, messages: Vec<eraftpb::Message>) {
        for message in messages {
            let Some((to, message)) = message_from_engine(message, self.node.store().snapshot_meta()) else { continue };
            self.control.sent(self.now, to, &message);
            self.outputs.push_back(match message.snapshot {
                Some(_) => Output::SendSnapshot { to, message },
                None => Output::Send { to, message },
            });
        }
    }

    fn ask_for_snapshot(&mut self) {
        let store = self.node.store();
        let wanted = store.take_wanted();
        let grown = self.snapshot.fresh >= self.config.limits.log_bytes;
        let may = !self.snapshot.taking && self.now >= self.snapshot.not_before;
        if (wanted || grown) && may && self.applied > store.snapshot_meta().index {
            self.snapshot.taking = true;
            self.outputs.push_back(Output::TakeSnapshot);
        }
    }

    /// The snapshot that the engine took on, with the addresses that came with it.
    fn snapshot_of(&self, engine: &eraftpb::Snapshot) -> SnapshotMeta {
        let metadata = engine.get_metadata();
        let incoming = self.incoming.as_ref().filter(|meta| meta.index.0 == metadata.index);
        let known = incoming.map_or(&*self.membership, |meta| &meta.membership);
        SnapshotMeta {
            index: Index(metadata.index),
            term: crate::Term(metadata.term),
            membership: super::convert::membership_from_engine(metadata.get_conf_state(), known),
        }
    }
}
