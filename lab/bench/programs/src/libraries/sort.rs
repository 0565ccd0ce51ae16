//! Sorts pairs by both (the standard library's `sort_unstable`).

use crate::{Job, Scale, checksum};

const PAIRS: usize = 1_500_000;

type Pair = (u32, u64);

pub(crate) fn prepare(scale: Scale) -> Job {
    let pairs = pairs(scale.of(PAIRS));
    Box::new(move || checksum(sorted(pairs.clone()).into_iter().flat_map(|(key, value)| [u64::from(key), value])))
}

fn sorted(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.sort_unstable();
    pairs
}

fn pairs(count: usize) -> Vec<Pair> {
    let mut random = fastrand::Rng::with_seed(38);
    (0..count).map(|_| (random.u32(0..count as u32 / 2 + 1), random.u64(..))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pairs_come_in_the_order_of_a_tree() {
        let pairs = pairs(5000);
        let tree: BTreeSet<Pair> = pairs.iter().copied().collect();
        assert_eq!(tree.len(), pairs.len());
        assert!(sorted(pairs).into_iter().eq(tree));
    }
}
