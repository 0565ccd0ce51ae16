//! Jobs that behave badly, each with what becomes of it and of the others.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-quanta --example hostile -- never-returns
//! ```

use greenwave_quanta::pool::{JobError, Terms};
use greenwave_quanta::{Pool, StackSize, critical, is_instrumented, yield_now};
use std::hint::black_box;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Outcome = Result<String, Box<dyn std::error::Error>>;

type Job = fn(&Pool) -> Outcome;

const JOBS: [(&str, Job); 9] = [
    ("never-returns", never_returns),
    ("recurses", recurses),
    ("panics", panics),
    ("tells-where", tells_where),
    ("blocks", blocks),
    ("is-critical", is_critical),
    ("keeps-a-lock", keeps_a_lock),
    ("spins", spins),
    ("unwinds-and-computes", unwinds_and_computes),
];

fn count(to: u64) -> u64 {
    (0..to).fold(0, |sum, next| black_box(sum + next))
}

/// Counts until the number is again what it was before: for ever, or, of 32 bits, for seconds.
fn wrap<T: Copy + PartialEq + Into<u64>>(from: T, next: impl Fn(T) -> T) -> u64 {
    let (mut now, mut sum) = (from, 0);
    loop {
        now = next(now);
        sum = black_box(sum ^ now.into());
        if now == from {
            return sum;
        }
    }
}

/// Looks for what is never there.
fn seek(numbers: &[u32]) -> usize {
    (0..usize::MAX).find(|at| numbers[at % numbers.len()] == 7).unwrap_or(0)
}

/// All kinds of loops that don't end. The others finish all the same.
fn never_returns(pool: &Pool) -> Outcome {
    fn never(pool: &Pool, body: impl Fn() -> u64 + Send + 'static) {
        drop(pool.spawn(Terms::NONE.named("never"), move || {
            loop {
                black_box(body());
            }
        }));
    }
    never(pool, || count(1000));
    never(pool, || count(black_box(u64::MAX)));
    never(pool, || wrap(black_box(1_u64), |now| now.wrapping_add(1)));
    never(pool, || wrap(black_box(1_u32), |now| now.wrapping_add(1)));
    never(pool, || seek(black_box(&[1, 2, 3])) as u64);
    never(pool, || black_box((|| 7) as fn() -> u64)());
    let others: Vec<_> = (0..100).map(|_| pool.spawn(None, || count(10_000))).collect();
    for other in others {
        other.wait()?;
    }
    Ok(format!("the others finished, stuck={}", pool.stuck()))
}

/// Ends the process, with its name.
fn recurses(pool: &Pool) -> Outcome {
    fn recurse(depth: u64) -> u64 {
        let place = black_box([depth; 16]);
        if black_box(depth) == u64::MAX { 0 } else { recurse(depth + 1) + place[3] }
    }
    pool.spawn(Terms::NONE.named("fibonacci"), || recurse(0)).wait()?;
    Ok("it came back".into())
}

/// Its task says so.
fn panics(pool: &Pool) -> Outcome {
    let failing = pool.spawn(None, || assert_eq!(count(100_000), 1, "of course"));
    let other = pool.spawn(None, || count(100_000));
    let Err(JobError::Panicked { message }) = failing.wait() else { return Err("it did not panic".into()) };
    other.wait()?;
    Ok(format!("it said {:?}", message.lines().next().unwrap_or_default()))
}

/// What a backtrace says in the depth of a job that has been preempted there.
fn tells_where(pool: &Pool) -> Outcome {
    #[inline(never)]
    fn outer(depth: u64) -> String {
        black_box(inner(depth)) + ""
    }
    #[inline(never)]
    fn inner(depth: u64) -> String {
        black_box(count(depth));
        std::backtrace::Backtrace::force_capture().to_string()
    }
    let told = pool.spawn(None, || outer(black_box(100_000))).wait()?;
    let frames: Vec<&str> =
        told.lines().filter_map(|line| line.trim().split_once(": ")).map(|(_, name)| name).collect();
    let at = |name: &str| {
        let found = frames.iter().position(|frame| frame.rsplit("::").next() == Some(name));
        found.ok_or_else(|| format!("no {name} in {told}"))
    };
    Ok(format!("inner {} outer {} frames {}\n{told}", at("inner")?, at("outer")?, frames.len()))
}

/// Holds its worker, and is noticed.
fn blocks(pool: &Pool) -> Outcome {
    let (mut reads, _silent) = UnixStream::pair()?;
    reads.set_read_timeout(Some(Duration::from_millis(200)))?;
    let reader = pool.spawn(Terms::NONE.named("reader"), move || reads.read(&mut [0]).is_err());
    let other = pool.spawn(None, || ());
    assert!(reader.wait()?);
    other.wait()?;
    Ok(format!("the others waited, stuck={}", pool.stuck()))
}

/// As above.
fn is_critical(pool: &Pool) -> Outcome {
    let began = Instant::now();
    let critical = pool.spawn(Terms::NONE.named("critical"), move || {
        critical(|| {
            while began.elapsed() < Duration::from_millis(200) {
                black_box(count(1000));
            }
        });
    });
    critical.wait()?;
    Ok(format!("it was waited for, stuck={}", pool.stuck()))
}

/// Others who want it are suspended meanwhile.
fn keeps_a_lock(pool: &Pool) -> Outcome {
    let lock = Arc::new(Mutex::new(0));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let lock = Arc::clone(&lock);
            pool.spawn(None, move || {
                let mut held = lock.lock().expect("nobody panics with it");
                for _ in 0..20 {
                    *held += 1;
                    yield_now();
                }
            })
        })
        .collect();
    for task in tasks {
        task.wait()?;
    }
    Ok(format!("all had it, {}", lock.lock().map_or(0, |sum| *sum)))
}

/// Is preempted until the other has set what it spins on.
fn spins(pool: &Pool) -> Outcome {
    let flag = Arc::new(AtomicBool::new(false));
    let (waits, sets) = (Arc::clone(&flag), flag);
    let spins = pool.spawn(None, move || {
        while !waits.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    let other = pool.spawn(None, move || sets.store(true, Ordering::Release));
    spins.wait()?;
    other.wait()?;
    Ok("it saw the flag".into())
}

/// Destructors that compute while a panic unwinds hold their worker until they are done, and not the rest of the job.
fn unwinds_and_computes(pool: &Pool) -> Outcome {
    struct Computes;
    impl Drop for Computes {
        fn drop(&mut self) {
            black_box(count(100_000));
        }
    }
    let lock = Arc::new(Mutex::new(()));
    let inside = Arc::clone(&lock);
    let failing = pool.spawn(None, move || {
        let _computes = Computes;
        assert!(black_box(inside.is_poisoned()), "of course");
    });
    let others: Vec<_> = (0..20)
        .map(|_| {
            let lock = Arc::clone(&lock);
            pool.spawn(None, move || (0..100).for_each(|_| drop(lock.lock().map(|_| count(100)))))
        })
        .collect();
    if failing.wait().is_ok() {
        return Err("it did not panic".into());
    }
    for other in others {
        other.wait()?;
    }
    Ok(format!("poisoned={}", lock.is_poisoned()))
}

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    let Some((_, job)) = JOBS.iter().find(|(name, _)| Some(*name) == asked.as_deref()) else {
        let names: Vec<_> = JOBS.iter().map(|(name, _)| *name).collect();
        eprintln!("say which: {}", names.join(", "));
        return ExitCode::from(2);
    };
    if !is_instrumented() {
        eprintln!(
            "this needs preemption; run it by `cargo quanta run --release -p greenwave-quanta --example hostile`"
        );
        return ExitCode::from(2);
    }
    let pool = Pool::builder()
        .workers(1)
        .quantum(Duration::from_micros(2))
        .stack_size(StackSize::at_least(64 << 10))
        .stuck_after(Duration::from_millis(50))
        .build();
    match pool.map_err(Into::into).and_then(|pool| {
        let outcome = job(&pool);
        // Some of these never end, and shutting down would wait for them.
        std::mem::forget(pool);
        outcome
    }) {
        Ok(outcome) => println!("{outcome}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
