//! A bounded queue from one thread to another, without locks and without waiting.
//!
//! # Protocol
//! `tail` counts what was pushed, `head` what was popped, and both wrap. Value number n lies in slot n modulo the number
//! of slots, which is a power of two, so that wrapping does no harm.
//!
//! 1. Only the producer writes `tail`, only the consumer writes `head`: there is one of each, they can't be cloned, and
//!    writing takes `&mut self`.
//! 2. `0 <= tail - head <= slots`, at every moment and as seen by both sides. The slots from `head` to `tail` have values
//!    and are the consumer's, the others are empty and the producer's.
//! 3. A value is written to its slot before `tail` is stored with Release, and read after `tail` was loaded with Acquire.
//! 4. A value is moved out of its slot before `head` is stored with Release, and its slot is written after `head` was
//!    loaded with Acquire.
//! 5. Each side keeps a copy of the other's counter and loads it anew only when the copy says that it can't go on. An old
//!    copy shows less room or fewer values than there are, because counters only grow: it may cost a load, no more. So
//!    a burst moves one cache line of counters each way, and not one for each value.
//! 6. Whoever of the two goes last drops what is left; by then the other's last writes are visible to it (`Arc`).

use crate::sync::{Arc, AtomicUsize, Ordering, Padded, UnsafeCell};
use std::mem::MaybeUninit;

struct Ring<T> {
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: the slots are shared out by 2, and what is in them changes threads, so it has to be `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    fn slot(&self, number: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[number & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (head, tail) = (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Relaxed));
        let mut number = head;
        while number != tail {
            // SAFETY: by 2 there is a value; by 6 nobody else is left.
            self.slot(number).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            number = number.wrapping_add(1);
        }
    }
}

/// The end that pushes.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: usize,
    /// An old `head`.
    head: usize,
}

/// The end that pops.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    /// An old `tail`.
    tail: usize,
}

/// A ring for at least `capacity` values, at least one.
#[must_use]
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity.max(1).next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let ring = Arc::new(Ring { head: Padded(AtomicUsize::new(0)), tail: Padded(AtomicUsize::new(0)), slots });
    (Producer { ring: Arc::clone(&ring), tail: 0, head: 0 }, Consumer { ring, head: 0, tail: 0 })
}

impl<T> Producer<T> {
    /// Adds a value at the end.
    ///
    /// # Errors
    /// The value, if the ring is full.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        let slots = self.ring.slots.len();
        if self.tail.wrapping_sub(self.head) == slots {
            self.head = self.ring.head.0.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head) == slots {
                return Err(value);
            }
        }
        // SAFETY: by 2 and 5 the slot is empty and ours; by 4 it was moved out of before.
        self.ring.slot(self.tail).with_mut(|slot| unsafe { (*slot).write(value) });
        self.tail = self.tail.wrapping_add(1);
        self.ring.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    /// Takes the first value out, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: by 2 and 5 there is a value, and it is ours; by 3 it was written before. It is moved out once, as
        // `head` goes on.
        let value = self.ring.slot(self.head).with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.head = self.head.wrapping_add(1);
        self.ring.head.0.store(self.head, Ordering::Release);
        Some(value)
    }

    /// Whether there is nothing to pop now.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        if self.head == self.tail {
            self.tail = self.ring.tail.0.load(Ordering::Acquire);
        }
        self.head == self.tail
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_as_they_went_in_until_it_is_full() {
        let (mut producer, mut consumer) = ring(3);
        for round in 0..10 {
            (0..4).for_each(|value| producer.push(round + value).unwrap());
            assert_eq!(producer.push(99), Err(99), "a capacity of 3 is one of 4");
            assert_eq!(std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(), [0, 1, 2, 3].map(|at| round + at));
        }
    }

    #[test]
    fn what_was_not_popped_is_dropped_with_the_last_end() {
        let value = Arc::new(());
        let (mut producer, mut consumer) = ring(4);
        (0..3).for_each(|_| producer.push(value.clone()).unwrap());
        assert!(consumer.pop().is_some());
        drop(consumer);
        assert_eq!(Arc::strong_count(&value), 3);
        drop(producer);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn two_threads_pass_many_values_through_few_slots() {
        // Miri takes milliseconds for each.
        const VALUES: usize = if cfg!(miri) { 500 } else { 200_000 };
        let (mut producer, mut consumer) = ring(8);
        let pushes = std::thread::spawn(move || {
            for mut value in (0..VALUES).map(Box::new) {
                while let Err(back) = producer.push(value) {
                    value = back;
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < VALUES {
            match consumer.pop() {
                Some(value) => {
                    assert_eq!(*value, expected);
                    expected += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        pushes.join().unwrap();
    }
}

/// Built and run by `lab/models`.
#[cfg(all(test, loom))]
mod model {
    use super::*;

    /// More values than slots, so that each slot is written again; some are left when the consumer goes.
    fn pass(slots: usize, values: usize, pops: usize) {
        let (mut producer, mut consumer) = ring(slots);
        let pushes = loom::thread::spawn(move || {
            for mut value in (0..values).map(Arc::new) {
                while let Err(back) = producer.push(value) {
                    value = back;
                    loom::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < pops {
            match consumer.pop() {
                Some(value) => {
                    assert_eq!(*value, expected);
                    expected += 1;
                }
                None => loom::thread::yield_now(),
            }
        }
        drop(consumer);
        pushes.join().unwrap();
    }

    #[test]
    fn every_value_passes_once_and_in_order() {
        loom::model(|| pass(1, 2, 2));
        let mut model = loom::model::Builder::new();
        // Bounded, as each turn of a full ring adds a round of waiting to all interleavings.
        model.preemption_bound = Some(3);
        model.check(|| pass(2, 3, 3));
    }

    #[test]
    fn what_is_left_is_dropped_by_whoever_goes_last() {
        loom::model(|| pass(4, 3, 1));
    }
}
