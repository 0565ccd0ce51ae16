//! Packs text and unpacks it again (crate `miniz_oxide`).

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec;

use crate::text;
use crate::{Job, Scale, checksum};

const WORDS: usize = 200_000;
const LEVEL: u8 = 6;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = text::words(35, scale.of(WORDS));
    Box::new(move || {
        let (packed, unpacked) = round_trip(text.as_bytes());
        checksum([packed as u64].into_iter().chain(unpacked.into_iter().map(u64::from)))
    })
}

/// How many bytes it took packed, and the text as it came out.
fn round_trip(text: &[u8]) -> (usize, Vec<u8>) {
    let packed = compress_to_vec(text, LEVEL);
    (packed.len(), decompress_to_vec(&packed).expect("it was packed just now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_as_it_was_and_was_smaller() {
        let text = text::words(1, 3000);
        let (packed, unpacked) = round_trip(text.as_bytes());
        assert_eq!(unpacked, text.as_bytes());
        assert!(packed < text.len() / 2, "{} bytes became {packed}", text.len());
    }
}
