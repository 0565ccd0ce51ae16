//! Connections with long messages take turns.
//!
//! [`Rotation`](greenwave_policy::Rotation) decides whose it is; here they are offered to it, and have them. A round of flushing gives few turns: what is
//! posted is also copied by this thread, which has other things to find and to do meanwhile.

use super::Net;
use super::endpoint::Endpoint;
use super::ends::Ends;
use greenwave_policy::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Turns in a round of flushing. In each a connection posts a chunk or as much as its link takes soon.
const AT_ONCE: usize = 2;

/// The threads of an instance, which send over one network interface: what each one's links hold up, as
/// [`Rotation::held_up`](greenwave_policy::Rotation::held_up) has it. Each word is written by its own thread.
#[derive(Clone, Debug)]
pub(crate) struct Interface(Arc<[Word]>);

#[derive(Debug)]
#[repr(align(64))]
struct Word(AtomicUsize);

impl Interface {
    /// Of so many threads.
    pub(crate) fn of(threads: usize) -> Self {
        Self((0..threads).map(|_| Word(AtomicUsize::new(usize::MAX))).collect())
    }
}

/// What a thread tells the others of its instance, and is told.
///
/// Nobody is woken by it: who sleeps while something shorter is held up elsewhere goes on when its hold is over.
///
/// An interface and which of its threads this is, if there are others.
#[derive(Default)]
pub(super) struct Elsewhere(Option<(Interface, usize)>);

impl Elsewhere {
    /// This thread's own word; a thread that has no others has none.
    fn own(&self) -> Option<&AtomicUsize> {
        self.0.as_ref().map(|(interface, thread)| &interface.0[*thread].0)
    }

    fn tell(word: &AtomicUsize, held_up: usize) {
        // Others read it, and it seldom changes.
        if word.load(Ordering::Relaxed) != held_up {
            word.store(held_up, Ordering::Relaxed);
        }
    }

    /// The least that the others' links hold up.
    pub(super) fn held_up(&self) -> usize {
        let Some((interface, own)) = &self.0 else { return usize::MAX };
        let others = interface.0.iter().enumerate().filter(|(thread, _)| thread != own);
        others.map(|(_, word)| word.0.load(Ordering::Relaxed)).min().unwrap_or(usize::MAX)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(word) = self.own() {
            Self::tell(word, usize::MAX);
        }
    }
}

impl Net {
    /// From now on connections of this and the other threads take turns.
    pub(crate) fn share_rotation(&mut self, interface: Interface, thread: usize) {
        self.ends.elsewhere = Elsewhere(Some((interface, thread)));
    }

    /// Gives connections with long messages their turns. Whether any had one.
    #[cold]
    pub(super) fn take_turns(&mut self, now: Time) -> bool {
        let mut posted = false;
        for _ in 0..AT_ONCE {
            let Ends { peers, pool, rotation, elsewhere, late, counters, .. } = &mut self.ends;
            let Some(index) = rotation.next(now, elsewhere.held_up()) else { break };
            let Some((peer, id)) =
                peers.get_mut(index).and_then(|peer| Some((peer.endpoint?, peer))).map(|(at, peer)| (peer, at))
            else {
                continue;
            };
            posted = true;
            if let Err(error) =
                peer.transmit(now, &mut Endpoint { queue: &mut *self.queue, id }, |buffer| pool.put(buffer))
            {
                // As in a flush.
                tracing::debug!(endpoint = %id, %error, "not sent");
            }
            peer.tell_streams(index, late, counters);
            // With room left it waits for credits, which is no reason to hold others back.
            let is_held_up = peer.is_long() && self.queue.send_room(id) == 0;
            rotation.posted(index, peer.least().filter(|_| is_held_up));
            self.ends.expect(index);
        }
        posted
    }
}

impl Ends {
    /// When a connection has its turn, if one waits for it.
    pub(super) fn rotation_due(&self, now: Time) -> Option<Time> {
        self.rotation.due(now, self.elsewhere.held_up())
    }

    /// Tells the other threads, if there are any, what is held up here.
    pub(super) fn tell_others(&self) {
        if let Some(word) = self.elsewhere.own() {
            Elsewhere::tell(word, self.rotation.held_up());
        }
    }

    /// Lets a connection with long messages wait for its turn.
    #[cold]
    pub(super) fn queue_up(&mut self, now: Time, index: usize) {
        let least = self.peers[index].least().unwrap_or_default();
        self.rotation.offer(now, index, least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_hear_of_what_others_hold_up_and_no_longer_when_these_have_ended() {
        let interface = Interface::of(3);
        let [one, other, third] = [0, 1, 2].map(|thread| Elsewhere(Some((interface.clone(), thread))));
        Elsewhere::tell(one.own().unwrap(), 5000);
        Elsewhere::tell(other.own().unwrap(), 3000);
        assert_eq!([one.held_up(), other.held_up(), third.held_up()], [3000, 5000, 3000]);
        drop(other);
        assert_eq!([one.held_up(), third.held_up()], [usize::MAX, 5000]);
        assert_eq!(Elsewhere::default().held_up(), usize::MAX);
    }
}
