use super::*;
use crate::{suspend, yield_now};
use greenwave_policy::Order;
use std::cell::RefCell;
use std::rc::Rc;

type Said = Rc<RefCell<Vec<&'static str>>>;
type Boxed = Box<dyn FnOnce()>;

/// Time goes on by a microsecond with every quantum.
struct Ticking(Time);

impl Turn for Ticking {
    fn now(&mut self) -> Time {
        self.0 + Duration::from_micros(1)
    }

    fn ran(&mut self, now: Time, span: Span) -> bool {
        assert_eq!(span, now.span_since(self.0));
        self.0 = now;
        true
    }
}

fn scheduler() -> Scheduler<Boxed, usize> {
    Scheduler::new(ReadyQueue::new(Order::Fcfs), Quantum::NONE, StackSize::MIN, 8)
}

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

/// Runs whose turn it is at that time. Its key, since when it has waited, and how its turn ended.
fn step(jobs: &mut Scheduler<Boxed, usize>, now: Time) -> Option<(usize, Time, Event)> {
    let (id, since) = jobs.next(now)?;
    let key = jobs.key(id);
    Some((key, since, jobs.run(now, id, &mut Ticking(now))))
}

/// A job that says its name, suspends itself so many times, and says it again after each.
fn speaker(said: &Said, name: &'static str, suspensions: usize) -> Boxed {
    let said = Rc::clone(said);
    Box::new(move || {
        said.borrow_mut().push(name);
        for _ in 0..suspensions {
            suspend().expect("it is in a coroutine");
            said.borrow_mut().push(name);
        }
    })
}

#[test]
fn who_is_told_apart_by_a_key_says_since_when_it_waited() {
    let (mut jobs, said) = (scheduler(), Said::default());
    jobs.add(at(1), Urgency::default(), 7, speaker(&said, "a", 0));
    jobs.add(at(2), Urgency::default(), 9, speaker(&said, "b", 1));
    assert!(matches!(step(&mut jobs, at(10)), Some((7, since, Event::Finished(_))) if since == at(1)));
    let Some((9, since, Event::Suspended(b))) = step(&mut jobs, at(20)) else { panic!("b suspends itself") };
    assert_eq!((since, jobs.ready(), jobs.unfinished()), (at(2), 0, 1));
    assert!(step(&mut jobs, at(30)).is_none(), "who has suspended itself is out of the queue");
    jobs.resume(at(40), b);
    jobs.resume(at(41), b);
    assert_eq!(jobs.ready(), 1, "it is in the queue once");
    // Its turn was over at 21, from when it was its owner that held it up.
    assert!(matches!(step(&mut jobs, at(50)), Some((9, since, Event::Finished(_))) if since == at(21)));
    assert_eq!((jobs.unfinished(), jobs.counts().finished, jobs.counts().served), (0, 2, 0));
    assert_eq!(*said.borrow(), ["a", "b", "b"]);
}

#[test]
fn a_wait_ends_once_by_hand_or_by_its_time() {
    let (mut jobs, said) = (scheduler(), Said::default());
    jobs.add(at(0), Urgency::default(), 1, speaker(&said, "a", 2));
    let Some((_, _, Event::Suspended(a))) = step(&mut jobs, at(1)) else { panic!("it suspends itself") };
    let first = jobs.wait(a).expect("it is out of the queue");
    assert_eq!(jobs.wait(a), None, "it waits already");
    jobs.end_at(at(100), first);
    assert_eq!(jobs.wakes_by(), Some(at(100)));
    assert!(step(&mut jobs, at(99)).is_none());
    jobs.end(at(99), first);
    let Some((_, since, Event::Suspended(_))) = step(&mut jobs, at(99)) else { panic!("the wait is over") };
    assert_eq!(since, at(99));
    let second = jobs.wait(a).expect("it is out of the queue again");
    // The first wait's timer is still set, and is of no use to the second.
    jobs.end(at(99), first);
    assert!(step(&mut jobs, at(150)).is_none());
    jobs.end_at(at(200), second);
    assert!(step(&mut jobs, at(199)).is_none());
    assert!(matches!(step(&mut jobs, at(205)), Some((1, since, Event::Finished(_))) if since == at(205)));
    jobs.end(at(300), second);
    assert_eq!((jobs.ready(), jobs.waiting()), (0, 0));
}

#[test]
fn who_is_not_there_any_more_is_left_alone() {
    let (mut jobs, said) = (scheduler(), Said::default());
    let gone = jobs.add(at(0), Urgency::default(), 1, speaker(&said, "a", 0));
    assert!(matches!(step(&mut jobs, at(1)), Some((1, _, Event::Finished(_)))));
    let next = jobs.add(at(2), Urgency::default(), 2, speaker(&said, "b", 1));
    assert_ne!(gone, next);
    assert!(matches!(step(&mut jobs, at(3)), Some((2, _, Event::Suspended(_)))));
    jobs.resume(at(4), gone);
    jobs.give_way(at(4), gone);
    assert_eq!((jobs.ready(), jobs.wait(gone), jobs.withdraw(gone).is_none()), (0, None, true));
    jobs.resume_first(at(4), next);
    assert_eq!(jobs.ready(), 1);
}

#[test]
fn only_who_has_not_begun_and_is_out_can_be_withdrawn() {
    let (mut jobs, said) = (scheduler(), Said::default());
    let id = jobs.add(at(0), Urgency::default(), 1, speaker(&said, "a", 0));
    assert!(jobs.withdraw(id).is_none(), "it is in the queue");
    assert_eq!(jobs.next(at(1)), Some((id, at(0))));
    jobs.withdraw(id).expect("it is out, and hasn't begun")();
    assert_eq!((jobs.unfinished(), jobs.counts().finished), (0, 1));
    let id = jobs.add(at(2), Urgency::default(), 1, Box::new(yield_now));
    assert!(matches!(step(&mut jobs, at(3)), Some((_, _, Event::Suspended(_)))));
    assert!(jobs.withdraw(id).is_none(), "it has begun");
    jobs.resume(at(4), id);
    assert!(matches!(step(&mut jobs, at(5)), Some((_, _, Event::Finished(_)))));
}

#[test]
fn a_panic_ends_one_job_and_its_stack_is_used_again() {
    let (mut jobs, said) = (scheduler(), Said::default());
    jobs.add(at(0), Urgency::default(), 1, Box::new(|| panic!("as the test would have it")));
    assert!(
        matches!(step(&mut jobs, at(1)), Some((1, _, Event::Panicked(_, message))) if message.contains("as the test"))
    );
    jobs.add(at(2), Urgency::default(), 2, speaker(&said, "b", 0));
    assert!(matches!(step(&mut jobs, at(3)), Some((2, _, Event::Finished(_)))));
    assert_eq!(*said.borrow(), ["b"]);
}
