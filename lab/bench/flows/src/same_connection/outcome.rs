//! What small calls and large replies have shown, alone and together.

use std::io;
use std::time::{Duration, Instant};

use greenwave_bench::latencies::Latencies;
use greenwave_bench::rounds::figures;

use super::EVERY;

/// A part of a measurement: which of the two there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) small: bool,
    pub(super) bulk: bool,
}

impl Part {
    /// What doesn't count: links and buffers are found out.
    pub(super) const WARM_UP: Self = Self { small: true, bulk: true };
    pub(super) const IDLE: Self = Self { small: true, bulk: false };
    pub(super) const ALONE: Self = Self { small: false, bulk: true };
    pub(super) const BOTH: Self = Self { small: true, bulk: true };
    /// How long it takes to find out.
    pub(super) const WARM_UP_TIME: Duration = Duration::from_millis(500);
}

/// What a part has shown.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) begin: Instant,
    pub(super) latencies: Latencies,
    pub(super) bulk_bytes: u64,
    /// When the last large reply came.
    pub(super) last_bulk: Instant,
}

impl Recording {
    pub(super) fn new() -> Self {
        let begin = Instant::now();
        Self { begin, latencies: Latencies::new(), bulk_bytes: 0, last_bulk: begin }
    }

    /// When a small call is to be made.
    pub(super) fn scheduled(&self, number: u32) -> Instant {
        self.begin + EVERY * number
    }

    /// A small call that was to be made then is answered.
    pub(super) fn answered(&mut self, scheduled: Instant) {
        self.latencies.record(scheduled.elapsed());
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.bulk_bytes += bytes as u64;
        self.last_bulk = Instant::now();
    }

    fn mbit(&self) -> f64 {
        self.bulk_bytes as f64 * 8e-6 / (self.last_bulk - self.begin).as_secs_f64().max(1e-9)
    }
}

/// What all parts have shown.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) idle: Recording,
    pub(super) alone: Recording,
    pub(super) both: Recording,
}

impl Outcome {
    /// Prints it, and waits for the end.
    pub(super) fn report(&self) -> io::Result<()> {
        let Self { idle, alone, both } = self;
        let (both_us, idle_us) = (both.latencies.quantiles_us(), idle.latencies.quantiles_us());
        let idle_us = idle_us.map(|(name, us)| (format!("idle_{name}"), us));
        let others = [
            ("bulk_mbit", both.mbit()),
            ("bulk_alone_mbit", alone.mbit()),
            ("p99_over_idle", both_us[1].1 / idle_us[1].1),
            ("bulk_over_alone", both.mbit() / alone.mbit()),
        ];
        let others = both_us.into_iter().chain(others).map(|(name, value)| (name.to_owned(), value));
        crate::load::tell(&figures(idle_us.into_iter().chain(others)))
    }
}
