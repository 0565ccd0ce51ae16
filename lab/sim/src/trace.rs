//! A hash over all that happened in a run.

use std::fmt;
use xxhash_rust::xxh3::Xxh3Default;

/// A hash over all that happened, in its order (XXH3, 64 bit): two runs with the same hash were the same.
///
/// What goes in has a fixed form (numbers as eight bytes, least first; texts and bytes with their lengths), so a
/// hash can be written down and compared later.
#[derive(Clone, Default)]
pub struct Trace {
    hasher: Xxh3Default,
    entries: u64,
}

impl Trace {
    /// Nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.hasher.update(&number.to_le_bytes());
        self.entries += 1;
        self
    }

    /// Adds numbers, as one after the other.
    pub fn numbers(&mut self, numbers: &[u64]) -> &mut Self {
        const SOME: usize = 64;
        let mut bytes = [0; 8 * SOME];
        for some in numbers.chunks(SOME) {
            for (place, number) in bytes.chunks_exact_mut(8).zip(some) {
                place.copy_from_slice(&number.to_le_bytes());
            }
            self.hasher.update(&bytes[..8 * some.len()]);
        }
        self.entries += numbers.len() as u64;
        self
    }

    /// Adds bytes and how many they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.hasher.update(bytes);
        self
    }

    /// The hash of what was added until now.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hasher.digest()
    }

    /// How many numbers and texts were added until now.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({:016x} of {})", self.hash(), self.entries)
    }
}

/// A trace of events that takes some at a time.
#[derive(Default)]
pub(crate) struct Events {
    trace: Trace,
    block: Block,
}

impl Events {
    /// An event: when it was, and what.
    #[inline]
    pub(crate) fn add(&mut self, instant: u64, what: u64) {
        if self.block.add(instant, what) {
            self.trace.numbers(self.block.take());
        }
    }

    /// The hash of all.
    pub(crate) fn hash(&mut self) -> u64 {
        self.trace.numbers(self.block.take());
        self.trace.hash()
    }
}

/// Numbers on their way into the trace, some at a time.
struct Block {
    numbers: [u64; Self::SIZE],
    filled: usize,
}

impl Block {
    const SIZE: usize = 64;

    /// Adds two numbers, and says whether there is no room for further ones.
    #[inline]
    fn add(&mut self, one: u64, other: u64) -> bool {
        let at = self.filled & (Self::SIZE - 2);
        self.numbers[at] = one;
        self.numbers[at + 1] = other;
        self.filled = at + 2;
        self.filled == Self::SIZE
    }

    fn take(&mut self) -> &[u64] {
        let filled = std::mem::take(&mut self.filled);
        &self.numbers[..filled]
    }
}

impl Default for Block {
    fn default() -> Self {
        Self { numbers: [0; Self::SIZE], filled: 0 }
    }
}
