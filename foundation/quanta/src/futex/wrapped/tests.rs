use super::*;
use crate::scheduler::Event;
use crate::worker::Worker;
use crate::{Quantum, StackSize};
use greenwave_policy::{Order, Urgency};
use std::cell::Cell;
use std::rc::Rc;

const WAIT: c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const UNTIL: c_int = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;

unsafe extern "C" {
    /// As programs are linked by `cargo quanta`: the name of the C library's function leads here.
    #[link_name = "__wrap_syscall"]
    fn wrapped(number: c_long, ...) -> c_long;

    #[link_name = "__wrap_sched_yield"]
    safe fn wrapped_yield() -> c_int;

    #[link_name = "__wrap_nanosleep"]
    fn wrapped_sleep(request: *const timespec, left: *mut timespec) -> c_int;

    #[link_name = "__wrap_clock_nanosleep"]
    fn wrapped_clock_sleep(
        clock: libc::clockid_t,
        flags: c_int,
        request: *const timespec,
        left: *mut timespec,
    ) -> c_int;
}

/// As the standard library calls it.
fn futex(word: &AtomicU32, operation: c_int, expected: u32, timeout: Option<&timespec>) -> Result<(), c_int> {
    let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
    let (address, timeout) = (ptr::from_ref(word).expose_provenance(), timeout.expose_provenance());
    // SAFETY: the word is borrowed, the timeout is one or null.
    let result = unsafe {
        wrapped(
            libc::SYS_futex,
            address as c_long,
            c_long::from(operation),
            c_long::from(expected),
            timeout as c_long,
            0,
            c_long::from(u32::MAX),
        )
    };
    // SAFETY: errno is this thread's.
    if result < 0 { Err(unsafe { *libc::__errno_location() }) } else { Ok(()) }
}

type Jobs = Worker<Box<dyn FnOnce()>>;

fn worker() -> Jobs {
    Worker::new(Order::Fcfs, Quantum::NONE, StackSize::at_least(64 << 10), 8)
}

fn add(worker: &mut Jobs, job: impl FnOnce() + 'static) {
    worker.add(worker.now(), Urgency::default(), Box::new(job));
}

fn run(worker: &mut Jobs) {
    while worker.unfinished() > 0 {
        match worker.run_one(worker.now()) {
            Event::Suspended(job) => worker.resume(worker.now(), job),
            Event::Idle => _ = worker.clock(),
            Event::Panicked(_, message) => panic!("{message}"),
            _ => {}
        }
    }
}

#[test]
fn a_word_that_has_changed_is_not_waited_for() {
    let mut worker = worker();
    add(&mut worker, || assert_eq!(futex(&AtomicU32::new(1), WAIT, 0, None), Err(libc::EAGAIN)));
    run(&mut worker);
    assert_eq!(futex(&AtomicU32::new(1), WAIT, 0, None), Err(libc::EAGAIN), "the kernel says the same");
}

#[test]
fn a_wait_lets_the_one_run_that_ends_it() {
    let (mut worker, word) = (worker(), Rc::new(AtomicU32::new(0)));
    let (waits, changes) = (Rc::clone(&word), word);
    add(&mut worker, move || {
        while waits.load(Ordering::Acquire) == 0 {
            assert_eq!(futex(&waits, WAIT, 0, None), Ok(()));
        }
    });
    add(&mut worker, move || changes.store(1, Ordering::Release));
    assert!(matches!(worker.run_one(worker.now()), Event::Waits(_)));
    run(&mut worker);
}

#[test]
fn a_wait_ends_at_its_time_whatever_clock_it_is_of() {
    let mut worker = worker();
    add(&mut worker, || {
        let word = AtomicU32::new(0);
        let later = |clock| {
            let now = clock_gettime(clock);
            let nanos = now.tv_nsec + 3_000_000;
            timespec { tv_sec: now.tv_sec + nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 }
        };
        let until = [
            (WAIT, None),
            (UNTIL, Some(ClockId::Monotonic)),
            (UNTIL | libc::FUTEX_CLOCK_REALTIME, Some(ClockId::Realtime)),
        ];
        for (operation, clock) in until {
            let began = monotonic();
            let timeout = clock.map_or(timespec { tv_sec: 0, tv_nsec: 3_000_000 }, later);
            let mut naps = 0;
            loop {
                match futex(&word, operation, 0, Some(&timeout)) {
                    Ok(()) => naps += 1,
                    Err(errno) => break assert_eq!(errno, libc::ETIMEDOUT),
                }
                // A relative timeout begins anew at each call.
                if operation == WAIT && naps > 1 {
                    break;
                }
            }
            assert!(monotonic().since(began) >= Duration::from_millis(1));
        }
    });
    run(&mut worker);
}

#[test]
fn what_makes_no_sense_is_the_kernels_to_refuse() {
    let mut worker = worker();
    add(&mut worker, || {
        let bad = timespec { tv_sec: 0, tv_nsec: -1 };
        assert_eq!(futex(&AtomicU32::new(0), WAIT, 0, Some(&bad)), Err(libc::EINVAL));
        assert_eq!(futex(&AtomicU32::new(0), libc::FUTEX_WAKE, 1, None), Ok(()));
    });
    run(&mut worker);
}

#[test]
fn other_calls_of_coroutines_are_counted() {
    let count = || blocking(libc::SYS_getpid);
    fn blocking(number: c_long) -> u64 {
        let calls = crate::blocking_calls();
        calls.iter().find(|call| call.number == number as usize).map_or(0, |call| call.count)
    }
    // SAFETY: it takes nothing.
    let call = || unsafe { wrapped(libc::SYS_getpid, 0, 0, 0, 0, 0, 0) };
    let before = count();
    assert_eq!(call(), c_long::from(std::process::id()));
    assert_eq!(count(), before, "a thread may take its time");
    let mut worker = worker();
    add(&mut worker, move || assert_eq!(call(), c_long::from(std::process::id())));
    run(&mut worker);
    assert_eq!(count(), before + 1);
}

#[test]
fn spinning_politely_lets_the_others_run() {
    let (mut worker, flag) = (worker(), Rc::new(Cell::new(false)));
    let (spins, sets) = (Rc::clone(&flag), flag);
    add(&mut worker, move || {
        while !spins.get() {
            assert_eq!(wrapped_yield(), 0);
        }
    });
    add(&mut worker, move || sets.set(true));
    run(&mut worker);
    assert_eq!(wrapped_yield(), 0, "on a thread it is the kernel's");
}

fn sleep(nanos: c_long) -> c_int {
    // SAFETY: the request is one, and what is left isn't asked for.
    unsafe { wrapped_sleep(&timespec { tv_sec: 0, tv_nsec: nanos }, ptr::null_mut()) }
}

#[test]
fn who_sleeps_lets_the_others_run_and_sleeps_to_the_end() {
    let (mut worker, awake) = (worker(), Rc::new(Cell::new(0)));
    for _ in 0..3 {
        let (counts, others) = (Rc::clone(&awake), Rc::clone(&awake));
        add(&mut worker, move || {
            let began = monotonic();
            assert_eq!(sleep(2_000_000), 0);
            assert!(monotonic().since(began) >= Duration::from_millis(2));
            counts.set(others.get() + 1);
        });
    }
    for _ in 0..3 {
        assert!(matches!(worker.run_one(worker.now()), Event::Waits(_)));
    }
    assert_eq!((awake.get(), worker.waiting()), (0, 3));
    assert!(worker.wakes_by().is_some_and(|time| time > worker.now()));
    run(&mut worker);
    assert_eq!(awake.get(), 3);
    assert_eq!(sleep(1), 0, "on a thread it is the kernel's");
}

#[test]
fn sleeps_until_a_time_end_then_by_each_clock() {
    let mut worker = worker();
    add(&mut worker, || {
        for (clock, id) in [(ClockId::Monotonic, libc::CLOCK_MONOTONIC), (ClockId::Realtime, libc::CLOCK_REALTIME)] {
            let now = clock_gettime(clock);
            let nanos = now.tv_nsec + 2_000_000;
            let until = timespec { tv_sec: now.tv_sec + nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 };
            let began = monotonic();
            // SAFETY: as in `sleep`.
            let said = unsafe { wrapped_clock_sleep(id, libc::TIMER_ABSTIME, &until, ptr::null_mut()) };
            assert_eq!(said, 0);
            assert!(monotonic().since(began) >= Duration::from_millis(1));
        }
    });
    run(&mut worker);
}

#[test]
fn a_sleep_that_makes_no_sense_is_the_kernels_to_refuse() {
    let mut worker = worker();
    add(&mut worker, || {
        assert_eq!(sleep(-1), -1);
        // SAFETY: the kernel refuses what points nowhere.
        let said = unsafe { wrapped_clock_sleep(libc::CLOCK_MONOTONIC, 0, ptr::null(), ptr::null_mut()) };
        assert_eq!(said, libc::EFAULT);
    });
    run(&mut worker);
    assert_eq!(sleep(-1), -1);
}
