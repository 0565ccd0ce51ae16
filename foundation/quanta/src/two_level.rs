//! Scheduling on two levels: a [`Dispatcher`] gives each job to a worker and doesn't see it again; the worker runs it
//! among its own (TQ, ASPLOS'24).
//!
//! Between them lie a ring for each worker, from the one dispatcher to the one worker, and what the worker publishes:
//! how many jobs it has finished and how many quanta it has served to those it has. From these and its own count of what
//! it has sent the dispatcher knows each worker's load, and a [`DispatchRule`] chooses.
//!
//! The dispatcher's end can be driven by any one thread, that of a pool or one that reads a network itself.

use crate::bell::Bell;
use crate::published::Published;
use crate::ring::{Consumer, Producer, ring};
use crate::scheduler::Counts;
use crate::sync::{Arc, AtomicBool, Ordering};
use greenwave_policy::{Dispatch, DispatchRule, Load};
use std::ptr;
use std::time::Duration;

/// What a worker and its dispatcher share besides the ring.
struct Shared {
    published: Published,
    bell: Bell,
    closed: AtomicBool,
}

/// The end that gives jobs to workers. When it is dropped the inboxes are closed.
pub struct Dispatcher<T> {
    rule: Dispatch,
    links: Vec<Link<T>>,
    loads: Vec<Load>,
}

struct Link<T> {
    ring: Producer<T>,
    shared: Arc<Shared>,
    /// Jobs sent; wraps like the count of those finished.
    sent: u32,
}

/// A worker's end.
pub struct Inbox<T> {
    ring: Consumer<T>,
    shared: Arc<Shared>,
    name: &'static str,
}

/// A dispatcher and the inboxes of so many workers, one at least, each with room for `capacity` jobs that it hasn't taken
/// out. The same `seed` makes the same choices, where the rule draws lots.
#[must_use]
pub fn two_level<T>(workers: usize, capacity: usize, rule: DispatchRule, seed: u64) -> (Dispatcher<T>, Vec<Inbox<T>>) {
    let (links, inboxes): (Vec<_>, Vec<_>) = (0..workers.max(1))
        .map(|_| {
            let (producer, consumer) = ring(capacity);
            let (published, bell, closed) = (Published::new(), Bell::new(), AtomicBool::new(false));
            let shared = Arc::new(Shared { published, bell, closed });
            let inbox = Inbox { ring: consumer, shared: Arc::clone(&shared), name: "" };
            (Link { ring: producer, shared, sent: 0 }, inbox)
        })
        .unzip();
    let loads = vec![Load::default(); links.len()];
    (Dispatcher { rule: Dispatch::new(rule, seed), links, loads }, inboxes)
}

impl<T> Dispatcher<T> {
    /// Gives a job to the worker that the rule chooses, and says which.
    ///
    /// # Errors
    /// The job, if that worker's ring is full.
    #[inline]
    pub fn send(&mut self, job: T) -> Result<usize, T> {
        for (load, link) in self.loads.iter_mut().zip(&self.links) {
            *load = link.load();
        }
        let chosen = self.rule.choose(&self.loads);
        let link = &mut self.links[chosen];
        link.ring.push(job)?;
        link.sent = link.sent.wrapping_add(1);
        link.shared.bell.ring();
        Ok(chosen)
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.links.len()
    }

    /// What a worker, counted from 0, has to do and has done.
    #[must_use]
    pub fn load(&self, worker: usize) -> Load {
        self.links[worker].load()
    }

    /// How many jobs were sent and aren't finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.links.iter().map(|link| link.load().unfinished as usize).sum()
    }

    /// A worker's pulse, which changes at the end of every turn, if it has something to do and isn't asleep.
    pub(crate) fn pulse(&self, worker: usize) -> Option<Counts> {
        let link = &self.links[worker];
        let counts = link.shared.published.counts();
        (link.sent != counts.finished && !link.shared.bell.is_asleep()).then_some(counts)
    }

    /// The name of the job that has its turn on a worker.
    pub(crate) fn running(&self, worker: usize) -> &'static str {
        self.links[worker].shared.published.name()
    }
}

impl<T> Link<T> {
    #[inline]
    fn load(&self) -> Load {
        let counts = self.shared.published.counts();
        Load { unfinished: self.sent.wrapping_sub(counts.finished), served: counts.served }
    }
}

impl<T> Drop for Dispatcher<T> {
    fn drop(&mut self) {
        for link in &self.links {
            link.shared.closed.store(true, Ordering::Release);
            link.shared.bell.ring();
        }
    }
}

impl<T> Inbox<T> {
    /// The next job that was sent.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.ring.pop()
    }

    /// Tells the dispatcher what has been done; to be called at the end of every turn.
    #[inline]
    pub fn publish(&self, counts: Counts) {
        self.shared.published.publish(counts);
    }

    /// Tells who watches the name of the job that is about to have its turn.
    #[inline]
    pub fn begin(&mut self, name: &'static str) {
        if !ptr::eq(self.name, name) {
            self.name = name;
            self.shared.published.rename(name);
        }
    }

    /// Sleeps until a job is sent or the dispatcher is gone, at most for so long; may return for no reason.
    pub fn sleep(&mut self, longest: Option<Duration>) {
        let Self { ring, shared, .. } = self;
        shared.bell.sleep(longest, || ring.is_empty() && !shared.closed.load(Ordering::Acquire));
    }

    /// Whether the dispatcher is gone and all that it sent was taken.
    #[must_use]
    pub fn is_closed(&mut self) -> bool {
        self.shared.closed.load(Ordering::Acquire) && self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_go_to_the_shortest_queue_and_ties_to_the_most_served() {
        let (mut dispatcher, mut inboxes) = two_level(2, 8, DispatchRule::JoinShortestQueue, 1);
        assert_eq!((dispatcher.send('a'), dispatcher.send('b'), dispatcher.send('c')), (Ok(0), Ok(1), Ok(0)));
        inboxes[0].publish(Counts { finished: 1, served: 3 });
        inboxes[1].publish(Counts { finished: 0, served: 9 });
        assert_eq!(dispatcher.send('d'), Ok(1), "one is left on each, and the second was served more");
        assert_eq!(dispatcher.load(1), Load { unfinished: 2, served: 9 });
        assert_eq!((inboxes[1].take(), inboxes[1].take(), inboxes[1].take()), (Some('b'), Some('d'), None));
        assert_eq!(dispatcher.unfinished(), 3);
    }

    #[test]
    fn an_inbox_is_closed_once_it_is_empty_and_its_dispatcher_gone() {
        let (mut dispatcher, mut inboxes) = two_level(1, 1, DispatchRule::RoundRobin, 1);
        assert_eq!((dispatcher.send(7), dispatcher.send(8)), (Ok(0), Err(8)));
        drop(dispatcher);
        let inbox = &mut inboxes[0];
        inbox.sleep(None);
        assert!(!inbox.is_closed());
        assert_eq!(inbox.take(), Some(7));
        inbox.sleep(None);
        assert!(inbox.is_closed());
    }

    #[test]
    fn a_sleeper_wakes_for_each_job() {
        let (mut dispatcher, mut inboxes) = two_level(1, 4, DispatchRule::JoinShortestQueue, 1);
        let mut inbox = inboxes.remove(0);
        let worker = std::thread::spawn(move || {
            let mut counts = Counts::default();
            while !inbox.is_closed() {
                inbox.sleep(None);
                while let Some(job) = inbox.take() {
                    assert_eq!(job, counts.finished);
                    counts.finished += 1;
                    inbox.publish(counts);
                }
            }
        });
        for job in 0..10_000 {
            while dispatcher.load(0).unfinished > 2 {
                std::thread::yield_now();
            }
            dispatcher.send(job).unwrap();
        }
        drop(dispatcher);
        worker.join().unwrap();
    }
}
