//! Work for a processor, and a service that wants it back.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use greenwave_bench::latencies::Latencies;

use super::{Times, report, serve};

/// A neighbour that doesn't compute all the time does so in periods of this length.
const PERIOD: Duration = Duration::from_millis(100);

static DONE: AtomicU64 = AtomicU64::new(0);

/// Computes; what is counted are thousands of rounds.
pub(super) fn run(share: f64) -> io::Result<()> {
    let busy = PERIOD.mul_f64(share.clamp(0.0, 1.0));
    thread::spawn(move || {
        loop {
            let begin = Instant::now();
            while begin.elapsed() < busy {
                black_box(rounds(1000));
                DONE.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(PERIOD.saturating_sub(begin.elapsed()));
        }
    });
    serve(&DONE)
}

/// Wakes at fixed times and works a little. How late it wakes is reported as its latency, and beside it when the work is
/// done, which a neighbour may interrupt as well.
pub(super) fn wake(work_us: u64, times: Times) -> io::Result<()> {
    let work = rounds_within(Duration::from_micros(work_us));
    super::begin();
    let (every, (all, warm_up)) = (times.every(), times.counts());
    let (mut woken, mut done) = (Latencies::new(), Latencies::new());
    let begin = Instant::now();
    for number in 0..all {
        let at = begin + every * number as u32;
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let late = at.elapsed();
        black_box(rounds(work));
        if number >= warm_up {
            woken.record(late);
            done.record(at.elapsed());
        }
    }
    let done_p99 = done.quantile(0.99).unwrap_or_default();
    report(&woken, all - warm_up, 0, &[("done_p99_us", done_p99)])
}

/// How many rounds take so long on this core, by the fastest of a few tries: others may be computing here.
fn rounds_within(time: Duration) -> u64 {
    const TRY: u64 = 100_000;
    let tries = (0..10).map(|_| {
        let begin = Instant::now();
        black_box(rounds(TRY));
        begin.elapsed()
    });
    let fastest = tries.min().unwrap_or(Duration::from_micros(100)).max(Duration::from_nanos(1));
    (time.as_secs_f64() / fastest.as_secs_f64() * TRY as f64) as u64
}

fn rounds(count: u64) -> u64 {
    (0..count).fold(black_box(1), |state, round| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round))
}
