//! gzip, by flate2.

use super::{Encoding, Take, Undecodable};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read as _, Write as _};

/// How many bytes one of deflate's can stand for, at the most.
const RATIO_MOST: usize = 1032;

/// Bytes of a member that holds nothing: its head, an empty block, and its end.
const LEAST: usize = 10 + 2 + 8;

pub(super) fn compress(message: &[u8]) -> Option<Vec<u8>> {
    // Whoever compresses for the sake of a slow line has less to gain by the levels above than those take.
    let mut encoder = GzEncoder::new(Vec::with_capacity(message.len() / 4 + LEAST), Compression::fast());
    encoder.write_all(message).ok()?;
    encoder.finish().ok()
}

/// Bytes that are held to read a member beside its message: a window of 32 KiB, and tables.
const STATE: usize = 48 << 10;

pub(super) fn decompress(compressed: &[u8], most: usize, take: &mut Take<'_>) -> Result<Vec<u8>, Undecodable> {
    let corrupt = |why: &str| Encoding::Gzip.corrupt(why);
    // A member ends with the length of what it holds.
    let length =
        compressed.last_chunk().filter(|_| compressed.len() >= LEAST).ok_or_else(|| corrupt("it is cut short"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length / RATIO_MOST > compressed.len() {
        return Err(corrupt("it can't be as long as it says"));
    }
    if length > most {
        return Err(Undecodable::TooLong(most));
    }
    take(length + STATE)?;
    let mut message = vec![0; length];
    let mut decoder = GzDecoder::new(compressed);
    decoder.read_exact(&mut message).map_err(|error| Encoding::Gzip.corrupt(error.to_string()))?;
    // By this its checksum is compared too.
    match decoder.read(&mut [0]) {
        Ok(0) if decoder.get_ref().is_empty() => {
            drop(decoder);
            take(length)?;
            Ok(message)
        }
        Ok(0) => Err(corrupt("there is something behind its end")),
        Ok(_) => Err(corrupt("it is longer than it says")),
        Err(error) => Err(Encoding::Gzip.corrupt(error.to_string())),
    }
}
