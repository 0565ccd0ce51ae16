//! Blocks of headers that are sent.

use super::{Known, OVERHEAD, integer, names};
use crate::fields::{Header, Name};
use std::collections::VecDeque;

/// Encodes the blocks of a connection, in their order.
///
/// What is put into the table are the headers that are [known](Known), and nothing else. Each keeps when it was put there last,
/// so that it is found without a search.
#[derive(Debug)]
pub(crate) struct Encoder {
    known: Vec<Entry>,
    /// The sizes of what is in the table, in the order in which it came.
    sizes: VecDeque<u32>,
    /// How many were ever put there.
    inserted: u64,
    size: usize,
    most: usize,
    /// The largest table that this side wants.
    wanted: usize,
    /// The least and the last size of the table since the peer was told of one.
    resized: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Entry {
    /// Of the name, or of both, in the static table; 0: none.
    name_index: u8,
    whole_index: u8,
    /// Which of all that were put into the table it was last, from 1; 0: none.
    at: u64,
    name_len: usize,
    /// The name and behind it the value.
    bytes: Box<[u8]>,
}

impl Encoder {
    pub(crate) fn new(wanted: usize) -> Self {
        // What the peer has before it says anything.
        let most = crate::settings::TABLE_DEFAULT as usize;
        let mut encoder =
            Self { known: Vec::new(), sizes: VecDeque::new(), inserted: 0, size: 0, most, wanted, resized: None };
        encoder.allow(most);
        encoder
    }

    pub(crate) fn know(&mut self, name: &[u8], value: &[u8]) -> Option<Known> {
        let number = u16::try_from(self.known.len()).ok()?;
        let (name_index, whole_index) = names::static_indices(name, value);
        let bytes = [name, value].concat().into();
        self.known.push(Entry { name_index, whole_index, at: 0, name_len: name.len(), bytes });
        Some(Known(number))
    }

    /// See [`Connection::each_part`](crate::Connection::each_part).
    pub(crate) fn each_part(&self, each: &mut dyn FnMut(*const u8, usize)) {
        each(self.known.as_ptr().cast(), self.known.len() * size_of::<Entry>());
    }

    /// The peer allows a table of this size.
    pub(crate) fn allow(&mut self, most: usize) {
        let most = most.min(self.wanted);
        if most == self.most {
            return;
        }
        self.most = most;
        self.resized = Some((self.resized.map_or(most, |(least, _)| least.min(most)), most));
        self.evict(most);
    }

    fn evict(&mut self, most: usize) {
        while self.size > most {
            let Some(size) = self.sizes.pop_front() else { return };
            self.size -= size as usize;
        }
    }

    /// What any block has to begin with.
    #[inline]
    pub(crate) fn begin(&mut self, into: &mut Vec<u8>) {
        if let Some((least, last)) = self.resized.take() {
            if least < last {
                integer::encode(into, 0x20, 5, least);
            }
            integer::encode(into, 0x20, 5, last);
        }
    }

    /// Adds headers to a block that is sent before any other.
    #[inline]
    pub(crate) fn encode(&mut self, headers: &[Header<'_>], into: &mut Vec<u8>) {
        for header in headers {
            match *header {
                Header::Known(known) => self.encode_known(known, into),
                Header::Plain(name, value) => literal(into, 0, name, value),
                Header::Sensitive(name, value) => literal(into, 0x10, name, value),
            }
        }
    }

    /// Adds headers to a block that is sent some time: it refers to nothing that may be gone then.
    pub(crate) fn encode_for_later(&self, headers: &[Header<'_>], into: &mut Vec<u8>) {
        for header in headers {
            match *header {
                Header::Known(Known(number)) => match self.known.get(usize::from(number)) {
                    Some(Entry { whole_index: 0, name_index, name_len, bytes, .. }) => {
                        let (name, value) = bytes.split_at(*name_len);
                        indexed_literal(into, 0, 4, *name_index, name, value);
                    }
                    Some(entry) => into.push(0x80 | entry.whole_index),
                    None => {}
                },
                Header::Plain(name, value) => literal(into, 0, name, value),
                Header::Sensitive(name, value) => literal(into, 0x10, name, value),
            }
        }
    }

    #[inline]
    fn encode_known(&mut self, Known(number): Known, into: &mut Vec<u8>) {
        // One that another connection knows: it says nothing.
        let Some(entry) = self.known.get(usize::from(number)) else { return };
        if entry.whole_index != 0 {
            into.push(0x80 | entry.whole_index);
        } else if entry.at + self.sizes.len() as u64 > self.inserted {
            integer::encode(into, 0x80, 7, names::STATIC.len() + 1 + (self.inserted - entry.at) as usize);
        } else {
            self.encode_new(number, into);
        }
    }

    #[cold]
    fn encode_new(&mut self, number: u16, into: &mut Vec<u8>) {
        let size = self.known[usize::from(number)].bytes.len() + OVERHEAD;
        let fits = size <= self.most;
        if fits {
            self.evict(self.most - size);
            self.size += size;
            self.sizes.push_back(size as u32);
            self.inserted += 1;
        }
        let inserted = self.inserted;
        let Entry { name_index, name_len, bytes, at, .. } = &mut self.known[usize::from(number)];
        let (name, value) = bytes.split_at(*name_len);
        let (above, bits) = if fits { (0x40, 6) } else { (0, 4) };
        indexed_literal(into, above, bits, *name_index, name, value);
        if fits {
            *at = inserted;
        }
    }
}

fn literal(into: &mut Vec<u8>, above: u8, name: &[u8], value: &[u8]) {
    let Name(id) = names::id_of(name);
    let index = if usize::from(id) <= names::STATIC.len() { id } else { 0 };
    indexed_literal(into, above, 4, index, name, value);
}

fn indexed_literal(into: &mut Vec<u8>, above: u8, bits: u32, index: u8, name: &[u8], value: &[u8]) {
    integer::encode(into, above, bits, index.into());
    if index == 0 {
        string(into, name);
    }
    string(into, value);
}

fn string(into: &mut Vec<u8>, bytes: &[u8]) {
    integer::encode(into, 0, 7, bytes.len());
    into.extend_from_slice(bytes);
}
