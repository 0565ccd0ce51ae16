//! How a group begins, and how a replica that comes with an empty disk is told from one that founds a group.
//!
//! Each founder draws its [incarnation](crate::Incarnation) and makes it durable, and then greets the others until
//! 1. it has heard the incarnations of *all* founders: it makes the [roster](crate::Roster) of them durable, and has *agreed*,
//!    for good. The group's identity follows from the roster;
//! 2. it has heard that *all* founders have agreed on the same roster, or that one of them belongs to the group already:
//!    then it belongs to it, makes that durable, and begins to vote.
//!
//! So when anybody votes, the identity is on the disks of all founders. Whoever loses its disk later finds no group
//! of which all founders are apart or agree with it: those who have kept their disks say otherwise. It stays apart, votes
//! for nobody, and waits to be removed and taken in anew. Only if all founders have lost their disks there is a new group.
//!
//! Nothing here reads a clock, a disk or a socket. Bounds: as much is kept as there are founders.

use crate::NodeId;
use crate::identity::{GroupId, Identity, Incarnation, Roster, Standing};
use crate::ids::NODES_MOST;
use bytes::{Buf, BufMut, Bytes};
use std::collections::{BTreeMap, BTreeSet};

/// What a replica says of itself to another one that it isn't sure of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The number of its group's name.
    pub number: u64,
    /// Its own number.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// What it is to its group.
    pub stands: Stands,
}

/// What a replica says that it is to its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It belongs to none, and would found one with these, itself included; with nobody if it waits to be added.
    Apart(BTreeSet<NodeId>),
    /// It founds one with these, and won't with others.
    Agreed(Roster),
    /// It belongs to this one.
    Member(GroupId),
}

/// Bytes that are no greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no greeting: they end early or say what can't be")]
pub struct NoGreeting;

/// What keeps a replica from belonging to a group, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Not all founders are there.
    #[error(
        "a new group begins when all of its first replicas are there, and {} can't be heard; start those too. If the group \
         is there already, this replica has lost its disk: remove it with `greenwave group remove`, and add it again with \
         `greenwave group add`", listed(.0)
    )]
    Missing(Vec<NodeId>),
    /// The group is there.
    #[error(
        "replica {me} comes with an empty disk, and replica {member} says that the group is there already; it doesn't vote. \
         Remove it and let it join anew: `greenwave group remove {me}` and then `greenwave group add {me}=ADDRESS`, both \
         with `--peers` of the others; it may go on running"
    )]
    Wiped {
        /// This one.
        me: NodeId,
        /// Who says so.
        member: NodeId,
    },
    /// A founder lost its disk before the group began.
    #[error(
        "replica {0} lost its disk while the group was founded, which can't go on. See with `greenwave group status` \
         whether a replica leads: then remove replica {0} and add it again. If none does, and all replicas are there and none \
         of them belongs to the group, nothing has been stored: stop all, empty their directories, and start them again"
    )]
    Interrupted(NodeId),
    /// A founder would found a group of others.
    #[error("replica {0} was told of other first replicas; start all with the same --peers")]
    Others(NodeId),
    /// A founder belongs to another group.
    #[error("replica {0} belongs to another group; check the addresses and the directories")]
    OtherGroup(NodeId),
}

/// A replica that belongs to no group yet.
///
/// 1. `heard` is what each of the other founders has said last.
#[derive(Clone, Debug)]
pub struct Founding {
    identity: Identity,
    founders: BTreeSet<NodeId>,
    heard: BTreeMap<NodeId, Greeting>,
    /// Who says that the group is there, of whoever may.
    member: Option<NodeId>,
}

impl Founding {
    /// One that founds a group with these, itself included, or, if there are none, waits to be added to one.
    #[must_use]
    pub fn new(identity: Identity, mut founders: BTreeSet<NodeId>) -> Self {
        if let Standing::Agreed(roster) = &identity.standing {
            // Whatever it is told now: with others it doesn't.
            founders = roster.nodes().collect();
        }
        Self { identity, founders, heard: BTreeMap::new(), member: None }
    }

    /// What it says of itself.
    #[must_use]
    pub fn greeting(&self) -> Greeting {
        Greeting::of(&self.identity, &self.founders)
    }

    /// Takes note of what another one says of itself. Nothing of another name's group is.
    pub fn hear(&mut self, greeting: Greeting) {
        if greeting.number != self.identity.number || greeting.node == self.identity.node {
            return;
        }
        if matches!(greeting.stands, Stands::Member(_)) {
            self.member = Some(greeting.node);
        }
        if self.founders.contains(&greeting.node) {
            self.heard.insert(greeting.node, greeting);
        }
    }

    /// What it is to be next, if what it has heard is enough for that: to be made durable, and then told with
    /// [`kept`](Self::kept).
    #[must_use]
    pub fn next(&self) -> Option<Standing> {
        match &self.identity.standing {
            Standing::Apart => self.roster().map(Standing::Agreed),
            Standing::Agreed(roster) => {
                let group = roster.group(self.identity.number);
                let stands = |node: &NodeId| self.heard.get(node).map(|greeting| &greeting.stands);
                let begun = self.others().any(|node| stands(&node) == Some(&Stands::Member(group)));
                let agreed = |node| matches!(stands(&node), Some(Stands::Agreed(other)) if other == roster);
                let founded = begun || self.others().all(agreed);
                founded.then(|| Standing::Member { group, founders: roster.clone() })
            }
            Standing::Member { .. } => None,
        }
    }

    /// It is that now, durably.
    pub fn kept(&mut self, standing: Standing) -> &Identity {
        self.identity.standing = standing;
        &self.identity
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What keeps it from going on, as far as it has heard. None: nothing, or it waits to be added.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        let me = self.identity.node;
        let (own, agreed) = match &self.identity.standing {
            Standing::Member { .. } => return None,
            Standing::Agreed(roster) => (Some(roster.group(self.identity.number)), Some(roster)),
            Standing::Apart => (None, None),
        };
        if self.founders.is_empty() {
            return None;
        }
        if let (Standing::Apart, Some(member)) = (&self.identity.standing, self.member) {
            return Some(Obstacle::Wiped { me, member });
        }
        let mut interrupted = None;
        for (node, greeting) in &self.heard {
            let of_another = |roster: &Roster| agreed.is_some_and(|own| own != roster) || !self.is_in(roster);
            match &greeting.stands {
                Stands::Member(group) if Some(*group) != own => return Some(Obstacle::OtherGroup(*node)),
                Stands::Apart(founders) if *founders != self.founders => return Some(Obstacle::Others(*node)),
                Stands::Agreed(roster) if of_another(roster) => interrupted = Some(*node),
                Stands::Apart(_) if agreed.is_some_and(|own| own.incarnation(*node) != Some(greeting.incarnation)) => {
                    interrupted = Some(*node);
                }
                _ => {}
            }
        }
        let missing: Vec<NodeId> = self.others().filter(|node| !self.heard.contains_key(node)).collect();
        // One that is missing may belong to the group, so what is stored may be there alone.
        if missing.is_empty() { interrupted.map(Obstacle::Interrupted) } else { Some(Obstacle::Missing(missing)) }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> {
        self.founders.iter().copied().filter(|node| *node != self.identity.node)
    }

    /// Whether these are the founders, and this incarnation is among them.
    fn is_in(&self, roster: &Roster) -> bool {
        roster.nodes().eq(self.founders.iter().copied())
            && roster.incarnation(self.identity.node) == Some(self.identity.incarnation)
    }

    /// The roster to agree on: that of somebody who has agreed, or what all have said.
    fn roster(&self) -> Option<Roster> {
        if !self.founders.contains(&self.identity.node) {
            return None;
        }
        let agreed = self.heard.values().find_map(|greeting| match &greeting.stands {
            Stands::Agreed(roster) if self.is_in(roster) => Some(roster.clone()),
            _ => None,
        });
        if agreed.is_some() {
            return agreed;
        }
        let apart = |node: NodeId| {
            let greeting = self.heard.get(&node)?;
            let same = matches!(&greeting.stands, Stands::Apart(founders) if *founders == self.founders);
            same.then_some((node, greeting.incarnation))
        };
        let own = (self.identity.node, self.identity.incarnation);
        let all: Option<BTreeMap<_, _>> = self.others().map(apart).chain([Some(own)]).collect();
        all.and_then(Roster::new)
    }
}

impl Greeting {
    /// What a replica says of itself that founds a group with these, if any.
    #[must_use]
    pub fn of(identity: &Identity, founders: &BTreeSet<NodeId>) -> Self {
        let stands = match &identity.standing {
            Standing::Apart => Stands::Apart(founders.clone()),
            Standing::Agreed(roster) => Stands::Agreed(roster.clone()),
            Standing::Member { group, .. } => Stands::Member(*group),
        };
        Self { number: identity.number, node: identity.node, incarnation: identity.incarnation, stands }
    }

    /// Appends it: `number: u64`, `node: u64`, `incarnation: u128`, `kind: u8` (0 apart, 1 agreed, 2 member), all
    /// little-endian; then how many founders there are as `u8` and their numbers as `u64`, or the roster, which has the
    /// incarnation of each as `u128` behind its number, or the group's identity as `u128`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.number);
        out.put_u64_le(self.node.number());
        out.put_u128_le(self.incarnation.bits());
        match &self.stands {
            Stands::Apart(founders) => {
                out.put_u8(0);
                out.put_u8(founders.len() as u8);
                founders.iter().for_each(|node| out.put_u64_le(node.number()));
            }
            Stands::Agreed(roster) => {
                out.put_u8(1);
                roster.write(out);
            }
            Stands::Member(group) => {
                out.put_u8(2);
                out.put_u128_le(group.bits());
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// The bytes are something else.
    pub fn decode(bytes: Bytes) -> Result<Self, NoGreeting> {
        Self::parse(bytes).ok_or(NoGreeting)
    }

    fn parse(mut bytes: Bytes) -> Option<Self> {
        let number = bytes.try_get_u64_le().ok()?;
        let node = NodeId::new(bytes.try_get_u64_le().ok()?)?;
        let incarnation = Incarnation::of_bits(bytes.try_get_u128_le().ok()?)?;
        let stands = match bytes.try_get_u8().ok()? {
            0 => {
                let count = usize::from(bytes.try_get_u8().ok()?);
                let mut founders = BTreeSet::new();
                for _ in 0..count {
                    let founder = NodeId::new(bytes.try_get_u64_le().ok()?)?;
                    if founders.last().is_some_and(|before| *before >= founder) {
                        return None;
                    }
                    founders.insert(founder);
                }
                Stands::Apart(Some(founders).filter(|_| count <= NODES_MOST)?)
            }
            1 => Stands::Agreed(Some(Roster::read(&mut bytes)?).filter(|roster| !roster.is_empty())?),
            2 => Stands::Member(GroupId::of_bits(bytes.try_get_u128_le().ok()?)),
            _ => return None,
        };
        bytes.is_empty().then_some(Self { number, node, incarnation, stands })
    }
}

fn listed(nodes: &[NodeId]) -> String {
    let numbers: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    format!("{} {}", if nodes.len() == 1 { "replica" } else { "replicas" }, numbers.join(", "))
}

#[cfg(test)]
mod tests;
