//! A neighbour: a process that counts.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, value_parser};
use greenwave_bench::process::{Process, SOON, say};
use rustix::process::setsid;

use super::service::processor_time;

/// One that doesn't count all the time does so in periods of this length.
const PERIOD: Duration = Duration::from_millis(10);
/// How often it says how far it has counted.
const SAY_EVERY: Duration = Duration::from_millis(10);

/// How a neighbour counts.
#[derive(Args, Clone, Copy, Debug)]
pub struct Counting {
    /// For this share of the time, if it has its core alone; it sleeps in between
    #[arg(long, value_parser = value_parser!(u32).range(1..=100))]
    busy_percent: u32,
    /// In a session, and so a group for the scheduler, of its own
    #[arg(long)]
    apart: bool,
}

impl Counting {
    /// Counts, and says how far, until nobody listens.
    ///
    /// # Errors
    /// When it can't have a session.
    pub fn run(self) -> anyhow::Result<()> {
        if self.apart {
            setsid().context("can't have a session of its own; start it as a process that leads no group")?;
        }
        let busy = PERIOD * self.busy_percent / 100;
        let (mut count, mut slept, mut said) = (0_u64, Duration::ZERO, Instant::now());
        loop {
            for _ in 0..10_000 {
                count = black_box(count) + 1;
            }
            // By its own processor time: while others have the core it neither counts nor rests.
            let used = processor_time();
            if busy < PERIOD && used - slept > busy {
                thread::sleep(PERIOD - busy);
                slept = used;
            }
            if said.elapsed() > SAY_EVERY {
                say(count);
                said = Instant::now();
            }
        }
    }
}

/// A running neighbour. It ends with this value.
pub(super) struct Neighbour {
    process: Process,
    counted: u64,
}

impl Neighbour {
    /// Starts this program as one, on a core.
    pub(super) fn start(own: &Path, core: usize, busy_percent: u32, apart: bool) -> anyhow::Result<Self> {
        let mut command = Command::new(own);
        command.args(["neighbour", "--busy-percent", &busy_percent.to_string()]);
        command.args(apart.then_some("--apart"));
        let mut process = Process::start(command, &[core])?;
        // It has begun when it has counted for a while.
        process.wait_for(|line| line.parse::<u64>().is_ok(), SOON)?;
        Ok(Self { process, counted: 0 })
    }

    /// The number of its process, and of the thread that counts.
    pub(super) fn id(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// How far it has counted, as it said last.
    pub(super) fn counted(&mut self) -> anyhow::Result<u64> {
        self.process.check()?;
        self.counted = self.process.latest().and_then(|line| line.parse().ok()).unwrap_or(self.counted);
        Ok(self.counted)
    }
}
