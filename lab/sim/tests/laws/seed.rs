//! Seeds: streams are what they are, apart from each other.

use greenwave_sim::Seed;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

proptest! {
    /// A stream is the same whatever other streams draw, and differs by seed, name and index.
    #[test]
    fn streams_are_apart(seed: u64, index: u64) {
        let draw = |seed, name, index| {
            let mut stream = Seed::new(seed).stream(name, index);
            [stream.number(), stream.number()]
        };
        prop_assert_eq!(draw(seed, "a", index), draw(seed, "a", index));
        let different = [
            draw(seed, "a", index),
            draw(seed, "b", index),
            draw(seed, "a", index.wrapping_add(1)),
            draw(seed.wrapping_add(1), "a", index),
        ];
        prop_assert_eq!(different.iter().collect::<HashSet<_>>().len(), 4);
    }

    /// Draws lie where they are said to.
    #[test]
    fn draws_lie_in_their_ranges(seed: u64, end in 1..u64::MAX) {
        let mut stream = Seed::new(seed).stream("range", 0);
        for _ in 0..100 {
            prop_assert!(stream.below(end) < end);
            prop_assert!((0.0..1.0).contains(&stream.unit()));
            let span = stream.span_between(Duration::from_nanos(5), Duration::from_nanos(9));
            prop_assert!((5..9).contains(&span.as_nanos()));
        }
    }
}

/// Written down, so that a change of the generator or its use is noticed: it would change every run there was.
#[test]
fn the_generator_is_fixed() {
    let mut stream = Seed::new(1).stream("fixed", 2);
    assert_eq!([stream.number(), stream.number()], FIXED);
}

const FIXED: [u64; 2] = [3_720_091_679_966_461_361, 4_630_986_889_941_497_131];

/// Numbers below seven come up about equally often; the mean of exponential spans is the one asked for.
#[test]
fn draws_are_distributed_as_said() {
    let mut stream = Seed::new(1).stream("distribution", 0);
    let mut counts = [0; 7];
    (0..70_000).for_each(|_| counts[stream.below(7) as usize] += 1);
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    let sum: Duration = (0..70_000).map(|_| stream.exponential(Duration::from_millis(2))).sum();
    let mean = sum.as_secs_f64() / 70_000.0;
    assert!((mean / 0.002 - 1.0).abs() < 0.02, "{mean}");
}
