//! The order in which a server's work runs.
//!
//! Work that is ready waits here: calls that were admitted, calls that were preempted or yielded, and calls whose nested call
//! was answered. [`Order`] names the policies. Deadlines alone don't make an order: with one expected deadline for all,
//! or none, earliest deadline and least laxity are first come, first served. So the default, [`Order::Guarded`],
//! goes by the work that is left, and by deadlines where somebody is at risk of missing one.
//!
//! Sources: D2P algorithms 1 and 2 (earliest deadline, laxity), TQ (processor sharing), TailClipper (SoCC'24: oldest
//! first), GrandSLAm (EuroSys'19: slack per stage), and for the default those named in its module.

mod backlog;
mod by_key;
mod crowd;
mod drain;
mod feasibility;
mod guarded;
mod order;
mod urgency;

use crate::time::Time;
use by_key::ByKey;
use guarded::Guarded;
pub use order::{Order, UnknownOrder};
use std::time::Duration;
pub use urgency::Urgency;

/// Work that waits for a core, the most urgent first and equals in the order in which they came.
///
/// ```
/// use greenwave_policy::{Budget, Deadline, Order, ReadyQueue, Time, Urgency};
/// use std::time::Duration;
///
/// let (ms, now) = (Duration::from_millis, Time::from_nanos(1_000_000_000));
/// let urgency = |here, left| {
///     let deadline = Deadline::at(now, Budget::expected(left));
///     Urgency { arrived: now, birth: now, deadline, here, ..Urgency::default() }
/// };
/// let mut queue = ReadyQueue::new(Order::Guarded);
/// queue.push(now, urgency(ms(20), ms(500)), "long");
/// queue.push(now, urgency(ms(1), ms(500)), "short");
/// assert_eq!(queue.pop(now).map(|(_, work)| work), Some("short"));
/// ```
///
/// Work that comes in the order in which it will go, as it does under FCFS and processor sharing and wherever all have
/// about the same work or deadline, is pushed and popped in constant time, other work in logarithmic time.
#[derive(Clone, Debug)]
pub struct ReadyQueue<T> {
    order: Order,
    queue: Queue<T>,
    /// What was preempted last, if it was the next all the same. It goes on unless what comes meanwhile goes before it.
    kept: Option<(Urgency, T)>,
    /// Whether anything has come since.
    has_come: bool,
}

#[derive(Clone, Debug)]
enum Queue<T> {
    ByKey(ByKey<T>),
    Guarded(Guarded<T>),
}

impl<T> ReadyQueue<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new(order: Order) -> Self {
        let queue = match order {
            Order::Guarded => Queue::Guarded(Guarded::new()),
            _ => Queue::ByKey(ByKey::new(order)),
        };
        Self { order, queue, kept: None, has_come: false }
    }

    /// Who comes is refused if so many wait: long before, the default order has long work wait for all that is short.
    #[must_use]
    pub fn with_most(mut self, most: usize) -> Self {
        if let Queue::Guarded(queue) = &mut self.queue {
            queue.set_most(most);
        }
        self
    }

    /// Who goes first.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }

    /// Adds work, behind its equals.
    #[inline]
    pub fn push(&mut self, now: Time, urgency: Urgency, work: T) {
        if let Queue::Guarded(queue) = &mut self.queue {
            queue.comes(now, &urgency);
        }
        self.has_come = true;
        match &mut self.queue {
            Queue::ByKey(queue) => queue.push(now, urgency, work),
            Queue::Guarded(queue) => queue.push(urgency, work),
        }
    }

    /// Adds work that has begun, before its equals.
    pub fn push_first(&mut self, now: Time, urgency: Urgency, work: T) {
        self.has_come = true;
        match &mut self.queue {
            Queue::ByKey(queue) => queue.push_first(now, urgency, work),
            Queue::Guarded(queue) => queue.push_first(urgency, work),
        }
    }

    /// Puts back work that was preempted or yielded: under FCFS before its equals, as it came before them, and under all
    /// other orders behind them. Before them, it would be served to its end however often it is preempted.
    #[inline]
    pub fn put_back(&mut self, now: Time, urgency: Urgency, work: T) {
        self.has_come = true;
        match &mut self.queue {
            Queue::ByKey(queue) if self.order == Order::Fcfs => queue.push_first(now, urgency, work),
            Queue::ByKey(queue) => queue.push(now, urgency, work),
            Queue::Guarded(queue) => queue.put_back(urgency, work),
        }
    }

    /// Whether work that was running until `now` would be the next to run, were it [put back](Self::put_back). There is no
    /// point in switching then.
    #[inline]
    #[must_use]
    pub fn goes_on(&mut self, now: Time, urgency: &Urgency) -> bool {
        match &mut self.queue {
            Queue::ByKey(queue) => queue.goes_on(now, urgency),
            Queue::Guarded(queue) => queue.goes_on(now, urgency),
        }
    }

    /// For how long work that [goes on](Self::goes_on) at `now` would go on if it were asked again, and nothing came, at least.
    /// Until then there is no point in asking. `sure`: for how long what it has left is known to shrink as it runs.
    #[must_use]
    pub fn goes_on_for(&mut self, now: Time, urgency: &Urgency, sure: Duration) -> Duration {
        match &mut self.queue {
            Queue::ByKey(queue) => queue.goes_on_for(),
            Queue::Guarded(queue) => queue.goes_on_for(now, urgency, sure),
        }
    }

    /// Takes back work whose quantum ended. If it [goes on](Self::goes_on) it keeps its place before its equals, those that
    /// come later included; otherwise it is [put back](Self::put_back).
    #[inline]
    pub fn preempted(&mut self, now: Time, urgency: Urgency, work: T) {
        if self.kept.is_none() && self.goes_on(now, &urgency) {
            (self.kept, self.has_come) = (Some((urgency, work)), false);
        } else {
            if let Queue::Guarded(queue) = &mut self.queue {
                queue.preempted(now, &urgency);
            }
            self.put_back(now, urgency, work);
        }
    }

    /// What was kept, if nothing has come since; otherwise it takes its place in the queue.
    #[inline]
    fn take_kept(&mut self, now: Time) -> Option<(Urgency, T)> {
        let (urgency, work) = self.kept.take()?;
        if !self.has_come {
            return Some((urgency, work));
        }
        if let Queue::Guarded(queue) = &mut self.queue {
            queue.preempted(now, &urgency);
        }
        self.push_first(now, urgency, work);
        None
    }

    /// Takes out what goes first at `now`.
    #[inline(always)]
    pub fn pop(&mut self, now: Time) -> Option<(Urgency, T)> {
        if let Some(kept) = self.take_kept(now) {
            return Some(kept);
        }
        match &mut self.queue {
            Queue::ByKey(queue) => queue.pop(),
            Queue::Guarded(queue) => queue.pop(now),
        }
    }

    /// [`pop`](Self::pop) for preemptive schedulers, by an order that doesn't let what is late make all others late.
    ///
    /// With time to spare as the only rule, work that can't be in time any more has the least of it, so it goes before all
    /// that still could, and under a burst everybody is late in turn (the domino effect of earliest deadlines). So under
    /// [`Order::LeastLaxity`] the late wait in a queue of their own, and where both queues have work they take turns. Among
    /// the late, little remaining work goes first, by which they are fewest at any time (Schrage, "A proof of the optimality
    /// of the shortest remaining processing time discipline", 1968); but a unit of work counts for a hundred of lateness
    /// and no more, so nobody is passed over for ever. Under the other orders it is [`pop`](Self::pop).
    #[inline]
    pub fn pop_due(&mut self, now: Time) -> Option<(Urgency, T)> {
        if let Some(kept) = self.take_kept(now) {
            return Some(kept);
        }
        match &mut self.queue {
            Queue::ByKey(queue) => queue.pop_due(now),
            Queue::Guarded(queue) => queue.pop(now),
        }
    }

    /// Makes room where what waits is too much: takes out up to `most` of those with the most work left, of those that `may`
    /// go and have more than `above` left.
    ///
    /// Who comes to a full queue could be turned away instead. But where more is asked for than can be served, and that is
    /// mostly the work of a few, turning away a few of these is enough, and all others are served. Only the default order
    /// goes by the work that is left; under the others nothing is taken out. Linear in what waits, unless nothing is
    /// [that long](Self::longest).
    pub fn shed(&mut self, most: usize, above: Duration, may: impl Fn(&T) -> bool) -> Vec<(Urgency, T)> {
        if self.longest() <= above {
            return Vec::new();
        }
        match &mut self.queue {
            Queue::ByKey(_) => Vec::new(),
            Queue::Guarded(queue) => {
                queue.shed_by(most, |urgency, work| (urgency.here > above && may(work)).then_some(urgency.here))
            }
        }
    }

    /// What no work that waits takes longer than, and up to twice as much as the longest takes: known without a search, under the
    /// default order alone. Under the others, and where the longest takes half an hour or more, it is [`Duration::MAX`].
    #[must_use]
    #[inline]
    pub fn longest(&self) -> Duration {
        let kept = self.kept.as_ref().map_or(Duration::ZERO, |(urgency, _)| urgency.here);
        match &self.queue {
            Queue::ByKey(_) => Duration::MAX,
            Queue::Guarded(queue) => queue.longest().max(kept),
        }
    }

    /// Takes out up to `most` of what waits: what `key` is greatest for, of what it is `Some` for. As [`shed`](Self::shed), by
    /// what its caller goes by, and in every order. Linear in what waits.
    pub fn shed_by<K: Ord>(&mut self, most: usize, key: impl Fn(&Urgency, &T) -> Option<K>) -> Vec<(Urgency, T)> {
        match &mut self.queue {
            Queue::ByKey(queue) => queue.shed_by(most, key),
            Queue::Guarded(queue) => queue.shed_by(most, key),
        }
    }

    /// A guess, without a search, at what goes so many after the first if nothing comes meanwhile: of the same kind it is the next.
    /// For who wants to have its memory near in time.
    #[inline]
    #[must_use]
    pub fn behind_first(&self, by: usize) -> Option<&T> {
        match &self.queue {
            Queue::ByKey(queue) => queue.behind_first(by),
            Queue::Guarded(queue) => queue.behind_first(by),
        }
    }

    /// At which address the queue has what it knows of that one, and in how many bytes: to ask for [it](Self::behind_first) is to
    /// wait for these, where many wait and they have left the cache. Nothing is read of them.
    #[inline]
    #[must_use]
    pub fn behind_first_at(&self, by: usize) -> Option<(usize, usize)> {
        match &self.queue {
            Queue::ByKey(queue) => queue.behind_first_at(by),
            Queue::Guarded(queue) => queue.behind_first_at(by),
        }
    }

    /// Whether so much waits, apart from what is much longer than the rest, that who asks for work should be kept from sending more,
    /// where that can be, as that is served within 20 ms: known under the default order alone, and under the others `false`.
    #[must_use]
    #[inline]
    pub fn is_crowded(&self) -> bool {
        match &self.queue {
            Queue::ByKey(_) => false,
            Queue::Guarded(queue) => queue.is_crowded(),
        }
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        let others = match &self.queue {
            Queue::ByKey(queue) => queue.len(),
            Queue::Guarded(queue) => queue.len(),
        };
        others + usize::from(self.kept.is_some())
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the work that `keep` is false for, a cancelled call for instance. Linear; the others keep their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Urgency, &T) -> bool) {
        self.kept = self.kept.take().filter(|(urgency, work)| keep(urgency, work));
        match &mut self.queue {
            Queue::ByKey(queue) => queue.retain(keep),
            Queue::Guarded(queue) => queue.retain(keep),
        }
    }

    /// Takes everything out, what goes first at `now` first.
    pub fn drain(&mut self, now: Time) -> impl Iterator<Item = (Urgency, T)> + '_ {
        std::iter::from_fn(move || self.pop(now))
    }
}

/// At which address something lies, and in how many bytes.
#[inline]
fn place_of<P>(it: &P) -> (usize, usize) {
    (std::ptr::from_ref(it).addr(), size_of::<P>())
}

/// Keeps `most` of those with the greatest keys.
fn keep_greatest<K: Ord, V: Ord>(found: &mut Vec<(K, V)>, most: usize) {
    if found.len() > most && most > 0 {
        found.select_nth_unstable_by(most - 1, |one, other| other.cmp(one));
    }
    found.truncate(most);
}
