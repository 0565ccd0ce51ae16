//! The orders, against a list that is searched from end to end.

use crate::strategies::{budget, exact, span, time, urgency};
use greenwave_policy::{Budget, Deadline, Order, ReadyQueue, Time, Urgency};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn orders_are_known_by_their_names() {
    for order in Order::ALL {
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    let unknown = "lifo".parse::<Order>().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "no order is called \"lifo\"; use one of guarded fcfs ps edf least-laxity oldest-first stage-laxity"
    );
}

#[test]
fn work_that_yielded_goes_before_its_equals_under_fcfs_alone() {
    for order in Order::ALL {
        let expected = if order == Order::Fcfs { [1, 2, 3] } else { [2, 3, 1] };
        let mut queue = ReadyQueue::new(order);
        (1..=3).for_each(|work| queue.push(Time::ZERO, Urgency::default(), work));
        let (urgency, yielded) = queue.pop(Time::ZERO).expect("three were pushed");
        queue.put_back(Time::ZERO, urgency, yielded);
        assert_eq!(queue.drain(Time::ZERO).map(|(_, work)| work).collect::<Vec<_>>(), expected, "{order}");
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// So much work, with a deadline that is at so many milliseconds.
fn work(deadline: u64, here: u64) -> Urgency {
    let deadline = Deadline::at(Time::ZERO, Budget::expected(Duration::from_millis(deadline)));
    Urgency { deadline, here: Duration::from_millis(here), ..Urgency::default() }
}

#[test]
fn a_late_request_with_much_to_do_overtakes_one_that_can_wait() {
    let first = |order| {
        let mut queue = ReadyQueue::new(order);
        queue.push(at(1), work(50, 1), "short");
        queue.push(at(1), work(80, 60), "long");
        queue.pop(at(1)).map(|(_, name)| name)
    };
    assert_eq!(first(Order::EarliestDeadline), Some("short"));
    assert_eq!(first(Order::LeastLaxity), Some("long"));
}

#[test]
fn what_is_late_takes_turns_with_what_can_be_in_time_the_shortest_first() {
    let mut queue = ReadyQueue::new(Order::LeastLaxity);
    for (deadline, here) in [(10, 5), (30, 25), (40, 2), (100, 1), (200, 1), (300, 1)] {
        queue.push(Time::ZERO, work(deadline, here), deadline);
    }
    assert_eq!(queue.len(), 6);
    let mut pop = || queue.pop_due(at(50)).map(|(_, deadline)| deadline);
    assert_eq!([pop(), pop(), pop(), pop(), pop(), pop()], [40, 100, 10, 200, 30, 300].map(Some));
    assert_eq!(pop(), None);
}

/// Jobs of 1 us and of 100 us on one core, as many of each, in quanta of 1 us, at 0.85 of its capacity, in virtual time;
/// each has ten times its work to be in time. The latencies of the two kinds, in order.
fn latencies(pop: impl Fn(&mut ReadyQueue<usize>, Time) -> Option<(Urgency, usize)>) -> [Vec<Duration>; 2] {
    let us = Duration::from_micros;
    let mut random = 1_u64;
    let mut uniform = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut arrivals = Vec::new();
    let mut at = 0.0;
    while arrivals.len() < 10_000 {
        at -= (1.0 - uniform()).ln() * 50.5 / 0.85;
        let work = if uniform() < 0.5 { us(1) } else { us(100) };
        arrivals.push((Time::from_nanos((at * 1e3) as u64), work));
    }
    let mut queue = ReadyQueue::new(Order::LeastLaxity);
    let (mut next, mut now, mut latencies) = (0, Time::ZERO, [Vec::new(), Vec::new()]);
    while next < arrivals.len() || !queue.is_empty() {
        if queue.is_empty() {
            now = now.max(arrivals[next].0);
        }
        while let Some((birth, here)) = arrivals.get(next).copied().filter(|(birth, _)| *birth <= now) {
            let deadline = Deadline::at(birth, Budget::expected(10 * here));
            queue.push(now, Urgency { arrived: birth, birth, deadline, here, ..Urgency::default() }, next);
            next += 1;
        }
        let (urgency, job) = pop(&mut queue, now).expect("it isn't empty");
        now = now + us(1);
        if urgency.here > us(1) {
            queue.put_back(now, Urgency { here: urgency.here - us(1), ..urgency }, job);
        } else {
            latencies[usize::from(arrivals[job].1 > us(1))].push(now.since(urgency.birth));
        }
    }
    latencies.iter_mut().for_each(|class| class.sort_unstable());
    latencies
}

#[test]
fn long_work_that_is_late_does_not_make_all_short_work_late() {
    let tail = |class: &Vec<Duration>| class[class.len() * 999 / 1000];
    let [short, long] = latencies(ReadyQueue::pop_due);
    let [short_before, long_before] = latencies(ReadyQueue::pop);
    assert!(tail(&short) * 20 < tail(&short_before), "{:?} {:?}", tail(&short), tail(&short_before));
    assert!(tail(&long) < tail(&long_before) * 4, "{:?} {:?}", tail(&long), tail(&long_before));
}

#[test]
fn work_that_exceeds_its_estimate_is_expected_to_take_as_long_again() {
    let ms = Duration::from_millis;
    let urgency = Urgency { here: ms(10), ..Urgency::default() };
    assert_eq!([0, 4, 10, 25].map(|had| urgency.after(ms(had)).here), [ms(10), ms(6), ms(0), ms(25)]);
}

/// Those that go by one number; the default has [laws of its own](crate::guarded).
fn order() -> impl Strategy<Value = Order> {
    proptest::sample::select(&Order::ALL[1..])
}

/// What is done to a queue. Urgencies are few, so that there are ties.
#[derive(Clone, Debug)]
enum Act {
    Push(usize),
    PutBack(usize),
    Pop,
    Cancel(u64),
}

fn acts() -> impl Strategy<Value = (Vec<Urgency>, Vec<(Time, Act)>)> {
    let act = prop_oneof![
        4 => (0..5_usize).prop_map(Act::Push),
        1 => (0..5_usize).prop_map(Act::PutBack),
        3 => Just(Act::Pop),
        1 => (0..40_u64).prop_map(Act::Cancel),
    ];
    (vec(urgency(), 5), vec((time(), act), 0..80))
}

/// What an order goes by, in plain arithmetic: the smaller the sooner.
fn key(order: Order, now: Time, urgency: &Urgency) -> i128 {
    let at = |time: Time| i128::from(time.as_nanos());
    let Some(expires) = urgency.deadline.expires().map(at) else {
        return if order == Order::OldestFirst { at(urgency.birth) } else { i128::MAX };
    };
    let (here, ahead) = (exact(urgency.here), exact(urgency.ahead));
    match order {
        Order::Guarded | Order::Fcfs | Order::ProcessorSharing => 0,
        Order::EarliestDeadline => expires,
        Order::LeastLaxity => expires - here - ahead,
        Order::OldestFirst => at(urgency.birth),
        Order::StageLaxity => {
            let left = expires - at(now);
            let share = if left > 0 && ahead > 0 { left * here / (here + ahead) } else { left };
            at(now) + share - here
        }
    }
}

proptest! {
    /// Each pop gives what a search of the whole list would, ties in the order of arrival; nothing is lost.
    #[test]
    fn a_queue_is_a_list_kept_in_order(order in order(), (urgencies, acts) in acts()) {
        let mut queue = ReadyQueue::new(order);
        let mut list: Vec<((i128, i64), u64)> = Vec::new();
        let is_line = matches!(order, Order::Fcfs | Order::ProcessorSharing);
        for (turn, (now, act)) in (1_i64..).zip(acts) {
            let id = turn.unsigned_abs();
            let rank = |at: usize, turn| (if is_line { 0 } else { key(order, now, &urgencies[at]) }, turn);
            match act {
                Act::Push(at) => {
                    queue.push(now, urgencies[at], id);
                    list.push((rank(at, turn), id));
                }
                Act::PutBack(at) => {
                    queue.put_back(now, urgencies[at], id);
                    list.push((rank(at, if order == Order::Fcfs { -turn } else { turn }), id));
                }
                Act::Pop => {
                    let first = list.iter().enumerate().min_by_key(|(_, (rank, _))| *rank).map(|(at, _)| at);
                    let expected = first.map(|at| list.remove(at).1);
                    prop_assert_eq!(queue.pop(now).map(|(_, id)| id), expected);
                }
                Act::Cancel(cancelled) => {
                    queue.retain(|_, id| id % 40 != cancelled);
                    list.retain(|(_, id)| id % 40 != cancelled);
                }
            }
            prop_assert_eq!(queue.len(), list.len());
            prop_assert_eq!(queue.is_empty(), list.is_empty());
            list.sort_unstable();
            for by in 0..3 {
                let (said, is) = (queue.behind_first(by), list.get(by).map(|(_, id)| id));
                let may_be = |said| order != Order::ProcessorSharing && list.iter().any(|(_, id)| id == said);
                prop_assert!(said == is || said.is_none_or(may_be), "{by}: {said:?} {is:?}");
                prop_assert_eq!(said.is_some(), queue.behind_first_at(by).is_some());
            }
        }
        let rest: Vec<u64> = queue.drain(Time::ZERO).map(|(_, id)| id).collect();
        prop_assert_eq!(rest, list.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
    }

    /// What goes on is what would come out first, were it put back; but for FCFS, ties go to those who wait.
    #[test]
    fn who_goes_on_would_be_next(order in order(), all in vec(urgency(), 0..20), own in urgency(), now in time()) {
        let mut queue = ReadyQueue::new(order);
        all.iter().for_each(|urgency| queue.push(now, *urgency, false));
        let goes_on = queue.goes_on(now, &own);
        queue.put_back(now, own, true);
        prop_assert_eq!(queue.pop(now).map(|(_, is_own)| is_own), Some(goes_on));
    }

    /// Who is told for how long it goes on would go on whenever it asked meanwhile.
    #[test]
    fn who_goes_on_for_a_while_does_so_all_the_while(
        order in order(), all in vec(urgency(), 0..4), own in urgency(), now in time(), part in 0.0..1.0_f64,
    ) {
        let mut queue = ReadyQueue::new(order);
        all.iter().for_each(|urgency| queue.push(now, *urgency, false));
        if queue.goes_on(now, &own) {
            let span = queue.goes_on_for(now, &own, own.here).min(own.here).mul_f64(part);
            prop_assert!(queue.goes_on(now + span, &own.after(span)), "{span:?}");
        }
    }

    /// Laxity shrinks for all alike while they wait, so an order made on arrival holds at any time.
    #[test]
    fn least_laxity_is_least_whenever_it_is_asked(all in vec(urgency(), 0..30), pushed in vec(time(), 30), now in time()) {
        let mut queue = ReadyQueue::new(Order::LeastLaxity);
        all.iter().zip(pushed).for_each(|(urgency, at)| queue.push(at, *urgency, ()));
        let laxities: Vec<_> =
            queue.drain(Time::ZERO).map(|(it, ())| it.deadline.budget(now).laxity(it.here + it.ahead)).collect();
        prop_assert!(laxities.is_sorted(), "{laxities:?}");
    }

    /// With one expected deadline for all, deadline order is order of birth.
    #[test]
    fn one_deadline_for_all_is_oldest_first(births in vec(time(), 0..30), expected in budget(), now in time()) {
        let order_of = |order| {
            let mut queue = ReadyQueue::new(order);
            for (id, &birth) in births.iter().enumerate() {
                let deadline = Deadline::at(birth, expected);
                queue.push(now, Urgency { arrived: now, birth, deadline, ..Urgency::default() }, id);
            }
            queue.drain(Time::ZERO).map(|(_, id)| id).collect::<Vec<_>>()
        };
        prop_assume!(!expected.is_unlimited());
        prop_assert_eq!(order_of(Order::EarliestDeadline), order_of(Order::OldestFirst));
    }

    /// At the last stage the share is the whole.
    #[test]
    fn stage_laxity_of_the_last_stage_is_laxity(all in vec(urgency(), 0..30), now in time()) {
        let order_of = |order| {
            let mut queue = ReadyQueue::new(order);
            for (id, urgency) in all.iter().enumerate() {
                queue.push(now, Urgency { ahead: Duration::ZERO, ..*urgency }, id);
            }
            queue.drain(Time::ZERO).map(|(_, id)| id).collect::<Vec<_>>()
        };
        prop_assert_eq!(order_of(Order::StageLaxity), order_of(Order::LeastLaxity));
    }

    /// Of two that are alike here, the one with more ahead has less to spare.
    #[test]
    fn more_ahead_is_more_urgent(urgency in urgency(), more in span(), now in time()) {
        for order in [Order::LeastLaxity, Order::StageLaxity] {
            let mut queue = ReadyQueue::new(order);
            queue.push(now, Urgency { ahead: urgency.ahead + more, ..urgency }, "more");
            queue.push(now, urgency, "less");
            prop_assert_eq!(queue.pop(at(1)).map(|(_, name)| name), Some("more"), "{}", order);
        }
    }
}
