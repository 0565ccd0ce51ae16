//! The records that a block is made of. All numbers are little-endian.
//!
//! | record | first byte | then |
//! |---|---|---|
//! | hard state | 1 | term, vote, commit: u64 each |
//! | entry | 2 | term, index: u64 each; kind: u8; length: u32; data |
//! | truncation | 3 | the first index that goes: u64 |
//! | beginning | 4 | index, term: u64 each; what follows stays: u8, 0 or 1; length: u32; membership |
//!
//! A block's checksum was right before its records are read, so what can't be read here was written by another
//! program, or by a defect of this one.

use bytes::{Buf, BufMut, Bytes};

use super::{Entry, HardState, SnapshotMeta};

/// Something that was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The hard state from here on.
    HardState(HardState),
    /// The next entry.
    Entry(Entry),
    /// This entry and all after it are gone.
    Truncate(u64),
    /// The log begins after this index.
    Beginning {
        /// What is at its beginning.
        meta: SnapshotMeta,
        /// Whether the entries after it stay; otherwise all are gone.
        keep: bool,
    },
}

/// A record can't be read. Says at which byte it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) usize);

const HARD_STATE: u8 = 1;
const ENTRY: u8 = 2;
const TRUNCATE: u8 = 3;
const BEGINNING: u8 = 4;

/// Bytes of an entry's record, less its data.
pub(super) const ENTRY_OVERHEAD: usize = 1 + 8 + 8 + 1 + 4;

/// Reads all records of a block. Entries' data stay where they are.
///
/// # Errors
/// At the first one that can't be read.
pub(super) fn parse(mut block: Bytes) -> Result<Vec<Record>, Unreadable> {
    let length = block.len();
    let mut records = Vec::new();
    while block.has_remaining() {
        let at = length - block.len();
        records.push(next(&mut block).ok_or(Unreadable(at))?);
    }
    Ok(records)
}

/// Appends a record.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn write(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::HardState(state) => write_hard_state(state, out),
        Record::Entry(entry) => write_entry(entry, out),
        Record::Truncate(from) => write_truncation(*from, out),
        Record::Beginning { meta, keep } => write_beginning(meta, *keep, out),
    }
}

pub(super) fn write_hard_state(state: &HardState, out: &mut Vec<u8>) {
    out.put_u8(HARD_STATE);
    [state.term, state.vote, state.commit].into_iter().for_each(|number| out.put_u64_le(number));
}

/// The data's length is below 2^32: what a block may have is less.
pub(super) fn write_entry(entry: &Entry, out: &mut Vec<u8>) {
    out.put_u8(ENTRY);
    out.put_u64_le(entry.term);
    out.put_u64_le(entry.index);
    out.put_u8(entry.kind);
    write_bytes(&entry.data, out);
}

pub(super) fn write_truncation(from: u64, out: &mut Vec<u8>) {
    out.put_u8(TRUNCATE);
    out.put_u64_le(from);
}

pub(super) fn write_beginning(meta: &SnapshotMeta, keep: bool, out: &mut Vec<u8>) {
    out.put_u8(BEGINNING);
    out.put_u64_le(meta.index);
    out.put_u64_le(meta.term);
    out.put_u8(keep.into());
    write_bytes(&meta.membership, out);
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.put_u32_le(bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn next(block: &mut Bytes) -> Option<Record> {
    Some(match block.try_get_u8().ok()? {
        HARD_STATE => {
            Record::HardState(HardState { term: number(block)?, vote: number(block)?, commit: number(block)? })
        }
        ENTRY => {
            let (term, index, kind) = (number(block)?, number(block)?, block.try_get_u8().ok()?);
            Record::Entry(Entry { term, index, kind, data: bytes(block)? })
        }
        TRUNCATE => Record::Truncate(number(block)?),
        BEGINNING => {
            let (index, term) = (number(block)?, number(block)?);
            let keep = match block.try_get_u8().ok()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            Record::Beginning { meta: SnapshotMeta { index, term, membership: bytes(block)? }, keep }
        }
        _ => return None,
    })
}

fn number(block: &mut Bytes) -> Option<u64> {
    block.try_get_u64_le().ok()
}

fn bytes(block: &mut Bytes) -> Option<Bytes> {
    let length = block.try_get_u32_le().ok()? as usize;
    (length <= block.len()).then(|| block.split_to(length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        prop_oneof![
            any::<[u64; 3]>().prop_map(|[term, vote, commit]| Record::HardState(HardState { term, vote, commit })),
            (any::<(u64, u64, u8)>(), bytes()).prop_map(|((term, index, kind), data)| Record::Entry(Entry {
                term,
                index,
                kind,
                data
            })),
            any::<u64>().prop_map(Record::Truncate),
            (any::<(u64, u64, bool)>(), bytes()).prop_map(|((index, term, keep), membership)| Record::Beginning {
                meta: SnapshotMeta { index, term, membership },
                keep
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(records in prop::collection::vec(any_record(), 0..10)) {
            let mut block = Vec::new();
            records.iter().for_each(|record| write(record, &mut block));
            prop_assert_eq!(parse(block.into()), Ok(records));
        }

        #[test]
        fn what_is_cut_off_is_refused_where_the_cut_record_begins(record in any_record(), cut in 1_usize..25) {
            let mut block = Vec::new();
            write(&record, &mut block);
            write(&Record::Truncate(1), &mut block);
            block.truncate(block.len() - cut.min(8));
            let at = block.len() - (9 - cut.min(8));
            prop_assert_eq!(parse(block.into()), Err(Unreadable(at)));
        }
    }
}
