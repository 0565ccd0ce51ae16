//! A queue that serves the newest first while it stands, and gives those up that it holds for too long.
//!
//! First come, first served is fair, and useless once there is more to do than can be done: everyone waits for as long as the
//! queue is, and whoever comes up has been given up by its client. Two rules against that go together:
//! - *Controlled delay*. A queue that was empty a short while ago is one that does its work: it evens out bursts, and who is
//!   in it may wait for the *interval*. A queue that has stood for longer than that is one too many: who comes may wait for the
//!   *target* alone, which is far less. So an overload keeps a short queue, however long it lasts.
//! - *Adaptive LIFO*. While few wait, the oldest goes first. Once a queue forms, the newest does: it is the one whose client
//!   still waits, and the others are soon given up.
//!
//! Neither knows deadlines: it is what a service can do of which nothing is known but when its requests have come. For
//! services whose clients say how long they wait there are [`admission`](crate::admission) and
//! [`ready_queue`](crate::ready_queue).
//!
//! Sources: Maurer, Fail at Scale (ACM Queue 13(8), 2015), which has both, with an interval of 100 ms and a target of 5 ms;
//! Nichols and Jacobson, Controlling Queue Delay (ACM Queue 10(5), 2012). The first leaves open at how many a queue is
//! forming: that is [`CodelLifoRule::forms_at`] here.

use crate::standing_queue::StandingQueue;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// For how long a [`CodelLifo`] holds what waits, and from when on the newest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelLifoRule {
    /// A queue that has not been empty for longer than this stands. Who comes before that may wait for so long.
    pub interval: Duration,
    /// How long those may wait who come while the queue stands.
    pub target: Duration,
    /// The newest goes first while more than so many wait.
    pub forms_at: usize,
}

impl Default for CodelLifoRule {
    /// As published: 100 ms and 5 ms. A queue forms at the first that waits behind another.
    fn default() -> Self {
        Self { interval: Duration::from_millis(100), target: Duration::from_millis(5), forms_at: 1 }
    }
}

/// What waits in a [`CodelLifo`], by the number that it has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

/// Work that waits, with a time after which it isn't worth doing any more.
///
/// ```
/// use greenwave_policy::{CodelLifo, CodelLifoRule, Time};
/// use std::time::Duration;
///
/// let (ms, now) = (Duration::from_millis, Time::from_nanos(1_000_000_000));
/// let mut queue = CodelLifo::new(CodelLifoRule::default());
/// for (work, at) in [("first", 0), ("second", 1), ("third", 2)] {
///     queue.push(now + ms(at), work);
/// }
/// // A queue has formed, so the newest goes first. The others came to a queue that had just been empty.
/// assert_eq!(queue.pop(now + ms(60)), Some("third"));
/// assert_eq!(queue.take_late(now + ms(99)), None);
/// assert_eq!(queue.take_late(now + ms(100)), Some("first"));
/// ```
#[derive(Clone, Debug)]
pub struct CodelLifo<T> {
    rule: CodelLifoRule,
    /// Those that may wait for the interval, and for the target. In each, who came first is the first to be late.
    patient: VecDeque<Waiting<T>>,
    hurried: VecDeque<Waiting<T>>,
    /// When it was last empty, if it isn't now.
    queue: StandingQueue,
    next: Place,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    place: Place,
    late: Time,
    work: T,
}

impl<T> CodelLifo<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new(rule: CodelLifoRule) -> Self {
        Self {
            rule,
            patient: VecDeque::new(),
            hurried: VecDeque::new(),
            queue: StandingQueue::new(rule.interval),
            next: Place(0),
        }
    }

    /// How many wait, those included that are late.
    #[must_use]
    pub fn len(&self) -> usize {
        self.patient.len() + self.hurried.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it hasn't been empty for longer than the interval.
    #[must_use]
    pub fn stands(&self, now: Time) -> bool {
        !self.is_empty() && self.queue.stands(now)
    }

    /// Adds work that has come now. Returns its place, by which it can be [taken out](Self::remove).
    pub fn push(&mut self, now: Time, work: T) -> Place {
        if self.is_empty() {
            self.queue.emptied(now);
        }
        let stands = self.stands(now);
        let place = self.next;
        self.next = Place(place.0.wrapping_add(1));
        let (queue, patience) = match stands {
            true => (&mut self.hurried, self.rule.target),
            false => (&mut self.patient, self.rule.interval),
        };
        queue.push_back(Waiting { place, late: now + patience, work });
        place
    }

    /// Takes the next that is to be done, late or not: the newest once a queue has formed, else the oldest. Those that are
    /// late should be [taken](Self::take_late) before.
    pub fn pop(&mut self, now: Time) -> Option<T> {
        let newest = self.len() > self.rule.forms_at;
        let end = |queue: &VecDeque<Waiting<T>>| {
            let end = if newest { queue.back() } else { queue.front() };
            end.map(|waiting| waiting.place)
        };
        let queue = match (end(&self.patient), end(&self.hurried)) {
            (Some(patient), Some(hurried)) if (hurried > patient) == newest => &mut self.hurried,
            (None, Some(_)) => &mut self.hurried,
            _ => &mut self.patient,
        };
        let taken = if newest { queue.pop_back() } else { queue.pop_front() };
        self.taken(now, taken)
    }

    /// Takes one that has waited for as long as it may; to be called until there is none.
    pub fn take_late(&mut self, now: Time) -> Option<T> {
        let is_late = |waiting: &mut Waiting<T>| waiting.late <= now;
        let taken = self.patient.pop_front_if(is_late).or_else(|| self.hurried.pop_front_if(is_late));
        self.taken(now, taken)
    }

    /// When the next one will be late, if nobody is taken until then.
    #[must_use]
    pub fn next_late(&self) -> Option<Time> {
        [&self.patient, &self.hurried].into_iter().filter_map(|queue| Some(queue.front()?.late)).min()
    }

    /// Takes out what nobody waits for any more; `None` if it has been taken already.
    pub fn remove(&mut self, now: Time, place: Place) -> Option<T> {
        let of = |queue: &VecDeque<Waiting<T>>| queue.binary_search_by_key(&place, |waiting| waiting.place).ok();
        let taken = match (of(&self.patient), of(&self.hurried)) {
            (Some(at), _) => self.patient.remove(at),
            (None, Some(at)) => self.hurried.remove(at),
            (None, None) => None,
        };
        self.taken(now, taken)
    }

    fn taken(&mut self, now: Time, taken: Option<Waiting<T>>) -> Option<T> {
        if self.is_empty() {
            self.queue.emptied(now);
        }
        taken.map(|waiting| waiting.work)
    }
}
