//! Events: their order, that none gets lost, and that taking one back takes that one.

use greenwave_policy::Time;
use greenwave_sim::{Event, Simulation, Trace};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Debug, PartialEq)]
struct Numbered(u64);

impl Event for Numbered {
    fn trace(&self, trace: &mut Trace) {
        trace.number(self.0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Make(u64),
    Cancel(usize),
    Next,
    Until(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..50_u64).prop_map(Step::Make),
        1 => (0..100_usize).prop_map(Step::Cancel),
        2 => Just(Step::Next),
        1 => (0..50_u64).prop_map(Step::Until),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Against a sorted set of (instant, number): the same events in the same order, whatever is made and cancelled.
    #[test]
    fn events_happen_once_and_in_order(steps in steps()) {
        let mut simulation = Simulation::new();
        let mut model = BTreeSet::new();
        let mut timers = Vec::new();
        for step in steps {
            match step {
                Step::Make(after) => {
                    let number = timers.len() as u64;
                    timers.push(simulation.after(Duration::from_nanos(after), Numbered(number)));
                    model.insert((simulation.now().as_nanos() + after, number));
                }
                Step::Cancel(index) if index < timers.len() => {
                    let expected = model.iter().find(|&&(_, number)| number == index as u64).copied();
                    let taken = simulation.cancel(timers[index]);
                    prop_assert_eq!(taken, expected.map(|(_, number)| Numbered(number)));
                    expected.map(|entry| model.remove(&entry));
                }
                Step::Cancel(_) => {}
                Step::Next => {
                    let happened = simulation.next().map(|Numbered(number)| (simulation.now().as_nanos(), number));
                    prop_assert_eq!(happened, model.pop_first());
                }
                Step::Until(span) => {
                    let end = simulation.now() + Duration::from_nanos(span);
                    let happened = simulation.next_until(end).map(|Numbered(number)| (simulation.now().as_nanos(), number));
                    let expected = model.first().copied().filter(|&(instant, _)| instant <= end.as_nanos());
                    expected.map(|entry| model.remove(&entry));
                    prop_assert_eq!(happened, expected);
                    if happened.is_none() {
                        prop_assert_eq!(simulation.now(), end);
                    }
                }
            }
            prop_assert_eq!(simulation.waiting(), model.len());
        }
    }
}

/// What was made for an instant that has passed happens now, behind what was there for now.
#[test]
fn time_never_goes_back() {
    let mut simulation = Simulation::new();
    simulation.at(Time::from_nanos(10), Numbered(0));
    simulation.at(Time::from_nanos(10), Numbered(1));
    assert_eq!(simulation.next(), Some(Numbered(0)));
    simulation.at(Time::from_nanos(3), Numbered(2));
    assert_eq!(simulation.next(), Some(Numbered(1)));
    assert_eq!(simulation.next(), Some(Numbered(2)));
    assert_eq!(simulation.now(), Time::from_nanos(10));
}
