//! Guests get the core by their credits, and one that is woken waits for as long as theory says.

use greenwave_policy::Time;
use greenwave_sim::Seed;
use greenwave_sim::vcpu::{Charge, Core, CreditRule, GuestError, GuestUse, MOST_NEIGHBOURS, Neighbour, USUAL_WEIGHT};
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

/// Always has work.
const BUSY: Neighbour = Neighbour { weight: USUAL_WEIGHT, runs: MS, sleeps: Duration::ZERO };

/// Nine tenths of the time.
const HOG: Neighbour =
    Neighbour { weight: USUAL_WEIGHT, runs: Duration::from_micros(900), sleeps: Duration::from_micros(100) };

/// Ticks so seldom that few of them meet anyone.
const SELDOM: CreditRule = CreditRule { period: Duration::from_secs(1), ..CreditRule::XEN };

fn at(span: Duration) -> Time {
    Time::ZERO + span
}

fn core(rule: CreditRule, weight: u32, neighbours: &[Neighbour]) -> Core {
    Core::new(&rule, weight, neighbours, Seed::new(1).stream("vcpu", 0)).unwrap()
}

/// From when the guest is woken, every 7 ms, until it has done its work.
fn takes(core: &mut Core, wakes: u32, work: Duration) -> Vec<Duration> {
    let each = |number: u32| {
        let woken = at(number * 7 * MS);
        core.done_at(woken, work).since(woken)
    };
    (1..=wakes).map(each).collect()
}

fn mean(takes: &[Duration]) -> f64 {
    takes.iter().sum::<Duration>().as_secs_f64() / takes.len() as f64
}

/// The neighbour is in BOOST from when it wakes. It runs nine tenths of the time, and what is left of an exponential span is
/// as long as a whole one.
#[test]
fn who_is_in_boost_waits_for_who_is_to_sleep() {
    let takes_now = takes(&mut core(SELDOM, 256, &[HOG]), 40_000, US);
    let waits = mean(&takes_now) - 1e-6;
    assert!((waits / (0.9 * 900e-6) - 1.0).abs() < 0.05, "{waits}");
    let at_once = takes_now.iter().filter(|took| **took == US).count() as f64 / takes_now.len() as f64;
    assert!((at_once - 0.1).abs() < 0.01, "{at_once}");
    // With the line that lets it preempt, it waits only for a neighbour that wakes while it runs.
    let preempting = CreditRule { preempts: true, ..SELDOM };
    let mut mended = core(preempting, 256, &[HOG]);
    let soon = takes(&mut mended, 40_000, US).iter().filter(|took| **took == US).count();
    assert!(soon > 39_900, "{soon}");
    assert!(mended.usage().guests[1].preempted > 35_000, "{:?}", mended.usage());
}

/// Whoever a tick finds running isn't in BOOST any more, and gives way at once.
#[test]
fn who_is_in_boost_runs_before_who_has_credits() {
    let mut core = core(CreditRule::XEN, 256, &[BUSY]);
    assert!(takes(&mut core, 1000, 50 * US).iter().all(|took| *took == 50 * US));
    assert_eq!(core.usage().guests[1].preempted, 1000);
}

/// A guest that has run for much more than its part owes credits: woken, it waits for its neighbour, which has some.
#[test]
fn who_owes_credits_is_not_boosted() {
    let heavy = Neighbour { weight: 900, ..BUSY };
    let mut core = core(CreditRule { charge: Charge::Measured, ..CreditRule::XEN }, 100, &[heavy]);
    // A tenth of the time is 3 ms in each period, of which it has had more by the next accounting.
    let rested = core.done_at(at(MS), 100 * MS) + 30 * MS;
    let took = core.done_at(rested, US).since(rested);
    assert!(took > 10 * MS, "{took:?}");
    // Once it has slept for long enough it doesn't.
    let rested = rested + took + 1000 * MS;
    assert_eq!(core.done_at(rested, US), rested + US);
}

#[test]
fn who_is_alone_never_waits() {
    for charge in [Charge::Sampled, Charge::Measured] {
        let rule = CreditRule { charge, rate_limit: MS, switch: 10 * US, ..CreditRule::XEN };
        let mut core = core(rule, 1, &[]);
        assert!(takes(&mut core, 1000, 6 * MS).iter().all(|took| *took == 6 * MS));
        // More than it has time for queues behind itself alone.
        let began = at(8000 * MS);
        for number in 1..100 {
            assert_eq!(core.done_at(began + number * MS, 3 * MS), began + MS + number * 3 * MS);
        }
    }
}

/// Of guests that always have work, over ten minutes, by what their weights would have them get.
fn shares(charge: Charge, weights: &[u32]) -> (Vec<f64>, Core) {
    let neighbours: Vec<Neighbour> = weights.iter().map(|weight| Neighbour { weight: *weight, ..BUSY }).collect();
    let mut core = core(CreditRule { charge, ..CreditRule::XEN }, 256, &neighbours);
    core.run_until(at(600_000 * MS));
    let all = f64::from(weights.iter().sum::<u32>());
    let guests = core.usage().guests;
    let share = |(guest, weight): (&GuestUse, &u32)| guest.share / (f64::from(*weight) / all);
    (guests[1..].iter().zip(weights).map(share).collect(), core)
}

#[test]
fn shares_follow_weights_over_a_long_time() {
    for charge in [Charge::Sampled, Charge::Measured] {
        for weights in [&[100, 100, 100][..], &[100, 200, 300], &[100, 900], &[65_535, 5000]] {
            let (shares, core) = shares(charge, weights);
            assert!(shares.iter().all(|share| (share - 1.0).abs() < 0.01), "{charge:?} {weights:?}: {shares:?}");
            assert_eq!(core.books().trimmed, 0);
        }
    }
}

/// With so many others before it the heaviest is given more than a period's credits before its turn, and half of that is taken.
#[test]
fn who_saves_more_than_a_period_loses_half() {
    let (shares, core) = shares(Charge::Measured, &[256, 512, 1024]);
    assert!(core.books().trimmed > 0 && shares[2] < 0.9, "{shares:?}");
}

/// A guest that ticks hardly ever find running leaves its part to the neighbour, which then never owes anything.
#[test]
fn a_neighbour_has_what_nobody_else_uses() {
    let mut core = core(CreditRule::XEN, 256, &[Neighbour::busy(0.9, 800 * US)]);
    takes(&mut core, 20_000, 20 * US);
    let share = core.usage().guests[1].share;
    assert!((share - 0.9).abs() < 0.01, "{share}");
}

/// Who has just begun isn't preempted before the limit, and then is at once.
#[test]
fn the_rate_limit_lets_who_runs_go_on() {
    let mut limited = core(CreditRule { rate_limit: MS, ..CreditRule::XEN }, 256, &[BUSY]);
    // The neighbour has run since the guest slept, 100 us ago, and has 900 us to go.
    assert_eq!(limited.done_at(at(5 * MS), 100 * US), at(5 * MS + 100 * US));
    assert_eq!(limited.done_at(at(5 * MS + 200 * US), 100 * US), at(5 * MS + 100 * US + MS + 100 * US));
}

/// Switches are paid by the core: two for each preemption.
#[test]
fn switches_take_their_time_of_the_core() {
    let mut core = core(CreditRule { switch: 10 * US, ..CreditRule::XEN }, 256, &[BUSY]);
    assert!(takes(&mut core, 1000, 50 * US).iter().all(|took| *took == 60 * US));
    let usage = core.usage();
    assert!((usage.switching * usage.seconds / (2.0 * 1000.0 * 10e-6) - 1.0).abs() < 0.01, "{usage:?}");
    let all = usage.switching + usage.guests.iter().map(|guest| guest.share).sum::<f64>();
    assert!((all - 1.0).abs() < 1e-9, "{all}");
}

#[test]
fn what_can_not_be_meant_is_refused() {
    let refused = |rule: CreditRule, weight, neighbours: &[Neighbour]| {
        Core::new(&rule, weight, neighbours, Seed::new(1).stream("vcpu", 0)).unwrap_err()
    };
    let xen = CreditRule::XEN;
    assert_eq!(refused(CreditRule { period: US, ..xen }, 1, &[]), GuestError::Period(US));
    assert_eq!(refused(CreditRule { rate_limit: 40 * MS, ..xen }, 1, &[]), GuestError::RateLimit(40 * MS, 30 * MS));
    assert_eq!(refused(CreditRule { switch: 2 * MS, ..xen }, 1, &[]), GuestError::Switch(2 * MS));
    assert_eq!(refused(xen, 0, &[]), GuestError::Weight(0));
    assert_eq!(refused(xen, 1, &[Neighbour { weight: 70_000, ..BUSY }]), GuestError::Weight(70_000));
    assert_eq!(refused(xen, 1, &[Neighbour { runs: US, ..BUSY }]), GuestError::Runs(US));
    let never = Neighbour::busy(0.0, MS);
    assert_eq!(refused(xen, 1, &[never]), GuestError::Sleeps(never.sleeps));
    assert_eq!(refused(xen, 1, &[BUSY; MOST_NEIGHBOURS + 1]), GuestError::Neighbours(64));
}

proptest! {
    /// Credits come from accounting and go by ticks; none appears or vanishes, and the core's time is all somebody's.
    #[test]
    fn credits_are_conserved(
        seed in 0..1000_u64,
        measured in any::<bool>(),
        preempts in any::<bool>(),
        neighbours in prop::collection::vec((1..1000_u32, 50..5000_u64, 0..5000_u64), 0..6),
        wakes in prop::collection::vec((0..20_000_u64, 1..3000_u64), 1..100),
    ) {
        let charge = if measured { Charge::Measured } else { Charge::Sampled };
        let rule = CreditRule { charge, preempts, rate_limit: 500 * US, switch: 3 * US, ..CreditRule::XEN };
        let neighbour = |(weight, runs, sleeps)| Neighbour {
            weight,
            runs: Duration::from_micros(runs),
            sleeps: Duration::from_micros(sleeps),
        };
        let neighbours: Vec<Neighbour> = neighbours.into_iter().map(neighbour).collect();
        let mut core = Core::new(&rule, 256, &neighbours, Seed::new(seed).stream("vcpu", 0)).unwrap();
        let (mut now, mut before, mut worked) = (Time::ZERO, Time::ZERO, Duration::ZERO);
        for (gap, work) in wakes {
            now = now + Duration::from_micros(gap);
            let work = Duration::from_micros(work);
            let done = core.done_at(now, work);
            prop_assert!(done.since(now) >= work && done.since(before) >= work);
            (before, worked) = (done, worked + work);
            let books = core.books();
            prop_assert_eq!(books.given - books.burnt - books.trimmed, books.left);
        }
        let usage = core.usage();
        let ran: f64 = usage.guests.iter().map(|guest| guest.share).sum::<f64>() * usage.seconds;
        prop_assert!((usage.guests[0].share * usage.seconds - worked.as_secs_f64()).abs() < 1e-6);
        prop_assert!(ran + usage.switching * usage.seconds <= usage.seconds + 1e-6);
        let books = core.books();
        if measured {
            let used = (ran + usage.switching * usage.seconds) * 1e9;
            prop_assert!((books.burnt as f64 - used).abs() < 1e3, "{} of {}", books.burnt, used);
        } else {
            prop_assert!(books.burnt % 10_000_000 == 0 && books.burnt as f64 <= usage.seconds * 1e9);
        }
    }
}
