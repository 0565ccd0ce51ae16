//! A transport of tests: chunks in memory, taken out by hand.

use crate::transport::{Transport, chunks};
use greenwave_policy::{Acknowledged, Bound};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Chunks that were posted and that nobody has taken.
#[derive(Debug)]
pub(crate) struct Memory {
    chunks: VecDeque<Vec<u8>>,
    chunk_bytes: usize,
    bytes: usize,
}

/// With so many bytes waiting there is no room for more, as in a queue of verbs.
const BACKLOG: usize = 64 << 10;

/// There was no room for what was posted, or it was longer than a chunk may be.
#[derive(Debug)]
pub(crate) struct Overrun;

impl Memory {
    pub(crate) fn new(chunk_bytes: usize) -> Self {
        Self { chunks: VecDeque::new(), chunk_bytes, bytes: 0 }
    }

    /// The chunk that was posted first.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.len();
        Some(chunk)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(16 << 10)
    }
}

impl Transport for Memory {
    type Error = Overrun;

    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn room(&self) -> usize {
        if self.bytes >= BACKLOG { 0 } else { BACKLOG - self.bytes + self.chunk_bytes }
    }

    fn post(&mut self, parts: &[&[u8]]) -> Result<(), Overrun> {
        let chunk = parts.concat();
        if chunk.is_empty() || chunk.len() > self.chunk_bytes || chunk.len() > self.room() {
            return Err(Overrun);
        }
        self.bytes += chunk.len();
        self.chunks.push_back(chunk);
        Ok(())
    }

    fn post_run(&mut self, run: &[u8], count: usize) -> Result<(), Overrun> {
        assert_eq!(chunks(run).count(), count);
        chunks(run).try_for_each(|chunk| self.post(&[chunk]))
    }

    fn post_shared(
        &mut self,
        head: [&[u8]; 2],
        (body, part): (&Arc<Vec<u8>>, Range<usize>),
        tail: &[u8],
    ) -> Result<(), Overrun> {
        self.post(&[head[0], head[1], &body[part], tail])
    }

    fn acknowledged(&self) -> Option<Acknowledged> {
        None
    }

    fn bound(&mut self, _: Option<Bound>) {}

    fn tag(&mut self, _: u8) -> bool {
        true
    }
}
