//! As many are begun as keep the stages behind busy, and hardly more.

use greenwave_policy::{BeginLimit, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const NOW: Time = Time::from_nanos(1_000_000_000);

#[test]
fn it_begins_at_the_most_and_never_forbids_everything() {
    for most in [0, 1, 7] {
        let mut limit = BeginLimit::new(most);
        assert_eq!(limit.limit(), most.max(1));
        (0..1000).for_each(|_| limit.observe(NOW, US, 1000 * US, 1));
        assert!(limit.may_begin(NOW, 0), "{limit:?}");
    }
}

#[test]
fn queues_behind_lower_it_at_once() {
    let mut limit = BeginLimit::new(1024);
    // 200 are begun, and of a hundred parts of their time one is work: two would do without queues.
    (0..BeginLimit::REVIEW).for_each(|_| limit.observe(NOW, US, 99 * US, 200));
    assert_eq!(limit.limit(), 4);
}

#[test]
fn it_grows_only_where_it_is_reached_and_nothing_queues() {
    let mut limit = BeginLimit::new(1024);
    (0..BeginLimit::REVIEW).for_each(|_| limit.observe(NOW, US, 99 * US, 200));
    (0..BeginLimit::REVIEW).for_each(|_| limit.observe(NOW, US, Duration::ZERO, 4));
    assert_eq!(limit.limit(), 4, "nobody was held back");
    assert!(!limit.may_begin(NOW, 4));
    (0..BeginLimit::REVIEW).for_each(|_| limit.observe(NOW, US, Duration::ZERO, 4));
    assert_eq!(limit.limit(), 7);
}

/// Stages one after the other, each serving one request at a time in the order of arrival, and an endless backlog.
/// Returns how many finished in each microsecond of the second half, and how many were begun on average then.
fn pipeline(stages: &[u64], limit: &mut BeginLimit, steps: u64, adapt: bool) -> (f64, f64) {
    struct Request {
        left: u64,
        work: u64,
        queued: u64,
    }
    let mut queues: Vec<VecDeque<Request>> = stages.iter().map(|_| VecDeque::new()).collect();
    let (mut begun, mut finished, mut load) = (0, 0_u64, 0_u64);
    // A fixed sequence of works that differ by a factor of up to five.
    let mut seed = 1_u64;
    let mut cost = |mean: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        mean / 3 + (seed >> 33) % (4 * mean / 3)
    };
    let at = |step| NOW + Duration::from_micros(step);
    for step in 0..steps {
        while if adapt { limit.may_begin(at(step), begun) } else { begun < limit.limit() } {
            begun += 1;
            queues[0].push_back(Request { left: cost(stages[0]), work: 0, queued: 0 });
        }
        for stage in (0..stages.len()).rev() {
            for (place, request) in queues[stage].iter_mut().enumerate() {
                if place == 0 {
                    request.work += 1;
                    request.left = request.left.saturating_sub(1);
                } else {
                    request.queued += 1;
                }
            }
            if queues[stage].front().is_some_and(|request| request.left == 0) {
                let mut request = queues[stage].pop_front().expect("it has a front");
                if let Some(next) = stages.get(stage + 1) {
                    request.left = cost(*next);
                    queues[stage + 1].push_back(request);
                } else {
                    if adapt {
                        let micros = Duration::from_micros;
                        limit.observe(at(step), micros(request.work), micros(request.queued), begun);
                    }
                    begun -= 1;
                    finished += u64::from(step >= steps / 2);
                }
            }
        }
        load += if step >= steps / 2 { begun as u64 } else { 0 };
    }
    let half = (steps - steps / 2) as f64;
    (finished as f64 / half, load as f64 / half)
}

#[test]
fn a_pipeline_is_kept_full_with_few_begun() {
    for stages in [&[100_u64][..], &[100, 100, 100], &[30, 200, 50], &[20, 20, 20, 20, 300]] {
        let (all, _) = pipeline(stages, &mut BeginLimit::new(200), 400_000, false);
        let (rate, begun) = pipeline(stages, &mut BeginLimit::new(200), 400_000, true);
        assert!(rate >= 0.9 * all, "{stages:?}: {rate} of {all} with {begun} begun");
        assert!(begun <= 4.0 * stages.len() as f64, "{stages:?}: {begun} begun");
    }
}

/// A method that calls itself through others must not wait for ever for the places that its callers hold.
#[test]
fn where_nothing_finishes_one_more_may_begin_now_and_then() {
    let mut limit = BeginLimit::new(3);
    (0..BeginLimit::REVIEW).for_each(|_| limit.observe(NOW, Duration::ZERO, 99 * US, 2));
    assert_eq!(limit.limit(), 1);
    let relief = limit.relief();
    assert_eq!(relief, NOW + BeginLimit::PATIENCE);
    assert!(!limit.may_begin(relief - US, 1));
    assert!(limit.may_begin(relief, 1));
    assert!(!limit.may_begin(relief, 2), "one at a time");
    assert!(limit.may_begin(limit.relief(), 2));
    assert!(!limit.may_begin(NOW + Duration::from_secs(9), 3), "the most stays the most");
}

proptest! {
    #[test]
    fn it_stays_within_its_bounds(
        most in 0..2000_usize, seen in vec((any::<u64>(), any::<u64>(), any::<usize>(), any::<bool>()), 0..300),
    ) {
        let mut limit = BeginLimit::new(most);
        for (work, queued, begun, ask) in seen {
            let now = Time::from_nanos(work ^ queued);
            limit.observe(now, Duration::from_nanos(work), Duration::from_nanos(queued), begun);
            if ask {
                prop_assert_eq!(limit.may_begin(now, begun), begun < limit.limit());
            }
            prop_assert!((1..=most.max(1)).contains(&limit.limit()), "{:?}", limit);
        }
    }
}
