//! Sessions: which commands of which clients have been applied, and what was answered.
//!
//! Part of the replicated state: every replica has the same table, as it changes with applied entries alone. A client
//! opens a session by a command with number 0 and then counts. So a client that has been forgotten, because there were
//! too many others since, is told so; without the opening, its retried command would look like a new client's first.
//! (Ongaro's dissertation, section 6.3, has the group hand out the clients' numbers; here chance does.)

use crate::{ClientId, Sequence, Session};
use bytes::{Buf, BufMut, Bytes};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How much is remembered. All replicas of a group must have the same limits, or they don't forget the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Clients; the one that was idle longest is forgotten first.
    pub clients: usize,
    /// Answers per client: how many commands a client may have open at a time.
    pub answers: usize,
    /// Bytes of all answers; when there are more, clients are forgotten as above.
    pub bytes: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { clients: 65_536, answers: 8, bytes: 64 << 20 }
    }
}

/// What became of a command when its entry was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was applied, now or when it came the first time; what the machine answered.
    Done(Bytes),
    /// It came again after so many later ones that its answer is forgotten. It was applied, or a later one of its
    /// client was and this one never will be.
    Forgotten,
    /// Its session isn't open, or not any more. It was not applied now; an earlier attempt may have been.
    NoSession,
}

/// A session as a machine on disk keeps it, under its client's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// The session's new record.
    Put(ClientId, Bytes),
    /// It was forgotten.
    Remove(ClientId),
}

/// What is to be done with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Apply it, and tell [`Sessions::done`] the answer.
    Apply,
    /// Answer this without applying it.
    Answer(Answer),
}

/// The table of sessions.
///
/// 1. `order` has each client once, under the `stamp` that its record has; stamps are unique and grow.
/// 2. A record's answers are sorted by number and all above `floor`.
/// 3. `bytes` is the sum over all answers.
#[derive(Clone, Debug)]
pub struct Sessions {
    limits: SessionLimits,
    clients: HashMap<u64, Record>,
    order: BTreeMap<u64, u64>,
    stamp: u64,
    bytes: usize,
    touched: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Record {
    stamp: u64,
    /// Numbers up to this one have no answer any more.
    floor: u64,
    answers: VecDeque<(u64, Bytes)>,
}

impl Sessions {
    /// An empty table.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        Self { limits, clients: HashMap::new(), order: BTreeMap::new(), stamp: 0, bytes: 0, touched: Vec::new() }
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Whether a command is to be applied. A command that opens its session isn't: it is answered here.
    pub fn admit(&mut self, Session { client, sequence }: Session) -> Admission {
        if client == ClientId::NONE {
            return Admission::Apply;
        }
        let client = client.0;
        if sequence == Sequence::OPEN {
            self.clients.entry(client).or_default();
            self.touch(client);
            self.forget();
            return Admission::Answer(Answer::Done(Bytes::new()));
        }
        let Some(record) = self.clients.get(&client) else { return Admission::Answer(Answer::NoSession) };
        if sequence.0 <= record.floor {
            return Admission::Answer(Answer::Forgotten);
        }
        let at = record.answers.binary_search_by_key(&sequence.0, |(number, _)| *number);
        at.map_or(Admission::Apply, |at| Admission::Answer(Answer::Done(record.answers[at].1.clone())))
    }

    /// A command that was admitted has been applied, with this answer.
    pub fn done(&mut self, Session { client, sequence }: Session, answer: Bytes) {
        let Some(record) = self.clients.get_mut(&client.0) else { return };
        self.bytes += answer.len();
        let at = record.answers.partition_point(|(number, _)| *number < sequence.0);
        record.answers.insert(at, (sequence.0, answer));
        while record.answers.len() > self.limits.answers.max(1) {
            let Some((number, answer)) = record.answers.pop_front() else { break };
            record.floor = number;
            self.bytes -= answer.len();
        }
        self.touch(client.0);
        self.forget();
    }

    /// What has changed since the last call: for a machine on disk.
    pub fn changes(&mut self) -> Vec<SessionChange> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let change = |client| match self.clients.get(&client) {
            Some(record) => SessionChange::Put(ClientId(client), record.encode()),
            None => SessionChange::Remove(ClientId(client)),
        };
        touched.into_iter().map(change).collect()
    }

    /// Forgets what has changed, for machines that don't keep it.
    pub fn settle(&mut self) {
        self.touched.clear();
    }

    /// All records, least recently used first: for a snapshot.
    pub fn records(&self) -> impl Iterator<Item = (u64, Bytes)> {
        self.order.values().filter_map(|client| self.clients.get(client).map(|record| (*client, record.encode())))
    }

    /// The table of these records.
    ///
    /// None: one of them isn't a record, or two are of one client or one time.
    #[must_use]
    pub fn of_records(limits: SessionLimits, records: impl IntoIterator<Item = (u64, Bytes)>) -> Option<Self> {
        let mut sessions = Self::new(limits);
        for (client, bytes) in records {
            let record = Record::decode(bytes)?;
            sessions.stamp = sessions.stamp.max(record.stamp);
            sessions.bytes += record.bytes();
            if sessions.order.insert(record.stamp, client).is_some()
                || sessions.clients.insert(client, record).is_some()
            {
                return None;
            }
        }
        Some(sessions)
    }

    fn touch(&mut self, client: u64) {
        let Some(record) = self.clients.get_mut(&client) else { return };
        self.order.remove(&record.stamp);
        self.stamp += 1;
        record.stamp = self.stamp;
        self.order.insert(self.stamp, client);
        self.touched.push(client);
    }

    /// The client that was used last stays, whatever it has.
    fn forget(&mut self) {
        while self.order.len() > 1 && (self.clients.len() > self.limits.clients || self.bytes > self.limits.bytes) {
            let Some((_, client)) = self.order.pop_first() else { return };
            if let Some(record) = self.clients.remove(&client) {
                self.bytes -= record.bytes();
            }
            self.touched.push(client);
        }
    }
}

impl Record {
    fn bytes(&self) -> usize {
        self.answers.iter().map(|(_, answer)| answer.len()).sum()
    }

    /// `stamp: u64`, `floor: u64`, and for each answer its number as `u64`, its length as `u32`, and itself.
    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(16 + 12 * self.answers.len() + self.bytes());
        out.put_u64_le(self.stamp);
        out.put_u64_le(self.floor);
        for (number, answer) in &self.answers {
            out.put_u64_le(*number);
            out.put_u32_le(answer.len() as u32);
            out.extend_from_slice(answer);
        }
        out.into()
    }

    fn decode(mut bytes: Bytes) -> Option<Self> {
        let mut record =
            Self { stamp: bytes.try_get_u64_le().ok()?, floor: bytes.try_get_u64_le().ok()?, ..Self::default() };
        let mut before = record.floor;
        while bytes.has_remaining() {
            let number = bytes.try_get_u64_le().ok()?;
            let length = bytes.try_get_u32_le().ok()? as usize;
            if number <= before || length > bytes.len() {
                return None;
            }
            before = number;
            record.answers.push_back((number, bytes.split_to(length)));
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SessionLimits = SessionLimits { clients: 2, answers: 3, bytes: 1000 };

    fn session(client: u64, sequence: u64) -> Session {
        Session { client: ClientId(client), sequence: Sequence(sequence) }
    }

    fn apply(sessions: &mut Sessions, client: u64, sequence: u64, answer: &'static str) -> Admission {
        let admission = sessions.admit(session(client, sequence));
        if admission == Admission::Apply {
            sessions.done(session(client, sequence), Bytes::from_static(answer.as_bytes()));
        }
        admission
    }

    fn done(answer: &'static str) -> Admission {
        Admission::Answer(Answer::Done(Bytes::from_static(answer.as_bytes())))
    }

    #[test]
    fn a_command_is_applied_once_and_answered_the_same_again() {
        let mut sessions = Sessions::new(LIMITS);
        assert_eq!(apply(&mut sessions, 7, 1, "a"), Admission::Answer(Answer::NoSession));
        assert_eq!(apply(&mut sessions, 7, 0, ""), done(""));
        assert_eq!(apply(&mut sessions, 7, 2, "b"), Admission::Apply);
        // One that was overtaken is still new.
        assert_eq!(apply(&mut sessions, 7, 1, "a"), Admission::Apply);
        assert_eq!(apply(&mut sessions, 7, 1, "x"), done("a"));
        assert_eq!(apply(&mut sessions, 7, 2, "x"), done("b"));
        // Opening it again changes nothing.
        assert_eq!(apply(&mut sessions, 7, 0, ""), done(""));
        assert_eq!(apply(&mut sessions, 7, 2, "x"), done("b"));
    }

    #[test]
    fn answers_and_clients_are_forgotten_oldest_first_and_are_told_so() {
        let mut sessions = Sessions::new(LIMITS);
        apply(&mut sessions, 7, 0, "");
        (1..=4).for_each(|number| assert_eq!(apply(&mut sessions, 7, number, "a"), Admission::Apply));
        assert_eq!(apply(&mut sessions, 7, 1, "x"), Admission::Answer(Answer::Forgotten));
        assert_eq!(apply(&mut sessions, 7, 2, "x"), done("a"));

        apply(&mut sessions, 8, 0, "");
        apply(&mut sessions, 7, 5, "a");
        apply(&mut sessions, 9, 0, "");
        assert_eq!(sessions.len(), 2);
        assert_eq!(apply(&mut sessions, 8, 1, "x"), Admission::Answer(Answer::NoSession));
        assert_eq!(apply(&mut sessions, 7, 5, "x"), done("a"));
    }

    #[test]
    fn a_table_goes_through_records_and_changes() {
        let mut sessions = Sessions::new(LIMITS);
        let mut kept = BTreeMap::new();
        for (client, number) in [(7, 0), (7, 1), (8, 0), (8, 1), (7, 2), (9, 0), (9, 1), (7, 3), (7, 4)] {
            apply(&mut sessions, client, number, "answer");
            for change in sessions.changes() {
                match change {
                    SessionChange::Put(client, record) => kept.insert(client.0, record),
                    SessionChange::Remove(client) => kept.remove(&client.0),
                };
            }
        }
        let records: Vec<_> = sessions.records().collect();
        assert_eq!(kept, records.iter().cloned().collect());
        let mut again = Sessions::of_records(LIMITS, records.clone()).expect("they were written");
        assert_eq!(again.records().collect::<Vec<_>>(), records);
        assert_eq!(apply(&mut again, 7, 4, "x"), apply(&mut sessions, 7, 4, "x"));
        assert_eq!(apply(&mut again, 8, 1, "x"), Admission::Answer(Answer::NoSession));
    }

    #[test]
    fn answers_are_bounded_in_bytes() {
        let mut sessions = Sessions::new(SessionLimits { clients: 100, answers: 3, bytes: 10 });
        for client in 1..=5 {
            apply(&mut sessions, client, 0, "");
            apply(&mut sessions, client, 1, "four");
        }
        assert_eq!(sessions.records().map(|(client, _)| client).collect::<Vec<_>>(), [4, 5]);
    }
}
