//! Calls go where they are expected to be answered soonest, and nowhere else for long.

use crate::strategies::{any_span, any_time};
use greenwave_policy::balance::{Load, Server};
use greenwave_policy::{Balance, BalanceRule, Ended, OutlierConfig, Sample, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const NOW: Time = Time::from_nanos(1 << 40);

/// A server in virtual time: one call after the other, each as long as the last; or dead.
#[derive(Clone, Copy)]
enum Model {
    Serves(Duration),
    /// Calls to it fail after this long.
    Fails(Duration),
    /// It can't be connected to.
    Gone,
}

struct Fleet {
    balance: Balance<usize>,
    models: Vec<Model>,
    /// Until when each is busy.
    busy: Vec<Time>,
    over: BinaryHeap<Reverse<(Time, usize, usize)>>,
    calls: Vec<(Server, Ended)>,
    given: Vec<usize>,
    latencies: Vec<Duration>,
}

impl Fleet {
    fn new(rule: BalanceRule, models: &[Model], seed: u64) -> Self {
        let mut balance = Balance::new(rule, OutlierConfig::default(), seed);
        (0..models.len()).for_each(|at| balance.add(at));
        let (busy, given) = (vec![NOW; models.len()], vec![0; models.len()]);
        let (over, calls, latencies) = (BinaryHeap::new(), Vec::new(), Vec::new());
        Self { balance, models: models.to_vec(), busy, over, calls, given, latencies }
    }

    /// Tells of the calls that are over by now.
    fn end(&mut self, now: Time) {
        while let Some(Reverse((at, call, _))) = self.over.peek().copied().filter(|Reverse((at, ..))| *at <= now) {
            self.over.pop();
            let (server, ended) = self.calls[call];
            self.balance.ended(at, server, ended);
        }
    }

    fn call(&mut self, now: Time) {
        self.end(now);
        let (server, at) = self.balance.choose(now, None).map(|(server, at)| (server, *at)).unwrap();
        self.given[at] += 1;
        let (over, ended) = match self.models[at] {
            Model::Serves(served) => {
                let queued = self.busy[at].since(now);
                self.busy[at] = self.busy[at].max(now) + served;
                let network = MS / 10;
                (self.busy[at] + network, Ended::Answered(Some(Sample { queued, served, network, each: None })))
            }
            Model::Fails(after) => (now + after, Ended::Failed(after)),
            Model::Gone => (now, Ended::Gone),
        };
        self.latencies.push(over.since(now));
        self.over.push(Reverse((over, self.calls.len(), at)));
        self.calls.push((server, ended));
    }

    /// So many calls, one every so often.
    fn run(mut self, calls: u32, every: Duration) -> Self {
        (0..calls).for_each(|call| self.call(NOW + every * call));
        self
    }

    /// The latency that all but one in a hundred stay below.
    fn p99(mut self) -> Duration {
        self.latencies.sort_unstable();
        self.latencies[self.latencies.len() * 99 / 100]
    }
}

const GOOD: Model = Model::Serves(MS);
const SLOW: Model = Model::Serves(Duration::from_millis(10));

/// What it is for: one of four servers is ten times slower, and hardly anybody notices. Half of what three can serve.
#[test]
fn a_server_that_is_ten_times_slower_does_not_show_in_the_99th_percentile() {
    for seed in 0..10 {
        let calls = |rule, models: &[Model]| Fleet::new(rule, models, seed).run(20_000, MS * 2 / 3);
        let good = calls(BalanceRule::ExpectedWait, &[GOOD; 3]).p99();
        let mixed = calls(BalanceRule::ExpectedWait, &[GOOD, SLOW, GOOD, GOOD]);
        assert!(mixed.given[1] < 100, "{:?}", mixed.given);
        let mixed = mixed.p99();
        assert!(mixed.as_secs_f64() <= 1.5 * good.as_secs_f64(), "{mixed:?} and {good:?}");
        let round_robin = calls(BalanceRule::RoundRobin, &[GOOD, SLOW, GOOD, GOOD]).p99();
        assert!(round_robin > 5 * good, "{round_robin:?} and {good:?}");
    }
}

#[test]
fn equal_servers_get_about_as_many_calls() {
    for rule in [BalanceRule::ExpectedWait, BalanceRule::RoundRobin] {
        let given = Fleet::new(rule, &[GOOD; 4], 3).run(20_000, MS / 3).given;
        assert!(given.iter().all(|calls| (4000..=6000).contains(calls)), "{rule:?} {given:?}");
    }
}

/// Ten seconds, three of which one server is down.
#[test]
fn a_server_that_is_gone_takes_no_calls_and_is_found_when_it_is_back() {
    let mut fleet = Fleet::new(BalanceRule::ExpectedWait, &[GOOD, Model::Gone, GOOD], 1);
    let calls = |fleet: &mut Fleet, range: std::ops::Range<u32>| {
        let before = fleet.given[1];
        range.for_each(|call| fleet.call(NOW + MS * call));
        fleet.given[1] - before
    };
    let while_gone = calls(&mut fleet, 0..3000);
    assert!((1..=5).contains(&while_gone), "one at first, and trials that are spaced out: {while_gone}");
    fleet.models[1] = GOOD;
    assert!(calls(&mut fleet, 3000..10_000) > 1000);
}

#[test]
fn a_server_that_fails_quickly_attracts_nobody() {
    for after in [Duration::ZERO, MS, 20 * MS] {
        let fleet = Fleet::new(BalanceRule::ExpectedWait, &[GOOD, Model::Fails(after), GOOD, GOOD], 5);
        let given = fleet.run(10_000, MS).given;
        // Until it is known, and the trials of ten seconds, one each.
        assert!(given[1] < 60, "{after:?} {given:?}");
    }
}

/// Where all fail the same way, nobody is left out beyond the share: it is not the servers.
#[test]
fn a_fault_of_all_leaves_half_of_them_in() {
    let mut fleet = Fleet::new(BalanceRule::ExpectedWait, &[Model::Fails(MS); 4], 5);
    for call in 0..10_000 {
        fleet.call(NOW + MS * call);
        assert!(fleet.balance.left_out() <= 2);
    }
}

#[test]
fn if_all_are_gone_calls_are_made_all_the_same() {
    let mut fleet = Fleet::new(BalanceRule::ExpectedWait, &[Model::Gone; 3], 5);
    (0..100).for_each(|_| fleet.call(NOW));
    assert!(fleet.given.iter().all(|given| *given > 10), "{:?}", fleet.given);
    fleet.models = vec![GOOD; 3];
    (0..3).for_each(|call| fleet.call(NOW + MS * call));
    fleet.end(NOW + SECOND);
    assert!(fleet.balance.left_out() < 3, "one that answered is back before its time");
}

#[test]
fn who_refuses_for_want_of_room_gets_less() {
    let mut balance = Balance::new(BalanceRule::ExpectedWait, OutlierConfig::default(), 1);
    (0..2).for_each(|at| balance.add(at));
    let mut given = [0; 2];
    for call in 0..1000 {
        let now = NOW + MS * call;
        let (server, at) = balance.choose(now, None).map(|(server, at)| (server, *at)).unwrap();
        given[at] += 1;
        let answered = Ended::Answered(Some(Sample { served: MS, ..Sample::default() }));
        balance.ended(now, server, if at == 0 { Ended::PushedBack } else { answered });
    }
    assert!(given[0] < 100, "{given:?}");
    assert_eq!(balance.left_out(), 0, "it is full, not broken");
}

/// Calls that nobody waited for until an answer could be there say nothing; those that somebody waited for in vain do.
#[test]
fn silence_counts_once_an_answer_is_overdue() {
    let given = |patience| {
        let mut balance = Balance::new(BalanceRule::ExpectedWait, OutlierConfig::default(), 1);
        (0..4).for_each(|at| balance.add(at));
        let mut given = 0;
        for call in 0..1000 {
            let now = NOW + MS * call;
            let (server, at) = balance.choose(now, None).map(|(server, at)| (server, *at)).unwrap();
            let silent = at == 0 && call > 100;
            given += usize::from(silent);
            let answered = Ended::Answered(Some(Sample { served: MS, ..Sample::default() }));
            balance.ended(now, server, if silent { Ended::Unanswered(patience) } else { answered });
        }
        assert_eq!(balance.left_out(), 0);
        given
    };
    assert!(given(MS / 2) > 100 && given(MS) > 100);
    assert!(given(20 * MS) < 20);
}

#[test]
fn a_server_that_has_never_answered_gets_one_call_while_others_can() {
    let mut balance = Balance::new(BalanceRule::ExpectedWait, OutlierConfig::default(), 1);
    balance.add("known");
    let (server, _) = balance.choose(NOW, None).unwrap();
    balance.ended(NOW, server, Ended::Answered(Some(Sample { served: MS, ..Sample::default() })));
    balance.add("new");
    let new = (0..100).filter(|_| *balance.choose(NOW, None).unwrap().1 == "new").count();
    assert_eq!(new, 1);
}

proptest! {
    /// The slower of two servers gets fewer calls, by half of the factor or more.
    #[test]
    fn a_slower_server_gets_fewer_calls(factor in 2..50_u32, seed: u64, every in 800..3000_u64) {
        let models = [GOOD, Model::Serves(MS * factor)];
        let given = Fleet::new(BalanceRule::ExpectedWait, &models, seed).run(5000, Duration::from_micros(every)).given;
        prop_assert!(given[1] <= given[0] / factor as usize * 2, "{given:?}");
    }

    /// However slow it was, it is tried again, though nobody probes it.
    #[test]
    fn nobody_starves_for_ever(factor in 2..1000_u32, seed: u64) {
        let mut fleet = Fleet::new(BalanceRule::ExpectedWait, &[GOOD, Model::Serves(MS * factor), GOOD], seed);
        (0..200).for_each(|call| fleet.call(NOW + 5 * MS * call));
        fleet.models[1] = GOOD;
        let rest = NOW + SECOND * factor;
        let before = fleet.given[1];
        // A thousandfold is forgotten after ten half lives.
        (0..200).for_each(|call| fleet.call(rest + SECOND / 2 * call));
        prop_assert!(fleet.given[1] > before);
    }

    /// Who is avoided is chosen only where there is nobody else, whoever comes and goes.
    #[test]
    fn another_server_is_found_if_there_is_one(servers in 1..8_usize, gone in vec(any::<bool>(), 8), seed: u64) {
        let mut balance = Balance::new(BalanceRule::ExpectedWait, OutlierConfig::default(), seed);
        (0..servers).for_each(|at| balance.add(at));
        // Who was never chosen may be gone, and nobody knows it.
        let mut known = [false; 8];
        for _ in 0..servers * 4 {
            let (server, at) = balance.choose(NOW, None).map(|(server, at)| (server, *at)).unwrap();
            balance.ended(NOW, server, if gone[at] { Ended::Gone } else { Ended::Answered(None) });
            known[at] = gone[at];
        }
        let (first, at) = balance.choose(NOW, None).map(|(server, at)| (server, *at)).unwrap();
        let second = balance.choose(NOW, Some(first)).map(|(_, at)| *at).unwrap();
        let others = (0..servers).filter(|other| *other != at && !known[*other]).count();
        prop_assert!(second != at || others == 0, "{at} again, of {servers}, {gone:?}");
        prop_assert_eq!(balance.has_another(first), others > 0);
    }

    /// Servers that are removed take nothing along, and what comes is told apart from what was.
    #[test]
    fn servers_come_and_go(steps in vec((0..5_u8, 0..8_usize, any_time()), 0..300), seed: u64) {
        let mut balance = Balance::new(BalanceRule::ExpectedWait, OutlierConfig::default(), seed);
        let (mut next, mut chosen) = (0, Vec::new());
        for (step, which, now) in steps {
            match step {
                0 => {
                    balance.add(next);
                    next += 1;
                }
                1 => balance.retain(|at| at % 8 != which),
                2 => match balance.choose(now, chosen.first().copied()) {
                    Some((server, at)) => {
                        prop_assert!(*at < next);
                        chosen.push(server);
                    }
                    None => prop_assert!(balance.is_empty()),
                },
                _ => {
                    let ended = [Ended::Gone, Ended::Failed(MS), Ended::Answered(None), Ended::Undecided, Ended::PushedBack];
                    if let Some(server) = chosen.pop() {
                        balance.ended(now, server, ended[which % 5]);
                    }
                }
            }
            prop_assert!(balance.left_out() <= balance.len());
        }
        chosen.into_iter().for_each(|server| balance.ended(NOW, server, Ended::Answered(None)));
    }

    #[test]
    fn what_is_expected_is_a_number(
        steps in vec((any_time(), 0..3_u8, any_span(), any_span(), any_span()), 0..50), at in any_time()
    ) {
        let mut load = Load::default();
        for (now, step, queued, served, network) in steps {
            load.begun(now);
            let ended = match step {
                0 => Ended::Answered(Some(Sample { queued, served, network, each: None })),
                1 => Ended::Failed(served),
                _ => Ended::PushedBack,
            };
            load.ended(now, ended);
            prop_assert!(load.expected(at).is_finite() && load.expected(at) >= 0.0);
        }
        prop_assert_eq!(load.under_way(), 0);
    }
}
