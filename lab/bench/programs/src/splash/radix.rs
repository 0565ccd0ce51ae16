//! Sorts whole numbers digit by digit (SPLASH-2 `radix`).

use crate::{Job, Scale, checksum};

const KEYS: usize = 4_000_000;
const DIGIT_BITS: u32 = 10;
const RADIX: usize = 1 << DIGIT_BITS;
/// Keys have this many digits.
const DIGITS: u32 = 3;

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(13);
    let keys: Vec<u32> = (0..scale.of(KEYS)).map(|_| random.u32(0..1 << (DIGITS * DIGIT_BITS))).collect();
    Box::new(move || checksum(sorted(keys.clone()).into_iter().map(u64::from)))
}

fn sorted(mut keys: Vec<u32>) -> Vec<u32> {
    let mut other = vec![0; keys.len()];
    for digit in 0..DIGITS {
        sort_by_digit(&keys, &mut other, digit * DIGIT_BITS);
        std::mem::swap(&mut keys, &mut other);
    }
    keys
}

fn sort_by_digit(from: &[u32], to: &mut [u32], shift: u32) {
    let digit = |key: u32| (key >> shift) as usize % RADIX;
    let mut places = [0_usize; RADIX];
    for &key in from {
        places[digit(key)] += 1;
    }
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for &key in from {
        let place = &mut places[digit(key)];
        to[*place] = key;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_as_the_standard_library_does() {
        let keys: Vec<u32> = (0..10_000_u32).map(|at| at.wrapping_mul(2_654_435_761) >> 2).collect();
        let mut expected = keys.clone();
        expected.sort();
        assert_eq!(sorted(keys), expected);
    }
}
