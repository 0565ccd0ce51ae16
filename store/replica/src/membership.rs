//! Who belongs to a group, and how that changes.

use crate::{Incarnation, Index, NodeId};
use bytes::{Buf, BufMut, Bytes};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::ids::NODES_MOST;

/// The longest address, in bytes.
pub const ADDRESS_MOST: usize = 1024;

/// Who belongs to a group.
///
/// 1. Voters and learners are different nodes; so are learners and outgoing voters.
/// 2. `outgoing` is empty except between the two steps of a change of several nodes, when majorities of both the
///    voters and the outgoing are needed; `demoted` are those of the outgoing who will be learners.
/// 3. Every node has an address.
/// 4. Those of whom an incarnation is known belong to it. Of nobody else something that has it is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub(crate) voters: BTreeSet<NodeId>,
    pub(crate) learners: BTreeSet<NodeId>,
    pub(crate) outgoing: BTreeSet<NodeId>,
    pub(crate) demoted: BTreeSet<NodeId>,
    pub(crate) auto_leave: bool,
    pub(crate) addresses: BTreeMap<NodeId, String>,
    pub(crate) enrolments: BTreeMap<NodeId, Enrolment>,
}

/// As which a replica belongs to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The incarnation that was taken in.
    pub incarnation: Incarnation,
    /// By which entry; [`Index::ZERO`] for the founders of a group. Of two that had the same number the later one counts.
    pub since: Index,
}

/// A replica and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub node: NodeId,
    /// Its address, in whatever form the transport reads.
    pub address: String,
    /// The incarnation that is meant. Without one, that of a member stays what it is, and a new one may have any.
    pub incarnation: Option<Incarnation>,
}

impl Peer {
    /// A replica that is reached there, of any incarnation.
    #[must_use]
    pub fn new(node: NodeId, address: impl Into<String>) -> Self {
        Self { node, address: address.into(), incarnation: None }
    }
}

/// One step of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new voter, or a learner that becomes one.
    AddVoter(Peer),
    /// One that has everything and votes on nothing: how a new replica catches up first.
    AddLearner(Peer),
    /// This one leaves.
    Remove(NodeId),
}

/// What is wrong with a membership or a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// There would be no voter.
    #[error("a group needs a voter; add one before the last one leaves")]
    NoVoter,
    /// Too many nodes.
    #[error("a group has at most {NODES_MOST} replicas, found {0}")]
    TooMany(usize),
    /// A node is named twice.
    #[error("replica {0} is named twice; a change may name each once")]
    Twice(NodeId),
    /// The one to be removed isn't there.
    #[error("replica {0} isn't in the group")]
    Unknown(NodeId),
    /// An address is missing or too long.
    #[error("the address of replica {0} has to have 1 to {ADDRESS_MOST} bytes")]
    Address(NodeId),
    /// A change that changes nothing.
    #[error("a change needs at least one step")]
    Empty,
    /// Bytes that can't be read.
    #[error("these bytes are no membership: they end early or say what can't be, at byte {0}")]
    Unreadable(usize),
}

impl Membership {
    /// A group of voters.
    ///
    /// # Errors
    /// There is none, or too many, or one is named twice, or an address can't be one.
    pub fn of_voters(peers: impl IntoIterator<Item = Peer>) -> Result<Self, MembershipError> {
        let mut membership = Self::default();
        for peer in peers {
            let node = peer.node;
            check_address(node, &peer.address)?;
            if !membership.voters.insert(node) {
                return Err(MembershipError::Twice(node));
            }
            membership.enrol(peer, Index::ZERO);
        }
        membership.check()?;
        Ok(membership)
    }

    /// Those who vote.
    pub fn voters(&self) -> impl Iterator<Item = NodeId> {
        self.voters.iter().copied()
    }

    /// Those who have everything and don't vote.
    pub fn learners(&self) -> impl Iterator<Item = NodeId> {
        self.learners.iter().copied()
    }

    /// Everyone who is sent entries, in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.addresses.keys().copied()
    }

    /// Whether it is between the two steps of a change.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether a node votes.
    #[must_use]
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node)
    }

    /// Where a node is reached.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<&str> {
        self.addresses.get(&node).map(String::as_str)
    }

    /// As which a node belongs to it, if that is known.
    #[must_use]
    pub fn enrolment(&self, node: NodeId) -> Option<Enrolment> {
        self.enrolments.get(&node).copied()
    }

    /// A node is there, or is to be, by this entry.
    pub(crate) fn enrol(&mut self, peer: Peer, since: Index) {
        let Peer { node, address, incarnation } = peer;
        self.addresses.insert(node, address);
        if let Some(incarnation) =
            incarnation.filter(|new| self.enrolment(node).is_none_or(|it| it.incarnation != *new))
        {
            self.enrolments.insert(node, Enrolment { incarnation, since });
        }
    }

    /// Whether these nodes are a majority, of both halves if there are two.
    pub fn has_majority(&self, has: impl Fn(NodeId) -> bool) -> bool {
        let majority = |of: &BTreeSet<NodeId>| 2 * of.iter().filter(|node| has(**node)).count() > of.len();
        majority(&self.voters) && (self.outgoing.is_empty() || majority(&self.outgoing))
    }

    /// Whether these changes can be made, one after the other.
    ///
    /// # Errors
    /// Why not.
    pub fn check_changes(&self, changes: &[Change]) -> Result<(), MembershipError> {
        if changes.is_empty() {
            return Err(MembershipError::Empty);
        }
        let mut named = BTreeSet::new();
        let (mut voters, mut learners) = (self.voters.clone(), self.learners.clone());
        for change in changes {
            let node = change.node();
            if !named.insert(node) {
                return Err(MembershipError::Twice(node));
            }
            if matches!(change, Change::Remove(_)) && !self.addresses.contains_key(&node) {
                return Err(MembershipError::Unknown(node));
            }
            voters.remove(&node);
            learners.remove(&node);
            match change {
                Change::AddVoter(peer) => {
                    check_address(node, &peer.address)?;
                    voters.insert(node);
                }
                Change::AddLearner(peer) => {
                    check_address(node, &peer.address)?;
                    learners.insert(node);
                }
                Change::Remove(_) => {}
            }
        }
        if voters.is_empty() {
            return Err(MembershipError::NoVoter);
        }
        let nodes = voters.union(&learners).count().max(self.addresses.len());
        if nodes > NODES_MOST { Err(MembershipError::TooMany(nodes)) } else { Ok(()) }
    }

    /// Appends it: `flags: u8` (1 the second step is left automatically, 2 incarnations), the number of nodes as `u8`, and
    /// for each its number as `u64`, what it is as `u8` (1 voter, 2 learner, 4 outgoing, 8 demoted, added up), the
    /// address's length as `u16`, and the address; with incarnations then its own as `u128`, zero if it isn't known, and
    /// since when as `u64`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let enrolled = !self.enrolments.is_empty();
        out.put_u8(u8::from(self.auto_leave) | u8::from(enrolled) << 1);
        out.put_u8(self.addresses.len() as u8);
        for (node, address) in &self.addresses {
            out.put_u64_le(node.number());
            let bits = [&self.voters, &self.learners, &self.outgoing, &self.demoted].into_iter().enumerate();
            out.put_u8(bits.fold(0, |sum, (bit, set)| sum | u8::from(set.contains(node)) << bit));
            write_address(address, out);
            if enrolled {
                let known = self.enrolment(*node);
                out.put_u128_le(known.map_or(0, |known| known.incarnation.bits()));
                out.put_u64_le(known.map_or(0, |known| known.since.0));
            }
        }
    }

    /// Reads one that [`write`](Self::write) wrote, off the front of these bytes. One without voters is read as well:
    /// that of a replica which doesn't know its group yet.
    ///
    /// # Errors
    /// It isn't one; says at which byte.
    pub fn read(bytes: &mut Bytes) -> Result<Self, MembershipError> {
        let length = bytes.len();
        Self::parse(bytes).ok_or(MembershipError::Unreadable(length - bytes.len()))
    }

    fn parse(bytes: &mut Bytes) -> Option<Self> {
        let flags = bytes.try_get_u8().ok().filter(|flags| *flags < 4)?;
        let enrolled = flags & 2 != 0;
        let mut membership = Self { auto_leave: flags & 1 != 0, ..Self::default() };
        let count = bytes.try_get_u8().ok()?;
        let mut before = 0;
        for _ in 0..count {
            let node = NodeId::new(bytes.try_get_u64_le().ok()?)?;
            let bits = bytes.try_get_u8().ok()?;
            // In order, so that each membership is written in one way.
            if node.number() <= before || bits == 0 || bits > 15 {
                return None;
            }
            before = node.number();
            let sets =
                [&mut membership.voters, &mut membership.learners, &mut membership.outgoing, &mut membership.demoted];
            for (bit, set) in sets.into_iter().enumerate() {
                if bits >> bit & 1 == 1 {
                    set.insert(node);
                }
            }
            let address = read_address(bytes)?;
            membership.addresses.insert(node, address);
            if enrolled {
                let incarnation = Incarnation::of_bits(bytes.try_get_u128_le().ok()?);
                let since = Index(bytes.try_get_u64_le().ok()?);
                match incarnation {
                    Some(incarnation) => drop(membership.enrolments.insert(node, Enrolment { incarnation, since })),
                    None if since > Index::ZERO => return None,
                    None => {}
                }
            }
        }
        if enrolled && membership.enrolments.is_empty() {
            return None;
        }
        membership.is_sound().then_some(membership)
    }

    fn is_sound(&self) -> bool {
        let joint = !self.outgoing.is_empty();
        (self.check().is_ok() || *self == Self::default())
            && self.learners.is_disjoint(&self.voters)
            && self.learners.is_disjoint(&self.outgoing)
            && self.demoted.is_subset(&self.outgoing)
            && self.demoted.is_disjoint(&self.voters)
            && (joint || !self.auto_leave)
    }

    fn check(&self) -> Result<(), MembershipError> {
        if self.voters.is_empty() {
            return Err(MembershipError::NoVoter);
        }
        let nodes = self.addresses.len();
        if nodes > NODES_MOST { Err(MembershipError::TooMany(nodes)) } else { Ok(()) }
    }
}

impl Change {
    /// The node that it is about.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        match self {
            Self::AddVoter(peer) | Self::AddLearner(peer) => peer.node,
            Self::Remove(node) => *node,
        }
    }

    /// Appends changes: for each its kind as `u8` (0 voter, 1 learner, 2 removal, 3 voter and 4 learner with an
    /// incarnation), the node's number as `u64`, an address as a membership has it, empty for a removal, and the incarnation
    /// as `u128`, if it has one.
    pub fn write_all(changes: &[Self], out: &mut Vec<u8>) {
        for change in changes {
            let (kind, peer) = match change {
                Self::AddVoter(peer) => (0, Some(peer)),
                Self::AddLearner(peer) => (1, Some(peer)),
                Self::Remove(_) => (2, None),
            };
            let incarnation = peer.and_then(|peer| peer.incarnation);
            out.put_u8(if incarnation.is_some() { kind + 3 } else { kind });
            out.put_u64_le(change.node().number());
            write_address(peer.map_or("", |peer| &peer.address), out);
            if let Some(incarnation) = incarnation {
                out.put_u128_le(incarnation.bits());
            }
        }
    }

    /// Reads all changes in these bytes.
    ///
    /// # Errors
    /// They are something else; says at which byte.
    pub fn read_all(mut bytes: Bytes) -> Result<Vec<Self>, MembershipError> {
        let length = bytes.len();
        let mut changes = Vec::new();
        while bytes.has_remaining() {
            let at = length - bytes.len();
            changes.push(Self::parse(&mut bytes).ok_or(MembershipError::Unreadable(at))?);
        }
        Ok(changes)
    }

    fn parse(bytes: &mut Bytes) -> Option<Self> {
        let kind = bytes.try_get_u8().ok()?;
        let node = NodeId::new(bytes.try_get_u64_le().ok()?)?;
        let address = read_address(bytes)?;
        let incarnation = match kind {
            3 | 4 => Some(Incarnation::of_bits(bytes.try_get_u128_le().ok()?)?),
            _ => None,
        };
        let peer = Peer { node, address, incarnation };
        match kind {
            0 | 3 => Some(Self::AddVoter(peer)),
            1 | 4 => Some(Self::AddLearner(peer)),
            2 if peer.address.is_empty() => Some(Self::Remove(node)),
            _ => None,
        }
    }
}

fn check_address(node: NodeId, address: &str) -> Result<(), MembershipError> {
    if (1..=ADDRESS_MOST).contains(&address.len()) { Ok(()) } else { Err(MembershipError::Address(node)) }
}

fn write_address(address: &str, out: &mut Vec<u8>) {
    out.put_u16_le(address.len() as u16);
    out.extend_from_slice(address.as_bytes());
}

fn read_address(bytes: &mut Bytes) -> Option<String> {
    let length = usize::from(bytes.try_get_u16_le().ok()?);
    if length > bytes.len().min(ADDRESS_MOST) {
        return None;
    }
    String::from_utf8(bytes.split_to(length).to_vec()).ok()
}
