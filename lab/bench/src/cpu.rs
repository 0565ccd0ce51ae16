//! The CPU time of another process.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// How long the threads of a process have run so far. To the nanosecond where the kernel counts so (the first figure of
/// `schedstat`), otherwise in ticks of 10 ms (`utime` and `stime` of `stat`); see proc(5).
///
/// # Errors
/// When there is no such process.
pub fn time(process: u32) -> anyhow::Result<Duration> {
    match schedstat(process, 0).with_context(|| format!("process {process} is gone"))? {
        Some(ran) if !ran.is_zero() => Ok(ran),
        _ => ticks(&fs::read_to_string(format!("/proc/{process}/stat"))?),
    }
}

/// How long the threads of a process have waited so far for a core that others had, though they could have run: the second figure
/// of `schedstat`. `None` where the kernel doesn't tell.
#[must_use]
pub fn waited(process: u32) -> Option<Duration> {
    schedstat(process, 1).ok()?
}

/// The sum of a figure of `schedstat`, in nanoseconds there, over the threads of a process. `None` where the kernel doesn't tell,
/// or a thread is gone meanwhile.
fn schedstat(process: u32, figure: usize) -> std::io::Result<Option<Duration>> {
    let each = fs::read_dir(format!("/proc/{process}/task"))?.map(|thread| {
        let said = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        said.split_whitespace().nth(figure)?.parse::<u64>().ok()
    });
    Ok(each.sum::<Option<u64>>().map(Duration::from_nanos))
}

fn ticks(stat: &str) -> anyhow::Result<Duration> {
    // The name of the program, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')').context("stat has no name")?;
    let of_process = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = of_process.map(str::parse::<u64>).sum::<Result<_, _>>().context("stat has no times")?;
    Ok(Duration::from_millis(10) * u32::try_from(ticks)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn the_time_of_a_process_that_works_grows() {
        let before = time(std::process::id()).unwrap();
        while time(std::process::id()).unwrap() <= before {
            std::hint::black_box((0..100_000_u64).fold(0, |sum, next| sum ^ next));
        }
    }

    /// Of three threads for each core, two wait while one runs.
    #[test]
    fn who_has_no_core_waits() {
        let (cores, is_over) = (std::thread::available_parallelism().map_or(1, usize::from), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 * cores {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            // Threads of other tests that end take their waits with them.
            let before = waited(std::process::id());
            while before.is_some() && waited(std::process::id()) <= before {
                std::hint::spin_loop();
            }
            is_over.store(true, Relaxed);
        });
    }

    #[test]
    fn ticks_are_those_of_user_and_kernel_together() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 101 0 0 0 30 12 0 0 20 0 1 0 55";
        assert_eq!(ticks(stat).unwrap(), Duration::from_millis(420));
        assert!(ticks("7 (a) S 1").is_ok_and(|none| none.is_zero()));
    }
}
