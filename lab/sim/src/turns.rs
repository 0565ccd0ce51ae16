//! Whose turn is next, of sources that each have at most one event ahead.

/// When it never is.
pub(crate) const NEVER: u64 = u64::MAX >> SOURCE_BITS;

/// Enough for 4094 workers; instants have the other 52 bits, which are 52 days.
const SOURCE_BITS: u32 = 12;

/// How many days a run may have in virtual time, so that what lies ahead at its end still has an instant.
const MOST_DAYS: f64 = 40.0;

/// How many seconds so many arrivals take at this rate, if that is more virtual time than a run may have.
pub(crate) fn too_long(arrivals: u64, per_second: f64) -> Option<f64> {
    Some(arrivals as f64 / per_second).filter(|seconds| *seconds > MOST_DAYS * 86_400.0)
}

/// The most sources there can be.
pub(crate) const MOST: usize = 1 << SOURCE_BITS;

/// A tournament: each node of a full binary tree has the earlier of its two. A change is one path to the root, in one flat
/// array, and of one instant the source with the smallest number is first.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Instant and source in one number. The root is at 1, the sources begin at `leaves`.
    nodes: Vec<u64>,
    leaves: usize,
}

impl Turns {
    pub(crate) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        Self { nodes: vec![u64::MAX; 2 * leaves], leaves }
    }

    /// Sets when it is a source's turn.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, instant: u64) {
        let mut at = self.leaves + source;
        self.nodes[at] = instant << SOURCE_BITS | source as u64;
        while at > 1 {
            let earlier = self.nodes[at].min(self.nodes[at ^ 1]);
            at >>= 1;
            if self.nodes[at] == earlier {
                return;
            }
            self.nodes[at] = earlier;
        }
    }

    /// The instant and the source that come first; the instant is [`NEVER`] if nothing is ahead.
    #[inline]
    pub(crate) fn first(&self) -> (u64, usize) {
        let first = self.nodes[1];
        (first >> SOURCE_BITS, (first & (MOST as u64 - 1)) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The first is always the earliest of all, and of those the one with the smallest number.
        #[test]
        fn the_earliest_is_first(sources in 1..70_usize, sets in prop::collection::vec((0..70_usize, 0..50_u64), 1..200)) {
            let mut turns = Turns::new(sources);
            let mut instants = vec![NEVER; sources];
            for (source, instant) in sets {
                let source = source % sources;
                turns.set(source, instant);
                instants[source] = instant;
                let first = instants.iter().enumerate().map(|(source, instant)| (*instant, source)).min();
                prop_assert_eq!(Some(turns.first()), first);
            }
        }
    }
}
