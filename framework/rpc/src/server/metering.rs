//! Connections of those who have had more than their share, which are read in turn.
//!
//! To read calls and to refuse them takes time as well, and who sends them fast enough would have all of it. So a tenant's
//! connections are *metered* once it is over its share while others are there too, and [much](TimeUsage::is_much_read) of what it
//! had went into reading: each is read once when it is the tenant's turn, and whatever else it sends waits in the kernel, and
//! then at the client, as it does where a server is slow. Where reading is little of it, it is better to read and to refuse:
//! whoever calls learns at once that there is no time, and what waits unread nobody can choose from.
//!
//! A turn comes to those that are not over any more, a [few](AT_ONCE) connections at a time, and to those that are when the head has
//! nothing else to do. Nobody waits for ever: one that has waited for [`STALE`] is read, if not [too soon](REST) after another
//! such. Who was not over for [`CALM`] is read as ever again.
//!
//! A connection over which calls of several tenants came, as a proxy's, is not metered: it would be the others who wait.

use crate::net::PeerKey;
use greenwave_policy::{Span, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a tenant must not have been over its share until its connections are read freely.
pub(super) const CALM: Duration = Duration::from_secs(10);

/// How long a connection waits at most, but for others that do.
pub(super) const STALE: Duration = Duration::from_secs(2);

/// The time between two connections that are read because they have waited for so long.
pub(super) const REST: Duration = Duration::from_millis(4);

/// How many tenants have connections that are read in turn, at most. Others' are read as ever.
const OWNERS_MOST: usize = 256;

/// How many connections of a tenant that is within its share are read in a round.
pub(super) const AT_ONCE: usize = 4;

/// How many tenants are looked at in a round.
pub(super) const OWNERS: usize = 8;

/// Of how many connections of a tenant those that are gone are looked for.
const MANY: usize = 64;

/// What a tenant's time went into lately, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeUsage {
    read: u64,
    served: u64,
}

impl TimeUsage {
    /// What counts is about so much.
    const LATELY: u64 = 10_000_000;

    pub(super) fn add_read(&mut self, took: Span) {
        self.read = self.read.saturating_add(took.as_nanos());
        self.forget();
    }

    pub(super) fn add_served(&mut self, took: Span) {
        self.served = self.served.saturating_add(took.as_nanos());
        self.forget();
    }

    fn forget(&mut self) {
        while self.read.saturating_add(self.served) > Self::LATELY {
            (self.read, self.served) = (self.read / 2, self.served / 2);
        }
    }

    /// Whether more than a quarter of it went into reading.
    pub(super) fn is_much_read(&self) -> bool {
        self.read > self.served / 3
    }
}

/// The connections that wait to be read.
///
/// No tenant is in `turns` twice, and all there have connections that wait.
#[derive(Default)]
pub(super) struct Metering {
    turns: Vec<Turn>,
    /// Whose turn is looked at next.
    hand: usize,
}

/// A tenant's connections that wait to be read.
pub(super) struct Turn {
    pub(super) owner: u64,
    /// And since when each does.
    waiting: VecDeque<(PeerKey, Time)>,
    /// When there are as many, those that are gone are taken out.
    most: usize,
}

impl Metering {
    /// Whether there is room for a connection of this owner's.
    pub(super) fn has_room(&self, owner: u64) -> bool {
        self.turns.len() < OWNERS_MOST || self.owners().any(|other| other == owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Those who have connections that wait.
    pub(super) fn owners(&self) -> impl Iterator<Item = u64> {
        self.turns.iter().map(|turn| turn.owner)
    }

    /// A connection waits for its owner's turn. `is_there` says which of the others are.
    pub(super) fn wait(&mut self, now: Time, peer: PeerKey, owner: u64, mut is_there: impl FnMut(PeerKey) -> bool) {
        let found = self.turns.iter().position(|turn| turn.owner == owner);
        let at = found.unwrap_or_else(|| {
            self.turns.push(Turn { owner, waiting: VecDeque::new(), most: MANY });
            self.turns.len() - 1
        });
        let turn = &mut self.turns[at];
        if turn.waiting.len() >= turn.most {
            turn.waiting.retain(|(peer, _)| is_there(*peer));
            turn.most = MANY.max(2 * turn.waiting.len());
        }
        turn.waiting.push_back((peer, now));
    }

    /// The owner to be looked at next.
    pub(super) fn next_owner(&mut self) -> Option<u64> {
        self.hand = if self.hand + 1 < self.turns.len() { self.hand + 1 } else { 0 };
        self.turns.get(self.hand).map(|turn| turn.owner)
    }

    /// Takes out the connection of this owner's that has waited longest.
    pub(super) fn take(&mut self, owner: u64) -> Option<PeerKey> {
        let at = self.turns.iter().position(|turn| turn.owner == owner)?;
        let peer = self.turns[at].waiting.pop_front().map(|(peer, _)| peer);
        if self.turns[at].waiting.is_empty() {
            self.turns.swap_remove(at);
        }
        peer
    }

    /// Since when an owner's connections have waited, the first of them.
    pub(super) fn since(&self, owner: u64) -> Option<Time> {
        let turn = self.turns.iter().find(|turn| turn.owner == owner)?;
        turn.waiting.front().map(|(_, since)| *since)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }
}
