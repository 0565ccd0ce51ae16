//! Connections that are read only when somebody says so: what their peers send waits there meanwhile.

use super::{Net, PeerKey};

impl Net {
    /// Reads a connection only when [asked](Self::post_receive) from now on; `owner` is said with it when something was read.
    /// Whether it was read freely before.
    pub(crate) fn meter(&mut self, key: PeerKey, owner: u64) -> bool {
        let Some(peer) = self.ends.peer(key).filter(|peer| peer.metered.is_none()) else { return false };
        let Some(endpoint) = peer.endpoint else { return false };
        peer.metered = Some(owner);
        self.queue.meter(endpoint, true);
        true
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
}
