//! A priority queue for what comes nearly in the order in which it goes.
//!
//! Requests that have the same time to spare when they arrive, and messages of the same length, need no sorting: each
//! goes behind all those before. A heap sorts them all the same, at a cost that grows with their number and moves each of
//! them several times. So what comes in order stands in a line. Requests of several kinds, each with its time to spare or its
//! length, are several lines that are merged: of one line the first of the long ones would be the last, and all short ones
//! that come after it would have to go before it. The heap is for the rest.

use std::collections::{BinaryHeap, VecDeque};

/// How many lines there are at most. Each is one comparison more for what is taken out.
const LINES: usize = 6;

/// What waits to be taken out, the greatest first: a priority queue for what comes nearly in the order in which it goes, or in a
/// few such orders.
///
/// 1. Each line is sorted, the greatest at its front. The first of all is at the front of a line or on top of `heap`.
/// 2. The lines from `used` on are empty, and none of those before.
#[derive(Clone, Debug)]
pub struct Sorted<T> {
    lines: [VecDeque<T>; LINES],
    used: usize,
    heap: BinaryHeap<T>,
}

impl<T> Sorted<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: [const { VecDeque::new() }; LINES], used: 0, heap: BinaryHeap::new() }
    }

    /// How much waits.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.lines[..self.used].iter().map(VecDeque::len).sum::<usize>() + self.heap.len()
    }

    /// Whether nothing waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.iter().flatten().chain(&self.heap)
    }
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord> Sorted<T> {
    /// Adds something: in constant time if it goes before all others or behind one of the lines, otherwise in logarithmic.
    #[inline]
    pub fn push(&mut self, one: T) {
        // As a rule there is one line, or none.
        if self.used <= 1 && self.lines[0].back().is_none_or(|last| one <= *last) {
            self.used = 1;
            return self.lines[0].push_back(one);
        }
        // Behind the line whose last is nearest to it, as patience sorting has it; so what is alike comes together.
        let mut best: Option<usize> = None;
        for line in 0..self.used {
            let Some(last) = self.lines[line].back().filter(|last| one <= **last) else { continue };
            if best.and_then(|best| self.lines[best].back()).is_none_or(|other| last < other) {
                best = Some(line);
            }
        }
        if let Some(best) = best {
            return self.lines[best].push_back(one);
        }
        match self.first_line() {
            Some(line) if self.lines[line].front().is_some_and(|first| one > *first) => {
                self.lines[line].push_front(one);
            }
            _ => self.open(one),
        }
    }

    /// Begins a line with it, if there may be a further one.
    fn open(&mut self, one: T) {
        if self.used < LINES {
            self.lines[self.used].push_back(one);
            self.used += 1;
        } else {
            self.heap.push(one);
        }
    }

    /// A line is empty: the last one takes its place, so that there are few to compare.
    #[inline]
    fn end(&mut self, line: usize) {
        self.used -= 1;
        if line < self.used {
            self.lines.swap(line, self.used);
        }
    }

    fn end_all_empty(&mut self) {
        for line in (0..self.used).rev() {
            if self.lines[line].is_empty() {
                self.end(line);
            }
        }
    }

    /// The line whose first goes before those of the others.
    #[inline]
    fn first_line(&self) -> Option<usize> {
        if self.used <= 1 {
            return (self.used == 1).then_some(0);
        }
        let mut first: Option<(usize, &T)> = None;
        for (line, front) in
            self.lines[..self.used].iter().enumerate().filter_map(|(at, line)| Some((at, line.front()?)))
        {
            if first.is_none_or(|(_, other)| front > other) {
                first = Some((line, front));
            }
        }
        first.map(|(line, _)| line)
    }

    /// A guess at what goes so many after the first: what stands so many behind it in its line.
    #[inline]
    pub(crate) fn behind_first(&self, by: usize) -> Option<&T> {
        self.lines[self.first_line()?].get(by)
    }

    /// What goes first.
    #[must_use]
    #[inline(always)]
    pub fn peek(&self) -> Option<&T> {
        let front = self.first_line().and_then(|line| self.lines[line].front());
        if self.heap.is_empty() { front } else { self.heap.peek().max(front) }
    }

    /// Takes out what goes first.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        // As a rule an event loop asks until there is nothing.
        if self.used == 0 && self.heap.is_empty() { None } else { self.pop_some() }
    }

    #[inline]
    fn pop_some(&mut self) -> Option<T> {
        let line = self.first_line();
        let front = line.and_then(|line| self.lines[line].front());
        if self.heap.peek().is_some_and(|top| front.is_none_or(|front| top > front)) {
            return self.heap.pop();
        }
        let line = line?;
        let first = self.lines[line].pop_front();
        if self.lines[line].is_empty() {
            self.end(line);
        }
        first
    }

    /// Takes out what `is_out` is true for. Linear.
    pub(crate) fn extract(&mut self, is_out: impl Fn(&T) -> bool, mut out: impl FnMut(T)) {
        for line in &mut self.lines {
            for _ in 0..line.len() {
                let Some(one) = line.pop_front() else { break };
                if is_out(&one) { out(one) } else { line.push_back(one) }
            }
        }
        self.end_all_empty();
        let (gone, stay): (Vec<T>, Vec<T>) = std::mem::take(&mut self.heap).into_vec().into_iter().partition(is_out);
        self.heap = stay.into();
        gone.into_iter().for_each(out);
    }

    /// Drops what `keep` is false for. Linear.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.lines.iter_mut().for_each(|line| line.retain(&mut keep));
        self.end_all_empty();
        self.heap.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is pushed, popped and dropped in between, it is what a sorted list would give.
        #[test]
        fn comes_out_as_from_a_sorted_list(steps in prop::collection::vec((0..4_u8, 0..50_u16), 0..200)) {
            let (mut sorted, mut list) = (Sorted::new(), Vec::new());
            for (step, number) in steps {
                match step {
                    0 | 1 => {
                        sorted.push(number);
                        list.push(number);
                        list.sort_unstable_by(|a, b| b.cmp(a));
                    }
                    2 => {
                        let first = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(sorted.pop(), first);
                    }
                    _ => {
                        sorted.retain(|one| *one % 7 != number % 7);
                        list.retain(|one| *one % 7 != number % 7);
                    }
                }
                prop_assert_eq!(sorted.len(), list.len());
                prop_assert_eq!(sorted.peek(), list.first());
            }
            let all: Vec<u16> = std::iter::from_fn(|| sorted.pop()).collect();
            prop_assert_eq!(all, list);
        }
    }

    #[test]
    fn what_comes_in_order_never_enters_the_heap() {
        let mut sorted = Sorted::new();
        for round in (0..100).rev() {
            sorted.push(round);
            sorted.push(round);
            sorted.pop();
        }
        assert!(sorted.heap.is_empty() && sorted.len() == 100);
    }

    #[test]
    fn what_comes_in_several_orders_is_merged() {
        let mut sorted = Sorted::new();
        // Kinds that are due so much later than they come, in turns.
        let kinds = [0, 50, 1000, 333];
        for now in 0..2000_i32 {
            sorted.push(-(now + kinds[now as usize % kinds.len()]));
            if now > 100 {
                sorted.pop();
            }
            assert!(sorted.heap.is_empty(), "at {now}");
        }
    }
}
