//! The places of a method: how many of its handlers may be begun, and the calls that wait to begin.
//!
//! A place that becomes free is given to the call that goes first of those that wait, which keeps it until it ends, so
//! that nobody who comes later takes it away and none that wait lose their turn. Calls that expire while they wait are
//! handed back to be answered.

use crate::config::ServerConfig;
use greenwave_policy::{BeginLimit, Order, ReadyQueue, Span, Time, Urgency};
use std::time::Duration;

/// Whether a call has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has not asked.
    None,
    /// It waits for one.
    Awaited,
    /// It has one, and gives it back when it ends.
    Taken,
}

/// The places of one method on one thread.
pub(super) struct Places {
    limit: BeginLimit,
    /// Whether the limit holds. Where nothing is refused nothing is held back either; and sharing the processor means
    /// that all who are there have begun.
    limited: bool,
    /// Whether calls expire at all.
    enforced: bool,
    taken: usize,
    line: ReadyQueue<usize>,
    /// Nobody in the line expires before this.
    earliest: Time,
    searched: Time,
}

/// How often the line is searched for calls that have expired, at most: it is a search.
const SEARCH_EVERY: Duration = Duration::from_millis(1);

impl Places {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let enforced = !config.report_only;
        let limited = config.refuses() && config.order != Order::ProcessorSharing;
        let (limit, line) = (BeginLimit::new(config.coroutines), super::ready_queue(config));
        Self { limit, limited, enforced, taken: 0, line, earliest: Time::MAX, searched: Time::ZERO }
    }

    /// Takes a place if there is one, and nobody waits for it.
    pub(super) fn take(&mut self, now: Time) -> bool {
        self.line.is_empty() && self.take_next(now)
    }

    fn take_next(&mut self, now: Time) -> bool {
        let may = !self.limited || self.limit.may_begin(now, self.taken);
        self.taken += usize::from(may);
        may
    }

    /// Lets a call wait for a place.
    pub(super) fn wait(&mut self, now: Time, urgency: Urgency, call: usize) {
        self.earliest = self.earliest.min(expiry(urgency, self.enforced));
        self.line.push(now, urgency, call);
    }

    /// Gives a place back, and says what a call that held it and had begun was like: its work, its queues behind.
    pub(super) fn leave(&mut self, now: Time, seen: Option<(Span, Span)>) {
        if let Some((work, queued)) = seen {
            self.limit.observe(now, work, queued, self.taken);
        }
        self.taken -= 1;
    }

    /// Gives a place to the call that goes first, if there are both.
    pub(super) fn give(&mut self, now: Time) -> Option<(Urgency, usize)> {
        if self.line.is_empty() || !self.take_next(now) {
            return None;
        }
        self.line.pop(now)
    }

    /// Takes a call out of the line, if it is there.
    pub(super) fn withdraw(&mut self, call: usize) -> bool {
        let before = self.line.len();
        self.line.retain(|_, waiting| *waiting != call);
        self.line.len() < before
    }

    /// Takes those out of the line that have expired.
    pub(super) fn expire(&mut self, now: Time, expired: &mut Vec<(Urgency, usize)>) {
        if now < self.search_at() {
            return;
        }
        let (mut earliest, enforced) = (Time::MAX, self.enforced);
        self.line.retain(|urgency, call| {
            let expires = expiry(*urgency, enforced);
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
    /// so long that one more may begin; unless no thread's place is left.
    pub(super) fn due(&self, any_left: bool) -> Option<Time> {
        let relief = if any_left { self.limit.relief() } else { Time::MAX };
        (!self.line.is_empty()).then(|| self.search_at().min(relief))
    }

    /// Whether nobody has a place.
    pub(super) fn is_untaken(&self) -> bool {
        self.taken == 0
    }

    /// Whether nobody has a place or waits for one.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.taken == 0 && self.line.is_empty()
    }

    fn search_at(&self) -> Time {
        self.earliest.max(self.searched + SEARCH_EVERY)
    }
}

fn expiry(urgency: Urgency, enforced: bool) -> Time {
    urgency.deadline.expires().filter(|_| enforced).unwrap_or(Time::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_policy::{Budget, Deadline};

    const MS: Duration = Duration::from_millis(1);

    fn places(coroutines: usize) -> Places {
        Places::new(&ServerConfig::default().coroutines(coroutines).order(Order::Fcfs))
    }

    fn within(now: Time, left: Duration) -> Urgency {
        Urgency { deadline: Deadline::at(now, Budget::expected(left)), ..Urgency::default() }
    }

    #[test]
    fn places_are_given_in_the_order_of_the_line() {
        let (mut places, now) = (places(2), Time::from_nanos(1));
        assert!(places.take(now) && places.take(now) && !places.take(now));
        for call in [7, 8, 9] {
            places.wait(now, Urgency::default(), call);
        }
        assert_eq!(places.give(now), None);
        places.leave(now, None);
        assert_eq!(places.give(now).map(|(_, call)| call), Some(7));
        assert_eq!(places.give(now), None, "7 has the place");
        assert!(places.withdraw(8) && !places.withdraw(8));
        places.leave(now, None);
        assert_eq!(places.give(now).map(|(_, call)| call), Some(9));
    }

    #[test]
    fn a_method_that_waits_for_itself_goes_on() {
        let (mut places, now) = (places(1024), Time::from_nanos(1_000_000_000));
        for _ in 0..BeginLimit::REVIEW / 2 {
            assert!(places.take(now) && places.take(now));
            (0..2).for_each(|_| places.leave(now, Some((Span::ZERO, Span::from(50 * MS)))));
        }
        assert!(places.take(now) && !places.take(now), "all of their time was queue");
        places.wait(now, Urgency::default(), 5);
        assert_eq!(places.give(now), None);
        let due = places.due(true).expect("somebody waits");
        assert_eq!(places.give(due).map(|(_, call)| call), Some(5));
        assert_eq!(places.due(true), None);
    }

    #[test]
    fn who_expires_in_the_line_is_handed_back_in_time() {
        let (mut places, now) = (places(1), Time::from_nanos(1));
        assert!(places.take(now));
        places.wait(now, within(now, 5 * MS), 1);
        places.wait(now, Urgency::default(), 2);
        places.wait(now, within(now, 3 * MS), 3);
        let mut expired = Vec::new();
        places.expire(now + 2 * MS, &mut expired);
        assert!(expired.is_empty());
        assert_eq!(places.due(false), Some(now + 3 * MS));
        places.expire(now + 3 * MS, &mut expired);
        places.expire(now + 5 * MS, &mut expired);
        assert_eq!(expired.iter().map(|(_, call)| *call).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(places.line.len(), 1);
    }
}
