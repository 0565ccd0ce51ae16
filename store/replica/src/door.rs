//! Whose messages a replica takes: those of its group, from the incarnations that it knows, and meant for its own.
//!
//! Each message says of which group it is, from whom and of which incarnation that is, and for whom and which incarnation
//! it is meant. So what one says that lost its disk isn't taken, nor what is meant for the one before it; nor what one
//! says that was removed, and whose number another one has now.
//!
//! A replica that lags behind doesn't know who was taken in since. It takes what somebody of an unknown number says, and
//! of two incarnations of a number the one that was taken in later, as it says itself: who belongs to no group says nothing.

use crate::{GroupId, Incarnation, Index, Membership, NodeId, Standing};
use std::sync::Arc;

/// From whom a message is, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The group.
    pub group: GroupId,
    /// Who says it.
    pub from: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Since when it belongs to the group, as far as it knows: [`Enrolment::since`](crate::Enrolment::since).
    pub since: Index,
    /// For whom it is.
    pub to: NodeId,
    /// Its incarnation, if the sender knows it.
    pub meant: Option<Incarnation>,
}

/// Why what a replica says isn't taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwelcome {
    /// Another group's.
    #[error("a message is of group {found}, and this replica belongs to group {own}; check the addresses")]
    Group {
        /// The message's.
        found: GroupId,
        /// This one's.
        own: GroupId,
    },
    /// For another replica.
    #[error("a message for replica {to} came to replica {me}; check the addresses")]
    Elsewhere {
        /// For whom it is.
        to: NodeId,
        /// Who got it.
        me: NodeId,
    },
    /// Of an incarnation that isn't the one that belongs to the group.
    #[error(
        "replica {node} isn't the one that belongs to the group: it has lost its disk, or was replaced; remove it with \
         `greenwave group remove {node}`, and let it join anew with `greenwave group add`"
    )]
    Incarnation {
        /// Who says it.
        node: NodeId,
    },
    /// For the one that had this replica's number before it.
    #[error(
        "replica {me} isn't the one that is meant: it comes with an empty disk; remove it with `greenwave group remove \
         {me}`, and let it join anew with `greenwave group add`"
    )]
    Wiped {
        /// Who got it.
        me: NodeId,
    },
    /// This replica belongs to no group yet.
    #[error("replica {me} belongs to no group yet; add it with `greenwave group add`")]
    Apart {
        /// Who got it.
        me: NodeId,
    },
}

/// What a replica knows of itself and of the others, to decide whom it lets in.
#[derive(Clone, Debug)]
pub struct Door {
    /// Its number.
    pub me: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// What it is to its group.
    pub standing: Standing,
    /// Who belongs to it.
    pub membership: Arc<Membership>,
}

impl Door {
    /// Whether a message is taken. One that belongs to no group yet belongs to the message's from then on, as the group
    /// has taken it in: it has to make that durable first.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, header: &Header) -> Result<(), Unwelcome> {
        let me = self.me;
        if header.to != me {
            return Err(Unwelcome::Elsewhere { to: header.to, me });
        }
        let Standing::Member { group, .. } = &self.standing else {
            // Only those who have taken it in know its incarnation.
            return match header.meant {
                Some(meant) if meant == self.incarnation => Ok(()),
                Some(_) => Err(Unwelcome::Wiped { me }),
                None => Err(Unwelcome::Apart { me }),
            };
        };
        if header.group != *group {
            return Err(Unwelcome::Group { found: header.group, own: *group });
        }
        if header.meant.is_some_and(|meant| meant != self.incarnation) {
            return Err(Unwelcome::Wiped { me });
        }
        match self.membership.enrolment(header.from) {
            Some(known) if known.incarnation != header.incarnation && header.since <= known.since => {
                Err(Unwelcome::Incarnation { node: header.from })
            }
            _ => Ok(()),
        }
    }

    /// What goes before a message to this replica; none while this one belongs to no group.
    #[must_use]
    pub fn header(&self, to: NodeId) -> Option<Header> {
        let Standing::Member { group, .. } = &self.standing else { return None };
        let own = self.membership.enrolment(self.me).filter(|own| own.incarnation == self.incarnation);
        Some(Header {
            group: *group,
            from: self.me,
            incarnation: self.incarnation,
            since: own.map_or(Index::ZERO, |own| own.since),
            to,
            meant: self.membership.enrolment(to).map(|known| known.incarnation),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Peer, Roster};

    fn node(number: u64) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn incarnation(bits: u128) -> Incarnation {
        Incarnation::of_bits(bits).unwrap()
    }

    fn member(number: u64, bits: u128, all: &[(u64, u128, u64)]) -> Door {
        let mut membership = Membership::default();
        for &(number, bits, since) in all {
            let peer = Peer { incarnation: Incarnation::of_bits(bits), ..Peer::new(node(number), "x") };
            membership.voters.insert(peer.node);
            membership.enrol(peer, Index(since));
        }
        let standing = Standing::Member { group: GroupId::of_bits(1), founders: Roster::default() };
        Door { me: node(number), incarnation: incarnation(bits), standing, membership: Arc::new(membership) }
    }

    const ALL: [(u64, u128, u64); 3] = [(1, 10, 0), (2, 20, 0), (3, 30, 0)];

    #[test]
    fn members_take_what_the_others_say_and_nothing_of_another_group_or_for_somebody_else() {
        let (one, two) = (member(1, 10, &ALL), member(2, 20, &ALL));
        let header = one.header(node(2)).unwrap();
        assert_eq!(two.admit(&header), Ok(()));
        let other = GroupId::of_bits(2);
        let refused = two.admit(&Header { group: other, ..header });
        assert_eq!(refused, Err(Unwelcome::Group { found: other, own: header.group }));
        assert_eq!(
            two.admit(&Header { to: node(3), ..header }),
            Err(Unwelcome::Elsewhere { to: node(3), me: node(2) })
        );
    }

    #[test]
    fn who_lost_its_disk_is_refused_in_both_directions() {
        let (one, wiped) = (member(1, 10, &ALL), Door { standing: Standing::Apart, ..member(2, 21, &[]) });
        // It says nothing, and if it did it wouldn't be heard.
        assert_eq!(wiped.header(node(1)), None);
        let said = Header { incarnation: incarnation(21), ..member(2, 20, &ALL).header(node(1)).unwrap() };
        assert_eq!(one.admit(&said), Err(Unwelcome::Incarnation { node: node(2) }));
        // What was meant for the one before isn't taken, whether or not it belongs to a group.
        let meant = one.header(node(2)).unwrap();
        assert_eq!(wiped.admit(&meant), Err(Unwelcome::Wiped { me: node(2) }));
        let again = Door { incarnation: incarnation(21), ..member(2, 20, &ALL) };
        assert_eq!(again.admit(&meant), Err(Unwelcome::Wiped { me: node(2) }));
        assert_eq!(wiped.admit(&Header { meant: None, ..meant }), Err(Unwelcome::Apart { me: node(2) }));
    }

    #[test]
    fn of_two_with_a_number_the_later_one_counts_also_for_one_that_lags_behind() {
        let (lags, knows) = (member(3, 30, &ALL), member(1, 10, &[(1, 10, 0), (2, 21, 50), (3, 30, 0)]));
        let before = member(2, 20, &ALL).header(node(1)).unwrap();
        let later = member(2, 21, &[(1, 10, 0), (2, 21, 50), (3, 30, 0)]).header(node(1)).unwrap();
        assert_eq!(knows.admit(&before), Err(Unwelcome::Incarnation { node: node(2) }));
        assert_eq!(knows.admit(&later), Ok(()));
        let later = Header { to: node(3), meant: Incarnation::of_bits(30), ..later };
        assert_eq!(lags.admit(&later), Ok(()));
        assert_eq!(lags.admit(&Header { from: node(4), ..later }), Ok(()), "of whom it hasn't heard");
        // It has been taken in, which its incarnation shows.
        let joins = Door { standing: Standing::Apart, ..member(2, 21, &[]) };
        assert_eq!(joins.admit(&knows.header(node(2)).unwrap()), Ok(()));
    }

    #[test]
    fn a_group_older_than_incarnations_takes_what_it_took() {
        let old = [(1, 0, 0), (2, 0, 0)];
        let (one, two) = (member(1, 10, &old), member(2, 20, &old));
        assert_eq!(two.admit(&one.header(node(2)).unwrap()), Ok(()));
    }
}
