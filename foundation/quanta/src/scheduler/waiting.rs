//! The jobs of a scheduler that wait: for words of memory, as those of locks, channels and other jobs' results are, or for a
//! time.
//!
//! Who waits for a time alone is resumed when it has come, and not before; those who do are in a heap.
//!
//! Words are looked at a few at each turn, and all of them twice in [`NAP`] at least. Whoever waits is resumed after
//! [`NAP`] for no reason, if its word hasn't changed: a word may have changed and changed back between two looks, and
//! that is where the kernel would have woken it. With very many of them the nap is longer, so that they don't use up
//! the thread.

use super::WaitId;
use crate::wait::Wait;
use greenwave_policy::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The longest wait without a reason, while less than [`CROWD`] wait.
pub(super) const NAP: Duration = Duration::from_millis(1);

/// How many may wait before naps grow with their number.
const CROWD: u32 = 64;

/// How many are looked at in a turn.
const LOOKS: usize = 8;

/// Those who wait.
pub(super) struct Waiting {
    /// For words, in no order.
    list: Vec<Waiter>,
    /// When waits end that aren't for words. Some may have ended before.
    timers: BinaryHeap<Reverse<(Time, WaitId)>>,
    /// Who is looked at next.
    next: usize,
    /// When all of them had been looked at last.
    round: Time,
}

struct Waiter {
    wait: Wait,
    /// When it is resumed for no reason.
    nap: Time,
    id: WaitId,
}

impl Waiting {
    pub(super) const fn new() -> Self {
        Self { list: Vec::new(), timers: BinaryHeap::new(), next: 0, round: Time::ZERO }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len() + self.timers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.timers.is_empty()
    }

    /// How many wait for words.
    pub(super) fn words(&self) -> usize {
        self.list.len()
    }

    /// Sets a timer for a wait, beside `jobs` jobs. Those of waits that have ended go when they are most: a wait is over long
    /// before its time, as a rule.
    pub(super) fn set_timer(&mut self, until: Time, id: WaitId, jobs: usize, lasts: impl Fn(WaitId) -> bool) {
        if until == Time::MAX {
            return;
        }
        if self.timers.len() >= 64 + 4 * jobs {
            self.timers.retain(|Reverse((_, id))| lasts(*id));
        }
        self.timers.push(Reverse((until, id)));
    }

    pub(super) fn add(&mut self, now: Time, wait: Wait, id: WaitId) {
        if wait.is_pause() {
            return self.timers.push(Reverse((wait.until, id)));
        }
        let crowd = (self.list.len() as u32 / CROWD).saturating_add(1);
        if self.list.is_empty() {
            self.round = now;
        }
        self.list.push(Waiter { wait, nap: now + NAP * crowd, id });
    }

    /// Looks at some, and tells `ready` of those who need not wait any more.
    pub(super) fn look(&mut self, now: Time, mut ready: impl FnMut(WaitId)) {
        while let Some(&Reverse((until, id))) = self.timers.peek()
            && until <= now
        {
            self.timers.pop();
            ready(id);
        }
        let due = now.since(self.round) >= NAP / 2;
        let mut left = if due { self.list.len() } else { LOOKS.min(self.list.len()) };
        while left > 0 && !self.list.is_empty() {
            if self.next >= self.list.len() {
                (self.next, self.round) = (0, now);
            }
            let waiter = &self.list[self.next];
            if waiter.wait.is_over() || waiter.nap <= now || waiter.wait.until <= now {
                ready(self.list.swap_remove(self.next).id);
            } else {
                self.next += 1;
            }
            left -= 1;
        }
        if due {
            self.round = now;
        }
    }

    /// When the first of them has to be resumed.
    pub(super) fn wakes_by(&self) -> Option<Time> {
        let first = self.timers.peek().map(|Reverse((until, _))| *until);
        self.list.iter().map(|waiter| waiter.nap.min(waiter.wait.until)).chain(first).min()
    }
}
