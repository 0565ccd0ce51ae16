//! The dispatcher's thread: gives each job to a worker, and watches for jobs that don't give way.

use super::Shared;
use super::work::Work;
use crate::clock::Clock;
use crate::scheduler::Counts;
use crate::two_level::Dispatcher;
use greenwave_policy::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How many jobs are given out between two looks at the clock.
const BATCH: usize = 64;

/// Dispatches until the pool is closed and its queue empty. The inboxes are closed after that.
pub(super) fn run(mut dispatcher: Dispatcher<Arc<dyn Work>>, shared: &Shared, mut watch: Watch, spin: Duration) {
    let mut clock = Clock::new();
    let mut idle_since = None;
    loop {
        // Read before the queue is looked at: who closes spawns no more.
        let closed = shared.closed.load(Ordering::Acquire);
        let mut sent = 0;
        while sent < BATCH
            && let Some(work) = shared.queue.pop()
        {
            give(&mut dispatcher, work);
            sent += 1;
        }
        let now = clock.now();
        watch.look(now, &dispatcher, shared);
        if sent > 0 {
            idle_since = None;
            continue;
        }
        if closed {
            return;
        }
        if now.since(*idle_since.get_or_insert(now)) < spin {
            std::hint::spin_loop();
            continue;
        }
        let longest = (dispatcher.unfinished() > 0).then_some(watch.after);
        shared.bell.sleep(longest, || shared.queue.is_empty() && !shared.closed.load(Ordering::Acquire));
    }
}

/// A worker's ring has room for all jobs that the pool takes, so this ends at the first attempt.
fn give(dispatcher: &mut Dispatcher<Arc<dyn Work>>, mut work: Arc<dyn Work>) {
    while let Err(back) = dispatcher.send(work) {
        work = back;
        std::thread::yield_now();
    }
}

/// Looks at the workers' pulses. One that doesn't change, of a worker that has work and doesn't sleep, is of a job that
/// can't be preempted: it is named once.
pub(super) struct Watch {
    after: Duration,
    next: Time,
    seen: Vec<Seen>,
    no_stack: u64,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    pulse: Option<Counts>,
    since: Time,
    told: bool,
}

impl Watch {
    pub(super) fn new(workers: usize, after: Duration) -> Self {
        let after = after.max(Duration::from_millis(1));
        Self { after, next: Time::ZERO, seen: vec![Seen::default(); workers], no_stack: 0 }
    }

    fn look(&mut self, now: Time, dispatcher: &Dispatcher<Arc<dyn Work>>, shared: &Shared) {
        if now < self.next {
            return;
        }
        self.next = now + self.after / 2;
        for worker in 0..self.seen.len() {
            let Some(held) = self.stuck(now, worker, dispatcher.pulse(worker)) else { continue };
            shared.stuck.fetch_add(1, Ordering::Relaxed);
            let name = match dispatcher.running(worker) {
                "" => "without a name",
                name => name,
            };
            tracing::warn!(
                worker,
                job = name,
                "a job has held its worker for {held:?}; build with `cargo quanta`, or let it call `yield_now`"
            );
        }
        let no_stack = shared.no_stack.load(Ordering::Relaxed);
        if no_stack > self.no_stack {
            self.no_stack = no_stack;
            tracing::warn!("no memory for another stack; lower the pool's capacity or raise vm.max_map_count");
        }
    }

    /// For how long a worker's pulse hasn't changed, once for each job that is stuck.
    fn stuck(&mut self, now: Time, worker: usize, pulse: Option<Counts>) -> Option<Duration> {
        let seen = &mut self.seen[worker];
        if pulse.is_none() || pulse != seen.pulse {
            *seen = Seen { pulse, since: now, told: false };
            return None;
        }
        let held = now.since(seen.since);
        (held >= self.after && !std::mem::replace(&mut seen.told, held >= self.after)).then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_that_stops_is_told_of_once_and_a_changing_one_never() {
        const MS: u64 = 1_000_000;
        let mut watch = Watch::new(1, Duration::from_millis(10));
        let mut at = |ms: u64, served: Option<u32>| {
            watch.stuck(Time::from_nanos(ms * MS), 0, served.map(|served| Counts { finished: 0, served }))
        };
        assert!((0..50).all(|turn| at(turn, Some(turn as u32)).is_none()), "it gives way");
        assert!((50..100).all(|ms| at(ms, None).is_none()), "it is idle");
        assert_eq!(at(100, Some(7)), None);
        assert_eq!(at(109, Some(7)), None);
        assert_eq!(at(110, Some(7)), Some(Duration::from_millis(10)));
        assert_eq!(at(150, Some(7)), None, "it was told");
        assert_eq!(at(151, Some(8)), None);
        assert_eq!(at(161, Some(8)), Some(Duration::from_millis(10)), "another one");
    }
}
