//! What a replica keeps on disk: entries, its vote, and where the log begins.

use crate::{Index, Membership, NodeId, Term};
use bytes::Bytes;

/// What an entry's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Commands, written by [`batch`](crate::batch); none in the entry by which a leader begins its term.
    Commands,
    /// A change of the [`Membership`]; without data, the second half of one that takes two steps.
    Change,
}

impl EntryKind {
    /// As it stands on disk and on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Commands => 0,
            Self::Change => 1,
        }
    }

    /// The kind of this code, if there is one.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Commands),
            1 => Some(Self::Change),
            _ => None,
        }
    }
}

/// One place of the log: an instance of consensus, with a batch of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its position.
    pub index: Index,
    /// The leadership it was proposed in.
    pub term: Term,
    /// What the data are.
    pub kind: EntryKind,
    /// The data.
    pub data: Bytes,
}

/// What a replica must not forget: which leadership it knows of and whom it voted for in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term it knows of.
    pub term: Term,
    /// Whom it voted for in that term.
    pub vote: Option<NodeId>,
    /// Up to where it knew entries to be committed; may lag behind, as it can be learned again.
    pub commit: Index,
}

/// Where a snapshot stands in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The last entry whose effects are in it.
    pub index: Index,
    /// That entry's term.
    pub term: Term,
    /// Who belonged to the group at that entry.
    pub membership: Membership,
}
