//! What is replicated in the simulation: numbers under numbers, in memory.
//!
//! A command is `kind: u8`, `key: u64`, `old: option`, `new: u64`; an answer `kind: u8`, `value: option`; an option is
//! `there: u8`, `value: u64`; all little-endian.

use super::history::{Answer, Call};
use greenwave_replica::machine::MachineView;
use greenwave_replica::sessions::SessionChange;
use greenwave_replica::{Index, MachineError, StateMachine};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kv {
    values: BTreeMap<u64, u64>,
    applied: Index,
}

impl Kv {
    /// A key's value.
    #[must_use]
    pub fn value(&self, key: u64) -> Option<u64> {
        self.values.get(&key).copied()
    }

    /// All keys and values.
    #[must_use]
    pub fn values(&self) -> &BTreeMap<u64, u64> {
        &self.values
    }
}

impl StateMachine for Kv {
    fn applied(&self) -> Index {
        self.applied
    }

    fn apply(&mut self, _: Index, command: &[u8]) -> Vec<u8> {
        let Some((key, call)) = parse_command(command) else { return Vec::new() };
        let (value, told) = call.apply(self.value(key));
        match value {
            Some(value) => self.values.insert(key, value),
            None => self.values.remove(&key),
        };
        answer(told)
    }

    fn commit(&mut self, applied: Index, _: &[SessionChange]) -> Result<(), MachineError> {
        self.applied = applied;
        Ok(())
    }

    fn view(&mut self) -> Result<Box<dyn MachineView>, MachineError> {
        Ok(Box::new(View(self.values.clone())))
    }

    fn restore(&mut self, applied: Index, _: &[SessionChange], from: &mut dyn Read) -> Result<(), MachineError> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let mut rest = bytes.as_slice();
        self.values.clear();
        while !rest.is_empty() {
            let parsed = number(rest).and_then(|(key, rest)| Some((key, number(rest)?)));
            let Some((key, (value, left))) = parsed else {
                return Err(MachineError::Unreadable("a value is cut off".into()));
            };
            self.values.insert(key, value);
            rest = left;
        }
        self.applied = applied;
        Ok(())
    }
}

struct View(BTreeMap<u64, u64>);

impl MachineView for View {
    fn write(&mut self, to: &mut dyn Write) -> Result<(), MachineError> {
        for (key, value) in &self.0 {
            to.write_all(&key.to_le_bytes())?;
            to.write_all(&value.to_le_bytes())?;
        }
        Ok(())
    }
}

/// A command as it is replicated.
#[must_use]
pub fn command(key: u64, call: Call) -> Vec<u8> {
    let (kind, old, new) = match call {
        Call::Get => (0, None, 0),
        Call::Put(new) => (1, None, new),
        Call::Swap { old, new } => (2, old, new),
        Call::Delete => (3, None, 0),
    };
    let mut bytes = vec![kind];
    bytes.extend(key.to_le_bytes());
    push(&mut bytes, old);
    bytes.extend(new.to_le_bytes());
    bytes
}

/// What a command says: the key, and what to do; `None` if it isn't one.
#[must_use]
pub fn parse_command(bytes: &[u8]) -> Option<(u64, Call)> {
    let (&kind, rest) = bytes.split_first()?;
    let (key, rest) = number(rest)?;
    let (old, rest) = option(rest)?;
    let (new, _) = number(rest)?;
    let call = match kind {
        0 => Call::Get,
        1 => Call::Put(new),
        2 => Call::Swap { old, new },
        3 => Call::Delete,
        _ => return None,
    };
    Some((key, call))
}

/// An answer as it goes to the client.
#[must_use]
pub fn answer(answer: Answer) -> Vec<u8> {
    let (kind, value) = match answer {
        Answer::Put => (0, None),
        Answer::Value(value) => (1, value),
        Answer::Swapped(done) => (2, done.then_some(0)),
        Answer::Deleted(done) => (3, done.then_some(0)),
    };
    let mut bytes = vec![kind];
    push(&mut bytes, value);
    bytes
}

/// What an answer says; `None` if it isn't one.
#[must_use]
pub fn parse_answer(bytes: &[u8]) -> Option<Answer> {
    let (&kind, rest) = bytes.split_first()?;
    let (value, _) = option(rest)?;
    match kind {
        0 => Some(Answer::Put),
        1 => Some(Answer::Value(value)),
        2 => Some(Answer::Swapped(value.is_some())),
        3 => Some(Answer::Deleted(value.is_some())),
        _ => None,
    }
}

fn push(bytes: &mut Vec<u8>, value: Option<u64>) {
    bytes.push(value.is_some().into());
    bytes.extend(value.unwrap_or(0).to_le_bytes());
}

fn option(bytes: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let (&there, rest) = bytes.split_first()?;
    let (value, rest) = number(rest)?;
    Some(((there != 0).then_some(value), rest))
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}
