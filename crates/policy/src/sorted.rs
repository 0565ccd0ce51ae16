//! A priority queue for what comes nearly in the order in which it goes.
//!
//! Requests that have the same time to spare when they arrive, and messages of the same length, need no sorting: each
//! goes behind all those before. A heap sorts them all the same, at a cost that grows with their number and moves each of
//! them several times. So what comes in order stands in a line, and the heap is for the rest.

use std::collections::{BinaryHeap, VecDeque};

/// What waits to be taken out, the greatest first.
///
/// `line` is sorted, the greatest at its front. The first of all is at the front of `line` or on top of `heap`.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<T> {
    line: VecDeque<T>,
    heap: BinaryHeap<T>,
}

impl<T> Sorted<T> {
    pub(crate) const fn new() -> Self {
        Self { line: VecDeque::new(), heap: BinaryHeap::new() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.line.len() + self.heap.len()
    }

    /// Everything, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.line.iter().chain(&self.heap)
    }
}

impl<T: Ord> Sorted<T> {
    /// Adds something: in constant time if it goes after all others or before all in the line, otherwise in logarithmic.
    #[inline]
    pub(crate) fn push(&mut self, one: T) {
        match (self.line.front(), self.line.back()) {
            (Some(first), _) if one > *first => self.line.push_front(one),
            (_, Some(last)) if one > *last => self.heap.push(one),
            _ => self.line.push_back(one),
        }
    }

    /// What goes first.
    #[inline]
    pub(crate) fn peek(&self) -> Option<&T> {
        if self.heap.is_empty() { self.line.front() } else { self.heap.peek().max(self.line.front()) }
    }

    /// Takes out what goes first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        match self.heap.peek() {
            Some(top) if self.line.front().is_none_or(|front| top > front) => self.heap.pop(),
            _ => self.line.pop_front(),
        }
    }

    /// Takes out the one for which `key` is least. Linear.
    pub(crate) fn take_least_by<K: Ord>(&mut self, key: impl Fn(&T) -> K) -> Option<T> {
        let least = |(_, one): &(usize, &T)| key(one);
        let in_line = self.line.iter().enumerate().min_by_key(least);
        let in_heap = self.heap.as_slice().iter().enumerate().min_by_key(least);
        match (in_line, in_heap) {
            (Some((at, one)), other) if other.is_none_or(|(_, other)| key(one) <= key(other)) => self.line.remove(at),
            (_, None) => None,
            (_, Some((at, _))) => {
                let mut heap = std::mem::take(&mut self.heap).into_vec();
                let taken = heap.swap_remove(at);
                self.heap = heap.into();
                Some(taken)
            }
        }
    }

    /// Drops what `keep` is false for. Linear.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.line.retain(&mut keep);
        self.heap.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is pushed, popped and taken out in between, it is what a sorted list would give.
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
                        let far = |one: &u16| one.abs_diff(number);
                        let least = list.iter().map(far).min();
                        let taken = sorted.take_least_by(far);
                        prop_assert_eq!(taken.as_ref().map(far), least);
                        if let Some(taken) = taken {
                            let at = list.iter().position(|one| *one == taken);
                            list.remove(at.expect("what was taken out was there"));
                        }
                    }
                }
                prop_assert_eq!(sorted.len(), list.len());
                prop_assert_eq!(sorted.peek(), list.first());
                let mut all: Vec<u16> = sorted.iter().copied().collect();
                all.sort_unstable_by(|a, b| b.cmp(a));
                prop_assert_eq!(&all, &list);
            }
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
}
