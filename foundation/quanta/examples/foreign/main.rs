//! Thousands of jobs of one worker, preempted every microsecond, in crates that know nothing of it and go by the thread:
//! what they borrow from it, where they wait, who they are. Each job's results are compared with what they should be.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-quanta --example foreign -- rayon
//! ```

mod standard;

use greenwave_quanta::pool::Terms;
use greenwave_quanta::{Pool, StackSize, is_instrumented};
use std::cell::RefCell;
use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// C's allocator is another than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome = Result<(), Box<dyn Error>>;

type Case = fn(&Pool) -> Outcome;

const CASES: [(&str, Case); 14] = [
    ("rayon", |pool| all(pool, 2000, rayon)),
    ("tokio", |pool| all(pool, 2000, tokio)),
    ("futures", futures),
    ("regex", |pool| all(pool, 2000, regex)),
    ("epoch", epoch),
    ("channel", channel),
    ("identity", standard::identity),
    ("sleeps", standard::sleeps),
    ("parking_lot", parking_lot),
    ("arc_swap", arc_swap),
    ("dashmap", dashmap),
    ("moka", moka),
    ("locals", standard::locals),
    ("initialisers", standard::initialisers),
];

/// Some work, long enough to be preempted in.
fn work(amount: u64) -> u64 {
    (0..amount).fold(7, |hash, next| black_box((hash ^ next).wrapping_mul(0x0100_0000_01b3)))
}

fn pool() -> Result<Pool, Box<dyn Error>> {
    let builder = Pool::builder().workers(1).quantum(Duration::from_micros(1)).capacity(10_000);
    Ok(builder.stack_size(StackSize::at_least(256 << 10)).build()?)
}

/// So many jobs, each with its number, that compare what comes out themselves.
fn all(pool: &Pool, jobs: u64, each: impl Fn(u64) + Send + Sync + 'static) -> Outcome {
    let each = Arc::new(each);
    let tasks: Vec<_> = (0..jobs)
        .map(|number| {
            let each = Arc::clone(&each);
            pool.spawn(Terms::NONE.named("foreign"), move || each(number))
        })
        .collect();
    for task in tasks {
        task.wait()?;
    }
    Ok(())
}

/// Waits for other threads in the middle of a borrow of a thread-local.
fn rayon(number: u64) {
    use rayon::prelude::*;
    let sum: u64 = (0..100_u64).into_par_iter().map(|one| work(one).min(1) * one * number).sum();
    assert_eq!(sum, 99 * 100 / 2 * number);
    let (one, other) = rayon::join(|| work(number % 500), || work(number % 300));
    assert_eq!((one, other), (work(number % 500), work(number % 300)));
    let places: [AtomicU64; 4] = Default::default();
    rayon::scope(|scope| {
        for place in &places {
            scope.spawn(move |_| place.store(work(100) ^ number, Ordering::Relaxed));
        }
    });
    assert!(places.iter().all(|place| place.load(Ordering::Relaxed) == work(100) ^ number));
}

/// Keeps in a thread-local which runtime is entered, and in which depth.
fn tokio(number: u64) {
    static RUNTIMES: LazyLock<[tokio::runtime::Runtime; 2]> = LazyLock::new(|| {
        let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        [build().expect("there are threads"), build().expect("there are threads")]
    });
    let [one, other] = &*RUNTIMES;
    {
        let _outer = if number.is_multiple_of(2) { one.enter() } else { other.enter() };
        work(300);
        let blocking = tokio::task::spawn_blocking(move || work(200) ^ number);
        let _inner = other.enter();
        work(300);
        let spawned = tokio::spawn(async move { number + 1 });
        assert_eq!(one.block_on(async { (blocking.await.expect("it ends"), spawned.await.expect("so does it")) }), {
            (work(200) ^ number, number + 1)
        });
    }
    assert!(tokio::runtime::Handle::try_current().is_err(), "all are left");
    if number.is_multiple_of(10) {
        let own = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it needs nothing");
        let sum = own.block_on(async move {
            let parts = (0..4).map(|part| {
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    tokio::time::sleep(Duration::from_micros(10)).await;
                    work(100);
                    number * part
                })
            });
            let mut sum = 0;
            for part in parts.collect::<Vec<_>>() {
                sum += part.await.expect("it ends");
            }
            sum
        });
        assert_eq!(sum, 6 * number);
    }
}

/// Refuses to run an executor within another of the same thread.
fn futures(pool: &Pool) -> Outcome {
    use futures_channel::oneshot;
    use futures_executor::{LocalPool, block_on};
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..2000_u64).map(|_| oneshot::channel::<u64>()).unzip();
    let mut tasks = Vec::new();
    for (number, (sends, receives)) in senders.into_iter().zip(receivers).enumerate() {
        tasks.push(pool.spawn(None, move || {
            let received =
                if number.is_multiple_of(2) { block_on(receives) } else { LocalPool::new().run_until(receives) };
            assert_eq!(received, Ok(work(200) ^ number as u64));
        }));
        tasks.push(pool.spawn(None, move || sends.send(work(200) ^ number as u64).expect("it is waited for")));
    }
    for task in tasks {
        task.wait()?;
    }
    Ok(())
}

/// Keeps what a search needs for the thread that came first.
fn regex(number: u64) {
    static PARTS: LazyLock<regex::Regex> =
        LazyLock::new(|| regex::Regex::new(r"(\w+)@(\w+)\.(?:org|net) +([0-9]+)").expect("it is sound"));
    let text = format!("{} someone{number}@example.org {number} and nobody at all", "x@y ".repeat(20));
    let found = PARTS.captures(&text).expect("it is there");
    assert_eq!((&found[1], &found[3]), (&*format!("someone{number}"), &*number.to_string()));
    assert!(PARTS.replace_all(&text, "$3").ends_with(&format!(" {number} and nobody at all")));
}

/// A stack without locks, whose memory is given back when nobody is in it any more.
fn epoch(pool: &Pool) -> Outcome {
    use crossbeam_epoch::{Atomic, Owned, pin};
    struct Node {
        value: u64,
        next: Atomic<Node>,
    }
    struct Stack(Atomic<Node>);
    impl Stack {
        fn push(&self, value: u64) {
            let guard = pin();
            let mut node = Owned::new(Node { value, next: Atomic::null() });
            loop {
                let head = self.0.load(Ordering::Acquire, &guard);
                node.next.store(head, Ordering::Relaxed);
                work(10);
                match self.0.compare_exchange(head, node, Ordering::AcqRel, Ordering::Acquire, &guard) {
                    Ok(_) => return,
                    Err(failed) => node = failed.new,
                }
            }
        }

        fn pop(&self) -> Option<u64> {
            let guard = pin();
            loop {
                let head = self.0.load(Ordering::Acquire, &guard);
                // SAFETY: whoever takes a node out gives it back when all who are pinned now have left.
                let node = unsafe { head.as_ref() }?;
                work(10);
                let next = node.next.load(Ordering::Acquire, &guard);
                if self.0.compare_exchange(head, next, Ordering::AcqRel, Ordering::Acquire, &guard).is_ok() {
                    // SAFETY: nobody who isn't pinned now finds it any more.
                    unsafe { guard.defer_destroy(head) };
                    return Some(node.value);
                }
            }
        }
    }
    let (stack, popped) = (Arc::new(Stack(Atomic::null())), Arc::new(AtomicU64::new(0)));
    let (inside, sum) = (Arc::clone(&stack), Arc::clone(&popped));
    all(pool, 4000, move |number| {
        for part in 0..5 {
            inside.push(number * 5 + part);
            let value = inside.pop().expect("as many were pushed");
            sum.fetch_add(value, Ordering::Relaxed);
        }
    })?;
    assert!(stack.pop().is_none());
    assert_eq!(popped.load(Ordering::Relaxed), 19_999 * 20_000 / 2);
    Ok(())
}

/// Doesn't let a thread receive what it sends itself.
fn channel(pool: &Pool) -> Outcome {
    let mut tasks = Vec::new();
    for number in 0..2000_u64 {
        let (sends, receives) = match number % 3 {
            0 => crossbeam_channel::bounded(0),
            1 => crossbeam_channel::bounded(1),
            _ => crossbeam_channel::unbounded(),
        };
        tasks.push(pool.spawn(None, move || {
            let received: u64 = (0..3).map(|_| receives.recv().expect("it is sent")).sum();
            assert_eq!(received, 3 * number);
        }));
        tasks.push(pool.spawn(None, move || {
            for part in 0..3 {
                work(100);
                sends.send(number * part).expect("it is waited for");
            }
        }));
    }
    for task in tasks {
        task.wait()?;
    }
    Ok(())
}

/// Tells by the address of a thread-local who has a lock.
fn parking_lot(pool: &Pool) -> Outcome {
    let lock = Arc::new(parking_lot::ReentrantMutex::new(RefCell::new(0)));
    let (inside, fair) = (Arc::clone(&lock), Arc::new(parking_lot::FairMutex::new(0)));
    all(pool, 4000, move |number| {
        let outer = inside.lock();
        {
            let mut sum = outer.borrow_mut();
            let before = *sum;
            work(300);
            *sum = before + number;
        }
        work(100);
        let before = *outer.borrow();
        *inside.lock().borrow_mut() = before + 1;
        drop(outer);
        let mut fair = fair.lock();
        let before = *fair;
        work(100);
        *fair = before + 1;
    })?;
    assert_eq!(*lock.lock().borrow(), 4000 + 3999 * 4000 / 2);
    Ok(())
}

/// Notes in what is the thread's own which value it is reading.
fn arc_swap(pool: &Pool) -> Outcome {
    let shared = Arc::new(arc_swap::ArcSwap::from_pointee((0_u64, 0_u64)));
    let inside = Arc::clone(&shared);
    all(pool, 4000, move |_| {
        let read = inside.load();
        work(200);
        assert_eq!(read.0, read.1);
        inside.rcu(|now| (now.0 + 1, now.1 + 1));
        let [one, other] = [inside.load(), inside.load()];
        work(100);
        assert!(one.0 == one.1 && other.0 == other.1 && one.0 > read.0);
    })?;
    assert_eq!(**shared.load(), (4000, 4000));
    Ok(())
}

fn dashmap(pool: &Pool) -> Outcome {
    let map = Arc::new(dashmap::DashMap::<u64, u64>::new());
    let inside = Arc::clone(&map);
    all(pool, 4000, move |number| {
        for step in 0..10 {
            *inside.entry((number + step) % 97).or_default() += 1;
            let mut there = inside.entry(1000 + step).or_default();
            let before = *there;
            work(100);
            *there = before + 1;
        }
    })?;
    assert!((1000..1010).all(|key| map.get(&key).is_some_and(|count| *count == 4000)));
    assert_eq!(map.iter().map(|entry| *entry.value()).sum::<u64>(), 80_000);
    Ok(())
}

/// One computes what all want, and the others wait for it.
fn moka(pool: &Pool) -> Outcome {
    let cache = moka::sync::Cache::<u64, u64>::new(100);
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    all(pool, 4000, move |number| {
        for step in 0..4 {
            let key = (number / 10 + step) % 150;
            let value = cache.get_with(key, || {
                count.fetch_add(1, Ordering::Relaxed);
                work(200) ^ key
            });
            assert_eq!(value, work(200) ^ key);
            if number.is_multiple_of(64) {
                cache.invalidate(&key);
            }
        }
    })?;
    assert!((150..16_000).contains(&made.load(Ordering::Relaxed)), "{made:?}");
    Ok(())
}

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    let Some((name, case)) = CASES.iter().find(|(name, _)| Some(*name) == asked.as_deref()) else {
        let names: Vec<_> = CASES.iter().map(|(name, _)| *name).collect();
        eprintln!("say which: {}", names.join(", "));
        return ExitCode::from(2);
    };
    println!("instrumented={}", is_instrumented());
    match pool().and_then(|pool| case(&pool)) {
        Ok(()) => println!("{name} ok"),
        Err(error) => {
            eprintln!("{name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
