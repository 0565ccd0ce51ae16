//! Both ends of a connection, driven by arbitrary bytes: what a peer sends, and what is done at this end meanwhile.
//!
//! Not part of the API. The fuzz target `connection` calls it, and a test with pseudo-random bytes, so that what is
//! shown here holds on machines without a fuzzer too.
//!
//! The bytes are read as a list of steps. Most of what is fed are frames that are sound by themselves, some with a bit
//! flipped, some garbage: a connection that is closed on at once shows nothing.

mod bytes;
mod calling;
mod pair;
mod peer;
mod serving;

use bytes::Bytes;

/// Drives a serving end, or a calling one, or one against the other.
///
/// # Panics
/// If one of them breaks a promise: that is what is looked for.
pub fn connection(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    match bytes.below(3) {
        0 => serving::drive(&mut bytes),
        1 => calling::drive(&mut bytes),
        _ => pair::drive(&mut bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::connection;

    /// SplitMix64, as a source of bytes.
    fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn arbitrary_steps_break_no_promise() {
        for seed in 0..10_000 {
            connection(&random_bytes(seed, 20 + seed as usize % 2000));
        }
    }
}
