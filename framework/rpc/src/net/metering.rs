//! Connections that are read only when somebody says so: what their peers send waits there meanwhile.

use super::{Net, PeerKey};

/// Whose calls came over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    Nothing,
    One(u64),
    /// Of several, as over a proxy's.
    Many,
}

impl Net {
    /// Tells of connections that come in from now on as of those that were [read](Self::next_read), with an owner of 0; and of what
    /// is read that is [long](Self::next_long).
    pub(crate) fn tell_new(&mut self) {
        self.ends.tells_new = true;
    }

    /// Reads a connection only when [asked](Self::post_receive) from now on; `owner` is said with it when something was read.
    /// Whether that is new.
    pub(crate) fn meter(&mut self, key: PeerKey, owner: u64) -> bool {
        let Some(peer) = self.ends.peer(key).filter(|peer| peer.metered.is_none()) else { return false };
        let Some(endpoint) = peer.endpoint else { return false };
        let is_metered = self.queue.meter(endpoint, true);
        peer.metered = is_metered.then_some(owner);
        is_metered
    }

    /// Reads a connection as soon as something comes, as at first.
    pub(crate) fn unmeter(&mut self, key: PeerKey) {
        let Some(peer) = self.ends.peer(key) else { return };
        let Some(endpoint) = peer.endpoint else { return };
        (peer.metered, peer.is_asked) = (None, false);
        self.queue.meter(endpoint, false);
    }

    /// Whether there is a connection of this name still.
    pub(crate) fn has(&mut self, key: PeerKey) -> bool {
        self.ends.peer(key).is_some_and(|peer| peer.endpoint.is_some())
    }

    /// Reads a connection that is metered once, as soon as something is there. Whether there is one.
    pub(crate) fn post_receive(&mut self, key: PeerKey) -> bool {
        let Some(peer) = self.ends.peer(key).filter(|peer| peer.metered.is_some()) else { return false };
        let Some(endpoint) = peer.endpoint else { return false };
        peer.is_asked = true;
        self.queue.post_receive(endpoint);
        true
    }

    /// A connection that was read since it was asked for, and its owner.
    pub(crate) fn next_read(&mut self) -> Option<(PeerKey, u64)> {
        self.ends.read.pop()
    }

    /// How many bytes were read that are long and [nobody has asked after](Self::next_long).
    pub(crate) fn long_bytes(&self) -> usize {
        self.ends.long.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Whether any were.
    #[inline]
    pub(crate) fn has_long(&self) -> bool {
        !self.ends.long.is_empty()
    }

    /// A connection over which more than a short message was read at once, and how many bytes that was.
    pub(crate) fn next_long(&mut self) -> Option<(PeerKey, usize)> {
        self.ends.long.pop()
    }

    /// A tenant's call came over a connection. Whether all that ever did are that tenant's; otherwise it is read freely, as it
    /// would be others who wait.
    pub(crate) fn carries_only(&mut self, key: PeerKey, tenant: u64) -> bool {
        let Some(peer) = self.ends.peer(key) else { return false };
        match peer.carries {
            Carries::Nothing => peer.carries = Carries::One(tenant),
            Carries::One(one) if one == tenant => {}
            Carries::One(_) => {
                peer.carries = Carries::Many;
                if peer.metered.is_some() {
                    self.unmeter(key);
                }
                return false;
            }
            Carries::Many => return false,
        }
        true
    }

    /// The one tenant whose calls came over a connection. `Err`: calls of several did.
    pub(crate) fn carried(&mut self, key: PeerKey) -> Result<Option<u64>, ()> {
        match self.ends.peer(key).map(|peer| peer.carries) {
            Some(Carries::One(one)) => Ok(Some(one)),
            Some(Carries::Many) => Err(()),
            _ => Ok(None),
        }
    }
}
