//! Messages as bytes.

use super::{Message, MessageError, MessageKind};
use crate::{Entry, EntryKind, Index, Membership, SnapshotMeta, Term};
use bytes::{Buf, BufMut, Bytes};

/// Bytes of a message without entries and snapshot.
const HEAD: usize = 64;

/// Bytes of an entry beside its data.
const ENTRY: usize = 13;

const REJECT: u8 = 1;
const FORCED: u8 = 2;

/// Terms and indices are below this, so that arithmetic on them can't overflow. At a million a second it takes
/// 146,000 years to get there.
const NUMBERS: u64 = 1 << 62;

impl Message {
    /// How long it is as bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let entries: usize = self.entries.iter().map(|entry| ENTRY + entry.data.len()).sum();
        let snapshot = self.snapshot.as_ref().map_or(0, |meta| 18 + meta.membership.nodes().count() * 16);
        HEAD + entries + snapshot
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        out.put_u8(self.kind.code());
        out.put_u8(if self.reject { REJECT } else { 0 } | if self.forced { FORCED } else { 0 });
        out.put_u16_le(0);
        out.put_u32_le(self.entries.len() as u32);
        let numbers = [
            self.term.0,
            self.log_term.0,
            self.index.0,
            self.commit.0,
            self.commit_term.0,
            self.reject_hint.0,
            self.read,
        ];
        numbers.into_iter().for_each(|number| out.put_u64_le(number));
        for entry in &self.entries {
            out.put_u64_le(entry.term.0);
            out.put_u32_le(entry.data.len() as u32);
            out.put_u8(entry.kind.code());
            out.extend_from_slice(&entry.data);
        }
        if let Some(meta) = &self.snapshot {
            out.put_u64_le(meta.index.0);
            out.put_u64_le(meta.term.0);
            meta.membership.write(out);
        }
    }

    /// Reads one. Entries' data stay where they are, and keep these bytes alive.
    ///
    /// # Errors
    /// They are something else, or say what no replica would.
    pub fn decode(mut bytes: Bytes) -> Result<Self, MessageError> {
        let found = bytes.len();
        let short = |what| MessageError::Short { found, what };
        if found < HEAD {
            return Err(short("head"));
        }
        let code = bytes.get_u8();
        let kind = MessageKind::of(code).ok_or(MessageError::Value { what: "kind", found: code.into() })?;
        let flags = bytes.get_u8();
        if flags > (REJECT | FORCED) {
            return Err(MessageError::Value { what: "flags", found: flags.into() });
        }
        let zero = bytes.get_u16_le();
        if zero != 0 {
            return Err(MessageError::Value { what: "third and fourth byte", found: zero.into() });
        }
        let count = bytes.get_u32_le();
        let mut message = Self {
            kind,
            reject: flags & REJECT != 0,
            forced: flags & FORCED != 0,
            term: Term(number(&mut bytes, "term")?),
            log_term: Term(number(&mut bytes, "log term")?),
            index: Index(number(&mut bytes, "index")?),
            commit: Index(number(&mut bytes, "commit index")?),
            commit_term: Term(number(&mut bytes, "commit term")?),
            reject_hint: Index(number(&mut bytes, "hint")?),
            read: bytes.get_u64_le(),
            entries: Vec::new(),
            snapshot: None,
        };
        message.check(count)?;
        // As many as there can be, whatever the count says.
        message.entries.reserve((count as usize).min(bytes.len() / ENTRY));
        let mut before = message.log_term;
        for offset in 0..u64::from(count) {
            let entry =
                read_entry(&mut bytes, Index(message.index.0 + 1 + offset)).ok_or_else(|| short("entries"))??;
            if entry.term < before || entry.term > message.term {
                return Err(MessageError::Value { what: "entry's term", found: entry.term.0 });
            }
            before = entry.term;
            message.entries.push(entry);
        }
        if kind == MessageKind::Snapshot {
            message.snapshot = Some(read_snapshot(&mut bytes, message.term).ok_or_else(|| short("snapshot"))??);
        }
        if bytes.is_empty() { Ok(message) } else { Err(MessageError::Long(bytes.len())) }
    }

    /// Whether the head is one that a replica would write.
    fn check(&self, count: u32) -> Result<(), MessageError> {
        let wrong = |what, found| Err(MessageError::Value { what, found });
        let is = |kinds: &[MessageKind]| kinds.contains(&self.kind);
        if self.term == Term(0) || self.log_term > self.term && !self.reject {
            return wrong("term", self.term.0);
        }
        if count > 0 && !is(&[MessageKind::Append]) {
            return wrong("count of entries", count.into());
        }
        if is(&[MessageKind::Append]) && (self.log_term == Term(0)) != (self.index == Index::ZERO) {
            return wrong("log term", self.log_term.0);
        }
        if self.forced && !is(&[MessageKind::Vote]) {
            return wrong("flags", FORCED.into());
        }
        if self.read != 0 && !is(&[MessageKind::Heartbeat, MessageKind::HeartbeatResponse]) {
            return wrong("round of reads", self.read);
        }
        Ok(())
    }
}

fn number(bytes: &mut Bytes, what: &'static str) -> Result<u64, MessageError> {
    let found = bytes.get_u64_le();
    if found < NUMBERS { Ok(found) } else { Err(MessageError::Value { what, found }) }
}

/// None: the bytes end.
fn read_entry(bytes: &mut Bytes, index: Index) -> Option<Result<Entry, MessageError>> {
    if bytes.len() < ENTRY {
        return None;
    }
    let term = bytes.get_u64_le();
    let length = bytes.get_u32_le() as usize;
    let code = bytes.get_u8();
    if bytes.len() < length {
        return None;
    }
    let data = bytes.split_to(length);
    let kind = EntryKind::of(code).ok_or(MessageError::Value { what: "entry's kind", found: code.into() });
    Some(kind.map(|kind| Entry { index, term: Term(term), kind, data }))
}

fn read_snapshot(bytes: &mut Bytes, newest: Term) -> Option<Result<SnapshotMeta, MessageError>> {
    if bytes.len() < 16 {
        return None;
    }
    let (index, term) = (bytes.get_u64_le(), bytes.get_u64_le());
    if index == 0 || index >= NUMBERS {
        return Some(Err(MessageError::Value { what: "snapshot's index", found: index }));
    }
    if term == 0 || term > newest.0 {
        return Some(Err(MessageError::Value { what: "snapshot's term", found: term }));
    }
    Some(match Membership::read(bytes) {
        Ok(membership) if membership.voters().next().is_some() => {
            Ok(SnapshotMeta { index: Index(index), term: Term(term), membership })
        }
        _ => Err(MessageError::Membership),
    })
}
