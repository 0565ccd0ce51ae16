//! Applies committed entries: the state machine and its sessions, in one place.
//!
//! A snapshot is the table of sessions and then the machine's own bytes: `count: u32`, and for each record its client
//! as `u64`, its length as `u32`, and itself.

use crate::core::Apply;
use crate::sessions::{Admission, SessionChange};
use crate::{
    Answer, ClientId, EntryKind, Index, MachineError, SessionLimits, Sessions, SnapshotMeta, StateMachine, batch,
};
use bytes::Bytes;
use std::io::{Read, Write};

/// The longest record of a session in a snapshot, in bytes.
const RECORD_MOST: u32 = 1 << 30;

/// What came of applying entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// All entries up to here have been applied.
    pub up_to: Index,
    /// For each entry that had commands, their answers in order.
    pub answers: Vec<(Index, Vec<Answer>)>,
}

/// Owns a state machine and the sessions of its clients.
///
/// 1. Entries come in the order of indices, without a gap. Those that the machine had before its process started are
///    passed over, so that it doesn't matter how far behind the log's beginning is.
/// 2. `at` is where the state stands: the last entry applied, its term, and the membership after it.
#[derive(Debug)]
pub struct Applier<M> {
    machine: M,
    sessions: Sessions,
    limits: SessionLimits,
    at: SnapshotMeta,
}

/// A snapshot that can be written while the machine goes on.
pub struct SnapshotView {
    /// Where it stands.
    pub meta: SnapshotMeta,
    sessions: Vec<(u64, Bytes)>,
    machine: Box<dyn crate::machine::MachineView>,
}

/// Entries can't be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The machine says so.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The machine has less than the log begins with, and no snapshot was restored.
    #[error(
        "the state machine has applied entries up to {machine}, and the log begins after {log}; restore the snapshot \
         of the log's beginning, or take the replica out of the group and add it as a new one"
    )]
    Behind {
        /// Up to where the machine has them.
        machine: Index,
        /// What the log begins after.
        log: Index,
    },
    /// The machine kept its state from before its process started, and has more than the entries so far say.
    #[error("the state machine has entries up to {machine} from before, and is passing over those after {at} still")]
    PassingOver {
        /// Up to where the machine has them.
        machine: Index,
        /// Up to where they were passed over.
        at: Index,
    },
    /// The sessions that a machine on disk kept can't be read.
    #[error("the sessions that the state machine kept can't be read; take the replica out and add it as a new one")]
    Sessions,
}

impl<M: StateMachine> Applier<M> {
    /// One that goes on after `start`, where the log begins. A machine that has less than that has to be
    /// [restored](Self::restore) first; `start` may be that of a new group, where nothing has been applied.
    ///
    /// # Errors
    /// The machine's sessions can't be read.
    pub fn new(mut machine: M, limits: SessionLimits, start: SnapshotMeta) -> Result<Self, ApplyError> {
        let sessions = Sessions::of_records(limits, machine.sessions()?).ok_or(ApplyError::Sessions)?;
        Ok(Self { machine, sessions, limits, at: start })
    }

    /// The machine, to read from it.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// Where the state stands.
    pub const fn at(&self) -> &SnapshotMeta {
        &self.at
    }

    /// Whether a snapshot has to be restored before entries can be applied.
    pub fn needs_snapshot(&self) -> bool {
        self.at.index > crate::core::BOOTSTRAP && self.machine.applied() < self.at.index
    }

    /// Applies entries that the core handed out.
    ///
    /// # Errors
    /// The machine can't go on, or has less than the log begins with.
    pub fn apply(&mut self, apply: Apply) -> Result<Applied, ApplyError> {
        if self.needs_snapshot() {
            return Err(ApplyError::Behind { machine: self.machine.applied(), log: self.at.index });
        }
        let mut applied = Applied::default();
        let done = self.machine.applied();
        for entry in apply.entries {
            if entry.index > done && entry.kind == EntryKind::Commands && !entry.data.is_empty() {
                let answers = batch::Commands::of(entry.data)
                    .map(|(session, command)| match self.sessions.admit(session) {
                        Admission::Answer(answer) => answer,
                        Admission::Apply => {
                            let answer = Bytes::from(self.machine.apply_shared(entry.index, command));
                            if session.client != ClientId::NONE {
                                self.sessions.done(session, answer.clone());
                            }
                            Answer::Done(answer)
                        }
                    })
                    .collect();
                applied.answers.push((entry.index, answers));
            }
            self.at.index = entry.index;
            self.at.term = entry.term;
        }
        if self.at.membership != *apply.membership {
            self.at.membership = (*apply.membership).clone();
        }
        applied.up_to = self.at.index;
        if self.at.index > done {
            let changes = self.changed_sessions();
            self.machine.commit(self.at.index, &changes)?;
        }
        Ok(applied)
    }

    /// The state as it is now.
    ///
    /// # Errors
    /// The machine gives no view, or it has entries from before its process started that haven't been passed over yet:
    /// whoever got such a snapshot would apply them a second time.
    pub fn snapshot(&mut self) -> Result<SnapshotView, ApplyError> {
        let applied = self.machine.applied();
        if applied > self.at.index {
            return Err(ApplyError::PassingOver { machine: applied, at: self.at.index });
        }
        let machine = self.machine.view()?;
        Ok(SnapshotView { meta: self.at.clone(), sessions: self.sessions.records().collect(), machine })
    }

    /// Replaces the state by a snapshot's.
    ///
    /// # Errors
    /// It can't be read, or not be kept.
    pub fn restore(&mut self, meta: SnapshotMeta, from: &mut dyn Read) -> Result<(), ApplyError> {
        let mut records = Vec::new();
        for _ in 0..read_u32(from)? {
            let client = u64::from(read_u32(from)?) | u64::from(read_u32(from)?) << 32;
            let length = read_u32(from)?;
            let mut record = Vec::new();
            if length > RECORD_MOST || from.take(length.into()).read_to_end(&mut record)? != length as usize {
                return Err(MachineError::Unreadable("a session's record is cut off".into()).into());
            }
            records.push((client, Bytes::from(record)));
        }
        let all = records.iter().map(|(client, record)| SessionChange::Put(ClientId(*client), record.clone()));
        let all: Vec<SessionChange> = if self.machine.is_durable() { all.collect() } else { Vec::new() };
        let unreadable = || MachineError::Unreadable("a session's record makes no sense".into());
        self.sessions = Sessions::of_records(self.limits, records).ok_or_else(unreadable)?;
        self.machine.restore(meta.index, &all, from)?;
        self.at = meta;
        Ok(())
    }

    fn changed_sessions(&mut self) -> Vec<SessionChange> {
        if self.machine.is_durable() {
            return self.sessions.changes();
        }
        self.sessions.settle();
        Vec::new()
    }
}

impl SnapshotView {
    /// Writes it as [`Applier::restore`] reads it.
    ///
    /// # Errors
    /// Those of the writer and of the machine.
    pub fn write(&mut self, to: &mut dyn Write) -> Result<(), MachineError> {
        to.write_all(&(self.sessions.len() as u32).to_le_bytes())?;
        for (client, record) in &self.sessions {
            to.write_all(&client.to_le_bytes())?;
            to.write_all(&(record.len() as u32).to_le_bytes())?;
            to.write_all(record)?;
        }
        self.machine.write(to)
    }
}

impl std::fmt::Debug for SnapshotView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotView").field("meta", &self.meta).finish_non_exhaustive()
    }
}

impl From<std::io::Error> for ApplyError {
    fn from(error: std::io::Error) -> Self {
        Self::Machine(error.into())
    }
}

fn read_u32(from: &mut dyn Read) -> std::io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineView;
    use crate::{Entry, Membership, Session, Term};
    use std::sync::Arc;

    /// Counts commands, and has counted some before its process started.
    #[derive(Debug)]
    struct Counter {
        applied: Index,
        count: u8,
    }

    impl StateMachine for Counter {
        fn applied(&self) -> Index {
            self.applied
        }

        fn apply(&mut self, _: Index, _: &[u8]) -> Vec<u8> {
            self.count += 1;
            vec![self.count]
        }

        fn commit(&mut self, applied: Index, _: &[SessionChange]) -> Result<(), MachineError> {
            self.applied = applied;
            Ok(())
        }

        fn is_durable(&self) -> bool {
            true
        }

        fn view(&mut self) -> Result<Box<dyn MachineView>, MachineError> {
            Ok(Box::new(View(self.count)))
        }

        fn restore(&mut self, at: Index, _: &[SessionChange], from: &mut dyn Read) -> Result<(), MachineError> {
            let mut count = [0];
            from.read_exact(&mut count)?;
            (self.applied, self.count) = (at, count[0]);
            Ok(())
        }
    }

    struct View(u8);

    impl MachineView for View {
        fn write(&mut self, to: &mut dyn Write) -> Result<(), MachineError> {
            Ok(to.write_all(&[self.0])?)
        }
    }

    fn entries(indices: std::ops::RangeInclusive<u64>) -> Apply {
        let mut data = bytes::BytesMut::new();
        batch::push(&mut data, Session::NONE, b"more");
        let data = data.freeze();
        let entry = |index| Entry { index: Index(index), term: Term(1), kind: EntryKind::Commands, data: data.clone() };
        Apply { entries: indices.map(entry).collect(), membership: Arc::new(Membership::default()) }
    }

    /// A machine on disk starts with more than the entries that its log is gone through. A snapshot that said it had
    /// less than it has would let another replica apply the rest twice.
    #[test]
    fn a_snapshot_says_all_that_is_in_it() {
        let limits = SessionLimits::default();
        let kept = Counter { applied: Index(9), count: 8 };
        let mut applier = Applier::new(kept, limits, SnapshotMeta::default()).unwrap();
        for part in [2..=4, 5..=6, 7..=9, 10..=12] {
            applier.apply(entries(part)).unwrap();
            let Ok(mut view) = applier.snapshot() else { continue };
            let (mut bytes, at) = (Vec::new(), view.meta.clone());
            view.write(&mut bytes).unwrap();
            let empty = Counter { applied: Index::ZERO, count: 0 };
            let mut other = Applier::new(empty, limits, SnapshotMeta::default()).unwrap();
            other.restore(at.clone(), &mut bytes.as_slice()).unwrap();
            other.apply(entries(at.index.0 + 1..=20)).unwrap();
            assert_eq!(other.machine().count, 19, "after a snapshot at {}", at.index);
        }
        assert_eq!(applier.snapshot().unwrap().meta.index, Index(12));
        assert_eq!(applier.machine().count, 11);
    }
}
