//! The permits of a method: how many of its handlers may be begun, and the calls that wait to begin.
//!
//! A permit that becomes free is given to the call that goes first of those that wait, which keeps it until it ends, so
//! that nobody who comes later takes it away and none that wait lose their turn. Calls that expire while they wait are
//! handed back to be answered.

use crate::config::ServerConfig;
use greenwave_policy::{BeginLimit, Order, ReadyQueue, Span, Time, Urgency};
use greenwave_proto::Gate;
use std::time::Duration;

/// Whether a call has a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// It has not asked.
    None,
    /// It waits for one.
    Awaited,
    /// It has one, and gives it back when it ends.
    Held,
}

/// The permits of one method on one thread.
pub(super) struct Limiter {
    limit: BeginLimit,
    /// Whether the limit holds. Where nothing is refused nothing is held back either; and sharing the processor means
    /// that all who are there have begun.
    limited: bool,
    /// Whether calls expire at all.
    enforced: bool,
    held: usize,
    queue: ReadyQueue<usize>,
    /// Nobody in the queue expires before this.
    earliest: Time,
    searched: Time,
}

/// How often the queue is searched for calls that have expired, at most: it is a search.
const SEARCH_EVERY: Duration = Duration::from_millis(1);

impl Limiter {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let enforced = !config.report_only;
        let limited = config.refuses() && config.order != Order::ProcessorSharing;
        let (limit, queue) = (BeginLimit::new(config.coroutines), super::ready_queue(config));
        Self { limit, limited, enforced, held: 0, queue, earliest: Time::MAX, searched: Time::ZERO }
    }

    /// Takes a permit if there is one, and nobody waits for it.
    pub(super) fn take(&mut self, now: Time) -> bool {
        self.queue.is_empty() && self.take_next(now)
    }

    fn take_next(&mut self, now: Time) -> bool {
        let may = !self.limited || self.limit.may_begin(now, self.held);
        self.held += usize::from(may);
        may
    }

    /// Lets a call wait for a permit.
    pub(super) fn wait(&mut self, now: Time, urgency: Urgency, call: usize) {
        self.earliest = self.earliest.min(Gate::new(urgency.deadline, self.enforced).closes());
        self.queue.push(now, urgency, call);
    }

    /// Gives a permit back, and says what a call that held it and had begun was like: its work, its queues behind.
    pub(super) fn leave(&mut self, now: Time, seen: Option<(Span, Span)>) {
        if let Some((work, queued)) = seen {
            self.limit.observe(now, work, queued, self.held);
        }
        self.held -= 1;
    }

    /// Gives a permit to the call that goes first, if there are both.
    pub(super) fn give(&mut self, now: Time) -> Option<(Urgency, usize)> {
        if self.queue.is_empty() || !self.take_next(now) {
            return None;
        }
        self.queue.pop(now)
    }

    /// Takes a call out of the queue, if it is there.
    pub(super) fn withdraw(&mut self, call: usize) -> bool {
        let before = self.queue.len();
        self.queue.retain(|_, waiting| *waiting != call);
        self.queue.len() < before
    }

    /// Takes those out of the queue that have expired.
    pub(super) fn expire(&mut self, now: Time, expired: &mut Vec<(Urgency, usize)>) {
        if now < self.search_at() {
            return;
        }
        let (mut earliest, enforced) = (Time::MAX, self.enforced);
        self.queue.retain(|urgency, call| {
            let expires = Gate::new(urgency.deadline, enforced).closes();
            let stays = now < expires;
            if stays {
                earliest = earliest.min(expires);
            } else {
                expired.push((*urgency, *call));
            }
            stays
        });
        (self.earliest, self.searched) = (earliest, now);
    }

    /// When to look after those that wait, though nothing else happens: somebody expires, or nothing has finished for
    /// so long that one more may begin; unless no thread's permit is left.
    pub(super) fn due(&self, any_left: bool) -> Option<Time> {
        let relief = if any_left { self.limit.relief() } else { Time::MAX };
        (!self.queue.is_empty()).then(|| self.search_at().min(relief))
    }

    /// Whether nobody has a permit.
    pub(super) fn is_unused(&self) -> bool {
        self.held == 0
    }

    /// Whether nobody has a permit or waits for one.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.held == 0 && self.queue.is_empty()
    }

    fn search_at(&self) -> Time {
        self.earliest.max(self.searched + SEARCH_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_policy::{Budget, Deadline};

    const MS: Duration = Duration::from_millis(1);

    fn limiter(coroutines: usize) -> Limiter {
        Limiter::new(&ServerConfig::default().coroutines(coroutines).order(Order::Fcfs))
    }

    fn within(now: Time, left: Duration) -> Urgency {
        Urgency { deadline: Deadline::at(now, Budget::expected(left)), ..Urgency::default() }
    }

    #[test]
    fn permits_are_given_in_the_order_of_the_queue() {
        let (mut limiter, now) = (limiter(2), Time::from_nanos(1));
        assert!(limiter.take(now) && limiter.take(now) && !limiter.take(now));
        for call in [7, 8, 9] {
            limiter.wait(now, Urgency::default(), call);
        }
        assert_eq!(limiter.give(now), None);
        limiter.leave(now, None);
        assert_eq!(limiter.give(now).map(|(_, call)| call), Some(7));
        assert_eq!(limiter.give(now), None, "7 has the permit");
        assert!(limiter.withdraw(8) && !limiter.withdraw(8));
        limiter.leave(now, None);
        assert_eq!(limiter.give(now).map(|(_, call)| call), Some(9));
    }

    #[test]
    fn a_method_that_waits_for_itself_goes_on() {
        let (mut limiter, now) = (limiter(1024), Time::from_nanos(1_000_000_000));
        for _ in 0..BeginLimit::REVIEW / 2 {
            assert!(limiter.take(now) && limiter.take(now));
            (0..2).for_each(|_| limiter.leave(now, Some((Span::ZERO, Span::from(50 * MS)))));
        }
        assert!(limiter.take(now) && !limiter.take(now), "all of their time was queue");
        limiter.wait(now, Urgency::default(), 5);
        assert_eq!(limiter.give(now), None);
        let due = limiter.due(true).expect("somebody waits");
        assert_eq!(limiter.give(due).map(|(_, call)| call), Some(5));
        assert_eq!(limiter.due(true), None);
    }

    #[test]
    fn who_expires_in_the_line_is_handed_back_in_time() {
        let (mut limiter, now) = (limiter(1), Time::from_nanos(1));
        assert!(limiter.take(now));
        limiter.wait(now, within(now, 5 * MS), 1);
        limiter.wait(now, Urgency::default(), 2);
        limiter.wait(now, within(now, 3 * MS), 3);
        let mut expired = Vec::new();
        limiter.expire(now + 2 * MS, &mut expired);
        assert!(expired.is_empty());
        assert_eq!(limiter.due(false), Some(now + 3 * MS));
        limiter.expire(now + 3 * MS, &mut expired);
        limiter.expire(now + 5 * MS, &mut expired);
        assert_eq!(expired.iter().map(|(_, call)| *call).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(limiter.queue.len(), 1);
    }
}
