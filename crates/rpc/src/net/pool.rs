//! Empty buffers for messages, kept so that calls in a row allocate nothing.

/// How many buffers are kept, and how large one may be to be kept: together 16 MiB at most.
const BUFFERS: usize = 1024;
const BUFFER_BYTES: usize = 64 << 10;
const POOL_BYTES: usize = 16 << 20;

/// Empty buffers, the one used last on top.
#[derive(Default)]
pub(super) struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Pool {
    pub(super) fn take(&mut self) -> Vec<u8> {
        let Some(buffer) = self.buffers.pop() else { return Vec::new() };
        self.bytes -= buffer.capacity();
        buffer
    }

    /// A buffer for a message of `len` bytes that others keep for as long as they like: never one of many times that.
    pub(super) fn take_for(&mut self, len: usize) -> Vec<u8> {
        match self.buffers.last() {
            Some(buffer) if (len..=4 * len.max(64)).contains(&buffer.capacity()) => self.take(),
            _ => Vec::with_capacity(len),
        }
    }

    pub(super) fn put(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        let keeps = self.buffers.len() < BUFFERS && self.bytes + bytes <= POOL_BYTES;
        if keeps && (1..=BUFFER_BYTES).contains(&bytes) {
            buffer.clear();
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
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
        pool.put(Vec::with_capacity(BUFFER_BYTES + 1));
        assert_eq!(pool.bytes, POOL_BYTES - BUFFER_BYTES, "one that is too large is not kept");
        assert!(pool.take_for(10).capacity() < BUFFER_BYTES, "a short answer does not hold on to a large buffer");
        assert_eq!(pool.take_for(BUFFER_BYTES / 2).capacity(), BUFFER_BYTES);
        while pool.take().capacity() > 0 {}
        assert_eq!(pool.bytes, 0);
    }
}
