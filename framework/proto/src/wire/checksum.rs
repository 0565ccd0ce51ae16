//! CRC32C, where both peers offered it: the last four bytes of a chunk, over all bytes before them.
//!
//! TCP's own sum misses about one damaged segment in 65 thousand, and says nothing about what happens between the
//! socket and the program. CRC32C (RFC 3720, appendix B.4) costs a few dozen nanoseconds per KiB on CPUs that have
//! an instruction for it.

use super::{Problem, WireError};

/// Bytes that the checksum takes at the end of a chunk.
pub const CHECKSUM_BYTES: usize = 4;

/// The checksum that follows a chunk made of these parts.
pub fn checksum(parts: &[&[u8]]) -> [u8; CHECKSUM_BYTES] {
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)).to_le_bytes()
}

/// The chunk without its checksum, if that is right.
pub(super) fn verified(chunk: &[u8]) -> Result<&[u8], WireError> {
    let Some((covered, &found)) = chunk.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(WireError::short(None, CHECKSUM_BYTES, chunk.len()));
    };
    let computed = checksum(&[covered]);
    if computed == found {
        Ok(covered)
    } else {
        let (found, computed) = (u32::from_le_bytes(found), u32::from_le_bytes(computed));
        Err(WireError::at(None, covered.len(), Problem::Checksum { found, computed }))
    }
}
