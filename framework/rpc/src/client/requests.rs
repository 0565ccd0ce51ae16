//! What threads want of whoever polls their completion queue, and whether that is a dispatcher.
//!
//! # Protocol
//! 1. There is a *dispatcher* once there is a thread that leads, or will be given the lead before all others. Who finds one after it
//!    has put its request here just waits; who finds none asks for the lead.
//! 2. A dispatcher that panics says that there is none, and then takes all requests and refuses them.
//!
//! So nobody waits for a thread that is gone. Of the two, the request and the dispatcher's end, one comes first in the one order of
//! fences. If it is the request, the dispatcher finds and refuses it. If not, its maker finds that there is no dispatcher.

use crate::queue::Queue;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Requests to whoever leads.
pub(super) struct Requests<R> {
    waiting: Queue<R>,
    dispatched: AtomicBool,
}

impl<R> Requests<R> {
    pub(super) fn new() -> Self {
        Self { waiting: Queue::new(), dispatched: AtomicBool::new(false) }
    }

    /// Puts requests where leaders look.
    pub(super) fn put(&self, requests: impl Iterator<Item = R>) {
        requests.for_each(|request| self.waiting.push(request));
        // Between this and the look whether there is a dispatcher.
        fence(Ordering::SeqCst);
    }

    pub(super) fn take(&self) -> Option<R> {
        self.waiting.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is a dispatcher, and waiting is enough.
    pub(super) fn is_dispatched(&self) -> bool {
        self.dispatched.load(Ordering::Acquire)
    }

    /// There is a dispatcher from now on.
    pub(super) fn begin_dispatch(&self) {
        self.dispatched.store(true, Ordering::Release);
    }

    /// There is none any more. What is asked of it has to be taken and refused.
    pub(super) fn end_dispatch(&self) {
        self.dispatched.store(false, Ordering::Release);
        // Between this and the look for requests.
        fence(Ordering::SeqCst);
    }
}

/// Built and run by `lab/models`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// So many threads ask while the dispatcher dies. Each that waits is answered, and what the others asked is still there, for
    /// one of them will lead.
    fn each_is_refused_or_asks_for_the_lead(makers: usize) {
        let requests = Arc::new(Requests::new());
        requests.begin_dispatch();
        let refused = Arc::new(AtomicUsize::new(0));
        let makers: Vec<_> = (0..makers)
            .map(|maker| {
                let requests = requests.clone();
                thread::spawn(move || {
                    requests.put(std::iter::once(1 << maker));
                    if requests.is_dispatched() { 1 << maker } else { 0 }
                })
            })
            .collect();
        requests.end_dispatch();
        while let Some(request) = requests.take() {
            refused.fetch_add(request, Ordering::Relaxed);
        }
        let waiting: usize = makers.into_iter().map(|maker| maker.join().unwrap()).sum();
        let refused = refused.load(Ordering::Relaxed);
        assert_eq!(waiting & !refused, 0, "somebody waits for a dispatcher that is gone");
    }

    #[test]
    fn nobody_waits_for_a_dispatcher_that_died() {
        loom::model(|| each_is_refused_or_asks_for_the_lead(1));
    }

    #[test]
    fn nor_do_two() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| each_is_refused_or_asks_for_the_lead(2));
    }
}
