//! What was posted to an endpoint and is not written yet.

use crate::framing::PREFIX;

/// The unwritten bytes of an endpoint, in two buffers: the kernel may be reading one while the other is filled.
///
/// Invariants:
/// 1. What is to be written is `flight[written..]`, then `filling`.
/// 2. `flight` is neither changed nor moved from [`take_off`](Self::take_off) until
///    [`advance`](Self::advance) has gone past its end. (Moving the outbox doesn't move what `flight` points to.)
/// 3. Buffers that hold nothing belong to the queue's [`Spare`], so that an idle endpoint holds no memory.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    flight: Vec<u8>,
    written: usize,
    filling: Vec<u8>,
    /// There was no room after the last chunk; the owner waits to hear of it.
    starved: bool,
}

/// Empty buffers, the one used last on top.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<u8>>);

impl Spare {
    const LIMIT: usize = 64;

    fn put(&mut self, buffer: &mut Vec<u8>) {
        let mut buffer = std::mem::take(buffer);
        buffer.clear();
        if self.0.len() < Self::LIMIT && buffer.capacity() > 0 {
            self.0.push(buffer);
        }
    }

    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
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
        !self.flight.is_empty()
    }

    /// Adds a chunk of `len` bytes. `starved`: there is no room for another one.
    pub(crate) fn push(&mut self, parts: &[&[u8]], len: usize, mark: usize, spare: &mut Spare) {
        if self.filling.capacity() == 0 {
            self.filling = spare.take();
        }
        self.filling.reserve(PREFIX + len);
        self.filling.extend_from_slice(&(len as u32).to_le_bytes());
        parts.iter().for_each(|part| self.filling.extend_from_slice(part));
        self.starved = self.unwritten() >= mark;
    }

    /// The bytes to be written next. They stay where they are until `advance` has been told that all of them are
    /// written. Empty if there is nothing to write.
    pub(crate) fn take_off(&mut self) -> &[u8] {
        if self.flight.is_empty() {
            std::mem::swap(&mut self.flight, &mut self.filling);
        }
        &self.flight[self.written..]
    }

    /// [`take_off`](Self::take_off) for bytes that change on the way: if nothing is flying, `seal` makes what flies next
    /// of what was posted. `waits`: what was posted isn't to leave yet, and `seal` gets none of it.
    pub(crate) fn take_off_sealed<E>(
        &mut self,
        waits: bool,
        mark: usize,
        spare: &mut Spare,
        seal: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        if self.flight.is_empty() {
            self.flight = spare.take();
            let sealed = seal(if waits { &[] } else { &self.filling }, &mut self.flight);
            if !waits {
                spare.put(&mut self.filling);
            }
            // It may have become longer.
            self.starved |= self.unwritten() >= mark;
            sealed?;
        }
        Ok(&self.flight[self.written..])
    }

    /// Gives up what was posted and isn't flying.
    pub(crate) fn give_up_posted(&mut self) {
        self.filling = Vec::new();
    }

    /// Whether chunks were posted that have not been taken off.
    pub(crate) fn has_posted(&self) -> bool {
        !self.filling.is_empty()
    }

    /// Notes that the first `count` of the bytes taken off are written. True: the owner, who saw no room, has room.
    pub(crate) fn advance(&mut self, count: usize, mark: usize, spare: &mut Spare) -> bool {
        self.written = self.flight.len().min(self.written + count);
        if self.written == self.flight.len() {
            self.written = 0;
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
        self.written = 0;
    }

    /// The buffer that the kernel may still be reading, to be kept or leaked by a caller who can't find out.
    pub(crate) fn into_flight(self) -> Vec<u8> {
        self.flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: usize = 20;

    #[test]
    fn what_is_written_in_pieces_is_what_was_posted() {
        let (mut outbox, mut spare) = (Outbox::default(), Spare::default());
        let mut stream = Vec::new();
        for round in 0..50_u8 {
            outbox.push(&[&[round], &[round; 2]], 3, MARK, &mut spare);
            let taken = outbox.take_off();
            let count = taken.len().min(usize::from(round) % 6);
            stream.extend_from_slice(&taken[..count]);
            outbox.advance(count, MARK, &mut spare);
        }
        while !outbox.is_empty() {
            let all = outbox.take_off().to_vec();
            outbox.advance(all.len(), MARK, &mut spare);
            stream.extend(all);
        }
        let posted: Vec<u8> = (0..50_u8).flat_map(|round| [3, 0, 0, 0, round, round, round]).collect();
        assert_eq!(stream, posted);
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
        let len = outbox.take_off().len();
        outbox.advance(len, MARK, &mut spare);
        assert_eq!((outbox.flight.capacity(), outbox.filling.capacity(), spare.0.len()), (0, 0, 1));
    }
}
