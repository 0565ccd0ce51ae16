//! One number, and all the chance of a run that comes from it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::fmt;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// The number from which everything random in a run follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    /// This number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The stream of the component that is called `name` and is the `index`-th of its kind.
    ///
    /// Streams of different names or indices have nothing to do with each other, and the same ones are always the
    /// same, whatever else draws: seed, name and index are the key of a ChaCha8 generator, whose output is fixed.
    #[must_use]
    pub fn stream(self, name: &str, index: u64) -> Stream {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..16].copy_from_slice(&index.to_le_bytes());
        key[16..].copy_from_slice(&xxh3_128(name.as_bytes()).to_le_bytes());
        Stream(ChaCha8Rng::from_seed(key))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What one component draws.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`; zero if that is zero. Uniform up to one part in 2^64 / `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.0.next_u64()) * u128::from(end);
        u64::try_from(product >> 64).expect("the upper half of a product of two u64 is one")
    }

    /// A number from 0 (included) to 1 (not included).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability. Draws in any case, so that what follows doesn't depend on it.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// One of `things`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> Option<&'a T> {
        let index = self.below(things.len() as u64);
        things.get(usize::try_from(index).expect("an index below a length"))
    }

    /// A span below `end`, uniform.
    pub fn span(&mut self, end: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// A span from `least` (included) to `end` (not included), uniform; `least` if `end` isn't later.
    pub fn span_between(&mut self, least: Duration, end: Duration) -> Duration {
        least + self.span(end.saturating_sub(least))
    }

    /// A span between two events of a Poisson process with this mean.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let spans = -(1.0 - self.unit()).ln();
        mean.mul_f64(spans)
    }
}
