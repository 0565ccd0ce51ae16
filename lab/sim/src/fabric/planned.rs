//! Flows that begin by a plan.

use super::guests::{Guests, GuestsOutcome};
use super::{FabricError, Network, Outcome, TcpRule};
use crate::cores::Histogram;
use crate::seed::{Seed, Stream};
use crate::vcpu::VcpuRule;
use greenwave_policy::Span;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Flows of one size between two hosts, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// From this host.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// How large each is.
    pub bytes: u64,
    /// When the first begins.
    pub after: Duration,
    /// From one to the next.
    pub every: Duration,
    /// At most so much later each begins, uniformly.
    pub jitter: Duration,
    /// The largest window in segments, where it is smaller than all flows' ([`TcpRule`]): what hosts let a guest have under
    /// way.
    pub window: Option<u32>,
    /// All of them are sent over one connection, and what that had sent before the first; `None`: each has a connection of its
    /// own. What a connection has sent is all that [`Tagging::Sent`](super::Tagging::Sent) sees.
    pub sent: Option<u64>,
    /// The guest that sends them shares a core, and is woken for each. A flow's time counts from then.
    pub vcpu: Option<VcpuRule>,
}

impl Planned {
    pub(super) fn validate(&self, network: &Network) -> Result<(), FabricError> {
        let is_there = |host: usize| host < network.hosts();
        let fine = is_there(self.from) && is_there(self.to) && self.from != self.to && self.bytes > 0;
        // A flow's segments are numbered with 32 bits.
        if fine && self.bytes < 1 << 40 && self.every >= Duration::from_micros(1) {
            return Ok(());
        }
        Err(FabricError::Plan(self.from, self.to))
    }
}

/// What became of planned flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlannedOutcome {
    /// Of each plan.
    pub plans: Vec<Served>,
    /// Packets that were lost.
    pub lost: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// A hash over all events.
    pub hash: u64,
    /// What the guests that send had of their cores.
    pub guests: GuestsOutcome,
    /// How many flows were unfinished when the run was cut, at [`MOST_UNFINISHED`]: more come than can be carried.
    pub cut_at: Option<usize>,
}

/// With so many unfinished flows a run of planned ones is cut.
pub const MOST_UNFINISHED: usize = 100_000;

/// What became of a plan's flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// From a flow's begin until its receiver had all of it.
    pub took: Histogram,
    /// What receivers got, in bits a second.
    pub rate: f64,
}

/// A flow that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begins {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
    /// From when on its time counts.
    pub(super) since: u64,
    pub(super) plan: usize,
    pub(super) counted: bool,
    pub(super) choice: u64,
    /// What its connection has sent before it.
    pub(super) sent: u64,
    pub(super) tcp: TcpRule,
}

pub(super) struct Plans<'a> {
    plans: &'a [Planned],
    end: u64,
    /// When flows begin to send, since when they want to, and their plans.
    ahead: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// How many of each plan have been put there.
    planned: Vec<u64>,
    /// What the connection of each plan has sent.
    sent: Vec<u64>,
    jitters: Vec<Stream>,
    guests: Guests,
    took: Vec<Histogram>,
    delivered: Vec<u64>,
}

impl<'a> Plans<'a> {
    pub(super) fn new(plans: &'a [Planned], time: Duration, seed: Seed) -> Result<Self, FabricError> {
        let mut new = Self {
            plans,
            end: Span::from(time).as_nanos(),
            ahead: BinaryHeap::new(),
            planned: vec![0; plans.len()],
            sent: plans.iter().map(|plan| plan.sent.unwrap_or(0)).collect(),
            jitters: (0..plans.len()).map(|at| seed.stream("plan", at as u64)).collect(),
            guests: Guests::new(plans.iter().map(|plan| plan.vcpu).collect(), seed)?,
            took: vec![Histogram::new(); plans.len()],
            delivered: vec![0; plans.len()],
        };
        (0..plans.len()).for_each(|plan| new.plan(plan));
        Ok(new)
    }

    /// Puts a plan's next flow among those that lie ahead.
    fn plan(&mut self, at: usize) {
        let plan = &self.plans[at];
        let jitter = self.jitters[at].span(plan.jitter.saturating_add(Duration::from_nanos(1)));
        let (every, first) = (Span::from(plan.every), Span::from(plan.after.saturating_add(jitter)));
        let since = every.as_nanos().saturating_mul(self.planned[at]).saturating_add(first.as_nanos());
        self.planned[at] += 1;
        if since >= self.end {
            return;
        }
        self.ahead.push(Reverse((self.guests.sends_at(at, since), since, at)));
    }

    /// When the next flow begins to send.
    pub(super) fn first(&self) -> Option<u64> {
        self.ahead.peek().map(|Reverse((sends, ..))| *sends)
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn next(&mut self, choice: u64, tcp: &TcpRule) -> Option<Begins> {
        let Reverse((_, since, at)) = self.ahead.pop()?;
        self.plan(at);
        let Planned { from, to, bytes, window, sent: connection, .. } = self.plans[at];
        let sent = self.sent[at];
        if connection.is_some() {
            self.sent[at] += bytes;
        }
        let most_window = window.unwrap_or(u32::MAX).min(tcp.most_window);
        let tcp = TcpRule { most_window, ..*tcp };
        Some(Begins { from, to, bytes, since, plan: at, counted: true, choice, sent, tcp })
    }

    pub(super) fn received(&mut self, plan: usize, took: u64) {
        self.took[plan].add(took);
    }

    pub(super) fn delivered(&mut self, plan: usize, bytes: u64) {
        self.delivered[plan] += bytes;
    }

    /// Until then, which is the end of the plans or where they were cut.
    pub(super) fn outcome(self, until: u64, of: &Outcome) -> PlannedOutcome {
        let seconds = until as f64 / 1e9;
        let served = |(took, bytes): (Histogram, u64)| Served { took, rate: bytes as f64 * 8.0 / seconds };
        let plans = self.took.into_iter().zip(self.delivered).map(served).collect();
        let &Outcome { lost, timeouts, hash, cut_at, .. } = of;
        PlannedOutcome { plans, lost, timeouts, hash, cut_at, guests: self.guests.outcome(until) }
    }
}
