//! How much of the machine others used while something was measured.

use std::fs;
use std::time::Instant;

/// Begun before a benchmark, asked after it.
#[derive(Debug)]
pub struct Watch {
    begun: Instant,
    /// Clock ticks of the machine, and of this process and its children.
    busy: (f64, f64),
}

/// Others may keep this many cores busy before it is worth a warning.
pub const QUIET: f64 = 0.02;

/// `USER_HZ`, which is the same on all architectures that Rust's Linux targets have.
const TICKS_PER_SECOND: f64 = 100.0;

impl Watch {
    /// From now on.
    #[must_use]
    pub fn start() -> Self {
        Self { begun: Instant::now(), busy: busy().unwrap_or_default() }
    }

    /// How many cores others kept busy since then, on average; `None` if the kernel doesn't tell.
    #[must_use]
    pub fn others(&self) -> Option<f64> {
        let (machine, own) = busy()?;
        let ticks = (machine - self.busy.0) - (own - self.busy.1);
        Some((ticks / TICKS_PER_SECOND / self.begun.elapsed().as_secs_f64()).max(0.0))
    }
}

fn busy() -> Option<(f64, f64)> {
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    Some((machine_ticks(&machine)?, own_ticks(&own)?))
}

/// user, nice, system, irq, softirq and steal of the first line.
fn machine_ticks(stat: &str) -> Option<f64> {
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    Some([0, 1, 2, 5, 6, 7].into_iter().filter_map(|index| fields.get(index)).sum())
}

/// utime, stime, cutime and cstime: fields 14 to 17, counted from behind the name, which may have spaces in it.
fn own_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_at_work() {
        assert_eq!(machine_ticks("cpu  1 2 4 1000 1000 8 16 32 64 64\ncpu0 9"), Some(63.0));
        let own = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 200 400 800 20 0";
        assert_eq!(own_ticks(own), Some(1500.0));
    }

    #[test]
    fn what_this_process_does_is_not_others_work() {
        assert!(Watch::start().others().is_some());
    }
}
