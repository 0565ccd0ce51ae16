//! When requests are sent.
//!
//! In an *open loop* the times are fixed beforehand and do not depend on the answers, as with users who know nothing of
//! one another. In a *closed loop* a request is sent when an earlier one was answered; that finds a capacity, and says
//! little about latency.
//!
//! Schedules are drawn from a seed by a generator of our own, so that the same seed gives the same requests in every
//! version, and all systems of a benchmark are sent the very same ones.

use std::time::Duration;

/// How the requests of a run follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Open loop, memoryless: the gaps are exponentially distributed around `1 / per_second`.
    Poisson {
        /// The mean rate.
        per_second: f64,
    },
    /// Open loop, evenly spaced.
    Fixed {
        /// The rate.
        per_second: f64,
    },
    /// Closed loop: `in_flight` requests are outstanding at any time.
    Closed {
        /// How many.
        in_flight: usize,
    },
}

impl Arrivals {
    /// What decides when the next request is sent.
    pub fn pace(self, seed: u64) -> Pace {
        let (per_second, gaps) = match self {
            Self::Poisson { per_second } => (per_second, Gaps::Exponential(Seeded::new(seed))),
            Self::Fixed { per_second } => (per_second, Gaps::Even),
            Self::Closed { in_flight } => return Pace::Closed { in_flight },
        };
        Pace::Open(Schedule { gap_ns: 1e9 / per_second.max(f64::MIN_POSITIVE), gaps, at_ns: 0.0 })
    }
}

/// What decides when the next request is sent.
#[derive(Clone, Debug)]
pub enum Pace {
    /// The clock.
    Open(Schedule),
    /// The answers: so many requests are outstanding at any time.
    Closed {
        /// How many.
        in_flight: usize,
    },
}

/// The scheduled times of an open loop, counted from its start. Endless.
#[derive(Clone, Debug)]
pub struct Schedule {
    gap_ns: f64,
    gaps: Gaps,
    at_ns: f64,
}

#[derive(Clone, Debug)]
enum Gaps {
    Even,
    Exponential(Seeded),
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let gap = match &mut self.gaps {
            Gaps::Even => 1.0,
            Gaps::Exponential(random) => -(1.0 - random.unit()).ln(),
        };
        self.at_ns += gap * self.gap_ns;
        Some(Duration::from_nanos(self.at_ns as u64))
    }
}

/// A reproducible source of random numbers: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// A source that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from `[0, 1)`, evenly distributed.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An index below `bound`, evenly distributed but for a bias of `bound / 2^53`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(arrivals: Arrivals, seed: u64) -> Schedule {
        match arrivals.pace(seed) {
            Pace::Open(schedule) => schedule,
            Pace::Closed { .. } => panic!("{arrivals:?} is a closed loop"),
        }
    }

    fn gaps(arrivals: Arrivals, count: usize) -> Vec<f64> {
        let times = schedule(arrivals, 7).take(count).map(|at| at.as_secs_f64());
        times
            .scan(0.0, |before, at| {
                let gap = at - *before;
                *before = at;
                Some(gap)
            })
            .collect()
    }

    #[test]
    fn a_fixed_schedule_is_even() {
        let times: Vec<_> = schedule(Arrivals::Fixed { per_second: 250.0 }, 1).take(3).collect();
        assert_eq!(times, [4, 8, 12].map(Duration::from_millis));
    }

    #[test]
    fn a_poisson_schedule_has_the_mean_and_the_spread_of_an_exponential() {
        let gaps = gaps(Arrivals::Poisson { per_second: 1000.0 }, 100_000);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 1000.0 - 1.0).abs() < 0.02, "mean gap {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "deviation {}", variance.sqrt());
    }

    #[test]
    fn a_seed_decides_the_schedule() {
        let times = |seed| schedule(Arrivals::Poisson { per_second: 10.0 }, seed).take(100);
        assert!(times(1).eq(times(1)));
        assert!(times(1).ne(times(2)));
    }

    #[test]
    fn indices_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Seeded::new(3);
        let mut seen = [false; 5];
        (0..1000).for_each(|_| seen[random.below(5)] = true);
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
