//! An ordered map from strings that grows, is searched and shrinks (standard library).

use std::collections::BTreeMap;

use crate::{Job, Scale, checksum};

const OPERATIONS: usize = 220_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let keys = keys(scale.of(OPERATIONS));
    Box::new(move || {
        let mut map: BTreeMap<&str, u64> = BTreeMap::new();
        let mut found = 0;
        for (at, key) in keys.iter().enumerate() {
            match at % 4 {
                0 | 1 => *map.entry(key).or_default() += at as u64,
                2 => found += map.range(key.as_str()..).take(4).map(|(_, value)| value).sum::<u64>(),
                _ => found ^= map.remove(key.as_str()).unwrap_or(1),
            }
        }
        checksum(map.into_iter().map(|(key, value)| value ^ key.len() as u64).chain([found]))
    })
}

fn keys(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(58);
    (0..count).map(|_| format!("key/{:05}", random.u32(0..50_000))).collect()
}
