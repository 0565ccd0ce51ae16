//! How exactly programs are interrupted: how much longer than its quantum each slice was.
//!
//! A slice is what the scheduler sees: from just before it resumes a coroutine to just after it has the thread back, by
//! the clock that the probes read. Nothing is left out, so what the machine itself does meanwhile (interrupts, the
//! neighbours of a virtual machine) is in there too; [`raw_spin`] shows how much that is. Beside all slices stand those in
//! which the kernel's own counters say that it had nothing to do with the thread; interrupts they don't tell of.

use std::time::{Duration, Instant};

use greenwave_bench::latencies::Latencies;
use greenwave_bench::rounds::{Figures, figures};
use greenwave_quanta::Ticks;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// When to stop.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Limit {
    /// So many slices are enough,
    pub(crate) slices: u64,
    /// and so is this time.
    pub(crate) time: Duration,
}

/// The slices that ended by preemption.
pub(crate) struct Gaps {
    quantum: Duration,
    /// The same, by the clock that slices are measured with.
    ticks: Ticks,
    limit: Limit,
    until: Instant,
    /// Ticks of the clock in one nanosecond.
    ticks_per_ns: f64,
    overshoots: Latencies,
    /// Those of slices in which the kernel neither brought in a page nor let another thread run.
    undisturbed: Latencies,
    disturbances: i64,
    /// How many ended before the quantum; they count as overshoots of nothing.
    early: u64,
    sum_ns: f64,
}

/// What the slices showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Overshoot {
    pub(crate) quantum_ns: u64,
    /// How many slices there were.
    pub(crate) slices: u64,
    /// Quantiles of how much longer they were, and which share ended before the quantum; beside that the share of those in
    /// which the kernel brought in a page or let another thread run, and the quantiles of the others.
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// How many there were up to each length and above the one before.
    pub(crate) distribution: Vec<(u64, u64)>,
}

impl Gaps {
    pub(crate) fn new(quantum: Duration, limit: Limit) -> Self {
        let ticks_per_ns = Ticks::of(Duration::from_secs(1)).0 as f64 / 1e9;
        let (ticks, until) = (Ticks::of(quantum), Instant::now() + limit.time);
        Self {
            quantum,
            ticks,
            limit,
            until,
            ticks_per_ns,
            overshoots: Latencies::new(),
            undisturbed: Latencies::new(),
            disturbances: disturbances(),
            early: 0,
            sum_ns: 0.0,
        }
    }

    /// Notes a slice. Whether another one is wanted.
    pub(crate) fn record(&mut self, began: Ticks, ended: Ticks) -> bool {
        let ticks = ended.0.saturating_sub(began.0) as f64 - self.ticks.0 as f64;
        let overshoot = ticks / self.ticks_per_ns;
        if overshoot < 0.0 {
            self.early += 1;
        }
        self.sum_ns += overshoot.max(0.0);
        let length = Duration::from_nanos(overshoot.round() as u64);
        self.overshoots.record(length);
        let disturbances = disturbances();
        if std::mem::replace(&mut self.disturbances, disturbances) == disturbances {
            self.undisturbed.record(length);
        }
        // The time is asked for rarely, since asking takes time as well.
        self.count() < self.limit.slices && (!self.count().is_multiple_of(1024) || Instant::now() < self.until)
    }

    pub(crate) fn count(&self) -> u64 {
        self.overshoots.count()
    }

    pub(crate) fn overshoot(&self) -> Overshoot {
        let count = self.count();
        let share = |part: f64| if count == 0 { 0.0 } else { part / count as f64 };
        let ns = |time: Option<Duration>| time.map_or(0.0, |time| time.as_nanos() as f64);
        let quantile = |q| ns(self.overshoots.quantile(q));
        let figures = figures([
            ("early_share", share(self.early as f64)),
            ("mean_ns", share(self.sum_ns)),
            ("p50_ns", quantile(0.5)),
            ("p90_ns", quantile(0.9)),
            ("p99_ns", quantile(0.99)),
            ("p999_ns", quantile(0.999)),
            ("p9999_ns", quantile(0.9999)),
            ("max_ns", ns(self.overshoots.max())),
            ("disturbed_share", 1.0 - share(self.undisturbed.count() as f64)),
            ("undisturbed_p99_ns", ns(self.undisturbed.quantile(0.99))),
            ("undisturbed_p999_ns", ns(self.undisturbed.quantile(0.999))),
        ]);
        let quantum_ns = self.quantum.as_nanos() as u64;
        Overshoot { quantum_ns, slices: count, figures, distribution: distribution(&self.overshoots) }
    }
}

/// How often the kernel has brought in a page for this thread, or let another one run although this could have gone on.
fn disturbances() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD)
        .map_or(0, |usage| usage.minor_page_faults() + usage.major_page_faults() + usage.involuntary_context_switches())
}

/// The limit on this machine: a loop that does nothing but read the clock until the quantum has ended.
pub(crate) fn raw_spin(quantum: Duration, limit: Limit) -> Gaps {
    let ticks = Ticks::of(quantum);
    let mut gaps = Gaps::new(quantum, limit);
    loop {
        let began = Ticks::now();
        let mut now = began;
        while now.0 < began.0 + ticks.0 {
            now = Ticks::now();
        }
        if !gaps.record(began, now) {
            return gaps;
        }
    }
}

/// In buckets whose width is at most an eighth of their bound.
fn distribution(overshoots: &Latencies) -> Vec<(u64, u64)> {
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for (length, count) in overshoots.iter() {
        let upper = bound(length.as_nanos() as u64);
        match buckets.last_mut() {
            Some((last, sum)) if *last == upper => *sum += count,
            _ => buckets.push((upper, count)),
        }
    }
    buckets
}

/// The least number with four binary digits and zeros that is not below this one.
fn bound(nanos: u64) -> u64 {
    let zeros = (u64::BITS - nanos.leading_zeros()).saturating_sub(4);
    nanos.div_ceil(1 << zeros) << zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREVER: Duration = Duration::from_secs(1 << 20);

    fn gaps(overshoots_ns: impl IntoIterator<Item = i64>) -> Gaps {
        let quantum = Duration::from_nanos(2000);
        let mut gaps = Gaps::new(quantum, Limit { slices: u64::MAX, time: FOREVER });
        (gaps.ticks, gaps.ticks_per_ns) = (Ticks(2000), 1.0);
        for overshoot in overshoots_ns {
            gaps.record(Ticks(5000), Ticks((7000 + overshoot) as u64));
        }
        gaps
    }

    #[test]
    fn overshoots_are_counted_from_the_quantums_end() {
        let overshoot = gaps((1..=1000).map(|at| at * 10)).overshoot();
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.002;
        assert!(
            near(overshoot.figures["p50_ns"], 5000.0)
                && near(overshoot.figures["p99_ns"], 9900.0)
                && near(overshoot.figures["max_ns"], 10_000.0)
        );
        assert_eq!(
            (overshoot.figures["mean_ns"], overshoot.figures["early_share"], overshoot.slices),
            (5005.0, 0.0, 1000)
        );
    }

    #[test]
    fn what_ended_early_counts_as_nothing_too_long_and_is_told() {
        let overshoot = gaps([-100, 100, 100, 100]).overshoot();
        assert_eq!((overshoot.figures["early_share"], overshoot.figures["mean_ns"], overshoot.slices), (0.25, 75.0, 4));
    }

    #[test]
    fn the_distribution_has_every_slice_in_a_bucket_that_is_not_too_wide() {
        let distribution = gaps((0..5000).map(|at| at * at)).overshoot().distribution;
        assert_eq!(distribution.iter().map(|(_, count)| count).sum::<u64>(), 5000);
        assert!(distribution.is_sorted_by(|(a, _), (b, _)| a < b));
        for nanos in 1..100_000 {
            assert!((nanos..=nanos + nanos / 8).contains(&bound(nanos)), "{nanos}: {}", bound(nanos));
        }
    }

    #[test]
    fn spinning_stops_after_as_many_quanta_as_wanted_and_none_is_too_short() {
        let overshoot = raw_spin(Duration::from_nanos(100), Limit { slices: 50, time: FOREVER }).overshoot();
        assert_eq!((overshoot.slices, overshoot.figures["early_share"]), (50, 0.0));
    }
}
