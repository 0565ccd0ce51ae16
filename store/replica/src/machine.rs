//! What is replicated: the state machine that users write.

use crate::Index;
use crate::sessions::SessionChange;
use bytes::Bytes;
use std::io::{Read, Write};

/// A state that changes by commands alone: the same commands in the same order lead to the same state and the same
/// answers on every replica. So nothing in it may depend on a clock, on chance or on the order of a hash table.
///
/// A machine in memory implements [`apply`](Self::apply), [`view`](Self::view) and [`restore`](Self::restore) and is
/// rebuilt from the last snapshot and the log when its process starts again. One that keeps its state on disk has to
/// write what a [`commit`](Self::commit) brings as one: the effects of all commands since the last one, the index, and
/// the changed sessions. Otherwise a command could be applied twice, or a session forget that it was applied.
pub trait StateMachine: Send {
    /// The entry up to which commands have been applied, all of what it says included; [`Index::ZERO`] if none.
    fn applied(&self) -> Index;

    /// Applies one command of the entry at `index` and says what to answer. An entry may have several.
    ///
    /// A command that makes no sense is answered, not failed: every replica has to get past it.
    fn apply(&mut self, index: Index, command: &[u8]) -> Vec<u8>;

    /// [`apply`](Self::apply) of a command whose memory may be kept for a while: for machines that would copy what is in
    /// it. All commands of an entry share that memory.
    fn apply_shared(&mut self, index: Index, command: Bytes) -> Vec<u8> {
        self.apply(index, &command)
    }

    /// Entries up to `applied` have been applied: from now on [`applied`](Self::applied) says so. A machine on disk
    /// writes everything since the last commit, `applied` and `sessions` as one.
    ///
    /// # Errors
    /// The machine can't go on; its replica stops.
    fn commit(&mut self, applied: Index, sessions: &[SessionChange]) -> Result<(), MachineError>;

    /// Whether the state outlives its process. Only then are changed sessions gathered for [`commit`](Self::commit).
    fn is_durable(&self) -> bool {
        false
    }

    /// The records of sessions as the last commit left them, for a machine on disk; none for one in memory.
    ///
    /// # Errors
    /// They can't be read.
    fn sessions(&mut self) -> Result<Vec<(u64, Bytes)>, MachineError> {
        Ok(Vec::new())
    }

    /// The state as it is now, to be written while the machine goes on.
    ///
    /// # Errors
    /// The machine can't go on, as one whose disk doesn't sync; its replica stops.
    fn view(&mut self) -> Result<Box<dyn MachineView>, MachineError>;

    /// Replaces the state by one that a view wrote, which is that of `applied`; `sessions` as in
    /// [`commit`](Self::commit), which takes the place of all that it had.
    ///
    /// # Errors
    /// The bytes aren't a state, or can't be read or kept. The replica stops.
    fn restore(&mut self, applied: Index, sessions: &[SessionChange], from: &mut dyn Read) -> Result<(), MachineError>;
}

/// A state that stays as it was while the machine that it was taken from goes on.
pub trait MachineView: Send {
    /// Writes it, in whatever format [`StateMachine::restore`] reads.
    ///
    /// # Errors
    /// Those of the writer, or of reading the state.
    fn write(&mut self, to: &mut dyn Write) -> Result<(), MachineError>;
}

/// A machine can't go on.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Reading or writing failed.
    #[error("the state machine can't read or write its state: {0}; see to the disk and start the replica again")]
    Io(#[from] std::io::Error),
    /// Bytes that should be a state aren't.
    #[error("a snapshot can't be read as a state: {0}; take the replica out of the group and add it as a new one")]
    Unreadable(String),
    /// What the machine itself says.
    #[error("the state machine failed: {0}")]
    Other(String),
}
