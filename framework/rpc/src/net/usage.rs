//! What connections hold, counted for all threads of a server together, and what goes beyond its [`Bounds`].
//!
//! Requests of up to [`SMALL`] bytes are not counted, and what a connection's end has is told only when it has changed by more
//! than [`GRAIN`]: so calls with short messages touch nothing that threads share. What is counted is at most so much less than
//! what is held, for each connection.
//!
//! Invariants:
//! 1. `held` of all is the sum of what connections have told and of the charges that there are; `held` of one is its own part.
//! 2. `open` and `from` count the [`ConnectionUsage`]s that there are.

use crate::bounds::Bounds;
use greenwave_policy::Criticality;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of messages that are not counted.
pub(crate) const SMALL: usize = 4 << 10;

/// What a connection holds is told when it has changed by more bytes than this.
const GRAIN: usize = 16 << 10;

/// Bytes of half received messages that a connection has room for however little is left, so that calls with short messages go
/// on.
const FLOOR: usize = 16 << 10;

/// What a server's connections hold.
#[derive(Debug)]
pub(crate) struct Usage {
    bounds: Bounds,
    open: AtomicUsize,
    from: Mutex<HashMap<IpAddr, usize>>,
    held: AtomicUsize,
    /// The most that was ever held.
    peak: AtomicUsize,
}

/// What a connection holds.
#[derive(Debug)]
pub(crate) struct ConnectionUsage {
    account: Arc<Account>,
    from: Option<IpAddr>,
    /// What was told of messages that its end has, half received or unsent.
    told: usize,
    /// Its end was given less room than its limits say, or has to be.
    pub(super) heeds: bool,
}

#[derive(Debug)]
struct Account {
    usage: Arc<Usage>,
    held: AtomicUsize,
}

/// Bytes of a request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Usage {
    /// Of a server that has no connection yet.
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            open: AtomicUsize::new(0),
            from: Mutex::default(),
            held: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        })
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Whether so much is held by all that ends may have to be given less room than their limits say.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.held.load(Relaxed) > self.bounds.memory / 2
    }

    /// The most bytes of messages that were ever held at once.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// A further connection from there, if there may be one.
    pub(crate) fn connect(self: &Arc<Self>, from: Option<IpAddr>) -> Option<ConnectionUsage> {
        let mut all = self.from.lock().unwrap_or_else(PoisonError::into_inner);
        if self.open.load(Relaxed) >= self.bounds.connections {
            return None;
        }
        let from = from.map(network);
        if let Some(from) = from {
            let own = all.entry(from).or_default();
            if *own >= self.bounds.connections_each {
                return None;
            }
            *own += 1;
        }
        self.open.fetch_add(1, Relaxed);
        let account = Arc::new(Account { usage: Arc::clone(self), held: AtomicUsize::new(0) });
        Some(ConnectionUsage { account, from, told: 0, heeds: false })
    }
}

/// What counts as one address: of IPv6 the network, as whoever has an address there has them all.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Account {
    fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Relaxed);
        let all = self.usage.held.fetch_add(bytes, Relaxed) + bytes;
        self.usage.peak.fetch_max(all, Relaxed);
    }

    fn sub(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
        self.usage.held.fetch_sub(bytes, Relaxed);
    }

    /// Bytes that may be held beside.
    fn left(&self) -> usize {
        self.left_of(self.usage.bounds.memory)
    }

    /// The same for a request. Of all that may be held the last quarter is for calls that are critical, half of it for those that
    /// are sheddable-plus as well.
    fn left_for(&self, criticality: Criticality) -> usize {
        let memory = self.usage.bounds.memory;
        let spared = match criticality {
            Criticality::Sheddable => memory / 4,
            Criticality::SheddablePlus => memory / 8,
            Criticality::Critical | Criticality::CriticalPlus => 0,
        };
        self.left_of(memory - spared)
    }

    /// The same, where so many may be held by all.
    fn left_of(&self, memory: usize) -> usize {
        let Bounds { connection_memory, .. } = self.usage.bounds;
        let own = connection_memory.saturating_sub(self.held.load(Relaxed));
        own.min(memory.saturating_sub(self.usage.held.load(Relaxed)))
    }
}

impl ConnectionUsage {
    /// Tells what its end has of messages now. Whether memory is tight because of it: others may have as much to announce in
    /// the same round, and have to be asked again.
    #[inline]
    pub(super) fn tell(&mut self, held: usize) -> bool {
        if held.abs_diff(self.told) <= GRAIN {
            return false;
        }
        self.tell_all(held);
        self.account.usage.is_tight()
    }

    #[cold]
    fn tell_all(&mut self, held: usize) {
        let before = std::mem::replace(&mut self.told, held);
        if held > before {
            self.account.add(held - before);
        } else {
            self.account.sub(before - held);
        }
        self.heeds |= self.is_tight();
    }

    /// Whether so much is held, by it or by all, that its end may have to be given less room than its limits say.
    fn is_tight(&self) -> bool {
        let Account { usage, held } = &*self.account;
        usage.is_tight() || held.load(Relaxed) > usage.bounds.connection_memory / 2
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.account.usage.bounds
    }

    /// Bytes of further messages that its end may take in, until it is asked again.
    #[cold]
    pub(super) fn heed(&mut self) -> usize {
        self.heeds = self.is_tight();
        if self.heeds { self.account.left().max(FLOOR) } else { usize::MAX }
    }

    /// Whether a message of so many bytes may be held beside.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.account.left()
    }

    /// Counts a request, for as long as the charge is there; `Err`: there is only so much room, for what matters as much.
    pub(super) fn charge(&mut self, bytes: usize, criticality: Criticality) -> Result<Charge, usize> {
        let left = self.account.left_for(criticality);
        if bytes > left {
            return Err(left);
        }
        // Others may have charged since; each thread is at most one message beyond.
        self.account.add(bytes);
        self.heeds |= self.is_tight();
        Ok(Charge { account: Arc::clone(&self.account), bytes })
    }
}

impl Drop for ConnectionUsage {
    fn drop(&mut self) {
        self.tell_all(0);
        let usage = &self.account.usage;
        let mut all = usage.from.lock().unwrap_or_else(PoisonError::into_inner);
        usage.open.fetch_sub(1, Relaxed);
        if let Some(from) = self.from
            && let Some(own) = all.get_mut(&from)
        {
            *own -= 1;
            if *own == 0 {
                all.remove(&from);
            }
        }
    }
}

impl Charge {
    /// One beside it, of nothing.
    pub(crate) fn beside(&self) -> Self {
        Self { account: Arc::clone(&self.account), bytes: 0 }
    }

    /// Counts so many bytes from now on; `Err`: there is only so much room beside what is held, and it stays as it is.
    pub(crate) fn change(&mut self, bytes: usize, criticality: Criticality) -> Result<(), usize> {
        let before = self.bytes;
        if bytes > before {
            let left = self.account.left_for(criticality);
            if bytes - before > left {
                return Err(left);
            }
            // As above.
            self.account.add(bytes - before);
        } else {
            self.account.sub(before - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usage() -> Arc<Usage> {
        Usage::new(Bounds::new().connections(3).connections_each(2).memory(100 << 10).connection_memory(60 << 10))
    }

    #[test]
    fn connections_are_counted_in_all_and_for_each_address() {
        let usage = usage();
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|address| Some(IpAddr::from(address)));
        let held = [usage.connect(one).unwrap(), usage.connect(one).unwrap()];
        assert!(usage.connect(one).is_none(), "a third of one address");
        let third = usage.connect(other).unwrap();
        assert!(usage.connect(None).is_none(), "a fourth in all");
        drop(third);
        let last = usage.connect(None).unwrap();
        drop((held, last));
        assert_eq!((usage.open.load(Relaxed), usage.from.lock().unwrap().len()), (0, 0), "nothing is left of them");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_so_is_one_of_ipv4_however_it_is_written() {
        let usage = usage();
        let from = |text: &str| usage.connect(Some(text.parse().unwrap()));
        let both = (from("2001:db8::1").unwrap(), from("2001:db8::2").unwrap());
        assert!(from("2001:db8::3").is_none());
        drop(both);
        let _both = (from("10.0.0.1").unwrap(), from("::ffff:10.0.0.1").unwrap());
        assert!(from("10.0.0.1").is_none());
        assert!(from("2001:db8:0:1::1").is_some());
    }

    #[test]
    fn neither_one_connection_nor_all_hold_more_than_they_may() {
        let usage = usage();
        let mut one = usage.connect(None).unwrap();
        let mut other = usage.connect(None).unwrap();
        let charge = one.charge(50 << 10, Criticality::Critical).unwrap();
        assert_eq!(one.charge(11 << 10, Criticality::Critical).unwrap_err(), 10 << 10, "of its own");
        let _half = other.charge(45 << 10, Criticality::Critical).unwrap();
        assert_eq!(other.charge(6 << 10, Criticality::Critical).unwrap_err(), 5 << 10, "of all");
        assert!(one.is_tight() && other.is_tight());
        drop(charge);
        one.tell(50 << 10);
        assert_eq!(one.charge(11 << 10, Criticality::Critical).unwrap_err(), 5 << 10, "what its end has counts too");
        drop(one);
        assert_eq!(other.charge(15 << 10, Criticality::Critical).map(drop), Ok(()), "and no longer when it is gone");
        assert!(usage.peak() <= 100 << 10);
    }

    #[test]
    fn what_is_left_last_is_for_those_that_matter_most() {
        let usage = usage();
        let connection = || usage.connect(None).unwrap();
        let (mut one, mut other, all) = (connection(), connection(), usage.bounds.memory);
        let _held = one.charge(all / 2, Criticality::Critical).unwrap();
        let left = |other: &mut ConnectionUsage, criticality| other.charge(all, criticality).unwrap_err();
        assert_eq!(left(&mut other, Criticality::Sheddable), all / 2 - all / 4);
        assert_eq!(left(&mut other, Criticality::SheddablePlus), all / 2 - all / 8);
        assert_eq!(left(&mut other, Criticality::Critical), all / 2);
        assert_eq!(left(&mut other, Criticality::CriticalPlus), all / 2);
    }

    #[test]
    fn that_memory_gets_tight_is_said_by_what_makes_it_so() {
        let usage = usage();
        let mut one = usage.connect(None).unwrap();
        let mut other = usage.connect(None).unwrap();
        assert!(!one.tell(40 << 10), "less than half");
        assert!(other.tell(20 << 10), "more than half, together");
    }

    proptest! {
        #[test]
        fn what_is_held_is_the_sum_of_what_was_told_and_charged(steps in prop::collection::vec((0_usize..4, 0_usize..20_000), 0..60)) {
            let usage = usage();
            let mut connection = usage.connect(None).unwrap();
            let mut charges = Vec::new();
            for (kind, bytes) in steps {
                match kind {
                    0 => _ = connection.tell(bytes),
                    1 => charges.extend(connection.charge(bytes, Criticality::Critical)),
                    2 => if let Some(charge) = charges.last_mut() {
                        let (before, changed) = (charge.bytes, charge.change(bytes, Criticality::Critical));
                        prop_assert_eq!(charge.bytes, if changed.is_ok() { bytes } else { before });
                    },
                    _ => drop(charges.pop()),
                }
                let charged: usize = charges.iter().map(|charge: &Charge| charge.bytes).sum();
                prop_assert_eq!(usage.held.load(Relaxed), charged + connection.told);
                prop_assert!(charged <= 60 << 10);
            }
            drop(connection);
            drop(charges);
            prop_assert_eq!(usage.held.load(Relaxed), 0);
        }
    }
}
