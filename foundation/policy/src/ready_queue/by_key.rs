//! A queue in the order of one number, which is known when work is pushed.

use super::urgency::signed;
use super::{Order, Urgency};
use crate::sorted::Sorted;
use crate::time::{Time, nanos};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// How much later work may be for each unit of it that it has left, before it goes ahead of late work that has none left.
/// By simulation of the mixes of TQ (Luo et al., ASPLOS'24) at 0.85 of capacity: 10 lets long late work delay short work a
/// hundredfold, and without an end to it long work waits for ten times as long.
const AGEING: u64 = 100;

/// How many of those that were preempted take turns at a time under processor sharing, and the others when one of them is done.
///
/// Below saturation there are seldom more, so it is as if all did. With hundreds, what each needs has left the cache by
/// its next turn: scans of a store in quanta of 1 us, 225 at once, would take a third longer. And whatever comes waits for a
/// quantum of each.
const TURNING: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct ByKey<T> {
    order: Order,
    waiting: Sorted<Waiting<T>>,
    /// What was found late, by the work that it has left.
    late: BinaryHeap<Waiting<T>>,
    /// How many of those in `waiting` were preempted; under processor sharing alone.
    turning: usize,
    /// Those that were preempted and wait until one of these is done, in the order in which they came.
    aside: VecDeque<Waiting<T>>,
    /// Whether it is the turn of what is late.
    is_late_next: bool,
    /// How many were pushed; breaks ties.
    pushed: i64,
    /// Less one for each that was pushed first; breaks ties.
    pushed_first: i64,
}

impl<T> ByKey<T> {
    pub(super) const fn new(order: Order) -> Self {
        Self {
            order,
            waiting: Sorted::new(),
            late: BinaryHeap::new(),
            turning: 0,
            aside: VecDeque::new(),
            is_late_next: false,
            pushed: 0,
            pushed_first: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, now: Time, urgency: Urgency, work: T) {
        self.pushed += 1;
        self.insert(now, self.pushed, urgency, work, false);
    }

    pub(super) fn push_first(&mut self, now: Time, urgency: Urgency, work: T) {
        self.pushed_first -= 1;
        self.insert(now, self.pushed_first, urgency, work, false);
    }

    /// Adds work whose quantum has ended, under processor sharing.
    #[inline]
    pub(super) fn preempted(&mut self, now: Time, urgency: Urgency, work: T) {
        self.pushed += 1;
        if self.turning < TURNING {
            self.turning += 1;
            self.insert(now, self.pushed, urgency, work, true);
        } else {
            self.aside.push_back(Waiting { key: 0, turn: self.pushed, is_turning: true, urgency, work });
        }
    }

    #[inline(always)]
    fn insert(&mut self, now: Time, turn: i64, urgency: Urgency, work: T, is_turning: bool) {
        self.waiting.push(Waiting { key: urgency.key(self.order, now), turn, is_turning, urgency, work });
    }

    /// Has those take turns again for whom there is room. Asked when another one goes first, so whoever was preempted is back.
    #[inline(never)]
    fn take_in(&mut self) {
        while self.turning < TURNING
            && let Some(first) = self.aside.pop_front()
        {
            self.pushed += 1;
            self.turning += 1;
            self.waiting.push(Waiting { turn: self.pushed, ..first });
        }
    }

    #[inline]
    pub(super) fn goes_on(&self, now: Time, urgency: &Urgency) -> bool {
        let is_first = self.waiting.peek().is_none_or(|first| urgency.key(self.order, now) < first.key);
        self.order == Order::Fcfs || (is_first && self.late.is_empty() && self.aside.is_empty())
    }

    /// As the queue's method of that name says. What others go by than time to spare stays as it is.
    pub(super) fn goes_on_for(&self) -> Duration {
        let changes = matches!(self.order, Order::LeastLaxity | Order::StageLaxity);
        if changes && self.len() > 0 { Duration::ZERO } else { Duration::MAX }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Urgency, T)> {
        if !self.aside.is_empty() {
            self.take_in();
        }
        let next = self.waiting.pop().or_else(|| if self.late.is_empty() { None } else { self.late.pop() })?;
        self.turning -= usize::from(next.is_turning);
        Some((next.urgency, next.work))
    }

    /// As the queue's method of that name says.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(Urgency, T)> {
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

    #[inline]
    pub(super) fn behind_first(&self, by: usize) -> Option<&T> {
        self.waiting.behind_first(by).map(|waiting| &waiting.work)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.late.len() + self.aside.len()
    }

    /// Takes out up to `most` of those that `key` is greatest for. Linear.
    pub(super) fn shed_by<K: Ord>(
        &mut self,
        most: usize,
        key: impl Fn(&Urgency, &T) -> Option<K>,
    ) -> Vec<(Urgency, T)> {
        let mut found: Vec<(K, i64)> = Vec::new();
        let look = |waiting: &Waiting<T>| {
            if let Some(key) = key(&waiting.urgency, &waiting.work) {
                found.push((key, waiting.turn));
            }
        };
        self.waiting.iter().chain(&self.late).chain(&self.aside).for_each(look);
        super::keep_greatest(&mut found, most);
        if found.is_empty() {
            return Vec::new();
        }
        // A turn is one's own.
        let mut turns: Vec<i64> = found.into_iter().map(|(_, turn)| turn).collect();
        turns.sort_unstable();
        let mut shed = Vec::with_capacity(turns.len());
        let is_shed = |waiting: &Waiting<T>| turns.binary_search(&waiting.turn).is_ok();
        let mut out = |waiting: Waiting<T>| shed.push((waiting.urgency, waiting.work));
        self.waiting.extract(is_shed, &mut out);
        let late = std::mem::take(&mut self.late).into_vec();
        let (gone, stay) = late.into_iter().partition(is_shed);
        self.late = Vec::into(stay);
        Vec::into_iter(gone).for_each(&mut out);
        let (gone, stay): (VecDeque<_>, _) = std::mem::take(&mut self.aside).into_iter().partition(is_shed);
        self.aside = stay;
        gone.into_iter().for_each(out);
        self.count_turning();
        shed
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Urgency, &T) -> bool) {
        self.waiting.retain(|waiting| keep(&waiting.urgency, &waiting.work));
        self.late.retain(|waiting| keep(&waiting.urgency, &waiting.work));
        self.aside.retain(|waiting| keep(&waiting.urgency, &waiting.work));
        self.count_turning();
    }

    fn count_turning(&mut self) {
        self.turning = self.waiting.iter().filter(|waiting| waiting.is_turning).count();
    }
}

/// Work that waits. The greatest comes out first: the smallest key, then the smallest turn.
#[derive(Clone, Debug)]
struct Waiting<T> {
    key: i64,
    turn: i64,
    /// Whether it was preempted, under processor sharing.
    is_turning: bool,
    urgency: Urgency,
    work: T,
}

impl<T> Ord for Waiting<T> {
    #[inline]
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
