//! Fills a map and looks things up in it (the standard library's `HashMap`).

use std::collections::HashMap;

use crate::{Job, Scale, checksum};

const KEYS: usize = 250_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(42);
    let keys: Vec<u64> = (0..scale.of(KEYS)).map(|_| random.u64(..)).collect();
    let wanted: Vec<u64> =
        (0..2 * keys.len()).map(|_| random.choice(&keys).map_or(0, |key| key ^ random.u64(0..2))).collect();
    Box::new(move || {
        let map = map(&keys);
        checksum([map.len() as u64, found(&map, &wanted)])
    })
}

/// Each key with its place.
fn map(keys: &[u64]) -> HashMap<u64, u64> {
    let mut map = HashMap::new();
    for (place, &key) in (0..).zip(keys) {
        map.insert(key, place);
    }
    map
}

/// The sum of the places of those that are there.
fn found(map: &HashMap<u64, u64>, wanted: &[u64]) -> u64 {
    wanted.iter().filter_map(|key| map.get(key)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_nothing_else() {
        let keys: Vec<u64> = (0..1000).map(|at| at * at).collect();
        let map = map(&keys);
        let wanted: Vec<u64> = (0..2000).collect();
        let expected = (0..2000_u64).filter_map(|key| keys.iter().position(|&it| it == key)).sum::<usize>();
        assert_eq!(found(&map, &wanted), expected as u64);
    }
}
