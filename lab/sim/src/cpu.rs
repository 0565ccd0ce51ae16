//! Work takes time, and has to queue for a core.

use greenwave_policy::Time;
use std::time::Duration;

/// What a piece of work costs: a fixed part and a part for every byte, as measurements of real code fit it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuCost {
    /// For each message.
    pub per_message: Duration,
    /// For each byte, in nanoseconds.
    pub per_byte_ns: f64,
}

impl CpuCost {
    /// Nothing.
    pub const FREE: Self = Self { per_message: Duration::ZERO, per_byte_ns: 0.0 };

    /// The cost of one message of `bytes`.
    #[must_use]
    pub fn of(&self, bytes: u64) -> Duration {
        self.per_message + Duration::from_nanos((self.per_byte_ns * bytes as f64) as u64)
    }
}

/// A node's cores. Work runs to its end in the order in which it was given, each piece on the core that is free first.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// When each core is free.
    free: Vec<Time>,
    busy: Duration,
}

impl Cpu {
    /// So many cores, at least one.
    #[must_use]
    pub fn new(cores: usize) -> Self {
        Self { free: vec![Time::ZERO; cores.max(1)], busy: Duration::ZERO }
    }

    /// Gives it work at `now`; when that is done.
    pub fn work(&mut self, now: Time, cost: Duration) -> Time {
        let core = self.free.iter_mut().min().expect("there is at least one core");
        *core = (*core).max(now) + cost;
        self.busy += cost;
        *core
    }

    /// When work that is given at `now` would begin.
    #[must_use]
    pub fn begins(&self, now: Time) -> Time {
        self.free.iter().min().map_or(now, |&free| free.max(now))
    }

    /// The work that it was given until now.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Forgets what it was doing, as a machine that is switched off.
    pub fn reset(&mut self, now: Time) {
        self.free.fill(now);
    }
}
