//! Chunks within a stream of bytes: each has its length before it, four bytes, little-endian.

/// Length of the prefix, in bytes.
pub(crate) const PREFIX: usize = 4;

/// Cuts what arrives from a stream into the chunks that were posted.
///
/// A chunk that lies within one read is handed on in place. What is left at the end of a read is kept until the rest
/// arrives.
///
/// Invariants:
/// 1. `partial` is the beginning of one chunk with its prefix, never a whole one.
/// 2. Its memory grows with what has arrived, to one chunk of the longest length at most: a peer that announces much
///    and sends little costs little.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    partial: Vec<u8>,
}

/// A prefix that announces a length which is not allowed. The stream has no further chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongLength {
    pub(crate) len: usize,
    /// How many of the bytes that were fed last lie behind the prefix.
    pub(crate) behind: usize,
}

impl Framer {
    /// Takes what was read and hands on the chunks that it completes. `limit` is the longest chunk that is allowed.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        limit: usize,
        deliver: &mut dyn FnMut(&[u8]),
    ) -> Result<(), WrongLength> {
        if !self.partial.is_empty() {
            bytes = self.complete(bytes, limit, deliver)?;
        }
        while let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() {
            let len = length(*prefix, limit, rest.len())?;
            let Some((chunk, rest)) = rest.split_at_checked(len) else { break };
            deliver(chunk);
            bytes = rest;
        }
        self.grow_to(PREFIX + limit, bytes);
        Ok(())
    }

    /// Whether the stream is within a chunk.
    pub(crate) fn is_within_chunk(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Adds to the partial chunk; what is returned comes after it.
    fn complete<'a>(
        &mut self,
        bytes: &'a [u8],
        limit: usize,
        deliver: &mut dyn FnMut(&[u8]),
    ) -> Result<&'a [u8], WrongLength> {
        let bytes = self.grow_to(PREFIX, bytes);
        let Some(prefix) = self.partial.first_chunk::<PREFIX>() else { return Ok(bytes) };
        let whole = PREFIX + length(*prefix, limit, bytes.len())?;
        let bytes = self.grow_to(whole, bytes);
        if self.partial.len() == whole {
            deliver(&self.partial[PREFIX..]);
            self.partial.clear();
        }
        Ok(bytes)
    }

    /// Moves bytes over until there are `goal` of them, and returns the others.
    fn grow_to<'a>(&mut self, goal: usize, bytes: &'a [u8]) -> &'a [u8] {
        let missing = goal.saturating_sub(self.partial.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        let needed = self.partial.len() + taken.len();
        if needed > self.partial.capacity() {
            let capacity = needed.max(goal.min(self.partial.capacity() * 2));
            self.partial.reserve_exact(capacity - self.partial.len());
        }
        self.partial.extend_from_slice(taken);
        rest
    }
}

/// The one place where a length from outside becomes a length.
#[inline]
fn length(prefix: [u8; PREFIX], limit: usize, behind: usize) -> Result<usize, WrongLength> {
    let len = u32::from_le_bytes(prefix) as usize;
    if (1..=limit).contains(&len) { Ok(len) } else { Err(WrongLength { len, behind }) }
}

/// Reads bytes as a stream, of which the first says in what pieces: they are cut into the same chunks however they come.
///
/// # Panics
/// If they are not, or if more is held than a chunk.
#[cfg(any(test, feature = "fuzzing"))]
pub fn any_cuts(bytes: &[u8]) {
    const LIMIT: usize = 64;
    let Some((first, bytes)) = bytes.split_first() else { return };
    let read = |piece: usize| {
        let (mut framer, mut chunks) = (Framer::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            let fed = framer.feed(piece, LIMIT, &mut |chunk| chunks.push(chunk.to_vec()));
            assert!(framer.partial.capacity() <= PREFIX + LIMIT, "a partial chunk takes more than one chunk");
            if let Err(wrong) = fed {
                return (chunks, Some(wrong.len));
            }
        }
        (chunks, None)
    };
    assert_eq!(read(usize::from(*first) + 1), read(usize::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 64;

    #[test]
    fn what_was_worth_trying_is_cut_alike() {
        crate::fuzzing::replay("framing", any_cuts);
    }

    fn framed(chunks: &[Vec<u8>]) -> Vec<u8> {
        chunks.iter().flat_map(|chunk| [&(chunk.len() as u32).to_le_bytes(), chunk.as_slice()].concat()).collect()
    }

    fn feed_all<'a>(reads: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Result<(), WrongLength>, Framer) {
        let (mut framer, mut chunks) = (Framer::default(), Vec::new());
        for read in reads {
            let fed = framer.feed(read, LIMIT, &mut |chunk| chunks.push(chunk.to_vec()));
            assert!(framer.partial.capacity() <= PREFIX + LIMIT, "a partial chunk takes more than one chunk");
            if fed.is_err() {
                return (chunks, fed, framer);
            }
        }
        (chunks, Ok(()), framer)
    }

    proptest! {
        /// However the stream is cut into reads, the chunks come out as they went in.
        #[test]
        fn reads_of_any_length_give_the_same_chunks(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=LIMIT), 0..20),
            cuts in prop::collection::vec(1_usize..100, 1..20),
        ) {
            let stream = framed(&chunks);
            let mut rest = stream.as_slice();
            let mut cuts = cuts.iter().cycle();
            let reads = std::iter::from_fn(|| {
                let (read, after) = rest.split_at((*cuts.next()?).min(rest.len()));
                rest = after;
                (!read.is_empty()).then_some(read)
            });
            let (seen, fed, framer) = feed_all(reads);
            prop_assert_eq!(seen, chunks);
            prop_assert_eq!(fed, Ok(()));
            prop_assert!(!framer.is_within_chunk());
        }

        /// No bytes make it panic or hand on a chunk that is empty or too long.
        #[test]
        fn garbage_gives_chunks_of_allowed_length_or_an_error(reads in prop::collection::vec(
            prop::collection::vec(prop_oneof![Just(0_u8), 0..80_u8, any::<u8>()], 1..40), 0..40,
        )) {
            let (chunks, _, _) = feed_all(reads.iter().map(Vec::as_slice));
            prop_assert!(chunks.iter().all(|chunk| (1..=LIMIT).contains(&chunk.len())));
        }
    }

    #[test]
    fn a_length_of_zero_or_beyond_the_limit_ends_the_stream_after_the_chunks_before_it() {
        for wrong in [0, LIMIT as u32 + 1, u32::MAX] {
            let stream = [framed(&[vec![7; 3]]), wrong.to_le_bytes().to_vec(), vec![0; 9]].concat();
            for step in [1, 3, stream.len()] {
                let (chunks, fed, _) = feed_all(stream.chunks(step));
                // Of the last step, which may end within the prefix.
                let behind = if step == stream.len() { 9 } else { (7 + PREFIX).next_multiple_of(step) - 7 - PREFIX };
                assert_eq!((chunks, fed), (vec![vec![7; 3]], Err(WrongLength { len: wrong as usize, behind })));
            }
        }
    }

    #[test]
    fn a_stream_that_ends_within_a_chunk_is_noticed() {
        for cut in 1..PREFIX + 5 {
            let (chunks, fed, framer) = feed_all(std::iter::once(&framed(&[vec![1; 5]])[..cut]));
            assert_eq!((chunks.len(), fed, framer.is_within_chunk()), (0, Ok(()), true));
        }
    }
}
