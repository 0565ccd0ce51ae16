//! Networks: shared interfaces and partitions.

use greenwave_policy::Time;
use greenwave_sim::{Bandwidth, LinkRule, Network, Seed};
use proptest::prelude::*;
use std::time::Duration;

proptest! {
    /// All that leaves a node shares its interface: the last byte leaves when the sum of all is through.
    #[test]
    fn an_interface_is_shared(sizes in prop::collection::vec((1..4_usize, 1..10_000_u64), 1..50)) {
        let bandwidth = Bandwidth::bytes_per_s(1_000_000);
        let mut network = Network::new(4, Seed::new(1), LinkRule::PERFECT);
        network.limit(0, bandwidth);
        let mut last = Time::ZERO;
        for &(to, bytes) in &sizes {
            last = network.send(Time::ZERO, 0, to, bytes).arrival().expect("nothing is lost");
        }
        let sum = sizes.iter().map(|&(_, bytes)| bytes * 1000).sum::<u64>();
        prop_assert_eq!(last, Time::from_nanos(sum));
        // Others have their own.
        prop_assert_eq!(network.send(Time::ZERO, 1, 2, 1_000_000).arrival(), Some(Time::ZERO));
    }

    /// A partition cuts what crosses it in both directions and nothing else; healing mends all.
    #[test]
    fn partitions_cut_what_crosses_them(side in prop::collection::vec(0..6_usize, 0..6)) {
        let mut network = Network::new(6, Seed::new(1), LinkRule::delay(Duration::from_millis(1)));
        network.partition(&side);
        for from in 0..6 {
            for to in 0..6 {
                let crosses = side.contains(&from) != side.contains(&to);
                prop_assert_eq!(network.send(Time::ZERO, from, to, 1).arrival().is_none(), crosses);
            }
        }
        network.heal();
        let whole = (0..36).all(|pair| network.send(Time::ZERO, pair / 6, pair % 6, 1).arrival().is_some());
        prop_assert!(whole);
    }
}

/// A cut is of one direction.
#[test]
fn a_cut_is_one_way() {
    let mut network = Network::new(2, Seed::new(1), LinkRule::PERFECT);
    network.cut(0, 1);
    assert!(network.is_cut(0, 1) && !network.is_cut(1, 0));
    assert_eq!(network.send(Time::ZERO, 0, 1, 1).arrival(), None);
    assert_eq!(network.send(Time::ZERO, 1, 0, 1).arrival(), Some(Time::ZERO));
}
