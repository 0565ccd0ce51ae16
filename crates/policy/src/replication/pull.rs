//! When the next batch is pulled.
//!
//! A free slot of the window alone would make a bad rule. The commands of a batch are answered together and the next
//! ones of their clients come back together, one after the other; the first of them would take the free slots, one
//! each, and all others would wait for a round trip, to leave as one large batch. Batches bunch as buses do: those that
//! meet merge, and nothing parts them. (Over 100 Mbit/s and 50 ms, 4096 clients then get a third of what the link
//! carries, whatever the window.) So batches leave in a rhythm, a *gap* apart, a little less than what a window full of
//! them makes of a round trip:
//! - a batch that is full leaves as soon as there is a slot;
//! - so does whatever comes while nothing is under way: a lone request never waits;
//! - anything else leaves a gap after the batch before it, if there is a slot then.
//!
//! What that costs a command is at most the gap, which is less than what it would have waited for a slot in a window
//! that is full.

use crate::time::Time;
use std::time::Duration;

/// The rhythm of a leader's batches. That a slot is free is for the caller to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulls {
    last: Option<Time>,
}

impl Pulls {
    /// Nothing was pulled yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// When the next batch is due, if there is a slot: in the past, or at this instant, if at once. `None` while nothing
    /// waits.
    ///
    /// `waiting_bytes` wait to be pulled, of which a batch takes `limit` ([`Controller::batch_limit`]); `under_way`:
    /// whether any batch is; `gap` is [`Controller::pull_gap`], or zero for a window that is all there is to the rule.
    ///
    /// [`Controller::batch_limit`]: super::Controller::batch_limit
    /// [`Controller::pull_gap`]: super::Controller::pull_gap
    #[must_use]
    #[inline]
    pub fn due(&self, waiting_bytes: u64, under_way: bool, limit: u64, gap: Duration) -> Option<Time> {
        if waiting_bytes == 0 {
            return None;
        }
        match self.last {
            Some(last) if under_way && waiting_bytes < limit => Some(last + gap),
            _ => Some(Time::ZERO),
        }
    }

    /// A batch was pulled.
    #[inline]
    pub fn pulled(&mut self, now: Time) {
        self.last = Some(now);
    }
}
