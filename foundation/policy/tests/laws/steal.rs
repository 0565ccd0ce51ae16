//! Work stealing: nothing is given away without need, nor more than is taken.

use greenwave_policy::{Busy, StealRule};
use proptest::prelude::*;
use std::time::Duration;

fn head() -> impl Strategy<Value = Busy> {
    let work = prop::option::of((0..50_u64).prop_map(Duration::from_micros));
    (0..10_u32, 0..4_usize, work, 0..10_usize, 0..5_usize).prop_map(|(rounds, ready, work, waiting, others)| Busy {
        rounds,
        ready,
        work,
        waiting,
        others,
    })
}

proptest! {
    /// A head that is busier, has more to do, of more work, or is met by a shorter queue and more takers, gives no less.
    #[test]
    fn more_load_never_gives_less(head in head(), more in 0..3_u32, fewer in 0..3_usize) {
        let rule = StealRule::default();
        let loaded = Busy {
            rounds: head.rounds + more,
            ready: head.ready + more as usize,
            work: head.work.map(|work| work + Duration::from_micros(more.into())),
            waiting: head.waiting.saturating_sub(fewer),
            others: head.others + fewer,
        };
        prop_assert!(!rule.gives(&head) || rule.gives(&loaded));
    }

    /// What waits to be taken is bounded, and so nothing is given to nobody.
    #[test]
    fn what_waits_is_bounded(head in head()) {
        let rule = StealRule::default();
        prop_assert!(!rule.gives(&head) || head.waiting < 2 * head.others);
    }
}

#[test]
fn a_head_that_is_free_or_has_just_begun_keeps_its_calls() {
    let rule = StealRule::default();
    let loaded = Busy { rounds: 4, ready: 1, work: Some(Duration::from_micros(5)), waiting: 0, others: 1 };
    assert!(rule.gives(&loaded));
    for kept in [
        Busy { rounds: 3, ..loaded },
        Busy { ready: 0, ..loaded },
        Busy { work: None, ..loaded },
        Busy { work: Some(Duration::from_micros(4)), ..loaded },
        Busy { waiting: 2, ..loaded },
        Busy { others: 0, ..loaded },
    ] {
        assert!(!rule.gives(&kept), "{kept:?}");
    }
}
