//! Ten thousand jobs on two workers, preempted every microsecond, take each other's locks, meet at barriers and send each
//! other messages, and so does an ordinary thread; none of the code knows that it is preempted. It ends, and the sums are
//! right.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-quanta --example locks
//! ```

use greenwave_quanta::{Pool, StackSize, Task, is_instrumented};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, OnceLock, RwLock, mpsc};
use std::time::Duration;

const JOBS: u64 = 10_000;

/// Some work, long enough to be preempted in.
fn work(amount: u64) -> u64 {
    (0..amount).fold(7, |hash, next| black_box((hash ^ next).wrapping_mul(0x0100_0000_01b3)))
}

#[derive(Default)]
struct Standard {
    sum: Mutex<u64>,
    /// Twice the same number.
    pair: RwLock<(u64, u64)>,
    turn: Mutex<u64>,
    turned: Condvar,
    once: OnceLock<u64>,
}

#[derive(Default)]
struct ParkingLot {
    sum: parking_lot::Mutex<u64>,
    pair: parking_lot::RwLock<(u64, u64)>,
    /// How many are in; eight at most.
    inside: parking_lot::Mutex<u64>,
    left: parking_lot::Condvar,
}

static LAZY: LazyLock<u64> = LazyLock::new(|| work(20_000));

fn standard(all: &Standard, number: u64) {
    {
        let mut sum = all.sum.lock().unwrap();
        let before = *sum;
        work(300);
        *sum = before + number;
    }
    if number.is_multiple_of(4) {
        let mut pair = all.pair.write().unwrap();
        pair.0 += 1;
        work(300);
        pair.1 += 1;
    } else {
        let pair = all.pair.read().unwrap();
        let first = pair.0;
        work(300);
        assert_eq!(first, pair.1, "somebody wrote while we read");
    }
    assert_eq!(*all.once.get_or_init(|| work(20_000)), *LAZY);
    // Everybody's turn comes at most a hundred behind, so that some wait and none for long.
    let turn = all.turned.wait_while(all.turn.lock().unwrap(), |turn| *turn + 100 < number).unwrap();
    drop(turn);
    *all.turn.lock().unwrap() += 1;
    all.turned.notify_all();
}

fn parking_lot(all: &ParkingLot, number: u64) {
    {
        let mut sum = all.sum.lock();
        let before = *sum;
        work(300);
        *sum = before + number;
    }
    if number.is_multiple_of(4) {
        let mut pair = all.pair.write();
        pair.0 += 1;
        work(300);
        pair.1 += 1;
    } else {
        let pair = all.pair.read();
        let first = pair.0;
        work(300);
        assert_eq!(first, pair.1, "somebody wrote while we read");
    }
    let mut inside = all.inside.lock();
    while *inside == 8 {
        all.left.wait(&mut inside);
    }
    *inside += 1;
    drop(inside);
    work(300);
    *all.inside.lock() -= 1;
    all.left.notify_one();
}

/// Jobs that all do the same to what they share, and a thread that does it too until they are done.
fn together<S: Default + Send + Sync + 'static>(pool: &Pool, each: fn(&S, u64)) -> Arc<S> {
    let (shared, done) = (Arc::new(S::default()), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<Task<()>> = (0..JOBS)
        .map(|number| {
            let shared = Arc::clone(&shared);
            pool.spawn(None, move || each(&shared, number))
        })
        .collect();
    let thread = std::thread::spawn({
        let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
        move || {
            while !done.load(Ordering::Acquire) {
                each(&shared, 0);
            }
        }
    });
    tasks.into_iter().for_each(|task| task.wait().expect("no job panics"));
    done.store(true, Ordering::Release);
    thread.join().expect("nor does the thread");
    shared
}

/// Pairs of jobs, one of which waits for what the other sends, in all kinds of channels; and all send to a thread.
fn channels(pool: &Pool) {
    let (to_thread, from_jobs) = mpsc::channel();
    let collects = std::thread::spawn(move || from_jobs.into_iter().sum::<u64>());
    let mut tasks = Vec::new();
    for number in 0..JOBS / 2 {
        let (sends, receives): (Box<dyn Fn(u64) + Send>, _) = if number.is_multiple_of(3) {
            let (sender, receiver) = mpsc::channel();
            (Box::new(move |value| sender.send(value).expect("it waits")), receiver)
        } else {
            let (sender, receiver) = mpsc::sync_channel((number % 3 - 1) as usize);
            (Box::new(move |value| sender.send(value).expect("it waits")), receiver)
        };
        let to_thread = to_thread.clone();
        tasks.push(pool.spawn(None, move || {
            let received: u64 = (0..3).map(|_| receives.recv().expect("it is sent")).sum();
            to_thread.send(received).expect("the thread listens");
        }));
        tasks.push(pool.spawn(None, move || {
            for part in 0..3 {
                work(100);
                sends(number * part);
            }
        }));
    }
    drop(to_thread);
    tasks.into_iter().for_each(|task| task.wait().expect("no job panics"));
    let pairs = JOBS / 2;
    assert_eq!(collects.join().expect("the thread ends"), 3 * pairs * (pairs - 1) / 2);
}

/// Groups of four meet twice, one of each group being asleep in between for a moment.
fn barriers(pool: &Pool) {
    let arrived: Arc<AtomicU64> = Arc::default();
    let tasks: Vec<_> = (0..JOBS / 40)
        .flat_map(|_| {
            let barrier = Arc::new(Barrier::new(4));
            [0, 1, 2, 3].map(|own| {
                let (barrier, arrived) = (Arc::clone(&barrier), Arc::clone(&arrived));
                pool.spawn(None, move || {
                    barrier.wait();
                    if own == 0 {
                        std::thread::park_timeout(Duration::from_micros(10));
                    }
                    arrived.fetch_add(1, Ordering::Relaxed);
                    barrier.wait();
                })
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.wait().expect("no job panics"));
    assert_eq!(arrived.load(Ordering::Relaxed), JOBS / 10);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("instrumented={}", is_instrumented());
    let pool = Pool::builder()
        .workers(2)
        .quantum(Duration::from_micros(1))
        .capacity(JOBS as usize)
        .stack_size(StackSize::at_least(64 << 10))
        .build()?;
    let only = std::env::args().nth(1);
    let asked = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let sum = JOBS * (JOBS - 1) / 2;
    if asked("std") {
        let shared = together(&pool, standard);
        assert_eq!(*shared.sum.lock().unwrap(), sum);
        println!("std ok");
    }
    if asked("channels") {
        channels(&pool);
        println!("channels ok");
    }
    if asked("barriers") {
        barriers(&pool);
        println!("barriers ok");
    }
    if asked("parking_lot") {
        let shared = together(&pool, parking_lot);
        assert_eq!(*shared.sum.lock(), sum);
        println!("parking_lot ok");
    }
    Ok(())
}
