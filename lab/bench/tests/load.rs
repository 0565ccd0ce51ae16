//! The generator in virtual time against a server that is one queue: what it must not be fooled by.

use std::collections::VecDeque;
use std::time::Duration;

use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::capacity::{self, CapacityError, Trial};
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::{LATE, Measured, UNANSWERED, UNSENT};
use greenwave_bench::progress::Progress;
use greenwave_bench::sustained::{self, Spell, TOLERATED};
use greenwave_bench::target::{Answer, Reply, Request, Rotation, StageReceipt, Target};
use greenwave_policy::Time;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// One server that serves one request after another in virtual time.
struct OneQueue {
    now: Time,
    service: Duration,
    free_at: Time,
    /// In the order of their completion: when, what, queueing time.
    done: VecDeque<(Time, u64, Duration)>,
    submitted: u64,
    oddity: Oddity,
}

/// What is wrong with the server.
#[derive(Clone, Copy, PartialEq)]
enum Oddity {
    Nothing,
    /// The sender is stuck for this long in the submission of the request with this number.
    StuckAt(u64, Duration),
    /// Every n-th request is refused on the spot.
    Refuses(u64),
    /// Every n-th request is answered with an error.
    Fails(u64),
    /// Every n-th request is never answered.
    Loses(u64),
    /// Every answer comes twice.
    Stutters,
}

impl OneQueue {
    fn new(service: Duration, oddity: Oddity) -> Self {
        Self { now: Time::ZERO, service, free_at: Time::ZERO, done: VecDeque::new(), submitted: 0, oddity }
    }
}

impl Target for OneQueue {
    fn now(&self) -> Time {
        self.now
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        self.submitted += 1;
        match self.oddity {
            Oddity::StuckAt(number, long) if number == self.submitted => self.now = self.now + long,
            Oddity::Refuses(n) if self.submitted.is_multiple_of(n) => return Err("refused"),
            Oddity::Loses(n) if self.submitted.is_multiple_of(n) => return Ok(()),
            _ => {}
        }
        let begin = self.free_at.max(self.now);
        self.free_at = begin + self.service;
        self.done.push_back((self.free_at, request.tag, begin.since(self.now)));
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        while let Some(&(at, tag, queue)) = self.done.front().filter(|(at, ..)| *at <= self.now) {
            self.done.pop_front();
            let failed = matches!(self.oddity, Oddity::Fails(n) if (tag >> 32).is_multiple_of(n));
            let answer = if failed { Answer::Miss("error") } else { Answer::Ok };
            let (service, total) = (self.service, queue + self.service);
            let (network, sent) = (Duration::ZERO, Duration::ZERO);
            let stages = [StageReceipt { name: "queue", depth: 0, sent, network, queue, service, total }];
            let reply = Reply { tag, received: at, answer, stages: &stages };
            sink(reply);
            if self.oddity == Oddity::Stutters {
                sink(reply);
            }
        }
    }

    fn wait(&mut self, until: Time) {
        let answer = self.done.front().map_or(Time::MAX, |(at, ..)| *at);
        self.now = self.now.max(answer.min(until));
    }
}

fn fixed(per_second: f64, deadline: Duration, time: Duration) -> Plan {
    Plan { warm_up: Duration::ZERO, ..Plan::new(Arrivals::Fixed { per_second }, Classes::single(deadline), time) }
}

fn drive(plan: &Plan, target: &mut OneQueue) -> Measured {
    load::run(plan, target, &mut Rotation::new(vec![]), &mut Progress::hidden())
}

/// As many requests as were due, each with one end.
fn assert_complete(measured: &Measured, due: u64) {
    assert_eq!(measured.total.scheduled, due);
    assert_eq!(measured.total.good + measured.total.missed(), due);
    assert_eq!(measured.series.iter().map(|interval| interval.scheduled).sum::<u64>(), due);
}

#[test]
fn an_idle_server_answers_within_its_service_time() {
    let measured = drive(&fixed(100.0, 10 * MS, SECOND), &mut OneQueue::new(MS, Oddity::Nothing));
    assert_complete(&measured, 99);
    assert_eq!(measured.total.missed_share(), 0.0);
    assert_eq!(measured.max_send_lag, Duration::ZERO);
    assert_eq!(measured.total.results.quantile(0.999).map(|p| p.as_micros() / 10), Some(100));
}

#[test]
fn two_runs_put_together_are_all_their_requests() {
    let mut sum = drive(&fixed(100.0, 2 * MS, SECOND), &mut OneQueue::new(MS, Oddity::Nothing));
    let slow = drive(&fixed(50.0, 2 * MS, 2 * SECOND), &mut OneQueue::new(3 * MS, Oddity::Nothing));
    assert_eq!((sum.total.good, slow.total.good), (99, 0));
    sum.append(slow);
    assert_complete(&sum, 198);
    assert_eq!((sum.time, sum.goodput_per_s(), sum.total.missed_share()), (3 * SECOND, 33.0, 0.5));
    assert_eq!(sum.classes[0].1.scheduled, 198);
    assert_eq!(sum.total.results.quantile(0.9).map(|late| late.as_millis()), Some(3));
}

#[test]
fn a_stuck_sender_sends_all_it_missed_and_their_wait_counts() {
    let stuck = Oddity::StuckAt(100, 500 * MS);
    let measured = drive(&fixed(1000.0, 10 * MS, SECOND), &mut OneQueue::new(MS / 10, stuck));
    assert_complete(&measured, 999);
    assert!(measured.max_send_lag >= 498 * MS, "lag {:?}", measured.max_send_lag);
    let p75 = measured.total.results.quantile(0.75).expect("there were results");
    assert!(p75 > 200 * MS, "half of the requests were due while the sender was stuck, but p75 is {p75:?}");
    assert!(measured.total.misses[LATE] > 450);
}

#[test]
fn an_overloaded_queue_grows_and_its_late_answers_are_misses() {
    let plan = fixed(2000.0, 100 * MS, SECOND);
    let measured = drive(&plan, &mut OneQueue::new(MS, Oddity::Nothing));
    assert_complete(&measured, 1999);
    assert!((190..=210).contains(&measured.total.good), "{} in time", measured.total.good);
    assert_eq!(measured.total.misses.keys().copied().collect::<Vec<_>>(), [LATE]);
    let wasted = measured.work.wasted_share().expect("there were receipts");
    assert!((wasted - 0.9).abs() < 0.01, "wasted {wasted}");
    assert_eq!(measured.total.results.count(), 1999);
}

#[test]
fn whatever_the_drain_time_does_not_bring_is_a_miss() {
    let plan = Plan { drain: 250 * MS, ..fixed(2000.0, 100 * MS, SECOND) };
    let measured = drive(&plan, &mut OneQueue::new(MS, Oddity::Nothing));
    assert_complete(&measured, 1999);
    let unanswered = measured.total.misses[UNANSWERED];
    assert!((745..=755).contains(&unanswered), "{unanswered} were left after 1.25 s of serving 1000 a second");
    assert_eq!(measured.work.unknown, unanswered);
}

#[test]
fn a_sender_stuck_beyond_the_drain_time_owns_up_to_what_it_never_sent() {
    let plan = Plan { drain: SECOND, ..fixed(100.0, 100 * MS, SECOND) };
    let measured = drive(&plan, &mut OneQueue::new(MS, Oddity::StuckAt(50, 5 * SECOND)));
    assert_complete(&measured, 99);
    assert_eq!(measured.total.misses[UNSENT], 49);
}

#[test]
fn refusals_errors_and_losses_are_misses_by_their_names() {
    for (oddity, name) in
        [(Oddity::Refuses(10), "refused"), (Oddity::Fails(10), "error"), (Oddity::Loses(10), UNANSWERED)]
    {
        let measured = drive(&fixed(1000.0, 10 * MS, SECOND), &mut OneQueue::new(MS / 10, oddity));
        assert_complete(&measured, 999);
        assert!((99..=100).contains(&measured.total.misses[name]), "{name}");
        assert_eq!(measured.total.results.count(), measured.total.good, "{name}");
    }
}

#[test]
fn a_quantile_of_all_requests_does_not_exist_where_too_few_were_answered() {
    let measured = drive(&fixed(1000.0, 10 * MS, SECOND), &mut OneQueue::new(MS / 10, Oddity::Fails(10)));
    assert!(measured.total.quantile_of_all(0.89).is_some());
    assert_eq!(measured.total.quantile_of_all(0.91), None);
    assert!(measured.total.results.quantile(0.99).is_some());
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let measured = drive(&fixed(1000.0, 10 * MS, SECOND), &mut OneQueue::new(MS / 10, Oddity::Stutters));
    assert_complete(&measured, 999);
    assert_eq!(measured.strays, 999);
}

#[test]
fn the_warm_up_is_sent_and_left_out() {
    let plan = Plan { warm_up: SECOND, ..fixed(1000.0, 10 * MS, SECOND) };
    let mut target = OneQueue::new(MS / 10, Oddity::StuckAt(10, 200 * MS));
    let measured = drive(&plan, &mut target);
    assert_eq!(target.submitted, 1999);
    assert_complete(&measured, 1000);
    assert_eq!(measured.total.missed_share(), 0.0);
}

#[test]
fn each_class_is_held_to_its_own_deadline() {
    let classes = Classes::new(vec![Class::new("tight", 1.0, MS), Class::new("loose", 1.0, SECOND)]).expect("valid");
    let plan = Plan { classes, ..fixed(100.0, SECOND, 10 * SECOND) };
    let measured = drive(&plan, &mut OneQueue::new(2 * MS, Oddity::Nothing));
    let [(_, tight), (_, loose)] = &measured.classes[..] else { panic!("two classes") };
    assert_eq!((tight.good, loose.missed()), (0, 0));
    assert_eq!(tight.scheduled + loose.scheduled, measured.total.scheduled);
    assert!(measured.samples.iter().any(|sample| sample.class == "loose" && sample.stages[0].service == 2 * MS));
}

#[test]
fn a_closed_loop_finds_the_capacity() {
    let trial = Trial { in_flight: 8, warm_up: SECOND, windows: 3, window: SECOND, seed: 1 };
    let target = &mut OneQueue::new(2 * MS, Oddity::Nothing);
    let classes = Classes::single(MS);
    let capacity = capacity::measure(&trial, &classes, target, &mut Rotation::new(vec![]), &mut Progress::hidden());
    let capacity = capacity.expect("the server answers everything");
    assert!((capacity.per_second - 500.0).abs() <= 1.0, "{} per second", capacity.per_second);
    assert_eq!(capacity.windows.len(), 3);
}

#[test]
fn a_target_that_fails_or_is_silent_has_no_capacity() {
    let trial = Trial { windows: 2, ..Trial::default() };
    let measure = |oddity| {
        let target = &mut OneQueue::new(2 * MS, oddity);
        let mut payloads = Rotation::new(vec![]);
        capacity::measure(&trial, &Classes::single(MS), target, &mut payloads, &mut Progress::hidden()).err()
    };
    assert!(matches!(measure(Oddity::Fails(2)), Some(CapacityError::Failing { mostly: "error", .. })));
    let all_fail = CapacityError::Failing { share: 100.0, mostly: "error" };
    assert_eq!(measure(Oddity::Fails(1)), Some(all_fail), "a server that has no such method answers");
    assert!(matches!(measure(Oddity::Loses(1)), Some(CapacityError::Silent { .. })));
}

/// With one request in flight the answer is all that happens, and the next request follows it at once.
#[test]
fn a_closed_loop_of_one_keeps_the_server_busy() {
    let plan = Plan {
        warm_up: Duration::ZERO,
        ..Plan::new(Arrivals::Closed { in_flight: 1 }, Classes::single(SECOND), SECOND)
    };
    let measured = drive(&plan, &mut OneQueue::new(MS, Oddity::Nothing));
    assert!((999..=1000).contains(&measured.total.good), "{:?}", measured.total);
}

/// How fast a server's queue grows that can do 1000 a second.
fn growth(rate: f64, warm_up: Duration) -> f64 {
    let spell = Spell { warm_up, time: 3 * SECOND, seed: 1 };
    let (mut server, classes) = (OneQueue::new(MS, Oddity::Nothing), Classes::single(MS));
    sustained::growth(&spell, rate, &classes, &mut server, &mut Rotation::new(vec![]), &mut Progress::hidden()).unwrap()
}

#[test]
fn a_queue_grows_by_what_comes_beyond_what_can_be_done() {
    for warm_up in [Duration::ZERO, SECOND] {
        assert!(growth(900.0, warm_up).abs() < 1.0);
        let grows = growth(1200.0, warm_up);
        assert!((grows - 200.0).abs() < 4.0, "{grows}");
    }
}

#[test]
fn what_is_sustained_in_an_open_loop_is_what_the_server_can_do() {
    let found = sustained::search(700.0, 5, |rate| Ok::<_, ()>(growth(rate, SECOND) <= TOLERATED * rate)).unwrap();
    assert!((980.0..1025.0).contains(&found), "{found}");
}

#[test]
fn a_silent_server_sustains_nothing() {
    let spell = Spell { warm_up: SECOND, time: SECOND, seed: 1 };
    let (mut server, classes) = (OneQueue::new(MS, Oddity::Loses(1)), Classes::single(MS));
    let found =
        sustained::growth(&spell, 10.0, &classes, &mut server, &mut Rotation::new(vec![]), &mut Progress::hidden());
    assert_eq!(found, Err(CapacityError::Silent { within: 2 * SECOND }));
}
