use super::*;
use crate::in_coroutine;
use std::sync::mpsc;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

fn pool() -> PoolBuilder {
    Pool::builder().workers(1).spin(Duration::ZERO)
}

/// A job that holds its worker until it is let go, and what lets it go.
fn held(pool: &Pool) -> (Task<()>, mpsc::Sender<()>) {
    let (lets_go, waits) = mpsc::channel::<()>();
    let (says, begun) = mpsc::channel();
    let task = pool.spawn(None, move || {
        says.send(()).unwrap();
        let _ = waits.recv();
    });
    begun.recv().unwrap();
    (task, lets_go)
}

#[test]
fn jobs_run_in_coroutines_and_their_results_come_back() {
    let pool = pool().workers(2).build().unwrap();
    let tasks: Vec<_> = (0..1000_u32).map(|number| pool.spawn(None, move || (in_coroutine(), number * 2))).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait(), Ok((true, number as u32 * 2)));
    }
    pool.shutdown();
}

#[test]
fn a_panic_comes_back_as_an_error_and_the_worker_goes_on() {
    let pool = pool().build().unwrap();
    let failing: Task<()> = pool.spawn(None, || panic!("seven of {}", 9));
    assert_eq!(failing.wait(), Err(JobError::Panicked { message: "seven of 9".into() }));
    assert_eq!(pool.spawn(None, || 1).wait(), Ok(1));
}

#[test]
fn what_has_expired_is_not_begun() {
    let pool = pool().build().unwrap();
    let (holds, lets_go) = held(&pool);
    let late = pool.spawn(Duration::ZERO, || unreachable!("it has expired"));
    let in_time = pool.spawn(Duration::from_secs(3600), || 1);
    drop(lets_go);
    assert!(matches!(late.wait(), Err(JobError::Expired { .. })));
    assert_eq!(in_time.wait(), Ok(1));
    holds.wait().unwrap();
}

#[test]
fn a_full_pool_gives_the_closure_back_and_spawn_waits_for_room() {
    let pool = pool().capacity(2).build().unwrap();
    let (holds, lets_go) = held(&pool);
    let second = pool.spawn(None, || 2);
    let Err(Full(third)) = pool.try_spawn(None, || 3) else { panic!("there is no room") };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pool.spawn(None, third).wait());
        lets_go.send(()).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(3));
    });
    assert_eq!((second.wait(), holds.wait()), (Ok(2), Ok(())));
}

#[test]
fn a_job_waits_for_another_of_the_same_worker() {
    let pool = Arc::new(pool().build().unwrap());
    let inner = Arc::clone(&pool);
    let outer = pool.spawn(None, move || {
        let tasks: Vec<_> = (0..10).map(|number| inner.spawn(None, move || number)).collect();
        tasks.into_iter().map(|task| task.wait().unwrap()).sum::<i32>()
    });
    assert_eq!(outer.wait(), Ok(45));
}

#[test]
fn jobs_waiting_for_room_give_way_to_those_that_make_it() {
    let pool = Arc::new(pool().capacity(2).build().unwrap());
    let inner = Arc::clone(&pool);
    let outer = pool.spawn(None, move || {
        for number in 0..50 {
            drop(inner.spawn(None, move || number));
        }
    });
    assert_eq!(outer.wait(), Ok(()));
}

#[test]
fn shutting_down_finishes_what_was_begun_and_says_so_of_the_rest() {
    let pool = pool().build().unwrap();
    let (holds, lets_go) = held(&pool);
    let rest: Task<()> = pool.spawn(None, || unreachable!("the pool is closed"));
    let shared = Arc::clone(&pool.shared);
    let closing = std::thread::spawn(move || pool.shutdown());
    while !shared.closed.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    drop(lets_go);
    closing.join().unwrap();
    assert_eq!((holds.wait(), rest.wait()), (Ok(()), Err(JobError::Closed)));
}

#[test]
fn the_last_owner_may_be_a_job() {
    let pool = Arc::new(pool().build().unwrap());
    let (inner, gate) = (Arc::clone(&pool), Arc::new((Mutex::new(false), Condvar::new())));
    let inside = Arc::clone(&gate);
    let task = pool.spawn(None, move || {
        let open = inside.0.lock().unwrap();
        drop(inside.1.wait_while(open, |open| !*open).unwrap());
        drop(inner);
    });
    drop(pool);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    assert_eq!(task.wait(), Ok(()));
}

#[test]
fn a_job_that_does_not_give_way_is_noticed_and_counted() {
    let pool = pool().stuck_after(Duration::from_millis(2)).build().unwrap();
    let (holds, lets_go) = held(&pool);
    while pool.stuck() == 0 {
        std::thread::yield_now();
    }
    drop(lets_go);
    holds.wait().unwrap();
    assert_eq!(pool.stuck(), 1, "once for each");
}

/// On one processor with a thread that yields as well they take turns. Otherwise the system's scheduler would let the worker
/// run for milliseconds, which are tens of thousands of its turns.
#[test]
fn workers_that_yield_give_their_processor_away_after_each_quantum() {
    let here = rustix::thread::sched_getaffinity(None).unwrap();
    let processor = (0..rustix::thread::CpuSet::MAX_CPU).find(|processor| here.is_set(*processor)).unwrap();
    let pool = pool().pin([processor]).yields(true).build().unwrap();
    let others = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&others);
    let busy = pool.spawn(Terms::NONE, move || {
        let mut turns = 0_u64;
        while seen.load(Ordering::Relaxed) < 100 {
            crate::yield_now();
            turns += 1;
        }
        turns
    });
    let other = std::thread::spawn(move || {
        let mut only = rustix::thread::CpuSet::new();
        only.set(processor);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        while others.fetch_add(1, Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
    });
    other.join().unwrap();
    let turns = busy.wait().unwrap();
    assert!(turns < 100_000, "{turns} turns for 100 of the other thread");
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    assert!(matches!(Pool::builder().workers(0).build(), Err(BuildError::NoWorkers)));
    assert!(matches!(Pool::builder().capacity(0).build(), Err(BuildError::NoCapacity)));
    for processor in [1023, usize::MAX] {
        assert!(matches!(Pool::builder().pin([processor]).build(), Err(BuildError::Pin { .. })));
    }
}
