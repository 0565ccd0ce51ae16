//! Whose connection's handshake is begun next: one of each address's, in turn.
//!
//! Whoever opens connections faster than handshakes can be made would otherwise have all others wait behind these, or be crowded
//! out by them.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

/// What waits, by the addresses that it is from.
pub(super) struct Turns<T> {
    /// Whose turn it is first. None is empty.
    lines: VecDeque<Line<T>>,
    len: usize,
}

struct Line<T> {
    from: Option<IpAddr>,
    waiting: VecDeque<T>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { lines: VecDeque::new(), len: 0 }
    }
}

impl<T> Turns<T> {
    /// One more waits; those from no address have a turn together. If that is more than `most`, the oldest of those of whom most wait
    /// gives way and comes back.
    pub(super) fn push(&mut self, from: Option<IpAddr>, one: T, most: usize) -> Option<T> {
        let from = from.map(site);
        match self.lines.iter_mut().find(|line| line.from == from) {
            Some(line) => line.waiting.push_back(one),
            None => self.lines.push_back(Line { from, waiting: VecDeque::from([one]) }),
        }
        self.len += 1;
        if self.len <= most {
            return None;
        }
        // Of several with as many, the one whose turn comes last.
        let (at, _) = self.lines.iter().enumerate().max_by_key(|(_, line)| line.waiting.len())?;
        let oldest = self.lines[at].waiting.pop_front();
        if self.lines[at].waiting.is_empty() {
            self.lines.remove(at);
        }
        self.len -= 1;
        oldest
    }

    /// Whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let mut line = self.lines.pop_front()?;
        let one = line.waiting.pop_front();
        if !line.waiting.is_empty() {
            self.lines.push_back(line);
        }
        self.len -= 1;
        one
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nobody waits any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Who has an address of IPv6 has all 2^64 of its network.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn who_comes_with_one_waits_for_one_of_each_other() {
        let mut turns = Turns::default();
        for number in 0..100 {
            assert_eq!(turns.push(address(["10.0.0.1", "10.0.0.2"][number % 2]), number, 1000), None);
        }
        turns.push(address("10.0.0.3"), 100, 1000);
        let first: Vec<_> = std::iter::from_fn(|| turns.pop()).take(4).collect();
        assert_eq!(first, [0, 1, 100, 2]);
    }

    #[test]
    fn who_has_most_gives_way() {
        let mut turns = Turns::default();
        let kept: Vec<_> = (0..4).map(|number| turns.push(address("10.0.0.1"), number, 4)).collect();
        assert_eq!(kept, [None; 4]);
        assert_eq!(turns.push(address("10.0.0.2"), 4, 4), Some(0));
        assert_eq!(turns.push(None, 5, 4), Some(1));
        assert_eq!(turns.push(address("10.0.0.1"), 6, 4), Some(2));
    }

    #[test]
    fn a_network_of_ipv6_is_one_and_a_mapped_address_is_its_own() {
        let mut turns = Turns::default();
        for (number, from) in ["2001:db8::1", "2001:db8::2", "::ffff:10.0.0.1", "10.0.0.1"].into_iter().enumerate() {
            turns.push(address(from), number, 10);
        }
        assert_eq!(turns.lines.len(), 2);
    }

    proptest! {
        #[test]
        fn all_that_waits_comes_out_once_and_each_addresss_in_order(
            steps in prop::collection::vec((0_u8..4, any::<bool>()), 0..200),
            most in 1_usize..20,
        ) {
            let (mut turns, mut out, mut came) = (Turns::default(), Vec::new(), 0);
            for (from, pops) in steps {
                if pops {
                    out.extend(turns.pop());
                } else {
                    out.extend(turns.push(address(&format!("10.0.0.{from}")), (from, came), most));
                    came += 1;
                }
                prop_assert!(turns.len <= most);
                prop_assert_eq!(turns.len, turns.lines.iter().map(|line| line.waiting.len()).sum::<usize>());
                prop_assert!(turns.lines.iter().all(|line| !line.waiting.is_empty()));
            }
            out.extend(std::iter::from_fn(|| turns.pop()));
            prop_assert!(turns.is_empty());
            for from in 0..4 {
                let numbers: Vec<_> = out.iter().filter(|one| one.0 == from).map(|one| one.1).collect();
                prop_assert!(numbers.is_sorted());
            }
            out.sort_by_key(|one| one.1);
            prop_assert!(out.iter().map(|one| one.1).eq(0..came));
        }
    }
}
