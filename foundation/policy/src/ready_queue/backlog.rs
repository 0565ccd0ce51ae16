//! How much work waits, by how long it takes.

use std::time::Duration;

/// Work of up to an hour has so many powers of two in nanoseconds.
const SIZES: usize = 42;

/// Work is told from work that takes so many powers of two as long, and longer.
const LONGER: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct Backlog {
    /// The sums of work that lies between one power of two and the next.
    by_size: [i64; SIZES],
    /// How many pieces each of these is.
    pieces: [u32; SIZES],
}

impl Backlog {
    pub(super) const fn new() -> Self {
        Self { by_size: [0; SIZES], pieces: [0; SIZES] }
    }

    #[inline]
    pub(super) fn add(&mut self, work: i64) {
        self.by_size[size(work)] += work;
        self.pieces[size(work)] += 1;
    }

    /// Takes away what was added.
    #[inline]
    pub(super) fn remove(&mut self, work: i64) {
        self.by_size[size(work)] -= work;
        self.pieces[size(work)] -= 1;
    }

    /// As much as the longest takes or up to twice that; zero if there is none. What takes half an hour or more is endless.
    #[inline]
    pub(super) fn longest(&self) -> Duration {
        match self.by_size.iter().rposition(|sum| *sum > 0) {
            Some(last) if last + 1 == SIZES => Duration::MAX,
            last => last.map_or(Duration::ZERO, |last| Duration::from_nanos(2 << last)),
        }
    }

    /// The sum of what isn't much longer than so much: not more than between 4 and 8 times.
    #[inline]
    pub(super) fn up_to(&self, work: i64) -> i64 {
        self.by_size[..=Self::last(work)].iter().sum()
    }

    /// How many pieces that is.
    #[inline]
    pub(super) fn pieces_up_to(&self, work: i64) -> usize {
        self.pieces[..=Self::last(work)].iter().sum::<u32>() as usize
    }

    #[inline]
    fn last(work: i64) -> usize {
        (size(work) + LONGER).min(SIZES - 1)
    }
}

#[inline]
fn size(work: i64) -> usize {
    (work.checked_ilog2().unwrap_or(0) as usize).min(SIZES - 1)
}
