//! Reads that wait until they can be sure to see what is newest.
//!
//! A read joins the next *round*: the leader asks all whether it still leads, and when a majority has said yes, the
//! reads of the round may go as soon as all that was committed when it began is applied. Rounds are numbered, and
//! few are open at a time, so that reads share them. With leases a round's success is worth something for a while.

use crate::{Index, Ticket};
use greenwave_policy::{Deadline, Time};
use std::collections::VecDeque;

/// Rounds that are open at most; more would only be more messages.
const ROUNDS: usize = 8;

#[derive(Debug)]
pub(super) struct Read {
    pub(super) ticket: Ticket,
    pub(super) deadline: Deadline,
}

/// Reads, by how far they are.
///
/// 1. `count` is the sum over all three queues.
/// 2. Rounds' numbers rise; so do the indices of the confirmed.
#[derive(Debug, Default)]
pub(super) struct ReadQueue {
    waiting: Vec<Read>,
    rounds: VecDeque<Round>,
    confirmed: VecDeque<(Index, Vec<Read>)>,
    count: usize,
    number: u64,
    /// No deadline is before this.
    earliest: Option<Time>,
}

#[derive(Debug)]
struct Round {
    number: u64,
    began: Time,
    reads: Vec<Read>,
}

impl ReadQueue {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn earliest(&self) -> Time {
        self.earliest.unwrap_or(Time::MAX)
    }

    /// A read that needs a round.
    pub(super) fn push(&mut self, read: Read) {
        self.note(&read);
        self.waiting.push(read);
    }

    /// A read that needs none: it may go once all up to `index` is applied.
    pub(super) fn push_confirmed(&mut self, index: Index, read: Read) {
        self.note(&read);
        self.confirm(index, vec![read]);
    }

    /// The number of a round to begin, if reads wait for one.
    pub(super) fn begin(&mut self, now: Time) -> Option<u64> {
        if self.waiting.is_empty() || self.rounds.len() >= ROUNDS {
            return None;
        }
        self.number += 1;
        let reads = std::mem::take(&mut self.waiting);
        self.rounds.push_back(Round { number: self.number, began: now, reads });
        Some(self.number)
    }

    /// A majority answered in this round, and all up to `index` was committed when it began. Says when it began.
    pub(super) fn succeeded(&mut self, number: u64, index: Index) -> Option<Time> {
        let mut began = None;
        while let Some(round) = self.rounds.pop_front_if(|round| round.number <= number) {
            began = Some(round.began);
            self.confirm(index, round.reads);
        }
        began
    }

    /// Reads that may go, as all up to `applied` is applied.
    pub(super) fn ready(&mut self, applied: Index) -> Vec<(Ticket, Index)> {
        let mut ready = Vec::new();
        while let Some((_, reads)) = self.confirmed.pop_front_if(|(index, _)| *index <= applied) {
            self.count -= reads.len();
            ready.extend(reads.into_iter().map(|read| (read.ticket, applied)));
        }
        if self.count == 0 {
            self.earliest = None;
        }
        ready
    }

    /// Takes out those whose deadline has passed.
    pub(super) fn expire(&mut self, now: Time) -> Vec<Ticket> {
        if now < self.earliest() {
            return Vec::new();
        }
        let (mut late, mut earliest) = (Vec::new(), None);
        let mut keep = |read: &Read| {
            if read.deadline.is_past(now) {
                late.push(read.ticket);
                return false;
            }
            earliest = earliest.into_iter().chain(read.deadline.expires()).min();
            true
        };
        self.waiting.retain(&mut keep);
        self.rounds.iter_mut().for_each(|round| round.reads.retain(&mut keep));
        self.confirmed.iter_mut().for_each(|(_, reads)| reads.retain(&mut keep));
        self.earliest = earliest;
        self.count -= late.len();
        late
    }

    /// Takes out all.
    pub(super) fn clear(&mut self) -> Vec<Ticket> {
        let rounds = std::mem::take(&mut self.rounds).into_iter().flat_map(|round| round.reads);
        let confirmed = std::mem::take(&mut self.confirmed).into_iter().flat_map(|(_, reads)| reads);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        (self.count, self.earliest) = (0, None);
        confirmed.chain(rounds).chain(waiting).map(|read| read.ticket).collect()
    }

    fn note(&mut self, read: &Read) {
        self.count += 1;
        self.earliest = self.earliest.into_iter().chain(read.deadline.expires()).min();
    }

    fn confirm(&mut self, index: Index, reads: Vec<Read>) {
        match self.confirmed.back_mut() {
            Some((last, all)) if *last >= index => all.extend(reads),
            _ => self.confirmed.push_back((index, reads)),
        }
    }
}
