//! Nodes, and a link from each to each.

use crate::link::{Bandwidth, Fate, Link, LinkRule, Pipe};
use crate::seed::Seed;
use greenwave_policy::Time;

/// Nodes from 0 on, and all the links between them.
///
/// A message leaves through its sender's interface, which all its links share, and then passes the link of the pair.
/// What comes to a node doesn't queue at its interface; who needs that has a [`Pipe`] for it and an event at the
/// arrival.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: usize,
    /// `links[from * nodes + to]`.
    links: Vec<Link>,
    interfaces: Vec<(Bandwidth, Pipe)>,
    cut: Vec<bool>,
}

impl Network {
    /// So many nodes, with the same rule between any two; interfaces without limit. Each link draws from its own
    /// stream of `seed`.
    ///
    /// A node's link to itself is perfect until it is told otherwise.
    #[must_use]
    pub fn new(nodes: usize, seed: Seed, rule: LinkRule) -> Self {
        let link = |index: usize| {
            let (from, to) = (index / nodes, index % nodes);
            // The pair and not the index, so that one more node doesn't change the others' streams.
            let pair = (from as u64) << 32 | to as u64;
            Link::new(if from == to { LinkRule::PERFECT } else { rule }, seed.stream("link", pair))
        };
        Self {
            nodes,
            links: (0..nodes * nodes).map(link).collect(),
            interfaces: vec![(Bandwidth::UNLIMITED, Pipe::default()); nodes],
            cut: vec![false; nodes * nodes],
        }
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Sends `bytes` at `now`. Calls for one sender have to come in the order of time.
    ///
    /// # Panics
    /// If there are no such nodes; so do the others.
    pub fn send(&mut self, now: Time, from: usize, to: usize, bytes: u64) -> Fate {
        let index = self.index(from, to);
        if self.cut[index] {
            return Fate::Cut;
        }
        let (bandwidth, pipe) = &mut self.interfaces[from];
        let departs = if from == to { now } else { pipe.send(now, bytes, *bandwidth) };
        self.links[index].send(departs, bytes)
    }

    /// One direction's link.
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[self.index(from, to)]
    }

    /// Changes the rule of one direction.
    pub fn change(&mut self, from: usize, to: usize, rule: LinkRule) {
        let index = self.index(from, to);
        self.links[index].change(rule);
    }

    /// Limits all that leaves a node, whereto it may be.
    pub fn limit(&mut self, node: usize, bandwidth: Bandwidth) {
        self.interfaces[node].0 = bandwidth;
    }

    /// When all that was sent by a node has left its interface.
    #[must_use]
    pub fn interface_free(&self, node: usize) -> Time {
        self.interfaces[node].1.free()
    }

    /// Cuts one direction, beside what the rule says.
    pub fn cut(&mut self, from: usize, to: usize) {
        let index = self.index(from, to);
        self.cut[index] = true;
    }

    /// Cuts both directions between every node of `side` and every other.
    pub fn partition(&mut self, side: &[usize]) {
        for here in 0..self.nodes {
            for there in 0..self.nodes {
                if side.contains(&here) != side.contains(&there) {
                    self.cut(here, there);
                }
            }
        }
    }

    /// Whether one direction is cut.
    #[must_use]
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut[self.index(from, to)] || self.link(from, to).rule().cut
    }

    /// Mends all that was cut by [`Network::cut`] and [`Network::partition`].
    pub fn heal(&mut self) {
        self.cut.fill(false);
    }

    fn index(&self, from: usize, to: usize) -> usize {
        assert!(from < self.nodes && to < self.nodes, "a link from {from} to {to} among {} nodes", self.nodes);
        from * self.nodes + to
    }
}
