//! Numbers at random that are the same for the same seed.

/// xorshift64* (Vigna 2016): enough to spread load, nothing to keep a secret with.
#[derive(Clone, Debug)]
pub(crate) struct XorShift(u64);

impl XorShift {
    /// The state must not be 0, where the generator would stay.
    pub(crate) const fn new(seed: u64) -> Self {
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self(if mixed == 0 { 1 } else { mixed })
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number under `bound`, by Lemire's multiplication; the bias is under `bound` in 2^64.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
