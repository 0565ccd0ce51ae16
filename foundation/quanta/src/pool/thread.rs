//! A worker's thread.

use super::Shared;
use super::work::{PoolJob, Work};
use crate::scheduler::{Event, Quantum};
use crate::stack::StackSize;
use crate::two_level::Inbox;
use crate::worker::Worker;
use greenwave_policy::{Order, Time};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) struct Settings {
    pub(super) order: Order,
    pub(super) quantum: Quantum,
    pub(super) stack: StackSize,
    pub(super) keep: usize,
    pub(super) spin: Duration,
    pub(super) yields: bool,
}

/// Runs jobs until the inbox is closed and all of them have ended.
pub(super) fn run(mut inbox: Inbox<Arc<dyn Work>>, shared: &Shared, settings: &Settings) {
    let mut worker = Worker::new(settings.order, settings.quantum, settings.stack, settings.keep);
    let closed = Rc::new(Cell::new(false));
    let mut idle = Idle::new(settings.spin);
    loop {
        let now = worker.now();
        while let Some(work) = inbox.take() {
            let urgency = *work.urgency();
            worker.add(now, urgency, PoolJob { work, closed: Rc::clone(&closed) });
        }
        let event = worker.run_announced(now, |name| inbox.begin(name));
        inbox.publish(worker.counts());
        match event {
            Event::Idle => {
                if worker.unfinished() == 0 && inbox.is_closed() {
                    return;
                }
                idle.wait(&mut worker, &mut inbox);
                closed.set(shared.closed.load(Ordering::Acquire));
                continue;
            }
            // It gave way, and there is nobody who would resume it but this.
            Event::Suspended(job) => worker.give_way(worker.now(), job),
            Event::Finished(_) | Event::Panicked(..) => {
                shared.finished();
                closed.set(shared.closed.load(Ordering::Acquire));
            }
            Event::NoStack(..) => {
                shared.no_stack.fetch_add(1, Ordering::Relaxed);
                inbox.sleep(Some(NAP));
                worker.clock();
            }
            Event::Preempted(_) | Event::Waits(_) => {}
        }
        idle.over();
        if settings.yields {
            std::thread::yield_now();
            worker.clock();
        }
    }
}

/// The first and the longest nap of a worker whose jobs all wait for something.
const FIRST_NAP: Duration = Duration::from_micros(20);
const NAP: Duration = Duration::from_micros(500);

/// What a worker does that has nothing to do: it looks out for a while, then it sleeps. While jobs wait, for words that
/// no bell rings for, it sleeps in naps that grow.
struct Idle {
    spin: Duration,
    since: Option<Time>,
    nap: Duration,
}

impl Idle {
    fn new(spin: Duration) -> Self {
        Self { spin, since: None, nap: FIRST_NAP }
    }

    fn over(&mut self) {
        (self.since, self.nap) = (None, FIRST_NAP);
    }

    fn wait(&mut self, worker: &mut Worker<PoolJob>, inbox: &mut Inbox<Arc<dyn Work>>) {
        let now = worker.clock();
        if now.since(*self.since.get_or_insert(now)) < self.spin {
            std::hint::spin_loop();
            return;
        }
        let longest = worker.wakes_by().map(|by| by.since(now).min(self.nap));
        self.nap = (self.nap * 2).min(NAP);
        inbox.sleep(longest);
        worker.clock();
    }
}
