//! Which message's bytes leave next on a connection.
//!
//! A message longer than a chunk is split as late as possible, and each time the message with the smallest remainder
//! sends its next chunk, so that a short answer never waits for a long one (Small is Better, SoCC'13, which does this
//! to packets on a host). Equal remainders go by deadline, then by age.
//!
//! Long messages must not starve. A message that was passed over a number of times, the *patience*, goes next. But at
//! most one turn in patience + 1 is given away like this: with many long messages there is always one that has waited
//! too long, and short ones must not wait for all of them.

use crate::deadline::Deadline;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::mem;

/// The messages that wait to be sent on a connection, with how much of each is left.
///
/// 1. `in_hand` is the message that sent last. If it is done it has left the queue and is only kept.
/// 2. `waits_since` of a message is the turn at which it was pushed or last sent, so it was passed over
///    `turn - waits_since` times.
/// 3. Nobody in `heap` can be helped before the turn `look_again`.
#[derive(Clone, Debug)]
pub struct SplitQueue<T> {
    in_hand: Option<Message<T>>,
    heap: BinaryHeap<Message<T>>,
    patience: u64,
    /// Chunks handed out so far.
    turn: u64,
    look_again: u64,
    /// Messages pushed so far; breaks ties.
    pushed: u64,
}

impl<T> SplitQueue<T> {
    /// The patience of a queue, unless told otherwise: at most one chunk in 17 goes to whoever has waited longest.
    pub const PATIENCE: u32 = 16;

    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_patience(Self::PATIENCE)
    }

    /// An empty queue in which a message may be passed over `patience` times; with 0 they take turns.
    ///
    /// Of n messages each has a turn within `(n + 1) * (patience + 1)` turns, whatever else arrives.
    #[must_use]
    pub const fn with_patience(patience: u32) -> Self {
        let patience = patience as u64;
        Self { in_hand: None, heap: BinaryHeap::new(), patience, turn: 0, look_again: patience, pushed: 0 }
    }

    /// Adds a message of `remaining` bytes; an empty one has a turn too.
    pub fn push(&mut self, remaining: usize, deadline: Deadline, message: T) {
        self.pushed += 1;
        let rank = Rank { remaining, deadline, pushed: self.pushed };
        self.heap.push(Message { rank, waits_since: self.turn, done: false, message });
    }

    /// The message whose turn it is, how many of its bytes to send now, and whether those are its last.
    ///
    /// At most `chunk` bytes; `None` if nothing waits or `chunk` is 0. With its last bytes a message leaves the queue,
    /// which keeps it for [`take_sent`](Self::take_sent) until the next call.
    pub fn next(&mut self, chunk: usize) -> Option<(&mut T, usize, bool)> {
        self.next_with(|_| chunk)
    }

    /// Like [`next`](Self::next), where the size of the chunk depends on the message, for instance on its header.
    pub fn next_with(&mut self, chunk: impl FnOnce(&T) -> usize) -> Option<(&mut T, usize, bool)> {
        let look_again = self.look_again;
        self.choose();
        let chunk = chunk(&self.in_hand.as_ref()?.message);
        if chunk == 0 {
            self.heap.extend(self.in_hand.take());
            self.look_again = look_again;
            return None;
        }
        self.turn += 1;
        let chosen = self.in_hand.as_mut()?;
        let bytes = chosen.rank.remaining.min(chunk);
        chosen.rank.remaining -= bytes;
        chosen.waits_since = self.turn;
        chosen.done = chosen.rank.remaining == 0;
        Some((&mut chosen.message, bytes, chosen.done))
    }

    /// The message that left the queue with the latest [`next`](Self::next), if it did.
    pub fn take_sent(&mut self) -> Option<T> {
        self.in_hand.take_if(|message| message.done).map(|message| message.message)
    }

    /// How many messages have bytes left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len() + usize::from(self.in_hand.as_ref().is_some_and(|message| !message.done))
    }

    /// Whether no message has bytes left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the messages that `keep` is false for, those of a cancelled call for instance. Linear.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.in_hand.take_if(|message| !message.done && !keep(&message.message));
        self.heap.retain(|message| keep(&message.message));
    }

    /// Takes the message whose turn it is into the hand.
    fn choose(&mut self) {
        self.in_hand.take_if(|message| message.done);
        if self.turn >= self.look_again
            && let Some(longest_wait) = self.out_of_patience()
        {
            self.heap.extend(self.in_hand.replace(longest_wait));
            return;
        }
        match (&mut self.in_hand, self.heap.peek_mut()) {
            (Some(held), Some(mut top)) if top.rank < held.rank => mem::swap(held, &mut top),
            (None, Some(top)) => self.in_hand = Some(PeekMut::pop(top)),
            (_, _) => {}
        }
    }

    /// Takes the message that has waited longest out of the heap, if it was passed over too often.
    #[cold]
    fn out_of_patience(&mut self) -> Option<Message<T>> {
        let waits = self.heap.as_slice().iter().enumerate();
        let (at, longest) = waits.min_by_key(|(_, message)| (message.waits_since, message.rank.pushed))?;
        if self.turn - longest.waits_since < self.patience {
            self.look_again = longest.waits_since + self.patience;
            return None;
        }
        self.look_again = self.turn + 1 + self.patience;
        let mut messages = mem::take(&mut self.heap).into_vec();
        let longest = messages.swap_remove(at);
        self.heap = messages.into();
        Some(longest)
    }
}

impl<T> Default for SplitQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A message in the heap, where the greatest comes out first: the one of the smallest rank.
#[derive(Clone, Debug)]
struct Message<T> {
    rank: Rank,
    waits_since: u64,
    done: bool,
    message: T,
}

/// What messages are compared by, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    remaining: usize,
    deadline: Deadline,
    pushed: u64,
}

impl<T> Ord for Message<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
    }
}

impl<T> PartialOrd for Message<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Message<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Message<T> {}
