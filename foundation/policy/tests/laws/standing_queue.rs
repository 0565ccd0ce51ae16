//! A queue stands from when it hasn't been empty for longer than the interval until it is empty again.

use greenwave_policy::{StandingQueue, Time};
use proptest::prelude::*;
use std::time::Duration;

proptest! {
    #[test]
    fn a_queue_stands_that_was_not_empty_for_longer_than_the_interval(
        interval in 0..1000_u64,
        mut at in proptest::collection::vec((0..10_000_u64, any::<bool>()), 1..50),
    ) {
        at.sort_unstable();
        let mut queue = StandingQueue::new(Duration::from_nanos(interval));
        let mut last_empty = 0;
        for (now, is_empty) in at {
            if is_empty {
                queue.emptied(Time::from_nanos(now));
                last_empty = now;
            }
            prop_assert_eq!(queue.stands(Time::from_nanos(now)), now - last_empty > interval);
        }
    }
}
