//! What was posted to an endpoint and is not written yet.

use std::ops::Range;
use std::sync::Arc;

use crate::framing::PREFIX;

/// The unwritten bytes of an endpoint, in two loads: the kernel may be reading one while the other is filled.
///
/// Invariants:
/// 1. What is to be written is what `flight` has left, then `filling`.
/// 2. The bytes of `flight` are neither changed nor moved from [`take_off`](Self::take_off) until
///    [`advance`](Self::advance) has gone past its end. (Moving the outbox doesn't move what `flight` points to, and
///    what is shared is only read, by all who have it.)
/// 3. Buffers that hold nothing belong to the queue's [`Spare`], so that an idle endpoint holds no memory.
/// 4. A load with pieces has bytes too, those of their prefixes at least; so one without bytes is empty.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    flight: Load,
    /// How many of the bytes of `flight`, and of its pieces, are written.
    written: usize,
    pieces_written: usize,
    filling: Load,
    /// There was no room after the last chunk; the owner waits to hear of it.
    starved: bool,
}

/// Bytes that were copied, and between them parts of buffers that were not.
#[derive(Debug, Default)]
pub(crate) struct Load {
    bytes: Vec<u8>,
    /// In order.
    pieces: Vec<Piece>,
    /// Unwritten bytes of the pieces.
    shared: usize,
}

/// A part of a buffer that its poster may have too.
#[derive(Debug)]
struct Piece {
    /// How many of the load's bytes come before it.
    at: usize,
    buffer: Arc<Vec<u8>>,
    /// What is unwritten of it; nothing only once it is written.
    rest: Range<usize>,
}

impl Load {
    fn len(&self) -> usize {
        self.bytes.len() + self.shared
    }
}

/// Where the bytes lie that are to be written next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takeoff<'a> {
    Run(&'a [u8]),
    Scattered(Scattered<'a>),
}

/// Bytes in several places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scattered<'a> {
    bytes: &'a [u8],
    written: usize,
    pieces: &'a [Piece],
}

impl<'a> Scattered<'a> {
    /// As many slices are worth handing over at once: eight chunks.
    pub(crate) const MOST: usize = 16;

    /// The bytes in order. None of the slices is empty.
    pub(crate) fn slices(self) -> impl Iterator<Item = &'a [u8]> {
        let Self { bytes, written, pieces } = self;
        let mut from = written;
        let around = pieces.iter().flat_map(move |piece| {
            let before = &bytes[from..piece.at];
            from = piece.at;
            [before, &piece.buffer[piece.rest.clone()]]
        });
        let after = &bytes[pieces.last().map_or(written, |last| last.at)..];
        around.chain([after]).filter(|slice| !slice.is_empty())
    }
}

/// A chunk to be posted, of which a part is shared.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) head: [&'a [u8]; 2],
    pub(crate) buffer: &'a Arc<Vec<u8>>,
    pub(crate) range: Range<usize>,
    pub(crate) tail: &'a [u8],
}

/// Empty buffers, those used last on top.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    bytes: Vec<Vec<u8>>,
    pieces: Vec<Vec<Piece>>,
    /// What was shared, is written, and nobody has any more.
    reclaimed: Vec<Vec<u8>>,
}

impl Spare {
    const LIMIT: usize = 64;

    #[inline]
    fn put(&mut self, load: &mut Load) {
        let mut bytes = std::mem::take(&mut load.bytes);
        bytes.clear();
        if self.bytes.len() < Self::LIMIT && bytes.capacity() > 0 {
            self.bytes.push(bytes);
        }
        if load.pieces.capacity() > 0 {
            self.put_pieces(std::mem::take(&mut load.pieces));
            load.shared = 0;
        }
    }

    #[inline(never)]
    fn put_pieces(&mut self, mut pieces: Vec<Piece>) {
        for buffer in pieces.drain(..).filter_map(|piece| Arc::into_inner(piece.buffer)) {
            if self.reclaimed.len() < Self::LIMIT {
                self.reclaimed.push(buffer);
            }
        }
        if self.pieces.len() < Self::LIMIT {
            self.pieces.push(pieces);
        }
    }

    /// The last two take turns, and one that is made is not alone: an endpoint whose kernel still reads the one has grown the
    /// other before.
    fn take(&mut self) -> Vec<u8> {
        match self.bytes.len() {
            0 => {
                self.bytes.push(Vec::new());
                Vec::new()
            }
            1 => self.bytes.pop().unwrap_or_default(),
            count => self.bytes.remove(count - 2),
        }
    }

    /// A buffer that was shared and that nobody has any more.
    pub(crate) fn reclaim(&mut self) -> Option<Vec<u8>> {
        self.reclaimed.pop()
    }
}

impl Outbox {
    /// Bytes unwritten, with their prefixes.
    #[inline]
    pub(crate) fn unwritten(&self) -> usize {
        self.flight.len() - self.written + self.filling.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unwritten() == 0
    }

    /// Whether bytes were taken off and are not written yet.
    pub(crate) fn is_flying(&self) -> bool {
        !self.flight.bytes.is_empty()
    }

    /// Adds a chunk of `len` bytes. `starved`: there is no room for another one.
    #[inline]
    pub(crate) fn push(&mut self, parts: &[&[u8]], len: usize, mark: usize, spare: &mut Spare) {
        self.begin(len, len, spare);
        parts.iter().for_each(|part| self.filling.bytes.extend_from_slice(part));
        self.starved = self.unwritten() >= mark;
    }

    /// Adds chunks that have their prefixes.
    pub(crate) fn push_run(&mut self, run: &[u8], mark: usize, spare: &mut Spare) {
        let bytes = &mut self.filling.bytes;
        if bytes.capacity() == 0 {
            *bytes = spare.take();
        }
        bytes.extend_from_slice(run);
        self.starved = self.unwritten() >= mark;
    }

    /// [`push`](Self::push) for a chunk with a part, which isn't empty, that stays where it is.
    pub(crate) fn push_shared(&mut self, chunk: &Shared<'_>, len: usize, mark: usize, spare: &mut Spare) {
        let Shared { head, buffer, range, tail } = chunk;
        self.begin(len, len - range.len(), spare);
        if self.filling.pieces.capacity() == 0 {
            self.filling.pieces = spare.pieces.pop().unwrap_or_default();
        }
        let Load { bytes, pieces, shared } = &mut self.filling;
        head.iter().for_each(|part| bytes.extend_from_slice(part));
        pieces.push(Piece { at: bytes.len(), buffer: Arc::clone(buffer), rest: range.clone() });
        *shared += range.len();
        bytes.extend_from_slice(tail);
        self.starved = self.unwritten() >= mark;
    }

    /// Adds the prefix of a chunk of `len` bytes, of which so many will be `copied`.
    #[inline]
    fn begin(&mut self, len: usize, copied: usize, spare: &mut Spare) {
        let bytes = &mut self.filling.bytes;
        if bytes.capacity() == 0 {
            *bytes = spare.take();
        }
        bytes.reserve(PREFIX + copied);
        bytes.extend_from_slice(&(len as u32).to_le_bytes());
    }

    /// The bytes to be written next. They stay where they are until `advance` has been told that all of them are
    /// written. Empty if there is nothing to write.
    pub(crate) fn take_off(&mut self) -> Takeoff<'_> {
        if self.flight.bytes.is_empty() {
            std::mem::swap(&mut self.flight, &mut self.filling);
        }
        let (bytes, written) = (self.flight.bytes.as_slice(), self.written);
        match &self.flight.pieces[self.pieces_written..] {
            [] => Takeoff::Run(&bytes[written..]),
            pieces => Takeoff::Scattered(Scattered { bytes, written, pieces }),
        }
    }

    /// [`take_off`](Self::take_off) for bytes that change on the way: if nothing is flying, `seal` makes what flies next
    /// of what was posted, all of it copied. `waits`: what was posted isn't to leave yet, and `seal` gets none of it.
    pub(crate) fn take_off_sealed<E>(
        &mut self,
        waits: bool,
        mark: usize,
        spare: &mut Spare,
        seal: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        debug_assert!(self.filling.pieces.is_empty(), "what is sealed is copied");
        if self.flight.bytes.is_empty() {
            self.flight.bytes = spare.take();
            let sealed = seal(if waits { &[] } else { &self.filling.bytes }, &mut self.flight.bytes);
            if !waits {
                spare.put(&mut self.filling);
            }
            // It may have become longer.
            self.starved |= self.unwritten() >= mark;
            sealed?;
        }
        Ok(&self.flight.bytes[self.written..])
    }

    /// The mark has come down to this: an owner who finds no room now waits to hear of it, as after a chunk.
    pub(crate) fn lower(&mut self, mark: usize) {
        self.starved |= self.unwritten() >= mark;
    }

    /// Gives up what was posted and isn't flying.
    pub(crate) fn give_up_posted(&mut self) {
        self.filling = Load::default();
    }

    /// Whether chunks were posted that have not been taken off.
    pub(crate) fn has_posted(&self) -> bool {
        !self.filling.bytes.is_empty()
    }

    /// Notes that the first `count` of the bytes taken off are written. True: the owner, who saw no room, has room.
    pub(crate) fn advance(&mut self, mut count: usize, mark: usize, spare: &mut Spare) -> bool {
        while let Some(piece) = self.flight.pieces.get_mut(self.pieces_written) {
            let before = piece.at - self.written;
            if count < before {
                break;
            }
            self.written = piece.at;
            let taken = piece.rest.len().min(count - before);
            count -= before + taken;
            piece.rest.start += taken;
            self.flight.shared -= taken;
            if !piece.rest.is_empty() {
                break;
            }
            self.pieces_written += 1;
        }
        self.written = self.flight.bytes.len().min(self.written + count);
        if self.written == self.flight.len() {
            (self.written, self.pieces_written) = (0, 0);
            spare.put(&mut self.flight);
        }
        let relieved = self.starved && self.unwritten() < mark;
        self.starved &= !relieved;
        relieved
    }

    /// Gives up what is unwritten. The caller knows that the kernel reads no buffer any more.
    pub(crate) fn clear(&mut self, spare: &mut Spare) {
        spare.put(&mut self.flight);
        spare.put(&mut self.filling);
        (self.written, self.pieces_written) = (0, 0);
    }

    /// The buffers that the kernel may still be reading, to be kept or leaked by a caller who can't find out.
    pub(crate) fn into_flight(self) -> Load {
        self.flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARK: usize = 20;

    fn flat(takeoff: Takeoff<'_>) -> Vec<u8> {
        match takeoff {
            Takeoff::Run(bytes) => bytes.to_vec(),
            Takeoff::Scattered(scattered) => scattered.slices().flatten().copied().collect(),
        }
    }

    fn post_shared(outbox: &mut Outbox, spare: &mut Spare, head: &[u8], body: &[u8], tail: &[u8]) {
        // With bytes around it that are not to be sent.
        let buffer = Arc::new([&[0xaa], body, &[0xbb]].concat());
        let chunk = Shared { head: [head, &[]], buffer: &buffer, range: 1..1 + body.len(), tail };
        outbox.push_shared(&chunk, head.len() + body.len() + tail.len(), MARK, spare);
    }

    /// Otherwise whoever posts something short, has the mark lowered, and finds no room for what is long, waits for ever.
    #[test]
    fn who_finds_no_room_because_the_mark_came_down_hears_when_there_is_some() {
        let (mut outbox, mut spare) = (Outbox::default(), Spare::default());
        outbox.push(&[&[1; 10]], 10, usize::MAX, &mut spare);
        outbox.lower(1);
        let len = flat(outbox.take_off()).len();
        assert!(!outbox.advance(len - 1, 1, &mut spare));
        assert!(outbox.advance(1, 1, &mut spare));
    }

    proptest! {
        /// Whether chunks are copied, shared or both, and however little the socket takes, what is written is what was
        /// posted, and every shared buffer comes back.
        #[test]
        fn what_is_written_in_pieces_is_what_was_posted(
            posts in prop::collection::vec((0..3_usize, 0..5_usize, 0..9_usize, 1..30_usize), 1..60),
        ) {
            let (mut outbox, mut spare) = (Outbox::default(), Spare::default());
            let (mut stream, mut posted, mut shared) = (Vec::new(), Vec::new(), 0);
            for (number, (head, tail, body, count)) in posts.into_iter().enumerate() {
                let (head, body, tail) = (vec![number as u8; 1 + head], vec![number as u8 ^ 1; body], vec![7; tail]);
                posted.extend_from_slice(&((head.len() + body.len() + tail.len()) as u32).to_le_bytes());
                posted.extend([&head[..], &body, &tail].concat());
                if body.is_empty() {
                    outbox.push(&[&head, &tail], head.len() + tail.len(), MARK, &mut spare);
                } else {
                    post_shared(&mut outbox, &mut spare, &head, &body, &tail);
                    shared += 1;
                }
                let taken = flat(outbox.take_off());
                let count = taken.len().min(count);
                stream.extend_from_slice(&taken[..count]);
                outbox.advance(count, MARK, &mut spare);
                prop_assert_eq!(outbox.unwritten(), posted.len() - stream.len());
            }
            while !outbox.is_empty() {
                let all = flat(outbox.take_off());
                outbox.advance(all.len(), MARK, &mut spare);
                stream.extend(all);
            }
            prop_assert_eq!(stream, posted);
            prop_assert_eq!(std::iter::from_fn(|| spare.reclaim()).count(), shared);
            prop_assert!(!outbox.is_flying());
        }
    }

    #[test]
    fn a_buffer_that_its_poster_keeps_is_not_reclaimed() {
        let (mut outbox, mut spare) = (Outbox::default(), Spare::default());
        let buffer = Arc::new(vec![1; 8]);
        for range in [0..4, 4..8] {
            outbox.push_shared(&Shared { head: [&[]; 2], buffer: &buffer, range, tail: &[] }, 4, MARK, &mut spare);
        }
        outbox.take_off();
        outbox.advance(16, MARK, &mut spare);
        assert!(outbox.is_empty() && spare.reclaim().is_none());
        assert_eq!(Arc::into_inner(buffer), Some(vec![1; 8]));
    }

    #[test]
    fn what_is_cleared_gives_its_buffers_back() {
        let (mut outbox, mut spare) = (Outbox::default(), Spare::default());
        post_shared(&mut outbox, &mut spare, &[1], &[2; 9], &[]);
        outbox.take_off();
        outbox.advance(7, MARK, &mut spare);
        post_shared(&mut outbox, &mut spare, &[1], &[2; 9], &[]);
        outbox.clear(&mut spare);
        assert!(outbox.is_empty());
        assert_eq!(std::iter::from_fn(|| spare.reclaim()).count(), 2);
    }

    #[test]
    fn room_that_comes_back_is_told_once() {
        let (mut outbox, mut spare) = (Outbox::default(), Spare::default());
        outbox.push(&[&[0; 12]], 12, MARK, &mut spare);
        outbox.take_off();
        outbox.push(&[&[0; 12]], 12, MARK, &mut spare);
        assert_eq!(outbox.unwritten(), 32);
        assert!(!outbox.advance(8, MARK, &mut spare), "24 bytes are still beyond the mark");
        assert!(outbox.advance(8, MARK, &mut spare), "16 bytes are not");
        outbox.take_off();
        assert!(!outbox.advance(16, MARK, &mut spare));
    }

    #[test]
    fn an_empty_outbox_holds_no_memory() {
        let (mut outbox, mut spare) = (Outbox::default(), Spare::default());
        outbox.push(&[&[0; 12]], 12, MARK, &mut spare);
        let len = flat(outbox.take_off()).len();
        outbox.advance(len, MARK, &mut spare);
        post_shared(&mut outbox, &mut spare, &[1], &[2; 9], &[]);
        let len = flat(outbox.take_off()).len();
        outbox.advance(len, MARK, &mut spare);
        for load in [&outbox.flight, &outbox.filling] {
            assert_eq!((load.bytes.capacity(), load.pieces.capacity()), (0, 0));
        }
        // Two of them take turns.
        assert_eq!((spare.bytes.len(), spare.pieces.len()), (2, 1));
    }
}
