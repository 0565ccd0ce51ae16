//! The chunked transfer coding (RFC 9112, 7.1), read strictly: what others read otherwise is no request here.

use crate::target::digit;

/// Bytes of a chunk's extensions, and of all trailers, that are read past.
const EXTENSION_MOST: usize = 256;
const TRAILERS_MOST: usize = 8 << 10;

/// Hexadecimal digits of a chunk's length.
const DIGITS_MOST: usize = 8;

/// A body in chunks, while it arrives. It holds no bytes.
#[derive(Debug, Default)]
pub(crate) struct Chunked {
    at: At,
    /// Of the chunk: its bytes that are still to come.
    left: usize,
    /// Digits, bytes of extensions or bytes of trailers that were read.
    read: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Length,
    Extension,
    /// The line feed after a length.
    LengthEnd,
    Data,
    /// The end of the line after a chunk's bytes.
    DataReturn,
    DataEnd,
    /// The first byte of a trailer, or of the empty line after the last.
    Trailer,
    TrailerLine,
    TrailerEnd,
    /// The line feed of the empty line.
    End,
}

/// These bytes are no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body's chunks can't be read")]
pub(crate) struct NoChunks;

impl Chunked {
    /// Takes in what arrived, and hands on what the chunks hold. How many bytes were of this body, and whether it is over.
    pub(crate) fn feed<E: From<NoChunks>>(
        &mut self,
        bytes: &[u8],
        deliver: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(usize, bool), E> {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            if self.at == At::Data {
                let (data, after) = rest.split_at(self.left.min(rest.len()));
                deliver(data)?;
                self.left -= data.len();
                rest = after;
                if self.left == 0 {
                    self.at = At::DataReturn;
                }
                continue;
            }
            rest = after;
            if self.step(*first)? {
                return Ok((bytes.len() - rest.len(), true));
            }
        }
        Ok((bytes.len(), false))
    }

    /// Takes in a byte that is none of a chunk's own. Whether it was the last.
    fn step(&mut self, byte: u8) -> Result<bool, NoChunks> {
        self.at = match (self.at, byte) {
            (At::Length, b'\r') if self.read > 0 => At::LengthEnd,
            (At::Length, b';' | b' ' | b'\t') if self.read > 0 => {
                self.read = 0;
                At::Extension
            }
            (At::Length, _) => {
                let digit = digit(byte).filter(|_| self.read < DIGITS_MOST).ok_or(NoChunks)?;
                self.left = self.left << 4 | usize::from(digit);
                self.read += 1;
                At::Length
            }
            (At::Extension, b'\r') => At::LengthEnd,
            (At::Extension, b'\n') => return Err(NoChunks),
            (At::Extension, _) => {
                self.count(EXTENSION_MOST)?;
                At::Extension
            }
            (At::LengthEnd, b'\n') => {
                self.read = 0;
                if self.left == 0 { At::Trailer } else { At::Data }
            }
            (At::DataReturn, b'\r') => At::DataEnd,
            (At::DataEnd, b'\n') => At::Length,
            (At::Trailer, b'\r') => At::End,
            (At::Trailer | At::TrailerLine, b'\n') => return Err(NoChunks),
            (At::TrailerLine, b'\r') => At::TrailerEnd,
            (At::Trailer | At::TrailerLine, _) => {
                self.count(TRAILERS_MOST)?;
                At::TrailerLine
            }
            (At::TrailerEnd, b'\n') => At::Trailer,
            (At::End, b'\n') => return Ok(true),
            _ => return Err(NoChunks),
        };
        Ok(false)
    }

    fn count(&mut self, most: usize) -> Result<(), NoChunks> {
        self.read += 1;
        if self.read > most { Err(NoChunks) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What chunks hold, and what comes after them.
    type Found = (Vec<u8>, Vec<u8>);

    /// What is found, if they are chunks and all there.
    fn read(bytes: &[u8], cut: usize) -> Result<Option<Found>, NoChunks> {
        let (mut chunked, mut body) = (Chunked::default(), Vec::new());
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = &rest[..cut.clamp(1, rest.len())];
            let fed = chunked.feed::<NoChunks>(piece, &mut |data| {
                body.extend_from_slice(data);
                Ok(())
            });
            let (used, done) = fed?;
            rest = &rest[used..];
            if done {
                return Ok(Some((body, rest.to_vec())));
            }
        }
        Ok(None)
    }

    proptest! {
        /// However they are cut on their way.
        #[test]
        fn chunks_are_what_they_hold(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 1_usize..50,
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend(format!("{:X};name=\"value\"\r\n", chunk.len()).bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"000\r\nSome: trailer\r\n\r\nGET");
            prop_assert_eq!(read(&bytes, cut), Ok(Some((chunks.concat(), b"GET".to_vec()))));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in "[0-9a-g;\r\n x]{0,60}", cut in 1_usize..9) {
            let _ = read(bytes.as_bytes(), cut);
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for wrong in [
            "\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5;a\nhello\r\n0\r\n\r\n",
            "-1\r\n",
            "0x5\r\n",
            "123456789\r\n",
            "5\r\nhellox\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "0\r\n\n",
            "0\r\na: b\n\r\n",
            "g\r\n",
            " 5\r\n",
            "5\rhello",
        ] {
            assert_eq!(read(wrong.as_bytes(), 7), Err(NoChunks), "{wrong:?}");
        }
        let long = ["1;", &"x".repeat(EXTENSION_MOST + 1), "\r\n"].concat();
        assert_eq!(read(long.as_bytes(), 100), Err(NoChunks));
        let long = ["0\r\n", &"a: b\r\n".repeat(TRAILERS_MOST / 4 + 1)].concat();
        assert_eq!(read(long.as_bytes(), 100), Err(NoChunks));
    }
}
