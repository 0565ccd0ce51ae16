//! The header of a segment: whose it is, what goes before, and all that the segments before it said of the state.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `GWLOG`, two zeros, version 1 |
//! | 8..12 | length of the header, a multiple of 8 |
//! | 12..16 | CRC32C of all that follows in the header |
//! | 16..32 | the segment's number; its salt |
//! | 32..48 | the owner: group, replica |
//! | 48..64 | where the last block of the segment before ends; the number of this one's first block |
//! | 64..88 | hard state: term, vote, commit |
//! | 88..112 | the log's beginning: index, term; index of the last entry |
//! | 112..116 | length of the membership at the beginning, which follows, and zeros until a multiple of 8 |
//!
//! As a segment says how the one before it ends, it can be told that nothing of that one is missing. As it repeats the
//! state, those before it can be removed once their entries are compacted.

use bytes::{Buf, BufMut, Bytes};
use crc32c::crc32c;

use super::block::ALIGNMENT;
use super::error::Damage;
use super::{HardState, Owner, SnapshotMeta};

const MAGIC: &[u8; 7] = b"GWLOG\0\0";
const VERSION: u8 = 1;
const FIXED: usize = 116;

/// The longest header, far more than any membership needs.
const MOST: usize = 16 << 20;

/// What a segment begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    pub(super) salt: u64,
    pub(super) owner: Owner,
    /// Where the last block of the segment before ends; 0 in the first one.
    pub(super) previous_end: u64,
    /// The number of the first block that it has or will have.
    pub(super) first_block: u64,
    pub(super) start: Start,
}

/// What is known where a segment begins, entries aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) hard_state: HardState,
    pub(super) beginning: SnapshotMeta,
    /// Index of the last entry.
    pub(super) last: u64,
}

impl Header {
    /// How long one is.
    pub(super) fn length(start: &Start) -> usize {
        (FIXED + start.beginning.membership.len()).next_multiple_of(ALIGNMENT)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Start { hard_state, beginning, last } = &self.start;
        let length = Self::length(&self.start);
        let mut out = Vec::with_capacity(length);
        out.put_slice(MAGIC);
        out.put_u8(VERSION);
        out.put_u32_le(length as u32);
        out.put_u32_le(0);
        let Owner { group, replica } = self.owner;
        let HardState { term, vote, commit } = *hard_state;
        [self.number, self.salt, group, replica, self.previous_end, self.first_block, term, vote, commit]
            .into_iter()
            .chain([beginning.index, beginning.term, *last])
            .for_each(|number| out.put_u64_le(number));
        out.put_u32_le(beginning.membership.len() as u32);
        out.put_slice(&beginning.membership);
        out.resize(length, 0);
        let sum = crc32c(&out[16..]);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads it from a segment's bytes, and says how long it is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(segment: &[u8]) -> Result<(Self, usize), Damage> {
        let mut bytes = segment;
        if bytes.len() < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC[..] {
            return Err(Damage::Magic);
        }
        bytes.advance(MAGIC.len());
        match bytes.try_get_u8() {
            Ok(VERSION) => {}
            Ok(other) => return Err(Damage::Version(other)),
            Err(_) => return Err(Damage::Short),
        }
        let length = bytes.try_get_u32_le().map_err(|_| Damage::Short)? as usize;
        let sum = bytes.try_get_u32_le().map_err(|_| Damage::Short)?;
        if !(FIXED..=MOST).contains(&length) {
            return Err(Damage::Header);
        }
        let covered = segment.get(16..length).ok_or(Damage::Short)?;
        if crc32c(covered) != sum {
            return Err(Damage::Header);
        }
        let mut number = || bytes.try_get_u64_le().map_err(|_| Damage::Short);
        let (own, salt) = (number()?, number()?);
        let owner = Owner { group: number()?, replica: number()? };
        let (previous_end, first_block) = (number()?, number()?);
        let hard_state = HardState { term: number()?, vote: number()?, commit: number()? };
        let (index, term, last) = (number()?, number()?, number()?);
        let members = bytes.try_get_u32_le().map_err(|_| Damage::Short)? as usize;
        let membership = Bytes::copy_from_slice(segment[..length].get(FIXED..FIXED + members).ok_or(Damage::Header)?);
        let start = Start { hard_state, beginning: SnapshotMeta { index, term, membership }, last };
        Ok((Self { number: own, salt, owner, previous_end, first_block, start }, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let beginning = SnapshotMeta { index: 10, term: 2, membership: Bytes::from_static(b"1,2,3") };
        let hard_state = HardState { term: 3, vote: 1, commit: 12 };
        let owner = Owner { group: 5, replica: 2 };
        let start = Start { hard_state, beginning, last: 20 };
        Header { number: 4, salt: 99, owner, previous_end: 4096, first_block: 17, start }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let encoded = header().encode();
        assert_eq!(Header::parse(&encoded), Ok((header(), encoded.len())));
        assert_eq!(Header::parse(&[&encoded[..], b"more"].concat()), Ok((header(), encoded.len())));
    }

    #[test]
    fn no_bit_of_a_header_can_change_and_none_of_it_can_be_missing() {
        let encoded = header().encode();
        for bit in 0..encoded.len() * 8 {
            let mut changed = encoded.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&changed).is_err(), "bit {bit}");
        }
        for length in 0..encoded.len() {
            assert!(Header::parse(&encoded[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let mut encoded = header().encode();
        encoded[7] = 2;
        assert_eq!(Header::parse(&encoded), Err(Damage::Version(2)));
        assert_eq!(Header::parse(b"something else"), Err(Damage::Magic));
    }
}
