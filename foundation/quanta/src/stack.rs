//! Stacks: guarded, and pooled because `mmap`, the guard's `mprotect` and the first page faults cost more than most calls.

use crate::slot::Slot;
use corosensei::stack::DefaultStack;
use std::io;

/// The size of a coroutine's stack in bytes, rounded up to whole pages by the system.
///
/// Only the pages that a handler touches take memory, so a generous size costs address space alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSize(usize);

impl StackSize {
    /// The smallest that is accepted: room for a panic's message and a system call.
    pub const MIN: Self = Self(32 << 10);
    /// What is used when nothing is said: enough for the deep call trees of search engines and stores.
    pub const DEFAULT: Self = Self(512 << 10);

    /// A size of at least `bytes` and never under [`StackSize::MIN`].
    pub const fn at_least(bytes: usize) -> Self {
        if bytes < Self::MIN.0 { Self::MIN } else { Self(bytes) }
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl Default for StackSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A stack with a guard page at its low end: running over it is a fault, never a silent overwrite.
///
/// What belongs to the coroutine on it, and is kept from one to the next, comes along.
pub struct Stack {
    pub(crate) memory: DefaultStack,
    pub(crate) slot: Box<Slot>,
}

/// The stacks of one thread that are free to be used again, the last used first, because that one is in the cache.
pub struct StackPool {
    free: Vec<Stack>,
    size: StackSize,
    keep: usize,
}

impl StackPool {
    /// A pool of stacks of `size` that keeps at most `keep` free ones and gives the rest back to the system.
    pub fn new(size: StackSize, keep: usize) -> Self {
        Self { free: Vec::with_capacity(keep.min(1024)), size, keep }
    }

    /// A free stack, or a new one.
    ///
    /// # Errors
    /// What `mmap` said: out of memory, or of mappings (`vm.max_map_count`).
    pub fn take(&mut self) -> io::Result<Stack> {
        match self.free.pop() {
            Some(stack) => Ok(stack),
            None => {
                let memory = DefaultStack::new(self.size.bytes())?;
                let slot = Box::new(Slot::of(&memory));
                Ok(Stack { memory, slot })
            }
        }
    }

    /// Puts a stack back.
    pub fn put(&mut self, stack: Stack) {
        if self.free.len() < self.keep {
            self.free.push(stack);
        }
    }

    /// How many stacks are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_keeps_no_more_than_it_was_told() {
        let mut pool = StackPool::new(StackSize::MIN, 2);
        let stacks: Vec<_> = (0..5).map(|_| pool.take().unwrap()).collect();
        stacks.into_iter().for_each(|stack| pool.put(stack));
        assert_eq!(pool.free(), 2);
        pool.take().unwrap();
        assert_eq!(pool.free(), 1);
    }

    #[test]
    fn a_size_too_small_to_panic_on_is_raised() {
        assert_eq!(StackSize::at_least(1), StackSize::MIN);
        assert_eq!(StackSize::at_least(1 << 20).bytes(), 1 << 20);
    }
}
