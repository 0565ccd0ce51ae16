//! What the standard library has for a thread: its locals, and who it is.

use super::{Outcome, all, pool, work};
use greenwave_quanta::Pool;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread::{self, Thread, ThreadId};
use std::time::Duration;

/// Each job that is there is another thread to the standard library, and wakes whom it means to wake.
pub(crate) fn identity(pool: &Pool) -> Outcome {
    static THERE: LazyLock<Mutex<HashSet<ThreadId>>> = LazyLock::new(Mutex::default);
    let mut tasks = Vec::new();
    for number in 0..2000_u64 {
        let (sends, receives) = mpsc::channel::<Thread>();
        let (said, says) = (Arc::new(AtomicU64::new(0)), number + 1);
        let heard = Arc::clone(&said);
        tasks.push(pool.spawn(None, move || {
            let own = thread::current();
            assert!(THERE.lock().expect("nobody panics with it").insert(own.id()), "somebody else is {:?}", own.id());
            sends.send(own.clone()).expect("it is waited for");
            while heard.load(Ordering::Acquire) != says {
                thread::park();
            }
            assert_eq!(thread::current().id(), own.id());
            assert!(THERE.lock().expect("nobody panics with it").remove(&own.id()));
        }));
        tasks.push(pool.spawn(None, move || {
            let other = receives.recv().expect("it is sent");
            work(300);
            assert_ne!(thread::current().id(), other.id());
            said.store(says, Ordering::Release);
            other.unpark();
        }));
    }
    for task in tasks {
        task.wait()?;
    }
    Ok(())
}

/// Many look now and then whether one is ready that was begun last and has to be preempted often before it is.
pub(crate) fn sleeps(pool: &Pool) -> Outcome {
    let ready = Arc::new(AtomicU64::new(0));
    let flag = Arc::clone(&ready);
    all(pool, 2000, move |number| {
        if number == 1999 {
            work(3_000_000);
            flag.store(1, Ordering::Release);
        }
        while flag.load(Ordering::Acquire) == 0 {
            thread::sleep(Duration::from_micros(500));
        }
    })
}

/// Numbers of a job, which are borrowed while it is preempted; and a number that is there with them.
struct Owned {
    numbers: RefCell<Vec<u64>>,
    own: u64,
}

static MADE: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static STRANGERS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SIBLING: RefCell<u64> = const { RefCell::new(0) };
    static OWNED: Owned = {
        let own = MADE.fetch_add(1, Ordering::Relaxed) + 1;
        SIBLING.set(own);
        Owned { numbers: RefCell::default(), own }
    };
}

impl Drop for Owned {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        STRANGERS.fetch_add(u64::from(SIBLING.take() != self.own), Ordering::Relaxed);
    }
}

/// Borrows outlast quanta, nobody else is found in them, and what was made is dropped when the thread ends, beside what
/// it belongs to.
pub(crate) fn locals(_: &Pool) -> Outcome {
    let pool = pool()?;
    all(&pool, 4000, |number| {
        OWNED.with(|owned| {
            let mut numbers = owned.numbers.borrow_mut();
            numbers.clear();
            for step in 0..20 {
                work(100);
                numbers.push(number + step);
            }
            assert!(numbers.iter().copied().eq(number..number + 20));
            SIBLING.with_borrow(|sibling| {
                work(300);
                assert_eq!(*sibling, owned.own);
            });
        });
    })?;
    drop(pool);
    let [made, dropped, strangers] = [&MADE, &DROPPED, &STRANGERS].map(|count| count.load(Ordering::Relaxed));
    println!("made={made}");
    assert!(made > 1 && dropped == made && strangers == 0, "{made} {dropped} {strangers}");
    Ok(())
}

/// A thread-local waits for a lock and for a message when it is made.
pub(crate) fn initialisers(pool: &Pool) -> Outcome {
    static LOCK: Mutex<u64> = Mutex::new(0);
    thread_local! {
        static SLOW: u64 = {
            let mut made = LOCK.lock().expect("nobody panics with it");
            let (sends, receives) = mpsc::sync_channel(0);
            let thread = thread::spawn(move || sends.send(work(2000)).expect("it is waited for"));
            assert_eq!(receives.recv(), Ok(work(2000)));
            thread.join().expect("it ends");
            *made += 1;
            *made
        };
    }
    let jobs: Vec<_> = (0..500).map(|_| pool.spawn(None, || SLOW.with(|slow| (*slow, work(3000), *slow)))).collect();
    for job in jobs {
        let (before, _, after) = job.wait()?;
        assert!(before == after && before > 0);
    }
    Ok(())
}
