use super::*;
use greenwave_policy::AdmissionConfig;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);
const START: Time = Time::from_nanos(1_000_000_000);

fn limiter(settings: &Settings) -> Limiter {
    Limiter::new(settings)
}

fn one_permit() -> Settings {
    Settings::default().permits(1)
}

/// A request that arrives now with so much time.
fn arrive(limiter: &mut Limiter, now: Time, path: &str, left: Option<Duration>) -> Arrival {
    let deadline = left.map_or(Deadline::NEVER, |left| Deadline::at(now, Budget::expected(left)));
    limiter.arrive(now, path, now, deadline, &mut Vec::new())
}

fn begins(arrival: Arrival) -> Call {
    match arrival {
        Arrival::Begins(call) => call,
        other => panic!("{other:?}"),
    }
}

fn waits(arrival: Arrival) -> usize {
    match arrival {
        Arrival::Waits(key) => key,
        other => panic!("{other:?}"),
    }
}

fn poll(limiter: &mut Limiter, key: usize) -> Poll<Result<Call, Refusal>> {
    limiter.poll(key, &mut Some(Waker::noop().clone()))
}

/// Serves enough requests of a method that its time is known.
fn teach(limiter: &mut Limiter, path: &str, takes: Duration) {
    for _ in 0..16 {
        let call = begins(arrive(limiter, START, path, None));
        limiter.finish(START + takes, START, call, End::Served);
    }
}

#[test]
fn a_permit_goes_to_the_one_with_the_least_work() {
    let mut limiter = limiter(&one_permit());
    teach(&mut limiter, "/long", 50 * MS);
    teach(&mut limiter, "/short", MS);
    let running = begins(arrive(&mut limiter, START, "/any", None));
    let long = waits(arrive(&mut limiter, START, "/long", None));
    let short = waits(arrive(&mut limiter, START, "/short", None));
    assert!(poll(&mut limiter, long).is_pending() && poll(&mut limiter, short).is_pending());
    limiter.finish(START, START, running, End::Served);
    assert!(limiter.give(START).is_some(), "the short one is woken");
    assert!(limiter.give(START).is_none(), "and has the permit");
    let Poll::Ready(Ok(call)) = poll(&mut limiter, short) else { panic!("it may begin") };
    assert!(poll(&mut limiter, long).is_pending());
    limiter.finish(START, START, call, End::Served);
    assert!(limiter.give(START).is_some());
    assert!(matches!(poll(&mut limiter, long), Poll::Ready(Ok(_))));
}

#[test]
fn who_could_miss_a_deadline_goes_before_less_work() {
    let mut limiter = limiter(&one_permit());
    teach(&mut limiter, "/long", 50 * MS);
    teach(&mut limiter, "/short", MS);
    let running = begins(arrive(&mut limiter, START, "/any", None));
    let method = limiter.methods.find("/long");
    let takes = limiter.methods[method].learned.estimate().expect("it was taught");
    let long = waits(arrive(&mut limiter, START, "/long", Some(2 * takes)));
    let short = waits(arrive(&mut limiter, START, "/short", None));
    let now = START + takes - MS / 100;
    limiter.finish(now, START, running, End::Served);
    limiter.give(now);
    assert!(matches!(poll(&mut limiter, long), Poll::Ready(Ok(_))), "it can hardly wait any longer");
    assert!(poll(&mut limiter, short).is_pending());
}

#[test]
fn what_takes_longer_than_there_is_time_is_refused_and_by_report_only_counted() {
    for report_only in [false, true] {
        let mut limiter = limiter(&one_permit().report_only(report_only));
        teach(&mut limiter, "/long", 50 * MS);
        let arrival = arrive(&mut limiter, START, "/long", Some(20 * MS));
        let counters = limiter.counters();
        let infeasible = Refusals { infeasible: 1, ..Refusals::default() };
        if report_only {
            begins(arrival);
            assert_eq!((counters.refused.all(), counters.report_only), (0, infeasible));
        } else {
            assert!(matches!(arrival, Arrival::Refused(Refusal::Infeasible { .. })), "{arrival:?}");
            assert_eq!((counters.refused, counters.report_only.all()), (infeasible, 0));
        }
    }
}

#[test]
fn who_waited_for_too_long_is_refused_as_it_comes_up() {
    let mut limiter = limiter(&one_permit());
    let running = begins(arrive(&mut limiter, START, "/any", None));
    let [first, second] = [(); 2].map(|()| waits(arrive(&mut limiter, START, "/any", Some(10 * MS))));
    let now = START + 10 * MS;
    limiter.finish(now, START, running, End::Served);
    assert!(limiter.give(now).is_none(), "nobody has a waker yet");
    for key in [first, second] {
        let refused = poll(&mut limiter, key);
        assert!(matches!(refused, Poll::Ready(Err(Refusal::Expired { .. }))), "{refused:?}");
    }
    assert_eq!((limiter.counters().running, limiter.counters().refused.expired), (0, 2));
}

#[test]
fn who_has_hardly_anything_left_of_what_it_came_with_gives_way_to_others() {
    let mut limiter = limiter(&one_permit());
    let running = begins(arrive(&mut limiter, START, "/any", None));
    // It came to the process with 20 ms, of which it spent 15 ms on the way here.
    let (now, deadline) = (START + 15 * MS, Deadline::at(START, Budget::expected(20 * MS)));
    let Arrival::Waits(late) = limiter.arrive(now, "/any", START, deadline, &mut Vec::new()) else {
        panic!("it waits")
    };
    let other = waits(arrive(&mut limiter, now, "/any", None));
    limiter.finish(now, START, running, End::Served);
    limiter.give(now);
    assert!(matches!(poll(&mut limiter, late), Poll::Ready(Err(Refusal::Waited { .. }))));
    assert!(matches!(poll(&mut limiter, other), Poll::Ready(Ok(_))));
}

#[test]
fn those_that_have_left_take_no_memory() {
    let mut limiter = limiter(&one_permit());
    begins(arrive(&mut limiter, START, "/any", None));
    for _ in 0..10_000 {
        let key = waits(arrive(&mut limiter, START, "/any", None));
        limiter.leave(key);
    }
    assert!(limiter.calls.len() <= SWEEP && limiter.queue.len() <= SWEEP);
}

#[test]
fn a_full_queue_turns_away_what_takes_longest_if_that_is_known() {
    let mut limiter = limiter(&one_permit().admission(AdmissionConfig::default().max_queue(2)));
    teach(&mut limiter, "/long", 50 * MS);
    teach(&mut limiter, "/short", MS);
    begins(arrive(&mut limiter, START, "/any", None));
    let long = waits(arrive(&mut limiter, START, "/long", None));
    let short = waits(arrive(&mut limiter, START, "/short", None));
    let stranger = arrive(&mut limiter, START, "/any", None);
    assert!(matches!(stranger, Arrival::Refused(Refusal::QueueFull { limit: 2 })), "{stranger:?}");
    let another = waits(arrive(&mut limiter, START, "/short", None));
    assert!(matches!(poll(&mut limiter, long), Poll::Ready(Err(Refusal::QueueFull { limit: 2 }))));
    assert!(poll(&mut limiter, short).is_pending() && poll(&mut limiter, another).is_pending());
}

#[test]
fn only_what_was_served_with_success_becomes_known() {
    let mut limiter = limiter(&one_permit());
    for (path, end) in [("/a", End::Failed { timed_out: false }), ("/b", End::Dropped), ("/c", End::Served)] {
        let call = begins(arrive(&mut limiter, START, path, None));
        limiter.finish(START, START, call, end);
    }
    assert_eq!(limiter.counters().methods, 1);
}

#[test]
fn handlers_that_are_dropped_as_their_time_runs_out_make_it_careful() {
    let mut limiter = limiter(&one_permit());
    teach(&mut limiter, "/a", 10 * MS);
    for _ in 0..12 {
        let call = begins(arrive(&mut limiter, START, "/a", Some(40 * MS)));
        limiter.finish(START + 39 * MS, START, call, End::Dropped);
    }
    let refused = arrive(&mut limiter, START, "/a", Some(20 * MS));
    assert!(matches!(refused, Arrival::Refused(Refusal::Infeasible { .. })), "{refused:?}");
}

/// What may happen to a limiter; numbers choose among those it may happen to.
#[derive(Clone, Debug)]
enum Event {
    Arrive { path: u8, left: Option<u8> },
    Poll(usize),
    Leave(usize),
    Finish(usize, bool),
    Pass(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4_u8, proptest::option::of(0..40_u8)).prop_map(|(path, left)| Event::Arrive { path, left }),
        2 => any::<usize>().prop_map(Event::Poll),
        1 => any::<usize>().prop_map(Event::Leave),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(call, served)| Event::Finish(call, served)),
        1 => (0..10_u8).prop_map(Event::Pass),
    ]
}

proptest! {
    /// Whatever happens, no permit is lost or given twice, nobody waits while one is free, and each request is counted once.
    #[test]
    fn no_permit_is_lost(events in proptest::collection::vec(event(), 1..400), report_only: bool) {
        const PERMITS: usize = 2;
        let admission = AdmissionConfig::default().max_queue(5);
        let mut limiter = limiter(&Settings::default().permits(PERMITS).admission(admission).report_only(report_only));
        let (mut now, mut waiting, mut running) = (START, Vec::new(), Vec::new());
        for event in events {
            match event {
                Event::Arrive { path, left } => {
                    let left = left.map(|left| u32::from(left) * MS);
                    match arrive(&mut limiter, now, &format!("/{path}"), left) {
                        Arrival::Begins(call) => running.push((now, call)),
                        Arrival::Waits(key) => waiting.push(key),
                        Arrival::Refused(_) => prop_assert!(!report_only),
                    }
                }
                Event::Poll(one) if !waiting.is_empty() => {
                    let at = one % waiting.len();
                    if let Poll::Ready(outcome) = poll(&mut limiter, waiting[at]) {
                        waiting.swap_remove(at);
                        running.extend(outcome.ok().map(|call| (now, call)));
                    }
                }
                Event::Leave(one) if !waiting.is_empty() => {
                    let at = one % waiting.len();
                    limiter.leave(waiting.swap_remove(at));
                }
                Event::Finish(one, served) if !running.is_empty() => {
                    let at = one % running.len();
                    let (began, call) = running.swap_remove(at);
                    limiter.finish(now, began, call, if served { End::Served } else { End::Dropped });
                }
                Event::Pass(millis) => now = now + u32::from(millis) * MS,
                Event::Poll(_) | Event::Leave(_) | Event::Finish(..) => {}
            }
            while limiter.give(now).is_some() {}
            let counters = limiter.counters();
            prop_assert!(counters.running <= PERMITS && counters.running >= running.len());
            prop_assert!(counters.running == PERMITS || counters.waiting == 0);
        }
        for key in waiting {
            limiter.leave(key);
        }
        for (began, call) in running {
            limiter.finish(now, began, call, End::Served);
        }
        while limiter.give(now).is_some() {}
        let Counters { arrived, refused, in_time, late, failed, left, abandoned, running, waiting, .. } =
            limiter.counters();
        prop_assert_eq!((running, waiting), (0, 0));
        prop_assert_eq!(arrived, refused.all() + in_time + late + failed + left + abandoned);
    }
}
