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
use crate::sorted::Sorted;
use std::cmp::Ordering;
use std::collections::VecDeque;

/// The messages that wait to be sent on a connection, with how much of each is left.
///
/// 1. Each message lies in a slot of its own, and exactly one ticket says which: in `in_hand` or in `tickets`.
/// 2. `in_hand` is of the message that sent last, or of the only one. If it is done the message has left the queue,
///    and is only kept.
/// 3. What is in `tickets` is in `by_age` too, sorted by `waits_since` and age. Its message was pushed or last sent at the
///    turn `waits_since`, so it was passed over `turn - waits_since` times, and those in front most often.
/// 4. Tickets whose number isn't their slot's are stale. The first of `tickets` never is. Stale ones are dropped once there
///    are more of them than others, so that all of this takes logarithmic time however many wait, taken over all calls.
/// 5. Nobody in `tickets` can be helped before the turn `look_again`.
#[derive(Clone, Debug)]
pub struct SplitQueue<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    in_hand: Option<Ticket>,
    tickets: Sorted<Ticket>,
    by_age: VecDeque<Ticket>,
    /// How often a ticket was put into `tickets`.
    numbers: u64,
    patience: u64,
    /// Whole messages, the oldest first.
    in_order: bool,
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
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            in_hand: None,
            tickets: Sorted::new(),
            by_age: VecDeque::new(),
            numbers: 0,
            patience,
            in_order: false,
            turn: 0,
            look_again: patience,
            pushed: 0,
        }
    }

    /// An empty queue in which messages leave one after the other as they came: what this module is there to do better.
    #[must_use]
    pub fn in_order() -> Self {
        let mut queue = Self::new();
        (queue.in_order, queue.look_again) = (true, u64::MAX);
        queue
    }

    /// Adds a message of `remaining` bytes; an empty one has a turn too. It has the place that is returned until it has
    /// left, for [`remove`](Self::remove); another may have it later.
    pub fn push(&mut self, remaining: usize, deadline: Deadline, message: T) -> usize {
        self.put_down_sent();
        self.pushed += 1;
        let rank = if self.in_order {
            Rank { remaining: 0, deadline: Deadline::NEVER, pushed: self.pushed }
        } else {
            Rank { remaining, deadline, pushed: self.pushed }
        };
        let is_first = self.is_empty();
        let slot = self.occupy(message);
        let ticket = Ticket { rank, left: remaining, waits_since: self.turn, done: false, slot, number: 0 };
        if is_first {
            self.in_hand = Some(ticket);
        } else {
            self.line_up(ticket);
        }
        slot
    }

    /// The message whose turn it is, how many of its bytes to send now, and whether those are its last.
    ///
    /// At most `chunk` bytes; `None` if nothing waits or `chunk` is 0. With its last bytes a message leaves the queue,
    /// which keeps it for [`take_sent`](Self::take_sent) until the next call or the next message.
    pub fn next(&mut self, chunk: usize) -> Option<(&mut T, usize, bool)> {
        self.next_with(|_| chunk)
    }

    /// Like [`next`](Self::next), where the size of the chunk depends on the message, for instance on its header.
    pub fn next_with(&mut self, chunk: impl FnOnce(&T) -> usize) -> Option<(&mut T, usize, bool)> {
        self.put_down_sent();
        let look_again = self.look_again;
        self.choose();
        let chosen = self.in_hand?;
        let chunk = chunk(self.slots[chosen.slot].message.as_ref()?);
        if chunk == 0 {
            self.put_back();
            self.look_again = look_again;
            return None;
        }
        let chosen = self.in_hand.as_mut()?;
        let message = self.slots[chosen.slot].message.as_mut()?;
        self.turn += 1;
        let bytes = chosen.left.min(chunk);
        chosen.left -= bytes;
        if !self.in_order {
            chosen.rank.remaining = chosen.left;
        }
        chosen.waits_since = self.turn;
        chosen.done = chosen.left == 0;
        Some((message, bytes, chosen.done))
    }

    /// The message that left the queue with the latest [`next`](Self::next), if it did.
    pub fn take_sent(&mut self) -> Option<T> {
        let sent = self.in_hand.take_if(|ticket| ticket.done)?;
        self.vacate(sent.slot)
    }

    /// The smallest remainder, in bytes; `None` if nothing waits.
    #[must_use]
    pub fn least(&self) -> Option<usize> {
        let held = self.in_hand.filter(|ticket| !ticket.done).map(|ticket| ticket.left);
        held.into_iter().chain(self.tickets.peek().map(|ticket| ticket.left)).min()
    }

    /// How many messages have bytes left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - usize::from(self.in_hand.is_some_and(|ticket| ticket.done))
    }

    /// Whether no message has bytes left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message at a place, if one is there.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.slots.get(place)?.message.as_ref()
    }

    /// Takes out the message at a place, that of a cancelled call for instance, if one is there and `is_it`.
    pub fn remove(&mut self, place: usize, is_it: impl FnOnce(&T) -> bool) -> Option<T> {
        self.put_down_sent();
        let slot = self.slots.get_mut(place)?;
        let message = slot.message.take_if(|message| is_it(message))?;
        slot.number = 0;
        self.free.push(place);
        self.in_hand.take_if(|ticket| ticket.slot == place);
        self.drop_stale();
        Some(message)
    }

    /// Takes the ticket of the message whose turn it is into the hand.
    fn choose(&mut self) {
        if self.turn >= self.look_again
            && let Some(longest_wait) = self.out_of_patience()
        {
            self.put_back();
            self.in_hand = Some(longest_wait);
            return;
        }
        let is_held_first = match (&self.in_hand, self.tickets.peek()) {
            (Some(held), Some(top)) => held.rank <= top.rank,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        if !is_held_first {
            let first = self.take_first();
            self.put_back();
            self.in_hand = first;
        }
    }

    /// Takes out the ticket of the message that has waited longest, if it was passed over too often.
    fn out_of_patience(&mut self) -> Option<Ticket> {
        while self.by_age.front().is_some_and(|ticket| self.slots[ticket.slot].number != ticket.number) {
            self.by_age.pop_front();
        }
        let ticket = *self.by_age.front()?;
        if self.turn - ticket.waits_since < self.patience {
            self.look_again = ticket.waits_since + self.patience;
            return None;
        }
        self.look_again = self.turn + 1 + self.patience;
        self.by_age.pop_front();
        self.slots[ticket.slot].number = 0;
        self.drop_stale();
        Some(ticket)
    }

    /// Adds a ticket to those that wait.
    fn line_up(&mut self, ticket: Ticket) {
        self.numbers += 1;
        let ticket = Ticket { number: self.numbers, ..ticket };
        self.slots[ticket.slot].number = self.numbers;
        self.tickets.push(ticket);
        // What is put back may have come before what was pushed in the same turn.
        let age = |ticket: &Ticket| (ticket.waits_since, ticket.rank.pushed);
        let younger = self.by_age.iter().rev().take_while(|other| age(other) > age(&ticket)).count();
        self.by_age.insert(self.by_age.len() - younger, ticket);
        let most = 2 * self.len() + 64;
        let slots = &self.slots;
        if self.tickets.len() > most {
            self.tickets.retain(|ticket| slots[ticket.slot].number == ticket.number);
        }
        if self.by_age.len() > most {
            self.by_age.retain(|ticket| slots[ticket.slot].number == ticket.number);
        }
    }

    /// Takes out the first of those that wait.
    fn take_first(&mut self) -> Option<Ticket> {
        let first = self.tickets.pop()?;
        self.slots[first.slot].number = 0;
        self.drop_stale();
        Some(first)
    }

    /// Has a ticket in front that isn't stale.
    fn drop_stale(&mut self) {
        while self.tickets.peek().is_some_and(|ticket| self.slots[ticket.slot].number != ticket.number) {
            self.tickets.pop();
        }
    }

    /// Puts the ticket in hand back to the others.
    fn put_back(&mut self) {
        if let Some(held) = self.in_hand.take() {
            self.line_up(held);
        }
    }

    fn put_down_sent(&mut self) {
        drop(self.take_sent());
    }

    fn occupy(&mut self, message: T) -> usize {
        let new = Slot { number: 0, message: Some(message) };
        match self.free.pop() {
            Some(free) => {
                self.slots[free] = new;
                free
            }
            None => {
                self.slots.push(new);
                self.slots.len() - 1
            }
        }
    }

    fn vacate(&mut self, slot: usize) -> Option<T> {
        self.free.push(slot);
        self.slots[slot].message.take()
    }
}

impl<T> Default for SplitQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a message lies.
#[derive(Clone, Debug)]
struct Slot<T> {
    /// That of its ticket among those that wait; 0: none of them is its.
    number: u64,
    message: Option<T>,
}

/// A message's place in the order. Of tickets the greatest comes out first: the one of the smallest rank.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    rank: Rank,
    left: usize,
    waits_since: u64,
    done: bool,
    slot: usize,
    number: u64,
}

/// What messages are compared by, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    remaining: usize,
    deadline: Deadline,
    pushed: u64,
}

impl Ord for Ticket {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
    }
}

impl PartialOrd for Ticket {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ticket {}
