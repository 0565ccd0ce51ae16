//! Ports, and the ways between hosts.

use super::{CodelRule, FabricError};
use std::time::Duration;

/// One direction of a cable, with the queue before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortRule {
    /// Bits a second.
    pub rate: u64,
    /// From the port to the next one, or to the host.
    pub delay: Duration,
    /// How many bytes may wait in each band.
    pub queue: u64,
    /// Queues, the first served before the others: 1 to 8.
    pub bands: usize,
    /// Which share of packets is lost on the way, beside those that find the queue full.
    pub loss: f64,
    /// Up to so many bytes of one flow that wait one behind the other are sent as one, as hosts merge packets: once begun, they
    /// go before all others. 0: each packet alone.
    pub merged: u64,
    /// Whether packets are dropped where all have waited for too long.
    pub codel: Option<CodelRule>,
}

impl PortRule {
    /// 1 Gbit/s, 2 us, a queue of 256 KiB without bands.
    pub const GIGABIT: Self = Self {
        rate: 1_000_000_000,
        delay: Duration::from_micros(2),
        queue: 256 << 10,
        bands: 1,
        loss: 0.0,
        merged: 0,
        codel: None,
    };

    pub(super) fn validate(&self) -> Result<(), FabricError> {
        if !(1_000..=1_000_000_000_000).contains(&self.rate) {
            return Err(FabricError::Rate(self.rate));
        }
        if self.delay > Duration::from_secs(60) {
            return Err(FabricError::Delay(self.delay));
        }
        if !(1..=8).contains(&self.bands) {
            return Err(FabricError::Bands(self.bands));
        }
        if !(0.0..=0.5).contains(&self.loss) {
            return Err(FabricError::Loss(self.loss));
        }
        Ok(())
    }
}

/// The most ports on a way.
pub(super) const MOST_HOPS: usize = 6;

/// A way: ports, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    ports: [u16; MOST_HOPS],
    hops: u8,
}

impl Way {
    fn new(of: &[usize]) -> Self {
        let mut ports = [0; MOST_HOPS];
        ports.iter_mut().zip(of).for_each(|(port, of)| *port = *of as u16);
        Self { ports, hops: of.len() as u8 }
    }

    /// The port of a hop; `None`: the packet is there.
    #[inline]
    pub(super) fn port(&self, hop: u8) -> Option<usize> {
        (hop < self.hops).then(|| usize::from(self.ports[usize::from(hop)]))
    }
}

/// Ports and ways.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) hosts: usize,
    pub(super) ports: Vec<PortRule>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Every host has a port up to one switch, which has a port down to each.
    Star,
    Tree {
        pods: usize,
        edges: usize,
        per_edge: usize,
        aggregations: usize,
        cores: usize,
    },
}

impl Network {
    /// Hosts around a switch: a port up from each, and a port down to each.
    ///
    /// # Errors
    /// If there are too many, or a rule can't be meant.
    pub fn star(hosts: usize, up: PortRule, down: PortRule) -> Result<Self, FabricError> {
        if !(2..=1024).contains(&hosts) {
            return Err(FabricError::Hosts(hosts));
        }
        let ports = std::iter::repeat_n(up, hosts).chain(std::iter::repeat_n(down, hosts)).collect();
        Self { hosts, ports, shape: Shape::Star }.validated()
    }

    /// Pods of edge switches, each with some hosts, and as many aggregation switches; each of these with its part of the core
    /// switches. Cables to hosts go by `host`, those between switches by `switch`. Ways are chosen at random for each flow.
    ///
    /// # Errors
    /// If there are too many, or a rule can't be meant.
    pub fn fat_tree(
        pods: usize,
        per_pod: usize,
        per_edge: usize,
        host: PortRule,
        switch: PortRule,
    ) -> Result<Self, FabricError> {
        let (edges, aggregations, cores) = (per_pod, per_pod, per_pod * 2);
        let hosts = pods.saturating_mul(per_pod).saturating_mul(per_edge);
        if !(2..=1024).contains(&hosts) {
            return Err(FabricError::Hosts(hosts));
        }
        let between = 2 * pods * edges * aggregations + 2 * pods * cores;
        let ports = std::iter::repeat_n(host, 2 * hosts).chain(std::iter::repeat_n(switch, between)).collect();
        Self { hosts, ports, shape: Shape::Tree { pods, edges, per_edge, aggregations, cores } }.validated()
    }

    fn validated(self) -> Result<Self, FabricError> {
        if self.ports.len() > 2000 {
            return Err(FabricError::Ports(self.ports.len()));
        }
        self.ports.iter().try_for_each(PortRule::validate)?;
        Ok(self)
    }

    /// How many hosts there are.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Bits a second of a host's cable.
    #[must_use]
    pub fn host_rate(&self) -> u64 {
        self.ports[0].rate
    }

    /// A way between two hosts, by any number that chooses among those that there are.
    pub(super) fn way(&self, from: usize, to: usize, choice: u64) -> Way {
        let (up, down) = (from, self.hosts + to);
        let Shape::Tree { pods, edges, per_edge, aggregations, cores } = self.shape else {
            return Way::new(&[up, down]);
        };
        let (edge, other) = (from / per_edge, to / per_edge);
        if edge == other {
            return Way::new(&[up, down]);
        }
        // Edge switches' ports up, aggregation switches' down, their ports up, and the core's down.
        let first = 2 * self.hosts;
        let second = first + pods * edges * aggregations;
        let third = second + pods * edges * aggregations;
        let fourth = third + pods * cores;
        let (pod, other_pod) = (edge / edges, other / edges);
        let choice = choice as usize;
        let aggregation = choice % aggregations;
        let edge_up = first + edge * aggregations + aggregation;
        let aggregation_down = second + other * aggregations + aggregation;
        if pod == other_pod {
            return Way::new(&[up, edge_up, aggregation_down, down]);
        }
        // Each core switch is joined to one aggregation switch of every pod.
        let each = cores / aggregations;
        let core = aggregation * each + choice / aggregations % each;
        Way::new(&[up, edge_up, third + pod * cores + core, fourth + other_pod * cores + core, aggregation_down, down])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On every way each port is used by one place of the network: ports at the same height are never mixed up.
    #[test]
    fn ways_go_up_and_down_again() {
        let tree = Network::fat_tree(4, 4, 8, PortRule::GIGABIT, PortRule::GIGABIT).unwrap();
        assert_eq!((tree.hosts(), tree.ports.len()), (128, 256 + 2 * 64 + 2 * 32));
        let mut used = vec![None; tree.ports.len()];
        for from in 0..128 {
            for to in (0..128).filter(|to| *to != from) {
                for choice in 0..8 {
                    let way = tree.way(from, to, choice);
                    assert_eq!((way.port(0), way.port(way.hops - 1)), (Some(from), Some(128 + to)));
                    for hop in 0..way.hops {
                        let height = if hop < way.hops / 2 { hop } else { 10 - (way.hops - 1 - hop) };
                        let port = way.port(hop).unwrap();
                        assert_eq!(*used[port].get_or_insert(height), height, "{from} {to} {choice}");
                    }
                }
            }
        }
        assert!(used.iter().all(Option::is_some));
    }
}
