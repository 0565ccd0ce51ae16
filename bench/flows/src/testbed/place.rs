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
//! A3 and A4, which only compute, are processes beside A1 and need no place in the network.

use std::fmt;
use std::net::Ipv4Addr;

/// A network namespace of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
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

impl Place {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::A1,
        Self::A2,
        Self::C1,
        Self::D1,
        Self::HostA,
        Self::HostC,
        Self::HostD,
        Self::Switch,
        Self::B1,
        Self::E,
    ];

    /// Its name, as in the names of namespaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::A1 => "a1",
            Self::A2 => "a2",
            Self::C1 => "c1",
            Self::D1 => "d1",
            Self::HostA => "hosta",
            Self::HostC => "hostc",
            Self::HostD => "hostd",
            Self::Switch => "switch",
            Self::B1 => "b1",
            Self::E => "e",
        }
    }

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
    /// For a place that only forwards.
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
pub(super) const CABLES: [(Place, &str, Place, &str); 9] = [
    (Place::HostA, "va1", Place::A1, ETH),
    (Place::HostA, "va2", Place::A2, ETH),
    (Place::HostC, "vc1", Place::C1, ETH),
    (Place::HostD, "vd1", Place::D1, ETH),
    (Place::Switch, "pa", Place::HostA, UPLINK),
    (Place::Switch, "pc", Place::HostC, UPLINK),
    (Place::Switch, "pd", Place::HostD, UPLINK),
    (Place::Switch, "pb", Place::B1, ETH),
    (Place::Switch, PORT_E, Place::E, ETH),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guest_is_plugged_into_its_host_where_the_host_says() {
        for host in Place::HOSTS {
            for (guest, interface) in host.guests() {
                assert!(CABLES.contains(&(host, interface, *guest, ETH)), "{guest}");
            }
            assert!(CABLES.iter().any(|cable| cable.2 == host && cable.3 == UPLINK), "{host}");
        }
    }

    #[test]
    fn nobody_shares_an_address_or_a_name() {
        let mut addresses: Vec<_> = Place::ALL.iter().flat_map(|place| place.addresses()).collect();
        let mut names: Vec<_> = Place::ALL.iter().map(|place| place.name()).collect();
        let before = (addresses.len(), names.len());
        addresses.sort();
        names.sort();
        addresses.dedup();
        names.dedup();
        assert_eq!((addresses.len(), names.len()), before);
    }
}
