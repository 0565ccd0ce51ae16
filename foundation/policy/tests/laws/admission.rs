//! Who is refused, and that the cap is kept.

use crate::strategies::span;
use greenwave_policy::{
    Admission, AdmissionConfig, AdmissionConfigError, AdmissionCounters, Budget, Refusal, Time, Verdict,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const LIMIT: usize = 8;
const RESERVE: f64 = 0.25;
const WINDOW: Duration = Duration::from_millis(100);

#[test]
fn what_may_be_refused_is_on_by_default_and_valid() {
    let config = AdmissionConfig::default();
    assert_eq!(config.validate(), Ok(()));
    assert!(config.enabled);
}

#[test]
fn a_wrong_configuration_names_the_key_and_what_is_allowed() {
    let sound = AdmissionConfig::default();
    let wrong = sound.max_queue(0).validate();
    assert_eq!(wrong, Err(AdmissionConfigError::MaxQueue));
    for given in [-0.1, 1.0, f64::NAN] {
        let wrong = sound.reserve(given).validate().unwrap_err();
        assert_eq!(wrong.to_string(), format!("admission.reserve is {given}; allowed: 0 to less than 1"));
    }
    let wrong = sound.window(Duration::ZERO).validate();
    assert_eq!(wrong, Err(AdmissionConfigError::Window));
    for given in [-0.1, 1.1, f64::INFINITY, f64::NAN] {
        let wrong = sound.reject_cap(given).validate().unwrap_err();
        assert_eq!(wrong.to_string(), format!("admission.reject_cap is {given}; allowed: 0 to 1"));
    }
}

#[test]
fn an_answer_that_would_come_at_the_deadline_itself_is_infeasible() {
    let mut admission = Admission::new(AdmissionConfig::default().reject_cap(1.0));
    let left = Budget::expected(5 * MS);
    assert_eq!(admission.decide(Time::ZERO, left, Some(4 * MS), 0), Verdict::Admit);
    let refusal = Refusal::Infeasible { needed: 5 * MS, left: 5 * MS };
    assert_eq!(admission.decide(Time::ZERO, left, Some(5 * MS), 0), Verdict::Refuse(refusal));
    assert_eq!(refusal.to_string(), "it needs about 5ms and has 5ms left");
}

#[test]
fn an_estimate_that_is_far_too_high_does_not_shut_everyone_out() {
    let mut admission = Admission::new(AdmissionConfig::default());
    for request in 0..1000 {
        let _ = admission.decide(Time::from_nanos(request), Budget::expected(MS), Some(Duration::MAX), 0);
    }
    let counters = admission.counters();
    assert_eq!((counters.admitted, counters.infeasible, counters.capped), (500, 500, 500));
}

#[test]
fn what_was_let_in_can_become_infeasible_while_it_waits() {
    let mut admission = Admission::new(AdmissionConfig::default().reject_cap(1.0));
    assert_eq!(admission.decide(Time::ZERO, Budget::expected(9 * MS), Some(5 * MS), 0), Verdict::Admit);
    let verdict =
        admission.recheck(Time::ZERO + 6 * MS, Budget::expected(3 * MS), Budget::expected(9 * MS), Some(5 * MS), 0);
    assert_eq!(verdict, Verdict::Refuse(Refusal::Infeasible { needed: 5 * MS, left: 3 * MS }));
    assert_eq!((admission.counters().admitted, admission.counters().infeasible), (1, 1));
}

/// However many they are: that they have waited is no estimate.
#[test]
fn who_has_waited_for_most_of_the_budget_is_turned_away() {
    let mut admission = Admission::new(AdmissionConfig::default().reject_cap(0.0).reserve(0.3));
    let whole = Budget::expected(10 * MS);
    let mut recheck = |left, queued| admission.recheck(Time::ZERO, Budget::expected(left), whole, None, queued);
    assert_eq!(recheck(3 * MS, 1), Verdict::Admit);
    assert_eq!(recheck(2 * MS, 0), Verdict::Admit, "there is nobody to make room for");
    for _ in 0..100 {
        let refusal = Refusal::Waited { left: 2 * MS, whole: 10 * MS };
        assert_eq!(recheck(2 * MS, 1), Verdict::Refuse(refusal));
        assert_eq!(refusal.to_string(), "it waited until only 2ms of its 10ms were left");
    }
    assert_eq!(admission.counters().waited, 100);
}

/// A worker that is handed requests which somebody else let in keeps the cap by what it sees.
#[test]
fn a_cap_can_be_kept_without_seeing_arrivals() {
    let mut worker = Admission::new(AdmissionConfig::default());
    for request in 0..1000 {
        let _ = worker.recheck(Time::from_nanos(request), Budget::expected(MS), Budget::expected(MS), Some(2 * MS), 0);
    }
    assert_eq!((worker.counters().infeasible, worker.counters().capped), (500, 500));
}

/// A request at arrival or when it comes up to run, so long after the one before.
#[derive(Clone, Debug)]
struct Asked {
    after: Duration,
    budget: Budget,
    whole: Budget,
    needed: Option<Duration>,
    /// `None` when it comes up to run.
    queued: Option<usize>,
}

impl Asked {
    /// Whether it comes up to run after it has waited too long.
    fn is_overdue(&self) -> bool {
        let left = self.budget.remaining().zip(self.whole.remaining());
        self.queued.is_none() && left.is_some_and(|(left, whole)| left < whole.mul_f64(RESERVE))
    }
}

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let needed = proptest::option::of((0..20_u32).prop_map(|ms| ms * MS));
    let budget = prop_oneof![
        9 => (-2_i64..20).prop_map(|ms| Budget::from_nanos(ms * 1_000_000)),
        1 => Just(Budget::UNLIMITED),
    ];
    let queued = proptest::option::weighted(0.8, 0..LIMIT + 2);
    let request = (0..20_u32, budget, 0..40_i64, needed, queued).prop_map(|(after, budget, waited, needed, queued)| {
        let whole =
            if budget.is_unlimited() { budget } else { Budget::from_nanos(budget.as_nanos() + waited * 1_000_000) };
        Asked { after: after * MS, budget, whole, needed, queued }
    });
    vec(request, 0..300)
}

fn config(enabled: bool, reject_cap: f64) -> AdmissionConfig {
    AdmissionConfig::default().enabled(enabled).max_queue(LIMIT).reject_cap(reject_cap).reserve(RESERVE).window(WINDOW)
}

fn verdicts(admission: &mut Admission, asked: &[Asked]) -> Vec<(Time, Verdict)> {
    let mut now = Time::from_nanos(1);
    let ask = |asked: &Asked| {
        now = now + asked.after;
        let verdict = match asked.queued {
            Some(queued) => admission.decide(now, asked.budget, asked.needed, queued),
            None => admission.recheck(now, asked.budget, asked.whole, asked.needed, 1),
        };
        (now, verdict)
    };
    asked.iter().map(ask).collect()
}

proptest! {
    /// In every window and at every moment of it. Expired and surplus requests don't count.
    #[test]
    fn the_cap_is_kept(asked in asked(), cap in 0.0..=1.0_f64) {
        let mut admission = Admission::new(config(true, cap));
        let (mut window_ends, mut arrived, mut came_up, mut infeasible) = (Time::ZERO, 0, 0, 0);
        for (asked, (now, verdict)) in asked.iter().zip(verdicts(&mut admission, &asked)) {
            if now >= window_ends {
                (window_ends, arrived, came_up, infeasible) = (now + WINDOW, 0, 0, 0);
            }
            match asked.queued {
                _ if asked.budget.is_spent() => {}
                Some(queued) => arrived += u32::from(queued < LIMIT),
                None => came_up += u32::from(!asked.is_overdue()),
            }
            let eligible = arrived.max(came_up);
            infeasible += u32::from(matches!(verdict, Verdict::Refuse(Refusal::Infeasible { .. })));
            prop_assert!(f64::from(infeasible) <= cap * f64::from(eligible), "{infeasible} of {eligible}");
        }
    }

    /// Facts are refused always, estimates only if they say so; what is feasible is never refused.
    #[test]
    fn every_refusal_has_its_reason(asked in asked(), cap in 0.0..=1.0_f64) {
        let mut admission = Admission::new(config(true, cap));
        for (asked, (_, verdict)) in asked.iter().zip(verdicts(&mut admission, &asked)) {
            let full = asked.queued.is_some_and(|queued| queued >= LIMIT);
            match verdict {
                Verdict::Admit => prop_assert!(!asked.budget.is_spent() && !full && !asked.is_overdue()),
                Verdict::Refuse(Refusal::Expired { late }) => {
                    prop_assert!(asked.budget.is_spent());
                    prop_assert_eq!(late, asked.budget.late());
                }
                Verdict::Refuse(Refusal::Waited { left, whole }) => {
                    prop_assert_eq!((Some(left), Some(whole)), (asked.budget.remaining(), asked.whole.remaining()));
                    prop_assert!(asked.is_overdue() && !asked.budget.is_spent());
                }
                Verdict::Refuse(Refusal::QueueFull { limit }) => prop_assert!(full && limit == LIMIT),
                Verdict::Refuse(Refusal::Infeasible { needed, left }) => {
                    prop_assert_eq!((Some(needed), Some(left)), (asked.needed, asked.budget.remaining()));
                    prop_assert!(needed >= left && !asked.budget.is_spent());
                }
            }
        }
    }

    /// Under a cap of 1 nothing infeasible gets past arrival, under a cap of 0 all of it does.
    #[test]
    fn the_ends_of_the_cap_are_all_and_nothing(asked in asked()) {
        for (cap, spared) in [(1.0, 0), (0.0, 1)] {
            let arrivals: Vec<Asked> = asked.iter().filter(|asked| asked.queued.is_some()).cloned().collect();
            let mut admission = Admission::new(config(true, cap));
            let _ = verdicts(&mut admission, &arrivals);
            let counters = admission.counters();
            prop_assert_eq!(if spared == 0 { counters.capped } else { counters.infeasible }, 0);
        }
    }

    #[test]
    fn what_is_off_admits_everything(asked in asked()) {
        let mut off = Admission::new(config(false, 1.0));
        prop_assert!(verdicts(&mut off, &asked).iter().all(|(_, verdict)| *verdict == Verdict::Admit));
        let admitted = asked.iter().filter(|asked| asked.queued.is_some()).count() as u64;
        prop_assert_eq!(off.counters(), AdmissionCounters { admitted, ..AdmissionCounters::default() });
    }

    #[test]
    fn every_arrival_is_counted_once(asked in asked(), cap in 0.0..=1.0_f64) {
        let arrivals: Vec<Asked> = asked.into_iter().filter(|asked| asked.queued.is_some()).collect();
        let mut admission = Admission::new(config(true, cap));
        let _ = verdicts(&mut admission, &arrivals);
        let it = admission.counters();
        prop_assert_eq!(it.admitted + it.expired + it.infeasible + it.full, arrivals.len() as u64);
    }

    #[test]
    fn without_a_deadline_or_an_estimate_nothing_is_infeasible(needed in span(), left in 1..i64::MAX) {
        let mut admission = Admission::new(config(true, 1.0));
        prop_assert_eq!(admission.decide(Time::ZERO, Budget::UNLIMITED, Some(needed), 0), Verdict::Admit);
        prop_assert_eq!(admission.decide(Time::ZERO, Budget::from_nanos(left), None, 0), Verdict::Admit);
    }
}
