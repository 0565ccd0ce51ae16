//! When a cluster head gives calls away, for heads with less to do to take.
//!
//! New connections go to the least loaded head, but what they will ask for can't be foreseen: all the load may come over
//! the connections of one head while another is idle. DaRPC (Stuedi et al., SoCC'14) has a head whose load passes a
//! threshold put incoming calls into a queue that all heads look at on every round. Load is the number of rounds in a row in
//! which there was something to do, as a head that is not loaded keeps finding nothing. Handing a call over costs about a
//! microsecond on either side, so a call that is less work than that is better done at once, and so is one for which the
//! head is free.

use std::time::Duration;

/// The thresholds. Source: DaRPC, section on work stealing, which names none of their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StealRule {
    /// How many rounds in a row there was something to do before a head gives anything away: its load.
    pub busy_rounds: u32,
    /// The least work of a call, as learned, that is given away. Several times what handing over costs.
    pub least_work: Duration,
    /// How many calls may wait to be taken, for each head that could take them. What is more stays, where it is sorted by
    /// urgency.
    pub waiting: usize,
}

impl Default for StealRule {
    /// After 4 busy rounds, calls of 5 us or more, 2 waiting for each head.
    fn default() -> Self {
        Self { busy_rounds: 4, least_work: Duration::from_micros(5), waiting: 2 }
    }
}

/// What a head knows when a call comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Rounds in a row in which there was something to do.
    pub rounds: u32,
    /// Calls that are ready here and would run before or beside this one.
    pub ready: usize,
    /// The work of calls of this method; `None`: not known yet.
    pub work: Option<Duration>,
    /// Calls that were given away and not taken.
    pub waiting: usize,
    /// Heads that could take it.
    pub others: usize,
}

impl StealRule {
    /// Whether the call is given away.
    #[must_use]
    pub fn gives(&self, head: &Busy) -> bool {
        head.rounds >= self.busy_rounds
            && head.ready > 0
            && head.waiting < self.waiting.saturating_mul(head.others)
            && head.work.is_some_and(|work| work >= self.least_work)
    }
}
