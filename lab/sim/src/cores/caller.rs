//! Who calls, where that is one thread with one connection, as a load generator is.
//!
//! It has a core of its own, on which it writes the calls that are due, together, and reads the replies that are there. Each
//! takes a system call, and what comes due meanwhile waits for the next. So near what one thread can send and receive it is the
//! caller that calls wait for, and the server sees them come in batches.

use super::plan::CallerCosts;
use std::collections::VecDeque;

/// How many calls it makes before it reads.
const BURST: usize = 32;

/// What a caller is doing; it is over at its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calling {
    /// Nothing: it reads until something is there.
    Nothing,
    /// Writing calls.
    Write,
    /// Reading replies.
    Read,
}

/// A caller, by numbers of its calls.
pub(super) struct Caller {
    costs: CallerCosts,
    pub(super) doing: Calling,
    /// Calls that are due.
    due: VecDeque<u32>,
    /// Replies that have come.
    replies: VecDeque<u32>,
    /// What is being written, or read.
    under_way: Vec<u32>,
}

impl Caller {
    pub(super) fn new(costs: CallerCosts) -> Self {
        let (due, replies) = (VecDeque::new(), VecDeque::new());
        Self { costs, doing: Calling::Nothing, due, replies, under_way: Vec::new() }
    }

    /// A call is due.
    pub(super) fn is_due(&mut self, job: u32) {
        self.due.push_back(job);
    }

    /// A reply has come.
    pub(super) fn is_replied(&mut self, job: u32) {
        self.replies.push_back(job);
    }

    /// What is over, with what it was about; that is to be given back.
    pub(super) fn is_over(&mut self) -> (Calling, Vec<u32>) {
        (std::mem::replace(&mut self.doing, Calling::Nothing), std::mem::take(&mut self.under_way))
    }

    /// Begins what is next, and says how long it takes, if there is anything. After a write it reads; `memory` is empty.
    pub(super) fn begin(&mut self, had: Calling, memory: Vec<u32>) -> Option<u64> {
        self.under_way = memory;
        let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let reads = had == Calling::Write || self.due.is_empty();
        if reads && !self.replies.is_empty() {
            self.doing = Calling::Read;
            self.under_way.extend(self.replies.drain(..));
            return Some(nanos(self.costs.receive) + self.under_way.len() as u64 * nanos(self.costs.receive_each));
        }
        if self.due.is_empty() {
            return None;
        }
        self.doing = Calling::Write;
        let many = self.due.len().min(BURST);
        self.under_way.extend(self.due.drain(..many));
        Some(nanos(self.costs.send) + many as u64 * nanos(self.costs.send_each))
    }
}
