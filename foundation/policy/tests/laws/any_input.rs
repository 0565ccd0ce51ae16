//! No input, however absurd, makes a policy panic; overflow checks are on in tests.

use crate::strategies::{any_budget, any_nanos, any_span, any_time, any_urgency};
use greenwave_policy::{
    AbsoluteClock, Admission, AdmissionConfig, Budget, Deadline, ForwardDelay, Hedge, Order, ReadyQueue, Returns,
    ServiceTimes, SplitQueue, Time,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;

fn any_share() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 0.0..=1.0_f64, Just(f64::NAN), Just(f64::INFINITY)]
}

proptest! {
    #[test]
    fn queues_take_anything(order in select(&Order::ALL[..]), work in vec((any_time(), any_urgency(), any::<bool>()), 0..40)) {
        let mut queue = ReadyQueue::new(order);
        for (id, (now, urgency, yielded)) in work.iter().enumerate() {
            let _ = queue.goes_on(*now, urgency);
            if *yielded { queue.put_back(*now, *urgency, id) } else { queue.push(*now, *urgency, id) }
        }
        let mut left: Vec<_> = queue.drain(Time::MAX).map(|(urgency, id)| (id, urgency)).collect();
        if matches!(order, Order::EarliestDeadline | Order::LeastLaxity | Order::StageLaxity) {
            let no_deadline = |(_, urgency): &(usize, greenwave_policy::Urgency)| urgency.deadline == Deadline::NEVER;
            prop_assert!(left.is_sorted_by_key(no_deadline), "what has no deadline goes last");
        }
        left.sort_unstable_by_key(|(id, _)| *id);
        let pushed: Vec<_> = work.into_iter().map(|(_, urgency, _)| urgency).enumerate().collect();
        prop_assert_eq!(left, pushed);
    }

    #[test]
    fn admission_takes_anything(
        enabled in any::<bool>(), max_queue: usize, reject_cap in any_share(), reserve in any_share(),
        window in any_span(), asked in vec((any_time(), any_budget(), any_budget(), proptest::option::of(any_span()), any::<usize>()), 0..40),
    ) {
        let config = AdmissionConfig::default().enabled(enabled).max_queue(max_queue).reject_cap(reject_cap);
        let mut admission = Admission::new(config.reserve(reserve).window(window));
        for (now, budget, whole, needed, queued) in &asked {
            let _ = admission.decide(*now, *budget, *needed, *queued);
            let _ = admission.recheck(*now, *budget, *whole, *needed, *queued);
        }
        let it = admission.counters();
        prop_assert!(it.admitted <= asked.len() as u64);
        prop_assert!(it.admitted + it.expired + it.infeasible + it.full >= asked.len() as u64);
    }

    #[test]
    fn estimators_take_anything(
        seen in vec((any_time(), any_span(), any_span()), 0..40), window in any_span(), quantile in any_share(),
    ) {
        let (mut wire, mut times) = (ForwardDelay::with_window(window), ServiceTimes::new());
        for (now, one, other) in &seen {
            wire.observe(*now, *one, *other);
            times.observe(*one);
        }
        prop_assert!(wire.estimate() <= wire.bound());
        prop_assert_eq!(times.quantile(quantile).is_some(), !seen.is_empty());
        prop_assert!(times.mean() <= Some(Duration::from_nanos(1 << 40)));
    }

    #[test]
    fn clocks_take_anything(
        limit in any_span(), seen in vec((any_nanos(), any_nanos(), any_nanos()), 0..40),
        expires in any_nanos(), now in any_nanos(),
    ) {
        let mut clock = AbsoluteClock::new(limit);
        for (sent, remote, received) in seen {
            clock.observe(sent, remote, received);
            prop_assert_eq!(clock.skew().is_some(), clock.doubt().is_some());
            prop_assert!(clock.budget(expires, now).is_none_or(|budget| !budget.is_unlimited()));
        }
    }

    #[test]
    fn hedges_take_anything(
        ratio in any_share(), quantile in any_share(), least in any_span(), budget in any_budget(), expected in any_span(),
    ) {
        let mut hedge = Hedge::new(ratio, quantile, least);
        let mut times = ServiceTimes::new();
        (0..50).for_each(|_| (hedge.on_request(), times.observe(expected)).1);
        prop_assert!(hedge.delay(&times).is_none_or(|delay| delay >= least));
        let left = budget.laxity(expected);
        prop_assert!(!hedge.try_hedge(budget, expected) || left > Budget::from_nanos(0));
    }

    #[test]
    fn connections_take_anything(
        ring: u32, frees in vec(any::<u32>(), 0..20),
        messages in vec((any::<usize>(), any_time(), any_budget()), 0..20), patience: u32,
    ) {
        let mut returns = Returns::new(ring);
        let mut received = 0;
        for freed in frees {
            received += u32::from(returns.received().is_ok());
            returns.freed(freed);
            prop_assert!(returns.owed() <= received.min(ring));
        }
        let mut queue = SplitQueue::with_patience(patience);
        let count = messages.len();
        for (remaining, now, budget) in messages {
            queue.push(remaining, Deadline::at(now, budget), ());
        }
        prop_assert_eq!(std::iter::from_fn(|| queue.next(usize::MAX).map(|(_, _, last)| last)).count(), count);
    }
}
