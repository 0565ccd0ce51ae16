//! Flows that come at random, and wait until the guests that send them have run.

use super::FabricError;
use super::flows::Flows;
use super::guests::{Guests, GuestsOutcome};
use super::network::Network;
use super::planned::Begins;
use super::tcp::TcpRule;
use crate::seed::{Seed, Stream};
use crate::turns::NEVER;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) struct Arrivals<'a> {
    pub(super) flows: &'a Flows,
    hosts: u64,
    gaps: Stream,
    draws: Stream,
    /// From one to the next on average, in nanoseconds.
    gap: f64,
    next: f64,
    begun: u64,
    /// What connections that are kept have sent, by their ends.
    sent: Vec<u64>,
    /// Of hosts whose guests share their cores.
    guests: Option<Guests>,
    /// When those that have come begin to send, and their places.
    waiting: BinaryHeap<Reverse<(u64, u64, u32)>>,
    places: Vec<Option<Begins>>,
    free: Vec<u32>,
}

/// What there is to do at an instant.
pub(super) enum Comes {
    /// A flow begins to send.
    Begins(Begins),
    /// A flow has come, and waits for its guest.
    Waits,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(flows: &'a Flows, network: &Network, seed: Seed) -> Result<Self, FabricError> {
        let guests = flows.vcpu.map(|rule| Guests::new(vec![Some(rule); network.hosts()], seed)).transpose()?;
        Ok(Self {
            flows,
            hosts: network.hosts() as u64,
            gaps: seed.stream("gaps", 0),
            draws: seed.stream("flows", 0),
            gap: 1e9 / flows.per_second(network),
            next: 0.0,
            begun: 0,
            sent: vec![0; if flows.kept { network.hosts() * network.hosts() } else { 0 }],
            guests,
            waiting: BinaryHeap::new(),
            places: Vec::new(),
            free: Vec::new(),
        })
    }

    /// When there is something to do.
    pub(super) fn first(&self) -> u64 {
        let waiting = self.waiting.peek().map_or(NEVER, |Reverse((sends, ..))| *sends);
        if self.are_over() { waiting } else { waiting.min(self.next as u64) }
    }

    /// Whether all have come.
    pub(super) fn are_over(&self) -> bool {
        self.begun == self.flows.flows
    }

    /// How many have come and not begun to send.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn next(&mut self, now: u64, tcp: TcpRule) -> Option<Comes> {
        if let Some(&Reverse((sends, _, place))) = self.waiting.peek()
            && sends <= now
        {
            self.waiting.pop();
            self.free.push(place);
            return self.places[place as usize].take().map(Comes::Begins);
        }
        let begins = self.draw(now, tcp);
        let Some(guests) = &mut self.guests else { return Some(Comes::Begins(begins)) };
        let sends = guests.sends_at(begins.from, now);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        self.places[place as usize] = Some(begins);
        self.waiting.push(Reverse((sends, self.begun, place)));
        Some(Comes::Waits)
    }

    fn draw(&mut self, now: u64, tcp: TcpRule) -> Begins {
        self.begun += 1;
        if !self.are_over() {
            self.next -= (1.0 - self.gaps.unit()).ln() * self.gap;
        }
        let from = self.draws.below(self.hosts);
        let to = (from + 1 + self.draws.below(self.hosts - 1)) % self.hosts;
        let (choice, bytes) = (self.draws.number() >> 1, self.flows.sizes.draw(&mut self.draws));
        let connection = self.sent.get_mut((from * self.hosts + to) as usize);
        let sent = connection.map_or(0, |sent| std::mem::replace(sent, sent.saturating_add(bytes)));
        let counted = self.begun > self.flows.flows / 10;
        Begins { from: from as usize, to: to as usize, bytes, since: now, plan: 0, counted, choice, sent, tcp }
    }

    /// What guests and their neighbours had of their cores until then.
    pub(super) fn usage(self, until: u64) -> Option<GuestsOutcome> {
        self.guests.map(|guests| guests.outcome(until))
    }
}
