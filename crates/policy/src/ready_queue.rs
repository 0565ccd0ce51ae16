//! The order in which a server's work runs.
//!
//! Work that is ready waits here: calls that were admitted, and calls that yielded or whose nested call was answered.
//! [`Order`] names the policies. With one expected deadline for all, deadline order is order of birth; it pays
//! where deadlines differ, where requests arrive late from upstream, and where hopeless work is dropped, which is
//! [admission](crate::admission)'s task.
//!
//! Sources: D2P algorithms 1 and 2 (earliest deadline, laxity), TQ (processor sharing), TailClipper (SoCC'24: oldest
//! first), GrandSLAm (EuroSys'19: slack per stage).

use crate::deadline::Deadline;
use crate::sorted::Sorted;
use crate::time::{Time, nanos};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// First come, first served. Work that yielded goes on before anything else starts.
    Fcfs,
    /// Everyone in turn: work that yielded goes to the tail.
    ProcessorSharing,
    /// The earliest deadline.
    EarliestDeadline,
    /// The least time to spare: deadline less all the work that remains, at this stage and ahead. What has less than none
    /// is [late](ReadyQueue::pop_due).
    LeastLaxity,
    /// The request that was born first, wherever that was.
    OldestFirst,
    /// The least time to spare at this stage, of its [share](crate::Budget::for_stage) of what is left on arrival.
    StageLaxity,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 6] = [
        Self::Fcfs,
        Self::ProcessorSharing,
        Self::EarliestDeadline,
        Self::LeastLaxity,
        Self::OldestFirst,
        Self::StageLaxity,
    ];

    /// The name in configurations and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::ProcessorSharing => "ps",
            Self::EarliestDeadline => "edf",
            Self::LeastLaxity => "least-laxity",
            Self::OldestFirst => "oldest-first",
            Self::StageLaxity => "stage-laxity",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(name: &str) -> Result<Self, UnknownOrder> {
        Self::ALL.into_iter().find(|order| order.name() == name).ok_or_else(|| UnknownOrder(name.to_owned()))
    }
}

/// A name that is no [`Order`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOrder(pub String);

impl fmt::Display for UnknownOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order is called {:?}; use one of", self.0)?;
        Order::ALL.iter().try_for_each(|order| write!(f, " {order}"))
    }
}

impl std::error::Error for UnknownOrder {}

/// What the orders go by. What isn't known may be left at its default: no deadline, no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Urgency {
    /// When the request arrived at this server.
    pub arrived: Time,
    /// When the request was made by the client, on this server's clock: now less elapsed.
    pub birth: Time,
    /// When it expires.
    pub deadline: Deadline,
    /// The estimated work left at this stage.
    pub here: Duration,
    /// The learned time of the stages still ahead.
    pub ahead: Duration,
}

impl Urgency {
    /// What is left when it has run for so long here. Work that took longer than was estimated is expected to take as long
    /// again: of times that vary widely, that is how they go on.
    #[must_use]
    pub fn after(self, had: Duration) -> Self {
        Self { here: self.here.checked_sub(had).unwrap_or(had), ..self }
    }

    /// What the queue sorts by, in nanoseconds of the clock; the smallest goes first, [`i64::MAX`] is never.
    #[inline]
    fn key(&self, order: Order, now: Time) -> i64 {
        match order {
            Order::Fcfs | Order::ProcessorSharing => 0,
            Order::OldestFirst => signed(self.birth),
            Order::EarliestDeadline => self.deadline.expires().map_or(i64::MAX, signed),
            Order::LeastLaxity => self.deadline.expires().map_or(i64::MAX, |expires| {
                signed(expires).saturating_sub_unsigned(nanos(self.here).saturating_add(nanos(self.ahead)))
            }),
            Order::StageLaxity => {
                let share = self.deadline.budget(now).for_stage(self.here, self.ahead);
                if share.is_unlimited() {
                    return i64::MAX;
                }
                let stage_deadline = signed(now).saturating_add(share.as_nanos()).min(i64::MAX - 1);
                stage_deadline.saturating_sub_unsigned(nanos(self.here))
            }
        }
    }
}

/// An instant as a signed number, so that laxities before the clock's origin keep their order. Exact for 292 years.
fn signed(time: Time) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).min(i64::MAX - 1)
}

/// How much later work may be for each unit of it that it has left, before it goes ahead of late work that has none left.
/// By simulation of the mixes of TQ (Luo et al., ASPLOS'24) at 0.85 of capacity: 10 lets long late work delay short work a
/// hundredfold, and without an end to it long work waits for ten times as long.
const AGEING: u64 = 100;

/// Work that waits for a core, the most urgent first and equals in the order in which they came.
///
/// Work that comes in the order in which it will go, as it does under FCFS and processor sharing and wherever all have
/// about the same deadline, is pushed and popped in constant time, other work in logarithmic time.
#[derive(Clone, Debug)]
pub struct ReadyQueue<T> {
    order: Order,
    waiting: Sorted<Waiting<T>>,
    /// What was found late, by the work that it has left.
    late: BinaryHeap<Waiting<T>>,
    /// Whether it is the turn of what is late.
    is_late_next: bool,
    /// How many were pushed; breaks ties.
    pushed: i64,
    /// Less one for each that was put back; breaks ties.
    put_back: i64,
}

impl<T> ReadyQueue<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new(order: Order) -> Self {
        Self { order, waiting: Sorted::new(), late: BinaryHeap::new(), is_late_next: false, pushed: 0, put_back: 0 }
    }

    /// Who goes first.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }

    /// Adds work, behind its equals.
    #[inline]
    pub fn push(&mut self, now: Time, urgency: Urgency, work: T) {
        self.pushed += 1;
        self.waiting.push(Waiting { key: urgency.key(self.order, now), turn: self.pushed, urgency, work });
    }

    /// Puts back work that yielded: to the tail if everyone has a turn, otherwise before its equals.
    pub fn put_back(&mut self, now: Time, urgency: Urgency, work: T) {
        if self.order == Order::ProcessorSharing {
            return self.push(now, urgency, work);
        }
        self.put_back -= 1;
        self.waiting.push(Waiting { key: urgency.key(self.order, now), turn: self.put_back, urgency, work });
    }

    /// Takes out what goes first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Urgency, T)> {
        self.waiting
            .pop()
            .or_else(|| if self.late.is_empty() { None } else { self.late.pop() })
            .map(|waiting| (waiting.urgency, waiting.work))
    }

    /// Takes out what goes first at `now`, by an order that doesn't let what is late make all others late.
    ///
    /// With time to spare as the only rule, work that can't be in time any more has the least of it, so it goes before all
    /// that still could, and under a burst everybody is late in turn (the domino effect of earliest deadlines). So under
    /// [`Order::LeastLaxity`] the late wait in a queue of their own, and where both queues have work they take turns. Among
    /// the late, little remaining work goes first, by which they are fewest at any time (Schrage, "A proof of the optimality
    /// of the shortest remaining processing time discipline", 1968); but a unit of work counts for a hundred of lateness
    /// and no more, so nobody is passed over for ever. Under the other orders it is [`pop`](Self::pop).
    pub fn pop_due(&mut self, now: Time) -> Option<(Urgency, T)> {
        if self.order != Order::LeastLaxity {
            return self.pop();
        }
        let now = signed(now);
        while self.waiting.peek().is_some_and(|first| first.key < now)
            && let Some(first) = self.waiting.pop()
        {
            let weight = nanos(first.urgency.here).saturating_mul(AGEING);
            let expired = first.urgency.deadline.expires().map_or(i64::MAX, signed);
            self.late.push(Waiting { key: expired.saturating_add_unsigned(weight), ..first });
        }
        if self.late.is_empty() || self.waiting.peek().is_none() {
            return self.pop();
        }
        self.is_late_next = !self.is_late_next;
        let next = if self.is_late_next { self.late.pop() } else { self.waiting.pop() };
        next.map(|waiting| (waiting.urgency, waiting.work))
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.late.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What goes first.
    #[must_use]
    pub fn most_urgent(&self) -> Option<&Urgency> {
        self.waiting.peek().or_else(|| self.late.peek()).map(|waiting| &waiting.urgency)
    }

    /// What goes last as things stand. Constant time where all came in the order in which they go, otherwise linear.
    #[must_use]
    pub fn least_urgent(&self) -> Option<&Urgency> {
        self.late.iter().min().or_else(|| self.waiting.last()).map(|waiting| &waiting.urgency)
    }

    /// Drops the work that `keep` is false for, a cancelled call for instance. Linear; the others keep their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Urgency, &T) -> bool) {
        self.waiting.retain(|waiting| keep(&waiting.urgency, &waiting.work));
        self.late.retain(|waiting| keep(&waiting.urgency, &waiting.work));
    }

    /// Takes everything out, the most urgent first.
    pub fn drain(&mut self) -> impl Iterator<Item = (Urgency, T)> + '_ {
        std::iter::from_fn(|| self.pop())
    }

    /// Everything that waits, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Urgency, &T)> {
        let all = self.waiting.iter().chain(&self.late);
        all.map(|waiting| (&waiting.urgency, &waiting.work))
    }
}

/// Work that waits. The greatest comes out first: the smallest key, then the smallest turn.
#[derive(Clone, Debug)]
struct Waiting<T> {
    key: i64,
    turn: i64,
    urgency: Urgency,
    work: T,
}

impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.key, other.turn).cmp(&(self.key, self.turn))
    }
}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Waiting<T> {}
