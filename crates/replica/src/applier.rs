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
    /// The machine gives no view.
    pub fn snapshot(&mut self) -> Result<SnapshotView, ApplyError> {
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
