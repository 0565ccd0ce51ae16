//! Random choices that a seed decides, the same on every machine and in every version.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, 2014): the samplers need reproducible draws, not secrets.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`; zero if that is zero.
    pub fn below(&mut self, limit: usize) -> usize {
        // The high half of a 128-bit product is below the limit, which came from a usize.
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of the choices, by their weights. The choices must not be empty.
    pub fn weighted<T: Copy>(&mut self, choices: &[(T, u32)]) -> T {
        let total: usize = choices.iter().map(|(_, weight)| *weight as usize).sum();
        let mut at = self.below(total);
        for (choice, weight) in choices {
            match at.checked_sub(*weight as usize) {
                Some(rest) => at = rest,
                None => return *choice,
            }
        }
        choices[choices.len() - 1].0
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Ranks by Zipf's law: rank `r`, from 0, has the weight `1 / (r + 1)^skew`.
#[derive(Clone, Debug)]
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// The law over so many ranks.
    pub fn new(ranks: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-skew);
        let cumulative = (0..ranks).map(|rank| {
            sum += weight(rank);
            sum
        });
        Self { cumulative: cumulative.collect() }
    }

    /// Draws a rank; zero if there are none.
    pub fn rank(&self, draw: &mut Draw) -> usize {
        let Some(total) = self.cumulative.last() else { return 0 };
        let at = draw.unit() * total;
        self.cumulative.partition_point(|sum| *sum <= at).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut draw = Draw::new(1234567);
        assert_eq!(
            [draw.bits(), draw.bits(), draw.bits()],
            [6457827717110365317, 3203168211198807973, 9817491932198370423]
        );
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut draw = Draw::new(1);
        assert!((0..1000).all(|_| draw.below(7) < 7 && draw.unit() < 1.0));
        assert_eq!(draw.below(0), 0);
    }

    #[test]
    fn weights_decide_how_often_a_choice_is_made() {
        let mut draw = Draw::new(2);
        let heavy =
            (0..10_000).filter(|_| draw.weighted(&[("light", 1), ("never", 0), ("heavy", 3)]) == "heavy").count();
        assert!((7200..7800).contains(&heavy), "{heavy}");
    }

    #[test]
    fn the_first_rank_of_zipf_comes_twice_as_often_as_the_second() {
        let (zipf, mut draw) = (Zipf::new(100, 1.0), Draw::new(3));
        let mut counts = [0; 100];
        for _ in 0..100_000 {
            counts[zipf.rank(&mut draw)] += 1;
        }
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
        assert!(counts[99] > 0);
    }
}
