//! Clients that come while the server is under attack: each connects, makes a short call and leaves.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use greenwave::{Address, Channel, ChannelConfig, Context, Method};
use greenwave_bench::latencies::Latencies;
use greenwave_bench::rounds::Figures;

use crate::work::{self, Kernel};

/// How long after one has left the next comes.
const PAUSE: Duration = Duration::from_millis(20);
/// How soon each wants its answer, its connection included.
const DEADLINE: Duration = Duration::from_millis(500);

/// Which share of them was served in time.
pub(crate) const SERVED: &str = "newcomers_served_share";

/// What became of them.
#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    came: u32,
    served: Latencies,
}

impl Newcomers {
    /// One after the other, until it is over.
    pub(crate) fn come(address: &Address, config: &ChannelConfig, is_over: &AtomicBool) -> Self {
        let mut all = Self::default();
        let method = Method::named(String::leak(Kernel::Get.method()));
        while !is_over.load(Relaxed) {
            let begun = Instant::now();
            let request = work::order(all.came, 0);
            let call = |channel: Channel| channel.call(&Context::with_deadline(DEADLINE), method, &request).is_ok();
            let is_served = Channel::new(address.clone(), config.clone()).is_ok_and(call);
            all.came += 1;
            if is_served && begun.elapsed() <= DEADLINE {
                all.served.record(begun.elapsed());
            }
            std::thread::park_timeout(PAUSE);
        }
        all
    }

    /// How many came, which share was served, and how long that took.
    pub(crate) fn figures(&self) -> Figures {
        let mut found = Figures::new();
        found.insert("newcomers".to_owned(), f64::from(self.came));
        if self.came > 0 {
            found.insert(SERVED.to_owned(), self.served.count() as f64 / f64::from(self.came));
        }
        let median = self.served.quantile(0.5);
        found.extend(median.map(|time| ("newcomers_p50_us".to_owned(), time.as_secs_f64() * 1e6)));
        found
    }
}
