//! A queue in the order of one number, which is known when work is pushed.

use super::urgency::signed;
use super::{Order, Urgency};
use crate::sorted::Sorted;
use crate::time::{Time, nanos};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

/// How much later work may be for each unit of it that it has left, before it goes ahead of late work that has none left.
/// By simulation of the mixes of TQ (Luo et al., ASPLOS'24) at 0.85 of capacity: 10 lets long late work delay short work a
/// hundredfold, and without an end to it long work waits for ten times as long.
const AGEING: u64 = 100;

#[derive(Clone, Debug)]
pub(super) struct ByKey<T> {
    order: Order,
    waiting: Sorted<Waiting<T>>,
    /// What was found late, by the work that it has left.
    late: BinaryHeap<Waiting<T>>,
    /// Whether it is the turn of what is late.
    is_late_next: bool,
    /// How many were pushed; breaks ties.
    pushed: i64,
    /// Less one for each that was pushed first; breaks ties.
    pushed_first: i64,
}

impl<T> ByKey<T> {
    pub(super) const fn new(order: Order) -> Self {
        Self { order, waiting: Sorted::new(), late: BinaryHeap::new(), is_late_next: false, pushed: 0, pushed_first: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, now: Time, urgency: Urgency, work: T) {
        self.pushed += 1;
        self.waiting.push(Waiting { key: urgency.key(self.order, now), turn: self.pushed, urgency, work });
    }

    pub(super) fn push_first(&mut self, now: Time, urgency: Urgency, work: T) {
        self.pushed_first -= 1;
        self.waiting.push(Waiting { key: urgency.key(self.order, now), turn: self.pushed_first, urgency, work });
    }

    #[inline]
    pub(super) fn goes_on(&self, now: Time, urgency: &Urgency) -> bool {
        let is_first = self.waiting.peek().is_none_or(|first| urgency.key(self.order, now) < first.key);
        self.order == Order::Fcfs || (is_first && self.late.is_empty())
    }

    /// As the queue's method of that name says. What others go by than time to spare stays as it is.
    pub(super) fn goes_on_for(&self) -> Duration {
        let changes = matches!(self.order, Order::LeastLaxity | Order::StageLaxity);
        if changes && self.len() > 0 { Duration::ZERO } else { Duration::MAX }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Urgency, T)> {
        self.waiting
            .pop()
            .or_else(|| if self.late.is_empty() { None } else { self.late.pop() })
            .map(|waiting| (waiting.urgency, waiting.work))
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

    #[inline]
    pub(super) fn behind_first_at(&self, by: usize) -> Option<(usize, usize)> {
        self.waiting.behind_first(by).map(super::place_of)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.late.len()
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
        self.waiting.iter().chain(&self.late).for_each(look);
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
        Vec::into_iter(gone).for_each(out);
        shed
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Urgency, &T) -> bool) {
        self.waiting.retain(|waiting| keep(&waiting.urgency, &waiting.work));
        self.late.retain(|waiting| keep(&waiting.urgency, &waiting.work));
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
