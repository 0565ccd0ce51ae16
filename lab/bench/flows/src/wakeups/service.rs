//! The service: a thread that works a little whenever it is woken.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use greenwave_bench::{clock, pin};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

/// What is written to the eventfd to wake it, and to end it.
const WAKE: u64 = 1;
const END: u64 = 2;

/// A running service. It ends with this value.
pub(super) struct Service {
    shared: Arc<Shared>,
    latencies: Receiver<Duration>,
    /// The number of its thread.
    pub(super) thread: i32,
}

/// What the thread has in common with who wakes it.
struct Shared {
    bell: OwnedFd,
    /// When it was woken last, in nanoseconds of the monotonic clock.
    woken_at: AtomicU64,
}

impl Service {
    /// Starts it on a core.
    pub(super) fn start(core: usize, nice: i32, work: Duration) -> anyhow::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC).context("can't make an eventfd")?;
        let shared = Arc::new(Shared { bell, woken_at: AtomicU64::new(0) });
        let (tell, told) = channel();
        let (say, latencies) = channel();
        let own = shared.clone();
        thread::spawn(move || {
            let begun = begin(core, nice);
            let is_begun = begun.is_ok();
            if tell.send(begun).is_ok() && is_begun {
                serve(&own, work, &say);
            }
        });
        let thread = told.recv().context("the service's thread has ended")??;
        Ok(Self { shared, latencies, thread })
    }

    /// Wakes it, and waits until it has done its work; how long it took to wake.
    pub(super) fn wake(&self) -> anyhow::Result<Duration> {
        self.shared.woken_at.store(clock::now().as_nanos(), Ordering::Release);
        self.ring(WAKE)?;
        self.latencies.recv().context("the service's thread has ended")
    }

    fn ring(&self, what: u64) -> anyhow::Result<()> {
        rustix::io::write(&self.shared.bell, &what.to_ne_bytes()).context("can't write to an eventfd")?;
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _it_has_ended = self.ring(END);
    }
}

/// Prepares the calling thread; its number.
fn begin(core: usize, nice: i32) -> anyhow::Result<i32> {
    pin::this_thread(core)?;
    if nice != 0 {
        setpriority_process(None, nice).with_context(|| format!("can't have a nice value of {nice}"))?;
    }
    Ok(gettid().as_raw_nonzero().get())
}

fn serve(shared: &Shared, work: Duration, say: &Sender<Duration>) {
    let mut rung = [0; 8];
    while rustix::io::read(&shared.bell, &mut rung).is_ok() && u64::from_ne_bytes(rung) == WAKE {
        let now = clock::now().as_nanos();
        let latency = now.saturating_sub(shared.woken_at.load(Ordering::Acquire));
        let begun = processor_time();
        while processor_time() - begun < work {}
        if say.send(Duration::from_nanos(latency)).is_err() {
            return;
        }
    }
}

/// How long the calling thread has run.
pub(super) fn processor_time() -> Duration {
    // It can't be negative.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_works_when_it_is_woken_and_then_says_how_late_that_was() {
        let service = Service::start(pin::last().unwrap(), 0, Duration::from_micros(300)).unwrap();
        for _ in 0..3 {
            let begun = std::time::Instant::now();
            let latency = service.wake().unwrap();
            assert!(begun.elapsed() >= latency + Duration::from_micros(300));
        }
    }
}
