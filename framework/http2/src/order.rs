//! Which stream's data goes next: that of which least is left, in classes of a factor of two.
//!
//! Each class is a list, in which a stream stays at the front until it is out of the class, so that what was begun is finished.
//! So that nothing waits for ever, every so many turns are those of the next class in a circle, whatever is left of others. A
//! stream that is added to goes to the back of its class: one that always has more does not keep others from their turn.

use crate::streams::{NONE, State};

/// One turn of so many goes around the classes.
const FAIR: u32 = 8;

const CLASSES: usize = 32;

#[derive(Debug)]
pub(crate) struct Order {
    /// Front and back of each class; of no meaning in an empty one.
    lists: [(u16, u16); CLASSES],
    /// The classes that are not empty.
    any: u32,
    turns: u32,
    /// The class that the next fair turn is looked for from.
    fair: u32,
}

impl Default for Order {
    fn default() -> Self {
        Self { lists: [(NONE, NONE); CLASSES], any: 0, turns: 0, fair: 0 }
    }
}

fn class_of(left: usize) -> u8 {
    (usize::BITS - left.leading_zeros()).min(CLASSES as u32 - 1) as u8
}

impl Order {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.any == 0
    }

    /// The stream whose turn it is. It stays where it is.
    pub(crate) fn pick(&mut self) -> Option<u16> {
        if self.any == 0 {
            return None;
        }
        self.turns = self.turns.wrapping_add(1);
        let class = if self.turns.is_multiple_of(FAIR) {
            let ahead = self.any >> self.fair << self.fair;
            let class = if ahead != 0 { ahead } else { self.any }.trailing_zeros();
            self.fair = (class + 1) % CLASSES as u32;
            class
        } else {
            self.any.trailing_zeros()
        };
        Some(self.lists[class as usize].0)
    }

    /// Puts a stream that has this much left at its place, behind others of its class.
    pub(crate) fn put(&mut self, slots: &mut [State], slot: u16) {
        self.take(slots, slot);
        let state = &mut slots[usize::from(slot)];
        let class = class_of(state.left);
        (state.class, state.next) = (class, NONE);
        let (front, back) = &mut self.lists[usize::from(class)];
        if self.any & (1 << class) == 0 {
            state.previous = NONE;
            (*front, *back) = (slot, slot);
            self.any |= 1 << class;
        } else {
            state.previous = *back;
            slots[usize::from(*back)].next = slot;
            *back = slot;
        }
    }

    /// A stream has less left: it goes to the back of another class, or stays where it is.
    pub(crate) fn went_down(&mut self, slots: &mut [State], slot: u16) {
        let state = &slots[usize::from(slot)];
        if class_of(state.left) != state.class {
            self.put(slots, slot);
        }
    }

    /// Takes a stream out, if it is in.
    pub(crate) fn take(&mut self, slots: &mut [State], slot: u16) {
        let state = &mut slots[usize::from(slot)];
        let class = state.class;
        if class == u8::MAX {
            return;
        }
        state.class = u8::MAX;
        let (next, previous) = (state.next, state.previous);
        let (front, back) = &mut self.lists[usize::from(class)];
        match previous {
            NONE => *front = next,
            previous => slots[usize::from(previous)].next = next,
        }
        match next {
            NONE => *back = previous,
            next => slots[usize::from(next)].previous = previous,
        }
        if *front == NONE {
            self.any &= !(1 << class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Streams;

    #[test]
    fn the_least_goes_first_and_the_most_is_not_forgotten() {
        let (mut streams, mut order) = (Streams::default(), Order::default());
        for (index, left) in (0_u32..).zip([1_000_000, 100, 5000, 90]) {
            let stream = streams.insert(2 * index + 1, 0, 0);
            streams.slots[stream.slot()].left = left;
            order.put(&mut streams.slots, stream.slot);
        }
        // What is left of the first never changes, and others come behind it.
        let mut turns = [0; 4];
        for _ in 0..96 {
            turns[usize::from(order.pick().unwrap())] += 1;
        }
        assert_eq!(turns, [4, 88, 4, 0]);
        order.take(&mut streams.slots, 1);
        assert_eq!(order.pick(), Some(3));
        for slot in [3, 0, 2] {
            order.take(&mut streams.slots, slot);
            order.take(&mut streams.slots, slot);
        }
        assert!(order.is_empty() && order.pick().is_none());
    }

    #[test]
    fn one_that_is_always_added_to_does_not_keep_its_class() {
        let (mut streams, mut order) = (Streams::default(), Order::default());
        for index in 0..2 {
            let stream = streams.insert(2 * index + 1, 0, 0);
            streams.slots[stream.slot()].left = 1000;
            order.put(&mut streams.slots, stream.slot);
        }
        assert_eq!(order.pick(), Some(0));
        order.put(&mut streams.slots, 0);
        assert_eq!(order.pick(), Some(1));
    }
}
