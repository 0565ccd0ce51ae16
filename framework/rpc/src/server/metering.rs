//! Connections of those who have had more than their share, which are read in turn.
//!
//! To read calls and to refuse them takes time as well, and who sends them fast enough would have all of it. So a tenant's
//! connections are *metered* once it is over its share while others are there too: each is read once when it is the tenant's
//! turn, and whatever else it sends waits in the kernel, and then at the client, as it does where a server is slow.
//!
//! A turn comes to those that are not over any more, one connection at a time, and to those that are when the head has
//! nothing else to do. Who was not over for [`CALM`] is read as ever again.

use crate::net::PeerKey;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a tenant must not have been over its share until its connections are read freely.
pub(super) const CALM: Duration = Duration::from_secs(10);

/// How many tenants are looked at in a round.
pub(super) const OWNERS: usize = 8;

/// Of how many connections of a tenant those that are gone are looked for.
const MANY: usize = 64;

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
    waiting: VecDeque<PeerKey>,
    /// When there are as many, those that are gone are taken out.
    most: usize,
}

impl Metering {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Those who have connections that wait.
    pub(super) fn owners(&self) -> impl Iterator<Item = u64> {
        self.turns.iter().map(|turn| turn.owner)
    }

    /// A connection waits for its owner's turn. `is_there` says which of the others are.
    pub(super) fn wait(&mut self, peer: PeerKey, owner: u64, mut is_there: impl FnMut(PeerKey) -> bool) {
        // There are about as many as tenants that are over their shares, so few.
        let found = self.turns.iter().position(|turn| turn.owner == owner);
        let at = found.unwrap_or_else(|| {
            self.turns.push(Turn { owner, waiting: VecDeque::new(), most: MANY });
            self.turns.len() - 1
        });
        let turn = &mut self.turns[at];
        if turn.waiting.len() >= turn.most {
            turn.waiting.retain(|peer| is_there(*peer));
            turn.most = MANY.max(2 * turn.waiting.len());
        }
        turn.waiting.push_back(peer);
    }

    /// The owner to be looked at next.
    pub(super) fn next_owner(&mut self) -> Option<u64> {
        self.hand = if self.hand + 1 < self.turns.len() { self.hand + 1 } else { 0 };
        self.turns.get(self.hand).map(|turn| turn.owner)
    }

    /// Takes out the connection of this owner's that has waited longest.
    pub(super) fn take(&mut self, owner: u64) -> Option<PeerKey> {
        let at = self.turns.iter().position(|turn| turn.owner == owner)?;
        let peer = self.turns[at].waiting.pop_front();
        if self.turns[at].waiting.is_empty() {
            self.turns.swap_remove(at);
        }
        peer
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }
}
