//! The dynamic table of the side that decodes (RFC 7541, 2.3.2).

use super::OVERHEAD;
use crate::fields::Name;
use std::collections::VecDeque;

/// Entries in the order in which they came, their names and values one behind the other in memory that is used again.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<Kept>,
    bytes: Vec<u8>,
    /// What was taken off the front of the bytes so far, in all: positions count from there.
    dropped: u64,
    size: usize,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    at: u64,
    name_len: u32,
    value_len: u32,
    id: Name,
    is_valid: bool,
}

/// An entry: name and value one behind the other, where one ends, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) name_len: usize,
    pub(super) id: Name,
    pub(super) is_valid: bool,
}

impl Table {
    pub(super) fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: Vec::new(), dropped: 0, size: 0, most }
    }

    /// The newest has index 0.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Option<Found<'_>> {
        let at = self.entries.len().checked_sub(index + 1)?;
        let kept = &self.entries[at];
        let start = (kept.at - self.dropped) as usize;
        let bytes = &self.bytes[start..start + (kept.name_len + kept.value_len) as usize];
        Some(Found { bytes, name_len: kept.name_len as usize, id: kept.id, is_valid: kept.is_valid })
    }

    /// Adds an entry; older ones go.
    pub(super) fn insert(&mut self, new: Found<'_>) {
        let size = new.bytes.len() + OVERHEAD;
        self.evict(self.most.saturating_sub(size));
        if size > self.most {
            return;
        }
        let at = self.dropped + self.bytes.len() as u64;
        self.bytes.extend_from_slice(new.bytes);
        let (name_len, value_len) = (new.name_len as u32, (new.bytes.len() - new.name_len) as u32);
        self.entries.push_back(Kept { at, name_len, value_len, id: new.id, is_valid: new.is_valid });
        self.size += size;
    }

    pub(super) fn resize(&mut self, most: usize) {
        self.most = most;
        self.evict(most);
    }

    /// Drops the oldest until no more than this is left.
    fn evict(&mut self, most: usize) {
        while self.size > most {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.size -= (oldest.name_len + oldest.value_len) as usize + OVERHEAD;
        }
        // Bytes go when they are most of what there is, so each is moved once.
        let used = self.entries.front().map_or(self.bytes.len(), |oldest| (oldest.at - self.dropped) as usize);
        if used > self.bytes.len() / 2 {
            self.bytes.drain(..used);
            self.dropped += used as u64;
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        assert!(self.bytes.len() <= 2 * self.most, "what went is not kept");
        self.size
    }
}
