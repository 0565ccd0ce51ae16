use super::*;
use crate::scheduler::{Event, Quantum};
use crate::{suspend, yield_now};
use greenwave_policy::{Budget, Deadline};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

type Boxed = Box<dyn FnOnce()>;

fn worker(order: Order, quantum: Quantum) -> Worker<Boxed> {
    Worker::new(order, quantum, StackSize::MIN, 8)
}

/// Runs until nobody is ready. Who suspends goes on at once.
fn run(worker: &mut Worker<Boxed>) -> u32 {
    let mut turns = 0;
    loop {
        match worker.run_one(worker.now()) {
            Event::Idle if worker.waiting() == 0 => return turns,
            Event::Idle => _ = worker.clock(),
            Event::Suspended(job) => worker.resume(worker.now(), job),
            _ => {}
        }
        turns += 1;
    }
}

/// Jobs that write their name so many times, and yield in between.
fn speakers(worker: &mut Worker<Boxed>, times: usize, jobs: &[(&'static str, Urgency)]) -> Rc<RefCell<String>> {
    let said: Rc<RefCell<String>> = Rc::default();
    for (name, urgency) in jobs {
        let (said, name) = (Rc::clone(&said), *name);
        let speak = move || {
            for _ in 0..times {
                said.borrow_mut().push_str(name);
                yield_now();
            }
        };
        worker.add(worker.now(), *urgency, Box::new(speak));
    }
    said
}

#[test]
fn in_processor_sharing_all_have_their_turn() {
    let mut worker = worker(Order::ProcessorSharing, Quantum::NONE);
    let jobs = [("a", Urgency::default()), ("b", Urgency::default()), ("c", Urgency::default())];
    let said = speakers(&mut worker, 2, &jobs);
    run(&mut worker);
    assert_eq!(*said.borrow(), "abcabc");
    assert_eq!((worker.unfinished(), worker.ready()), (0, 0));
}

#[test]
fn first_come_is_served_to_the_end() {
    let mut worker = worker(Order::Fcfs, Quantum::NONE);
    let said = speakers(&mut worker, 2, &[("a", Urgency::default()), ("b", Urgency::default())]);
    run(&mut worker);
    assert_eq!(*said.borrow(), "aabb");
}

#[test]
fn laxity_grows_with_the_service_a_job_has_had() {
    let mut worker = worker(Order::LeastLaxity, Quantum::NONE);
    let now = worker.now();
    let urgency = |deadline: u64, here: u64| Urgency {
        deadline: Deadline::at(now, Budget::expected(Duration::from_secs(deadline))),
        here: Duration::from_nanos(here),
        ..Urgency::default()
    };
    // They differ by less than any turn takes.
    let said = speakers(&mut worker, 2, &[("a", urgency(70, 10_000_000_000)), ("b", urgency(70, 9_999_999_999))]);
    run(&mut worker);
    assert!(said.borrow().starts_with("ab"), "a turn has used up what made a urgent: {}", said.borrow());
}

#[test]
fn a_panic_ends_one_job_and_no_other() {
    let mut worker = worker(Order::Fcfs, Quantum::NONE);
    let done = Rc::new(Cell::new(0));
    let inside = Rc::clone(&done);
    let now = worker.now();
    let failing = worker.add(now, Urgency::default(), Box::new(|| panic!("no")));
    worker.add(now, Urgency::default(), Box::new(move || inside.set(1)));
    assert!(matches!(worker.run_one(now), Event::Panicked(job, message) if job == failing && message == "no"));
    assert!(matches!(worker.run_one(worker.now()), Event::Finished(_)));
    assert_eq!((done.get(), worker.counts().finished, worker.unfinished()), (1, 2, 0));
}

#[test]
fn served_quanta_are_those_of_the_jobs_that_are_there() {
    let mut worker = worker(Order::ProcessorSharing, Quantum::NONE);
    speakers(&mut worker, 3, &[("a", Urgency::default())]);
    speakers(&mut worker, 1, &[("b", Urgency::default())]);
    let mut counts = Vec::new();
    while worker.unfinished() > 0 {
        if let Event::Suspended(job) = worker.run_one(worker.now()) {
            worker.resume(worker.now(), job);
        }
        counts.push((worker.counts().finished, worker.counts().served));
    }
    assert_eq!(counts, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 0)]);
}

#[test]
fn who_suspended_itself_is_not_run_before_it_is_told_to() {
    let mut worker = worker(Order::Fcfs, Quantum::NONE);
    let job = worker.add(worker.now(), Urgency::default(), Box::new(|| suspend().unwrap()));
    assert!(matches!(worker.run_one(worker.now()), Event::Suspended(_)));
    assert!(matches!(worker.run_one(worker.now()), Event::Idle));
    worker.resume(worker.now(), job);
    assert!(matches!(worker.run_one(worker.now()), Event::Finished(_)));
    worker.resume(worker.now(), job);
    assert_eq!(worker.ready(), 0, "it is gone");
}

unsafe extern "C" {
    #[link_name = "__quanta_probe"]
    fn raw_probe();
}

#[test]
fn a_job_that_never_yields_is_preempted_in_favour_of_others() {
    let mut worker = worker(Order::ProcessorSharing, Quantum::of(Duration::from_micros(1)));
    let told = Rc::new(Cell::new(false));
    let (spins, tells) = (Rc::clone(&told), Rc::clone(&told));
    let spin = move || {
        while !spins.get() {
            // SAFETY: it takes nothing, returns nothing and keeps more registers than this convention asks for.
            unsafe { raw_probe() }
        }
    };
    worker.add(worker.now(), Urgency::default(), Box::new(spin));
    worker.add(worker.now(), Urgency::default(), Box::new(move || tells.set(true)));
    run(&mut worker);
    assert_eq!(worker.counts().finished, 2);
}

#[test]
fn a_job_that_waits_for_a_word_lets_others_run_until_it_changes() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let mut worker = worker(Order::Fcfs, Quantum::NONE);
    let word = Rc::new(AtomicU32::new(0));
    let (waits, writes) = (Rc::clone(&word), Rc::clone(&word));
    let wait = move || {
        while waits.load(Ordering::Acquire) == 0 {
            crate::wait::wait(&waits, 0, None);
        }
    };
    worker.add(worker.now(), Urgency::default(), Box::new(wait));
    worker.add(worker.now(), Urgency::default(), Box::new(move || writes.store(1, Ordering::Release)));
    assert!(matches!(worker.run_one(worker.now()), Event::Waits(_)));
    assert_eq!((worker.waiting(), worker.ready()), (1, 1));
    assert!(matches!(worker.run_one(worker.now()), Event::Finished(_)));
    assert!(matches!(worker.run_one(worker.now()), Event::Finished(_)));
    assert_eq!(worker.waiting(), 0);
}

#[test]
fn a_thousand_jobs_in_turn_need_few_stacks() {
    let mut worker = worker(Order::Fcfs, Quantum::NONE);
    let seen = Rc::new(RefCell::new(HashSet::new()));
    for _ in 0..1000 {
        let seen = Rc::clone(&seen);
        let look = move || {
            let here = 0_u8;
            seen.borrow_mut().insert(std::hint::black_box(&raw const here).addr() / StackSize::MIN.bytes());
        };
        worker.add(worker.now(), Urgency::default(), Box::new(look));
    }
    run(&mut worker);
    assert_eq!(seen.borrow().len(), 1);
}

#[test]
fn a_dropped_worker_lets_go_of_what_its_jobs_hold() {
    use std::sync::atomic::AtomicU32;
    let (held, word) = (Rc::new(()), AtomicU32::new(0));
    let mut worker = worker(Order::Fcfs, Quantum::NONE);
    let (first, second, third) = (Rc::clone(&held), Rc::clone(&held), Rc::clone(&held));
    let wait = move || {
        let _held = first;
        loop {
            crate::wait::wait(&word, 0, None);
        }
    };
    let suspended = move || {
        let _held = second;
        suspend().unwrap();
    };
    worker.add(worker.now(), Urgency::default(), Box::new(wait));
    worker.add(worker.now(), Urgency::default(), Box::new(suspended));
    worker.add(worker.now(), Urgency::default(), Box::new(move || drop(third)));
    assert!(matches!(worker.run_one(worker.now()), Event::Waits(_)));
    assert!(matches!(worker.run_one(worker.now()), Event::Suspended(_)));
    drop(worker);
    assert_eq!(Rc::strong_count(&held), 1);
}
