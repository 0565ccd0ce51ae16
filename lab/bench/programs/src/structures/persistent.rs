//! Maps and lists of which each change leaves the older ones as they were (crate `rpds`).

use rpds::{HashTrieMap, List, RedBlackTreeMap};

use crate::{Job, Scale, checksum};

const CHANGES: usize = 42_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let changes = scale.of(CHANGES);
    Box::new(move || {
        let mut random = fastrand::Rng::with_seed(62);
        let mut versions = vec![(HashTrieMap::new(), RedBlackTreeMap::new(), List::new())];
        for _ in 0..changes {
            let key = random.u32(0..5000);
            let (by_hash, in_order, list) = versions.last().expect("there is one at first");
            let next = match random.u32(0..4) {
                0 => (by_hash.remove(&key), in_order.remove(&key), list.drop_first().unwrap_or_default()),
                _ => (by_hash.insert(key, key ^ 5), in_order.insert(key, key + 1), list.push_front(key)),
            };
            // Of each sixteen one is kept.
            if versions.len() > 1 && !random.u32(..).is_multiple_of(16) {
                versions.pop();
            }
            versions.push(next);
        }
        let of = |(by_hash, in_order, list): &(HashTrieMap<u32, u32>, RedBlackTreeMap<u32, u32>, List<u32>)| {
            let found: u32 =
                (0..64).filter_map(|key| by_hash.get(&(key * 70))).fold(0, |sum, at| sum.wrapping_add(*at));
            let first: u32 = in_order.values().take(20).sum();
            u64::from(found) << 32 | u64::from(first ^ list.iter().take(20).sum::<u32>())
        };
        checksum(versions.iter().map(of))
    })
}
