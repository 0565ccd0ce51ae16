//! Work stealing: the queue of calls that their heads gave away.
//!
//! 1. A head that is loaded ([`StealRule`]) puts a call that it has admitted into the global queue instead of its own, notes
//!    whom it owes the answer, and wakes the least loaded other head.
//! 2. Every head looks at the queue on every round, before its own completion queue, the giver included, and takes a call if
//!    it has little to do itself. One that is always busy takes one every so many rounds, so that none waits for ever.
//! 3. Who took it serves it as a worker does: the answer goes back to the giver, whose connection it is.
//!
//! Calls of one connection may begin in another order then than they came in.

use super::inbox::{Inbox, Job};
use crossbeam_queue::SegQueue;
use greenwave_policy::{Busy, StealRule};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The calls that were given away, and the heads that share them.
pub(super) struct GlobalQueue {
    rule: StealRule,
    calls: SegQueue<Job>,
    /// As many as are in `calls`, or about to be. It is not `calls.len()`, which reads two counters in a loop.
    waiting: Waiting,
    heads: Vec<Arc<Inbox>>,
}

#[repr(align(64))]
#[derive(Default)]
struct Waiting(AtomicUsize);

/// With as many calls of its own a head takes no other's.
const ENOUGH: usize = 2;

/// One that always has as many takes one in so many rounds.
const EVERY: u32 = 16;

impl GlobalQueue {
    pub(super) fn new(rule: StealRule, heads: Vec<Arc<Inbox>>) -> Self {
        Self { rule, calls: SegQueue::new(), waiting: Waiting::default(), heads }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.0.load(Ordering::Relaxed)
    }

    /// Whether a head that has been busy for so many rounds, and has so many calls ready, gives a call of this work away.
    pub(super) fn takes(&self, rounds: u32, ready: usize, work: Option<Duration>) -> bool {
        let others = self.heads.len() - 1;
        self.rule.gives(&Busy { rounds, ready, work, waiting: self.waiting(), others })
    }

    /// Puts a call in, and wakes who is likely to take it.
    pub(super) fn give(&self, giver: &Arc<Inbox>, job: Job) {
        self.waiting.0.fetch_add(1, Ordering::Relaxed);
        self.calls.push(job);
        let others = self.heads.iter().filter(|head| !Arc::ptr_eq(head, giver) && head.is_alive());
        if let Some(idlest) = others.min_by_key(|head| head.busy_rounds()) {
            idlest.wake();
        }
    }

    /// A call for a head that has so many ready, in its `round`th round.
    #[inline]
    pub(super) fn take(&self, ready: usize, round: u32) -> Option<Job> {
        if self.waiting() == 0 || (ready >= ENOUGH && !round.is_multiple_of(EVERY)) {
            return None;
        }
        let job = self.calls.pop()?;
        self.waiting.0.fetch_sub(1, Ordering::Relaxed);
        Some(job)
    }

    /// The heads other than this.
    pub(super) fn others(&self, own: &Arc<Inbox>) -> impl Iterator<Item = &Arc<Inbox>> {
        self.heads.iter().filter(move |head| !Arc::ptr_eq(head, own))
    }
}
