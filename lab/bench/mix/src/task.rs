//! The work of jobs, and what it takes on its own.
//!
//! Synthetic work is a chain of multiplications, of which each needs the one before, so that neither the compiler nor
//! the processor can shorten it. It is compiled like any code, probes included, and never looks at a clock. How many
//! steps make a microsecond is measured once in the process, on a plain thread, where nothing is preempted.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use greenwave_kv::{Keys, Kv, KvConfig, KvError, Rows};

/// What one job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// So many steps of arithmetic.
    Steps(u32),
    /// Reads the row with this key from the process's store.
    Get([u8; 11]),
    /// Reads all rows of the process's store.
    Scan,
    /// Gives way once.
    GiveWay,
}

impl Task {
    /// Computing for so long.
    pub(crate) fn lasting(time: Duration) -> Self {
        Self::Steps((time.as_secs_f64() * steps_per_second()).round() as u32)
    }

    /// Does it.
    ///
    /// # Errors
    /// When the store can't be read.
    #[inline(never)]
    pub(crate) fn run(self) -> Result<(), KvError> {
        match self {
            Self::Steps(steps) => {
                black_box(compute(steps));
                Ok(())
            }
            Self::GiveWay => {
                greenwave_quanta::yield_now();
                Ok(())
            }
            Self::Get(key) => store()?.get(&key).map(|value| drop(black_box(value))),
            Self::Scan => store()?.scan(b"").map(|scanned| _ = black_box(scanned)),
        }
    }
}

/// What a GET and a SCAN take on their own: the medians.
///
/// # Errors
/// When the store can't be opened or read.
pub(crate) fn store_times() -> Result<(Duration, Duration), KvError> {
    static TIMES: OnceLock<(Duration, Duration)> = OnceLock::new();
    if let Some(times) = TIMES.get() {
        return Ok(*times);
    }
    let mut keys = Keys::new(Rows::DEFAULT.count, 1);
    let median = |count, task: &mut dyn FnMut() -> Task| {
        let timed = (0..count).map(|_| {
            let task = task();
            let began = Instant::now();
            task.run().map(|()| began.elapsed())
        });
        let mut times = timed.collect::<Result<Vec<_>, _>>()?;
        times.sort_unstable();
        Ok::<_, KvError>(times[times.len() / 2])
    };
    let get = median(10_001, &mut || Task::Get(keys.key()))?;
    let scan = median(101, &mut || Task::Scan)?;
    Ok(*TIMES.get_or_init(|| (get, scan)))
}

/// The process's store, in a directory of its own that is removed when the process ends in good order.
fn store() -> Result<&'static Kv, KvError> {
    static STORE: OnceLock<Kv> = OnceLock::new();
    if let Some(store) = STORE.get() {
        return Ok(store);
    }
    let directory = std::env::temp_dir().join(format!("greenwave-mix-{}", std::process::id()));
    let store = Kv::open(&KvConfig::new(directory))?;
    Ok(STORE.get_or_init(|| store))
}

/// Removes the process's store from the disk, if there is one.
pub(crate) fn remove_store() {
    let directory = std::env::temp_dir().join(format!("greenwave-mix-{}", std::process::id()));
    let _there_was_none = std::fs::remove_dir_all(directory);
}

#[inline(never)]
fn compute(steps: u32) -> u64 {
    (0..steps).fold(0xcbf2_9ce4_8422_2325, |hash, step| (hash ^ u64::from(step)).wrapping_mul(0x0100_0000_01b3))
}

/// The least time of many trials, since whatever disturbs one makes it longer.
fn steps_per_second() -> f64 {
    static STEPS: OnceLock<f64> = OnceLock::new();
    *STEPS.get_or_init(|| {
        const TRIAL: u32 = 200_000;
        let trial = |_| {
            let began = Instant::now();
            black_box(compute(black_box(TRIAL)));
            began.elapsed()
        };
        let least = (0..50).map(trial).min().unwrap_or_default();
        f64::from(TRIAL) / least.as_secs_f64().max(1e-9)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_work_has_more_steps_in_proportion() {
        let steps = |micros| match Task::lasting(Duration::from_micros(micros)) {
            Task::Steps(steps) => i64::from(steps),
            other => panic!("{other:?}"),
        };
        assert!(steps(1) > 10);
        assert!((steps(100) - 100 * steps(1)).abs() <= 100);
    }

    #[test]
    fn the_chain_depends_on_every_step() {
        assert_ne!(compute(10), compute(11));
        assert_eq!(compute(0), 0xcbf2_9ce4_8422_2325);
    }

    #[test]
    fn a_scan_takes_longer_than_a_get() {
        let (get, scan) = store_times().unwrap();
        assert!(scan > 10 * get, "{get:?} {scan:?}");
        remove_store();
    }
}
