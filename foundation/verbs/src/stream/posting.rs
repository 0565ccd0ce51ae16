//! What the owners of connections post.

use super::{Plain, Stream};
use crate::outbox::{Shared, Spare};
use crate::{EndpointId, QueueStats, Run, VerbsError};

/// The limits of a queue's outboxes, and their spare buffers.
#[derive(Debug)]
pub(crate) struct Posting {
    pub(crate) chunk_bytes: usize,
    pub(crate) mark: usize,
    pub(crate) spare: Spare,
}

impl Posting {
    /// Unwritten bytes beyond which nothing may be posted to a connection.
    #[inline]
    fn mark(&self, stream: &Stream) -> usize {
        self.mark.min(stream.mark)
    }

    /// Notes that so many of the bytes taken off are written. True: the owner, who saw no room, has room.
    #[inline]
    pub(crate) fn advance(&mut self, stream: &mut Stream, count: usize) -> bool {
        let mark = self.mark(stream);
        stream.outbox.advance(count, mark, &mut self.spare)
    }

    /// Payload bytes that may be posted to a connection.
    pub(crate) fn room(&self, stream: &Stream) -> usize {
        let (unwritten, mark) = (stream.outbox.unwritten(), self.mark(stream));
        if unwritten >= mark || !stream.takes_posts() { 0 } else { mark - unwritten + self.chunk_bytes }
    }

    /// Adds a chunk to a connection's outbox.
    #[inline]
    pub(crate) fn post(
        &mut self,
        id: EndpointId,
        stream: &mut Stream,
        parts: &[&[u8]],
        stats: &mut QueueStats,
    ) -> Result<(), VerbsError> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.check(id, stream, len)?;
        stream.outbox.push(parts, len, self.mark(stream), &mut self.spare);
        stats.chunks_out += 1;
        stats.bytes_out += len as u64;
        Ok(())
    }

    /// Adds chunks to a connection's outbox as they lie there.
    pub(crate) fn post_run(
        &mut self,
        id: EndpointId,
        stream: &mut Stream,
        run: Run<'_>,
        stats: &mut QueueStats,
    ) -> Result<(), VerbsError> {
        let len = run.bytes().len();
        if len > self.room(stream) {
            return Err(VerbsError::NoRoom { endpoint: id, len });
        }
        stream.outbox.push_run(run.bytes(), self.mark(stream), &mut self.spare);
        stats.chunks_out += run.count() as u64;
        stats.bytes_out += run.payload() as u64;
        Ok(())
    }

    /// Adds plain bytes to a connection's outbox.
    pub(crate) fn post_plain(
        &mut self,
        id: EndpointId,
        stream: &mut Stream,
        bytes: &[u8],
        stats: &mut QueueStats,
    ) -> Result<(), VerbsError> {
        if stream.plain != Plain::Always {
            return Err(VerbsError::NotPlain(id));
        }
        if bytes.len() > self.room(stream) {
            return Err(VerbsError::NoRoom { endpoint: id, len: bytes.len() });
        }
        stream.outbox.push_run(bytes, self.mark(stream), &mut self.spare);
        stats.bytes_out += bytes.len() as u64;
        Ok(())
    }

    /// Adds a chunk to a connection's outbox, and with it a share in a buffer.
    pub(crate) fn post_shared(
        &mut self,
        id: EndpointId,
        stream: &mut Stream,
        chunk: &Shared<'_>,
        stats: &mut QueueStats,
    ) -> Result<(), VerbsError> {
        let Shared { head: [first, second], buffer, range, tail } = chunk;
        let shared = &buffer[range.clone()];
        // What is to be sealed is copied then, and is better in one place: the records are fewer.
        if stream.session.is_some() || shared.is_empty() {
            return self.post(id, stream, &[first, second, shared, tail], stats);
        }
        let len = first.len() + second.len() + shared.len() + tail.len();
        self.check(id, stream, len)?;
        stream.outbox.push_shared(chunk, len, self.mark(stream), &mut self.spare);
        stats.chunks_out += 1;
        stats.bytes_out += len as u64;
        Ok(())
    }

    /// Whether a chunk of `len` bytes may be posted.
    #[inline]
    fn check(&self, id: EndpointId, stream: &Stream, len: usize) -> Result<(), VerbsError> {
        if len == 0 || len > self.chunk_bytes {
            return Err(VerbsError::ChunkLength { len, limit: self.chunk_bytes });
        }
        if stream.outbox.unwritten() >= self.mark(stream) {
            return Err(VerbsError::NoRoom { endpoint: id, len });
        }
        Ok(())
    }
}
