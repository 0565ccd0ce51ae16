//! The limits of the format, and why each is what it is.

/// The version of the format that this module writes.
pub const VERSION: u16 = 1;

pub use crate::names::STAGE_NAME_MOST;

/// The smallest chunk that a peer may limit the other to, and the largest that may be sent before the peer's HELLO
/// is known. Every fixed head, a HELLO with the longest name and the text of a GOAWAY fit in it.
pub const CHUNK_BYTES_LEAST: u32 = 256;

/// The largest chunk a peer may offer to receive. What is longer stands in front of what is shorter for too long:
/// 1 MiB takes about 0.8 ms at 10 Gbit/s.
pub const CHUNK_BYTES_MOST: u32 = 1 << 20;

/// Most receive buffers a peer may offer: credits come back in a field of 16 bits.
pub const CREDITS_MOST: u32 = u16::MAX as u32;

/// Bytes of chunks after which credits go back, however many are owed: the sender of a long message sends little ahead of
/// what was read, so that short ones needn't wait behind it, and has to know.
pub const RETURN_BYTES: usize = 64 << 10;

/// Most calls a peer may accept at once on a connection: a call's number has 16 bits for its slot.
pub const CALLS_MOST: u32 = 1 << 16;

/// Most bytes of a call's metadata: what HTTP servers commonly allow for all headers together. It also has to fit
/// in the CALL's own chunk.
pub const META_BYTES_MOST: usize = 8 * 1024;

/// Most bytes of a failure's text. The text stands whole in the REPLY's chunk; a sender cuts it to what fits.
pub const FAILURE_TEXT_MOST: usize = 1024;

/// Most bytes of a GOAWAY's text: with its head and a checksum it fits in [`CHUNK_BYTES_LEAST`].
pub const GO_AWAY_TEXT_MOST: usize = 200;

/// How much of a stream may be sent before any of it is given back, each way: bytes of its messages, and
/// [`MESSAGE_COST`] for each. The last message begun may go beyond it.
pub const STREAM_WINDOW: u32 = 256 << 10;

/// What a message of a stream takes of the window beside its bytes: about what a receiver needs to hold it, so that empty
/// ones are bounded too.
pub const MESSAGE_COST: u32 = 64;

/// Most bytes of the receipts in a REPLY: 64 stages with the longest names and the longest numbers fit.
pub const RECEIPT_BYTES_MOST: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::super::{CHECKSUM_BYTES, HELLO_FIXED, Head};
    use super::*;

    #[test]
    fn the_smallest_chunk_holds_what_it_must() {
        let least = CHUNK_BYTES_LEAST as usize;
        assert!(HELLO_FIXED + STAGE_NAME_MOST <= least);
        assert!(Head::MOST + CHECKSUM_BYTES < least);
        assert!(13 + GO_AWAY_TEXT_MOST + CHECKSUM_BYTES <= least);
    }
}
