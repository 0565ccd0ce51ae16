//! Blocks of headers that arrive.

use super::table::{Found, Table};
use super::{Malformed, OVERHEAD, huffman, integer, names};
use crate::fields::{Entry, List, Name};
use crate::validity;

/// Decodes the blocks of a connection, in their order.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// The largest table that the peer may choose.
    table_most: usize,
    /// The longest list.
    list_most: usize,
    /// The block that the list was made of, if it would be made of it again: it changed nothing in the table.
    last: Vec<u8>,
    is_last_good: bool,
}

/// A list that is longer than is accepted. What is left of it is of no use, but the table is in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// How a header is to be kept.
enum Kind {
    Insert,
    Pass,
}

impl Decoder {
    pub(crate) fn new(table_most: usize, list_most: usize) -> Self {
        let table = Table::new(super::super::settings::TABLE_DEFAULT as usize);
        Self { table, table_most, list_most, last: Vec::new(), is_last_good: false }
    }

    /// See [`Connection::each_part`](crate::Connection::each_part).
    pub(crate) fn each_part(&self, each: &mut dyn FnMut(*const u8, usize)) {
        each(self.last.as_ptr(), self.last.len().min(256));
    }

    /// Decodes a block into the list, which takes the place of what is there; that is to be what this made of the block before.
    pub(crate) fn decode(&mut self, block: &[u8], list: &mut List) -> Result<Result<(), TooLong>, Malformed> {
        // Most calls of a connection have the headers of the one before.
        if self.is_last_good && self.last == block {
            list.as_before = true;
            return Ok(Ok(()));
        }
        self.is_last_good = false;
        list.clear();
        let (fits, is_pure) = self.decode_anew(block, list)?;
        if fits.is_ok() && is_pure {
            self.last.clear();
            self.last.extend_from_slice(block);
            self.is_last_good = true;
        }
        Ok(fits)
    }

    /// Whether the list fits, and whether the table is as it was.
    fn decode_anew(&mut self, mut rest: &[u8], list: &mut List) -> Result<(Result<(), TooLong>, bool), Malformed> {
        let (mut size, mut is_pure) = (0, true);
        // Changes of the table's size come before anything else (RFC 7541, 4.2).
        while let Some(first) = rest.first()
            && first & 0xe0 == 0x20
        {
            let most = integer::decode(&mut rest, 5)?;
            if most > self.table_most {
                return Err(Malformed);
            }
            self.table.resize(most);
            is_pure = false;
        }
        while let Some(first) = rest.first() {
            let before = list.bytes.len();
            let (entry, kind) = match first {
                0x80.. => (self.indexed(&mut rest, list)?, Kind::Pass),
                0x40.. => (self.literal(&mut rest, 6, list)?, Kind::Insert),
                // Another change of size.
                0x20.. => return Err(Malformed),
                _ => (self.literal(&mut rest, 4, list)?, Kind::Pass),
            };
            if matches!(kind, Kind::Insert) {
                is_pure = false;
                self.table.insert(Found {
                    bytes: &list.bytes[before..],
                    name_len: entry.name_len as usize,
                    id: entry.id,
                    is_valid: entry.is_valid,
                });
            }
            size += list.bytes.len() - before + OVERHEAD;
            if size > self.list_most {
                // Nothing of it is kept, but the table has to follow the peer's.
                list.clear();
            } else {
                list.entries.push(entry);
            }
        }
        Ok((if size > self.list_most { Err(TooLong) } else { Ok(()) }, is_pure))
    }

    /// A header that is in a table (RFC 7541, 6.1).
    #[inline]
    fn indexed(&self, rest: &mut &[u8], list: &mut List) -> Result<Entry, Malformed> {
        let index = integer::decode(rest, 7)?;
        let at = list.bytes.len() as u32;
        if index > names::STATIC.len() {
            let Found { bytes, name_len, id, is_valid } =
                self.table.entry(index - names::STATIC.len() - 1).ok_or(Malformed)?;
            list.bytes.extend_from_slice(bytes);
            let (name_len, value_len) = (name_len as u32, (bytes.len() - name_len) as u32);
            return Ok(Entry { at, name_len, value_len, id, is_valid });
        }
        let (name, value) = names::STATIC.get(index.wrapping_sub(1)).ok_or(Malformed)?;
        list.bytes.extend_from_slice(name.as_bytes());
        list.bytes.extend_from_slice(value.as_bytes());
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        Ok(Entry { at, name_len, value_len, id: names::id_at(index), is_valid: true })
    }

    /// A header that is written out, its name perhaps but in a table (RFC 7541, 6.2).
    fn literal(&self, rest: &mut &[u8], bits: u32, list: &mut List) -> Result<Entry, Malformed> {
        let index = integer::decode(rest, bits)?;
        let start = list.bytes.len();
        let (id, is_name_valid) = if index == 0 {
            string(rest, list)?;
            let name = &list.bytes[start..];
            let id = names::id_of(name);
            (id, id != Name::OTHER || validity::is_name(name))
        } else if index > names::STATIC.len() {
            let found = self.table.entry(index - names::STATIC.len() - 1).ok_or(Malformed)?;
            let name = &found.bytes[..found.name_len];
            list.bytes.extend_from_slice(name);
            (found.id, found.is_valid || found.id != Name::OTHER || validity::is_name(name))
        } else {
            list.bytes.extend_from_slice(names::STATIC[index - 1].0.as_bytes());
            (names::id_at(index), true)
        };
        let middle = list.bytes.len();
        string(rest, list)?;
        let is_valid = is_name_valid && validity::is_value(&list.bytes[middle..]);
        let (name_len, value_len) = ((middle - start) as u32, (list.bytes.len() - middle) as u32);
        Ok(Entry { at: start as u32, name_len, value_len, id, is_valid })
    }

    #[cfg(test)]
    pub(super) fn table_size(&self) -> usize {
        self.table.size()
    }
}

/// A string (RFC 7541, 5.2), to the end of the list's bytes.
fn string(rest: &mut &[u8], list: &mut List) -> Result<(), Malformed> {
    let is_coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let len = integer::decode(rest, 7)?;
    let (bytes, behind) = rest.split_at_checked(len).ok_or(Malformed)?;
    *rest = behind;
    if is_coded {
        return huffman::decode(bytes, &mut list.bytes);
    }
    list.bytes.extend_from_slice(bytes);
    Ok(())
}
