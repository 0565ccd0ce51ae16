//! Connections with long messages take turns.
//!
//! [`Turns`](greenwave_policy::Turns) decides whose it is; here they are offered to it, and have them. A round of flushing gives few turns: what is
//! posted is also copied by this thread, which has other things to find and to do meanwhile.

use super::Net;
use super::ends::Ends;
use greenwave_policy::Time;

/// Turns in a round of flushing. In each a connection posts a chunk or as much as its link takes soon.
const AT_ONCE: usize = 2;

impl Net {
    /// Gives connections with long messages their turns. Whether any had one.
    #[cold]
    pub(super) fn take_turns(&mut self, now: Time) -> bool {
        let mut posted = false;
        for _ in 0..AT_ONCE {
            let Ends { peers, pool, turns, .. } = &mut self.ends;
            let Some(index) = turns.next(now) else { break };
            let Some((peer, endpoint)) =
                peers.get_mut(index).and_then(|peer| Some((peer.endpoint?, peer))).map(|(at, peer)| (peer, at))
            else {
                continue;
            };
            posted = true;
            if let Err(error) = peer.transmit(now, &mut *self.queue, endpoint, |buffer| pool.put(buffer)) {
                // As in a flush.
                tracing::debug!(%endpoint, %error, "not sent");
            }
            // With room left it waits for credits, which is no reason to hold others back.
            let is_held_up = peer.link().is_long() && self.queue.send_room(endpoint) == 0;
            turns.posted(index, peer.link().least().filter(|_| is_held_up));
            self.ends.expect(index);
        }
        posted
    }
}

impl Ends {
    /// Lets a connection with long messages wait for its turn.
    #[cold]
    pub(super) fn queue_up(&mut self, now: Time, index: usize) {
        let least = self.peers[index].link().least().unwrap_or_default();
        self.turns.offer(now, index, least);
    }
}
