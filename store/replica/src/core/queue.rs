//! Commands that wait to be proposed.

use crate::batch::{self, COMMAND_OVERHEAD};
use crate::{Session, Ticket};
use bytes::{Bytes, BytesMut};
use greenwave_policy::{Deadline, Time};
use std::collections::VecDeque;

/// A command that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) session: Session,
    pub(super) command: Bytes,
    pub(super) deadline: Deadline,
    pub(super) submitted: Time,
}

/// Commands that wait, first come, first served: those of one session stay in order.
///
/// 1. `bytes` is the sum over `commands`, overheads included.
/// 2. No command's deadline is before `earliest`.
#[derive(Debug)]
pub(super) struct Queue {
    commands: VecDeque<Waiting>,
    bytes: usize,
    earliest: Time,
}

/// What was pulled out of the queue for one instance.
#[derive(Debug)]
pub(super) struct Pulled {
    /// As the entry has them.
    pub(super) data: Bytes,
    /// The commands' tickets, in order.
    pub(super) tickets: Vec<Ticket>,
    /// When the first of them came.
    pub(super) submitted: Time,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { commands: VecDeque::new(), bytes: 0, earliest: Time::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// When a deadline may pass, if nothing is pulled before.
    pub(super) const fn earliest(&self) -> Time {
        self.earliest
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.bytes += weight(&waiting);
        self.earliest = self.earliest.min(waiting.deadline.expires().unwrap_or(Time::MAX));
        self.commands.push_back(waiting);
    }

    /// The next batch: up to so many bytes, and at least one command. Commands that `refuse` says no to are handed to
    /// `refused` instead.
    ///
    /// None: nothing is left.
    pub(super) fn pull(
        &mut self,
        batch_bytes: usize,
        mut refuse: impl FnMut(&Waiting) -> bool,
        mut refused: impl FnMut(Waiting),
    ) -> Option<Pulled> {
        let mut data = BytesMut::with_capacity(self.bytes.min(batch_bytes));
        let (mut tickets, mut submitted) = (Vec::new(), Time::MAX);
        while let Some(next) = self.commands.front() {
            let weight = weight(next);
            let no = refuse(next);
            if !no && !tickets.is_empty() && data.len() + weight > batch_bytes {
                break;
            }
            let Some(next) = self.commands.pop_front() else { break };
            self.bytes -= weight;
            if no {
                refused(next);
                continue;
            }
            batch::push(&mut data, next.session, &next.command);
            tickets.push(next.ticket);
            submitted = submitted.min(next.submitted);
        }
        if self.commands.is_empty() {
            self.earliest = Time::MAX;
        }
        (!tickets.is_empty()).then(|| Pulled { data: data.freeze(), tickets, submitted })
    }

    /// Takes out those whose deadline has passed.
    pub(super) fn expire(&mut self, now: Time) -> Vec<Waiting> {
        if now < self.earliest {
            return Vec::new();
        }
        let mut late = Vec::new();
        let all = std::mem::take(&mut self.commands);
        (self.bytes, self.earliest) = (0, Time::MAX);
        for waiting in all {
            if waiting.deadline.is_past(now) { late.push(waiting) } else { self.push(waiting) }
        }
        late
    }

    /// Takes out all.
    pub(super) fn clear(&mut self) -> VecDeque<Waiting> {
        (self.bytes, self.earliest) = (0, Time::MAX);
        std::mem::take(&mut self.commands)
    }
}

fn weight(waiting: &Waiting) -> usize {
    waiting.command.len() + COMMAND_OVERHEAD
}
