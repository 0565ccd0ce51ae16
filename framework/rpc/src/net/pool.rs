//! Empty buffers for messages, kept so that calls in a row allocate nothing.
//!
//! Those of long messages are kept apart, so that short ones neither hold on to them nor lose theirs for want of room.

/// How many buffers are kept, and how large one may be to be kept: together 16 MiB at most.
const BUFFERS: usize = 1024;
const BUFFER_BYTES: usize = 64 << 10;
const POOL_BYTES: usize = 16 << 20;

/// The same for larger ones, which are kept beside them. Memory of this size that is allocated anew has to be mapped and
/// zeroed by the kernel, page by page, which costs more than everything else about a call.
const LARGE_BYTES: usize = 4 << 20;
const LARGE_POOL_BYTES: usize = 16 << 20;

/// Empty buffers, the one used last on top.
#[derive(Default)]
pub(super) struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    large: Vec<Vec<u8>>,
    large_bytes: usize,
    /// Those of short queues, which are of 64 KiB at most and needed again with the next call or answer.
    queues: Vec<Vec<u8>>,
}

/// So many buffers of short queues are kept: connections that are posted to at the same time are few.
const QUEUES: usize = 64;

impl Pool {
    #[inline]
    pub(super) fn take_queue(&mut self) -> Vec<u8> {
        self.queues.pop().unwrap_or_default()
    }

    #[inline]
    pub(super) fn put_queue(&mut self, queue: Vec<u8>) {
        if self.queues.len() < QUEUES {
            self.queues.push(queue);
        }
    }

    #[inline]
    pub(super) fn take(&mut self) -> Vec<u8> {
        let Some(buffer) = self.buffers.pop() else { return Vec::new() };
        self.bytes -= buffer.capacity();
        buffer
    }

    /// A buffer that is kept for a while, for a message of about `len` bytes: of any size if that is short.
    #[inline]
    pub(super) fn take_about(&mut self, len: usize) -> Vec<u8> {
        if len <= BUFFER_BYTES { self.take() } else { self.take_large(len) }
    }

    /// A buffer for a message of `len` bytes that others keep for as long as they like: never one of many times that.
    #[inline]
    pub(super) fn take_for(&mut self, len: usize) -> Vec<u8> {
        if len > BUFFER_BYTES {
            return self.take_large(len);
        }
        match self.buffers.last() {
            Some(buffer) if fits(buffer, len) => self.take(),
            _ => Vec::with_capacity(len),
        }
    }

    #[inline(never)]
    fn take_large(&mut self, len: usize) -> Vec<u8> {
        // There are few.
        let Some(found) = self.large.iter().rposition(|buffer| fits(buffer, len)) else {
            return Vec::with_capacity(len);
        };
        let buffer = self.large.remove(found);
        self.large_bytes -= buffer.capacity();
        buffer
    }

    #[inline]
    pub(super) fn put(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes > BUFFER_BYTES {
            return self.put_large(buffer);
        }
        let keeps = self.buffers.len() < BUFFERS && self.bytes + bytes <= POOL_BYTES;
        if keeps && bytes > 0 {
            buffer.clear();
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }

    /// Keeps a large buffer, in place of those that were not used for longest.
    #[inline(never)]
    fn put_large(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes > LARGE_BYTES {
            return;
        }
        while self.large_bytes + bytes > LARGE_POOL_BYTES {
            self.large_bytes -= self.large.remove(0).capacity();
        }
        buffer.clear();
        self.large_bytes += bytes;
        self.large.push(buffer);
    }
}

fn fits(buffer: &Vec<u8>, len: usize) -> bool {
    (len..=4 * len.max(64)).contains(&buffer.capacity())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut pool = Pool::default();
        for _ in 0..BUFFERS {
            pool.put(Vec::with_capacity(BUFFER_BYTES));
        }
        assert_eq!((pool.buffers.len(), pool.bytes), (POOL_BYTES / BUFFER_BYTES, POOL_BYTES));
        assert_eq!(pool.take().capacity(), BUFFER_BYTES);
        assert!(pool.take_for(10).capacity() < BUFFER_BYTES, "a short answer does not hold on to a large buffer");
        assert_eq!(pool.take_for(BUFFER_BYTES / 2).capacity(), BUFFER_BYTES);
        while pool.take().capacity() > 0 {}
        assert_eq!(pool.bytes, 0);
    }

    #[test]
    fn large_buffers_are_kept_apart_and_bounded_too() {
        let mut pool = Pool::default();
        pool.put(Vec::with_capacity(LARGE_BYTES + 1));
        assert_eq!(pool.large_bytes, 0, "one that is too large is not kept");
        for kib in (65..=4096).step_by(65).chain(65..2000) {
            pool.put(Vec::with_capacity(kib << 10));
            assert!(pool.large_bytes <= LARGE_POOL_BYTES);
            assert_eq!(pool.large_bytes, pool.large.iter().map(Vec::capacity).sum::<usize>());
        }
        assert_eq!(pool.take().capacity(), 0, "a message of any length doesn't get one");
        assert_eq!(pool.take_about(BUFFER_BYTES).capacity(), 0, "nor does a short one");
        assert_eq!(pool.take_about(1999 << 10).capacity(), 1999 << 10);
        assert_eq!(pool.take_for(400 << 10).capacity(), 400 << 10, "one of many times the length stays");
    }
}
