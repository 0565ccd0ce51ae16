//! How a segment's bytes are framed: a header, then blocks. All numbers are little-endian.
//!
//! A block is what one [`sync`](super::Log::sync) writes, and no block is written before the one ahead of it is
//! durable. So after a crash at most the last block is in pieces, whatever order the disk wrote its sectors in; if a
//! bad block has a good one behind it, the disk has lost what it had, and that is another matter.
//!
//! | bytes of a block | what |
//! |---|---|
//! | 0..4 | length of the records, 1 to [`BLOCK_MOST`] |
//! | 4..8 | checksum of the salt, the block's place in the file, its length and its number |
//! | 8..16 | the block's number; they count up through all segments |
//! | 16..20 | checksum of the one before, and of the records |
//! | 20..24 | zero |
//! | 24.. | records, and zeros until a multiple of 8 |
//!
//! Checksums are CRC32C (RFC 3720, appendix B.4). The salt is the segment's own and nobody outside knows it, so neither
//! bytes of an earlier file, nor a value that a client made to look like a block, passes for one.

use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};

/// Bytes in front of a block's records.
pub(super) const BLOCK_HEADER: usize = 24;

/// Blocks begin at multiples of it.
pub(super) const ALIGNMENT: usize = 8;

/// The longest block that is written, in bytes of its records.
pub(super) const BLOCK_MOST: usize = 256 << 20;

/// What is at a place where a block may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole block.
    Block {
        /// Its number.
        number: u64,
        /// Its records.
        records: Bytes,
        /// Where the next one begins.
        end: usize,
    },
    /// Nothing but zeros from here to the end.
    Nothing,
    /// A block's header, and other records than it was written with.
    Records {
        /// The block's number.
        number: u64,
        /// Where the next one would begin; beyond the segment, perhaps.
        end: usize,
    },
    /// Something else.
    Broken,
}

/// Looks at `offset` in a segment's bytes.
pub(super) fn at(segment: &[u8], offset: usize, salt: u64) -> Found {
    let Some(header) = Header::at(segment, offset, salt) else {
        let rest = segment.get(offset..).unwrap_or_default();
        return if rest.iter().all(|byte| *byte == 0) { Found::Nothing } else { Found::Broken };
    };
    let start = offset + BLOCK_HEADER;
    let end = (start + header.length).next_multiple_of(ALIGNMENT);
    let records = segment.get(start..start + header.length);
    let Some(records) = records.filter(|records| crc32c_append(header.own_sum, records) == header.sum) else {
        return Found::Records { number: header.number, end };
    };
    Found::Block { number: header.number, records: Bytes::copy_from_slice(records), end }
}

/// Whether a block begins anywhere after `offset`.
pub(super) fn any_after(segment: &[u8], offset: usize, salt: u64) -> bool {
    let first = (offset + 1).next_multiple_of(ALIGNMENT);
    (first..segment.len()).step_by(ALIGNMENT).any(|offset| Header::at(segment, offset, salt).is_some())
}

/// Bytes that a block of so many bytes of records takes in a segment.
pub(super) const fn length_of(records: usize) -> usize {
    (BLOCK_HEADER + records).next_multiple_of(ALIGNMENT)
}

/// Makes a block of a buffer that has [`BLOCK_HEADER`] bytes in front of its records, for its place in a segment.
pub(super) fn seal(buffer: &mut Vec<u8>, offset: u64, number: u64, salt: u64) {
    let length = (buffer.len() - BLOCK_HEADER) as u32;
    let own_sum = header_sum(salt, offset, length, number);
    let sum = crc32c_append(own_sum, &buffer[BLOCK_HEADER..]);
    buffer[..4].copy_from_slice(&length.to_le_bytes());
    buffer[4..8].copy_from_slice(&own_sum.to_le_bytes());
    buffer[8..16].copy_from_slice(&number.to_le_bytes());
    buffer[16..20].copy_from_slice(&sum.to_le_bytes());
    buffer[20..24].fill(0);
    buffer.resize(buffer.len().next_multiple_of(ALIGNMENT), 0);
}

struct Header {
    length: usize,
    number: u64,
    own_sum: u32,
    sum: u32,
}

impl Header {
    fn at(segment: &[u8], offset: usize, salt: u64) -> Option<Self> {
        let bytes: &[u8; BLOCK_HEADER] = segment.get(offset..)?.first_chunk()?;
        let short = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (length, own_sum, sum) = (short(0), short(4), short(16));
        let number = u64::from(short(8)) | u64::from(short(12)) << 32;
        let sound = (1..=BLOCK_MOST).contains(&(length as usize))
            && short(20) == 0
            && header_sum(salt, offset as u64, length, number) == own_sum;
        sound.then_some(Self { length: length as usize, number, own_sum, sum })
    }
}

fn header_sum(salt: u64, offset: u64, length: u32, number: u64) -> u32 {
    let mut covered = [0; 28];
    covered[..8].copy_from_slice(&salt.to_le_bytes());
    covered[8..16].copy_from_slice(&offset.to_le_bytes());
    covered[16..20].copy_from_slice(&length.to_le_bytes());
    covered[20..].copy_from_slice(&number.to_le_bytes());
    crc32c(&covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 0x1234_5678_9abc_def0;

    fn block(records: &[u8], offset: u64, number: u64) -> Vec<u8> {
        let mut buffer = [&[0; BLOCK_HEADER], records].concat();
        seal(&mut buffer, offset, number, SALT);
        buffer
    }

    #[test]
    fn a_block_is_found_where_it_was_written_and_nowhere_else() {
        let mut segment = vec![0; 64];
        segment.extend(block(b"records", 64, 7));
        let end = segment.len();
        segment.resize(end + 100, 0);
        let found = Found::Block { number: 7, records: Bytes::from_static(b"records"), end };
        assert_eq!(at(&segment, 64, SALT), found);
        assert_eq!(at(&segment, 64, SALT + 1), Found::Broken, "of another file");
        assert_eq!(at(&segment[8..], 56, SALT), Found::Broken, "of another place");
        assert_eq!(at(&segment, end, SALT), Found::Nothing);
        assert_eq!(at(&segment, segment.len() + 8, SALT), Found::Nothing);
        assert!(any_after(&segment, 0, SALT) && !any_after(&segment, 64, SALT));
    }

    fn is_broken(found: &Found) -> bool {
        matches!(found, Found::Broken | Found::Records { number: 1, .. })
    }

    #[test]
    fn no_bit_of_a_block_can_change() {
        let whole = block(b"some records", 0, 1);
        for bit in 0..(BLOCK_HEADER + b"some records".len()) * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(is_broken(&at(&changed, 0, SALT)), "bit {bit}");
        }
    }

    #[test]
    fn no_part_of_a_block_passes_for_all() {
        let whole = block(b"some records", 0, 1);
        for length in 1..BLOCK_HEADER + b"some records".len() {
            let mut torn = whole[..length].to_vec();
            assert!(is_broken(&at(&torn, 0, SALT)), "cut after {length}");
            torn.resize(200, 0);
            assert!(is_broken(&at(&torn, 0, SALT)), "zeros after {length}");
        }
    }
}
