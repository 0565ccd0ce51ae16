//! Who a replica is, and to which group it belongs: what is on its disk before anything else.
//!
//! A *group's identity* tells it from every other group, one of the same name and the same replicas included. A replica's
//! *incarnation* is drawn when its directory is empty, so a replica that has lost its disk has another one.
//!
//! On disk, little-endian: `GWIDENT`, version 1; the number of the group's name: u64; the replica: u64; its incarnation:
//! u128; what it is: u8 (0 apart, 1 agreed, 2 member); the group's identity: u128, 0 if it is apart; how many founders there
//! are: u8, and for each its number: u64, and its incarnation: u128; CRC32C of all that.

use crate::NodeId;
use crate::ids::NODES_MOST;
use bytes::{Buf, BufMut};
use crc32c::crc32c;
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// What tells a group from all others: 128 bits that nobody can choose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u128);

/// Which life of a replica's directory it is: 128 random bits, never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u128);

/// The founders of a group, and the incarnation of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster(BTreeMap<NodeId, Incarnation>);

/// What a replica knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The number of its group's name.
    pub number: u64,
    /// Its own number.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// What it is to its group.
    pub standing: Standing,
}

/// What a replica is to its group. It goes from one to the next, and never back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It belongs to none.
    Apart,
    /// It is a founder, and these are all of them; it doesn't vote before all of them have agreed.
    Agreed(Roster),
    /// It belongs to this group.
    Member {
        /// Which one.
        group: GroupId,
        /// With whom it has founded it; empty if it hasn't.
        founders: Roster,
    },
}

/// These bytes are no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes say nobody's identity")]
pub struct NoIdentity;

impl GroupId {
    /// The identity with these bits, as a message says it.
    #[must_use]
    pub const fn of_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The identity of a group that is older than identities, by the number of its name: all such groups of a name have
    /// the same.
    #[must_use]
    pub fn adopted(number: u64) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(b"greenwave adopted group 1");
        hash.update(&number.to_le_bytes());
        Self(first_half(hash))
    }
}

impl Incarnation {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random bits.
    pub fn random() -> io::Result<Self> {
        let mut bits = [0; 16];
        SystemRandom::new().fill(&mut bits).map_err(|_| io::Error::other("the system gives no random bits"))?;
        Self::of_bits(u128::from_le_bytes(bits)).ok_or_else(|| io::Error::other("the system's random bits are zero"))
    }

    /// The one with these bits; none has zero.
    #[must_use]
    pub const fn of_bits(bits: u128) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Its bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl Roster {
    /// These founders. None: there is none, or more than a group has.
    #[must_use]
    pub fn new(founders: BTreeMap<NodeId, Incarnation>) -> Option<Self> {
        (1..=NODES_MOST).contains(&founders.len()).then_some(Self(founders))
    }

    /// The incarnation of a founder.
    #[must_use]
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.0.get(&node).copied()
    }

    /// Who the founders are.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The identity of the group that they found: as random as their incarnations are together.
    #[must_use]
    pub fn group(&self, number: u64) -> GroupId {
        let mut hash = Context::new(&SHA256);
        hash.update(b"greenwave group 1");
        hash.update(&number.to_le_bytes());
        for (node, incarnation) in &self.0 {
            hash.update(&node.number().to_le_bytes());
            hash.update(&incarnation.0.to_le_bytes());
        }
        GroupId(first_half(hash))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.0.len() as u8);
        for (node, incarnation) in &self.0 {
            out.put_u64_le(node.number());
            out.put_u128_le(incarnation.0);
        }
    }

    /// Reads one, in the order of numbers, so that each is written in one way.
    pub(crate) fn read(bytes: &mut impl Buf) -> Option<Self> {
        let count = bytes.try_get_u8().ok()?;
        let (mut founders, mut before) = (BTreeMap::new(), 0);
        for _ in 0..count {
            let node = NodeId::new(bytes.try_get_u64_le().ok()?)?;
            if node.number() <= before {
                return None;
            }
            before = node.number();
            founders.insert(node, Incarnation::of_bits(bytes.try_get_u128_le().ok()?)?);
        }
        (founders.len() <= NODES_MOST).then_some(Self(founders))
    }
}

impl Identity {
    /// The longest that one is, in bytes.
    pub const BYTES_MOST: usize = FIXED + NODES_MOST * 24 + 4;

    /// The group it belongs to, if it does.
    #[must_use]
    pub const fn group(&self) -> Option<GroupId> {
        match &self.standing {
            Standing::Member { group, .. } => Some(*group),
            _ => None,
        }
    }

    /// As it stands on disk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u64_le(self.number);
        out.put_u64_le(self.node.number());
        out.put_u128_le(self.incarnation.0);
        let nobody = Roster::default();
        let (kind, group, founders) = match &self.standing {
            Standing::Apart => (0, 0, &nobody),
            Standing::Agreed(founders) => (1, founders.group(self.number).0, founders),
            Standing::Member { group, founders } => (2, group.0, founders),
        };
        out.put_u8(kind);
        out.put_u128_le(group);
        founders.write(&mut out);
        let sum = crc32c(&out);
        out.put_u32_le(sum);
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// The bytes are something else, or not what was written.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoIdentity> {
        Self::read(bytes).ok_or(NoIdentity)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (covered, sum) = bytes.split_last_chunk::<4>()?;
        if crc32c(covered) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut rest = covered.strip_prefix(MAGIC)?;
        let number = rest.try_get_u64_le().ok()?;
        let node = NodeId::new(rest.try_get_u64_le().ok()?)?;
        let incarnation = Incarnation::of_bits(rest.try_get_u128_le().ok()?)?;
        let kind = rest.try_get_u8().ok()?;
        let group = rest.try_get_u128_le().ok()?;
        let founders = Roster::read(&mut rest)?;
        let own = founders.incarnation(node) == Some(incarnation);
        let standing = match kind {
            0 if group == 0 && founders.is_empty() => Standing::Apart,
            1 if own && founders.group(number).0 == group => Standing::Agreed(founders),
            2 if founders.is_empty() || own && founders.group(number).0 == group => {
                Standing::Member { group: GroupId(group), founders }
            }
            _ => return None,
        };
        rest.is_empty().then_some(Self { number, node, incarnation, standing })
    }
}

const MAGIC: &[u8; 8] = b"GWIDENT\x01";

/// Bytes in front of the founders.
const FIXED: usize = 8 + 8 + 8 + 16 + 1 + 16 + 1;

fn first_half(hash: Context) -> u128 {
    let digest = hash.finish();
    digest.as_ref().first_chunk().map_or(0, |half| u128::from_le_bytes(*half))
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn roster(of: impl IntoIterator<Item = (u64, u128)>) -> Roster {
        let founders = of.into_iter().map(|(node, bits)| (NodeId::new(node).unwrap(), Incarnation(bits)));
        Roster::new(founders.collect()).unwrap()
    }

    fn identities() -> Vec<Identity> {
        let founders = roster([(1, 10), (2, 20), (3, 30)]);
        let group = founders.group(7);
        let standings = [
            Standing::Apart,
            Standing::Agreed(founders.clone()),
            Standing::Member { group, founders },
            Standing::Member { group: GroupId::adopted(7), founders: Roster::default() },
        ];
        let node = NodeId::new(2).unwrap();
        standings.map(|standing| Identity { number: 7, node, incarnation: Incarnation(20), standing }).to_vec()
    }

    #[test]
    fn identities_are_read_as_they_were_written_and_no_bit_of_them_can_change() {
        for identity in identities() {
            let written = identity.encode();
            assert_eq!(Identity::parse(&written), Ok(identity));
            for bit in 0..written.len() * 8 {
                let mut changed = written.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Identity::parse(&changed), Err(NoIdentity), "bit {bit}");
            }
            for length in 0..written.len() {
                assert_eq!(Identity::parse(&written[..length]), Err(NoIdentity), "{length} bytes");
            }
        }
        let most = roster((1..=NODES_MOST as u64).map(|node| (node, 9)));
        let identity = Identity { standing: Standing::Agreed(most), ..identities()[0].clone() };
        assert_eq!(identity.encode().len(), Identity::BYTES_MOST);
    }

    #[test]
    fn a_group_is_told_by_its_name_and_every_founder() {
        let groups = [
            roster([(1, 10), (2, 20)]).group(7),
            roster([(1, 10), (2, 20)]).group(8),
            roster([(1, 10), (2, 21)]).group(7),
            roster([(1, 10), (3, 20)]).group(7),
            roster([(1, 10)]).group(7),
            GroupId::adopted(7),
        ];
        let different: std::collections::BTreeSet<_> = groups.into_iter().collect();
        assert_eq!(different.len(), groups.len());
        assert_ne!(Incarnation::random().unwrap(), Incarnation::random().unwrap());
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut whole = [&MAGIC[..], &bytes].concat();
            let sum = crc32c(&whole);
            whole.put_u32_le(sum);
            if let Ok(identity) = Identity::parse(&whole) {
                prop_assert_eq!(identity.encode(), whole);
            }
        }
    }
}
