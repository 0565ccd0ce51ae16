//! What others do: a window by additive increase and multiplicative decrease.

use greenwave_policy::Time;
use greenwave_policy::replication::{Environment, Setting};
use greenwave_replica::Index;
use std::collections::VecDeque;
use std::time::Duration;

/// A window by additive increase and multiplicative decrease.
pub(super) struct Aimd {
    window: u64,
    /// When it looks.
    pub(super) every: Duration,
    /// Batches on their way, with the instant at which each came to the log.
    under_way: VecDeque<(Index, Time)>,
    last: Index,
    /// The most that were under way since it was looked, and how many were committed in how long.
    most: usize,
    committed: (u32, Duration),
    /// How often it was looked since the last [`Aimd::LATELY`], and the least since then and before.
    looks: u32,
    least: [Duration; 2],
}

impl Aimd {
    /// The least latency of so many looks stands, to twice as many: the first batches are small, and never so fast again.
    const LATELY: u32 = 25;

    pub(super) fn new(environment: &Environment) -> Self {
        let every = (4 * environment.network().delay + 4 * environment.disk().sync).max(Duration::from_millis(5));
        Self {
            window: 1,
            every,
            under_way: VecDeque::new(),
            last: Index::ZERO,
            most: 0,
            committed: (0, Duration::ZERO),
            looks: 0,
            least: [Duration::MAX; 2],
        }
    }

    /// The log's last entry and the last committed one are these now.
    pub(super) fn see(&mut self, now: Time, last: Index, committed: Index) {
        self.under_way.extend((self.last.0 + 1..=last.0).map(|index| (Index(index), now)));
        self.last = self.last.max(last);
        self.most = self.most.max(self.under_way.len());
        while let Some((_, since)) = self.under_way.pop_front_if(|(index, _)| *index <= committed) {
            self.committed = (self.committed.0 + 1, self.committed.1 + now.since(since));
        }
    }

    pub(super) fn look(&mut self) -> u64 {
        let ((count, took), most) = (std::mem::take(&mut self.committed), std::mem::take(&mut self.most));
        if count > 0 {
            let mean = took / count;
            self.looks += 1;
            if self.looks.is_multiple_of(Self::LATELY) {
                self.least = [Duration::MAX, self.least[0]];
            }
            self.least[0] = self.least[0].min(mean);
            self.window = match mean > self.least[0].min(self.least[1]).saturating_mul(2) {
                true => (self.window / 2).max(1),
                false if most as u64 >= self.window => (self.window + 1).min(Setting::MOST_WINDOW),
                false => self.window,
            };
        }
        self.window
    }
}
