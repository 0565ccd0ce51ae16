//! Work of a known length, for handlers that do some.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long a call works.
const LENGTH: Duration = Duration::from_micros(20);

/// How many rounds of [`work`] take so long on this machine, undisturbed. Counted once, so that every server of a
/// benchmark does the same.
pub(crate) fn rounds() -> u64 {
    static ROUNDS: LazyLock<u64> = LazyLock::new(|| {
        const TRIAL: u64 = 100_000;
        let trial = || {
            let begin = Instant::now();
            work(TRIAL);
            begin.elapsed()
        };
        let fastest = (0..20).map(|_| trial()).min().unwrap_or(LENGTH).max(Duration::from_nanos(1));
        (TRIAL as f64 * LENGTH.as_secs_f64() / fastest.as_secs_f64()) as u64
    });
    *ROUNDS
}

/// Does nothing of use.
pub(crate) fn work(rounds: u64) {
    let mut sum = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for round in 0..rounds {
        sum = (sum ^ (sum >> 29) ^ round).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    black_box(sum);
}
