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
}
