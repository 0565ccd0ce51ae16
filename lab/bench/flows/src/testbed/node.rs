//! Who is where: guests, their hosts, the switch and the receivers.
//!
//! ```text
//!   A1 A2        C1        D1
//!    \ /          |         |         guests
//!  host A      host C    host D       bridges; here flows are tagged
//!     \           |        /
//!      '------- switch ---'           bridge
//!               /    \
//!              B1     E (E1 and E2)   receivers
//! ```
//! A3 and A4, which only compute, are processes beside A1 and need no node in the network.

use std::fmt;
use std::net::Ipv4Addr;

use clap::ValueEnum;
use greenwave_bench::benchmark::Named as _;

/// A network namespace of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Node {
    /// The guest that answers with small responses.
    A1,
    /// The guest beside it that sends bulk.
    A2,
    /// The guest on host C that sends large flows.
    C1,
    /// The guest on host D that sends large flows.
    D1,
    /// The host of A1 and A2.
    HostA,
    /// The host of C1.
    HostC,
    /// The host of D1.
    HostD,
    /// What connects the hosts and the receivers.
    Switch,
    /// The receiver of A2's bulk.
    B1,
    /// The receiver of small responses (E1) and of large flows (E2), behind one port of the switch.
    E,
}

/// The address of E1, where small responses go.
pub const E1: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 51);
/// Addresses that A1 reaches by way of B1: eight million of them, where nobody is.
pub const ELSEWHERE: &str = "10.128.0.0/9";
/// The address of E2, where large flows go.
pub const E2: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 52);

impl Node {
    /// Its addresses; none for what only forwards.
    pub fn addresses(self) -> &'static [Ipv4Addr] {
        const A1: &[Ipv4Addr] = &[Ipv4Addr::new(10, 99, 0, 1)];
        const A2: &[Ipv4Addr] = &[Ipv4Addr::new(10, 99, 0, 2)];
        const C1: &[Ipv4Addr] = &[Ipv4Addr::new(10, 99, 0, 3)];
        const D1: &[Ipv4Addr] = &[Ipv4Addr::new(10, 99, 0, 4)];
        const B1: &[Ipv4Addr] = &[Ipv4Addr::new(10, 99, 0, 21)];
        match self {
            Self::A1 => A1,
            Self::A2 => A2,
            Self::C1 => C1,
            Self::D1 => D1,
            Self::B1 => B1,
            Self::E => &[E1, E2],
            Self::HostA | Self::HostC | Self::HostD | Self::Switch => &[],
        }
    }

    /// Its first address.
    ///
    /// # Panics
    /// For a node that only forwards.
    pub fn address(self) -> Ipv4Addr {
        *self.addresses().first().expect("guests and receivers have addresses, and nothing else is talked to")
    }

    /// The guests of a host, each with the host's side of its interface.
    pub fn guests(self) -> &'static [(Self, &'static str)] {
        match self {
            Self::HostA => &[(Self::A1, "va1"), (Self::A2, "va2")],
            Self::HostC => &[(Self::C1, "vc1")],
            Self::HostD => &[(Self::D1, "vd1")],
            _ => &[],
        }
    }

    /// The hosts, on which flows are tagged.
    pub const HOSTS: [Self; 3] = [Self::HostA, Self::HostC, Self::HostD];
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// The interface of a guest or a receiver.
pub(super) const ETH: &str = "eth0";
/// The interface of a host towards the switch.
pub const UPLINK: &str = "up0";
/// The switch's interface towards E.
pub const PORT_E: &str = "pe";

/// The switch's interfaces towards the hosts.
pub const HOST_PORTS: [&str; 3] = ["pa", "pc", "pd"];

/// Pairs of interfaces: who has which, and who the other.
pub(super) const CABLES: [(Node, &str, Node, &str); 9] = [
    (Node::HostA, "va1", Node::A1, ETH),
    (Node::HostA, "va2", Node::A2, ETH),
    (Node::HostC, "vc1", Node::C1, ETH),
    (Node::HostD, "vd1", Node::D1, ETH),
    (Node::Switch, "pa", Node::HostA, UPLINK),
    (Node::Switch, "pc", Node::HostC, UPLINK),
    (Node::Switch, "pd", Node::HostD, UPLINK),
    (Node::Switch, "pb", Node::B1, ETH),
    (Node::Switch, PORT_E, Node::E, ETH),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guest_is_plugged_into_its_host_where_the_host_says() {
        for host in Node::HOSTS {
            for (guest, interface) in host.guests() {
                assert!(CABLES.contains(&(host, interface, *guest, ETH)), "{guest}");
            }
            assert!(CABLES.iter().any(|cable| cable.2 == host && cable.3 == UPLINK), "{host}");
        }
    }

    #[test]
    fn nobody_shares_an_address_or_a_name() {
        let mut addresses: Vec<_> = Node::value_variants().iter().flat_map(|node| node.addresses()).collect();
        let mut names: Vec<_> = Node::value_variants().iter().map(ToString::to_string).collect();
        let before = (addresses.len(), names.len());
        addresses.sort();
        names.sort();
        addresses.dedup();
        names.dedup();
        assert_eq!((addresses.len(), names.len()), before);
    }
}
