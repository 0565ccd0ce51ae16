//! Which end belongs to an endpoint.

use greenwave_verbs::EndpointId;

/// The indices of ends, by their endpoints. What a queue calls its connections are slots, so finding one is a look into an
/// array.
///
/// A queue uses a slot again as soon as it has told of a connection's end, and what it told is dealt with after the poll. So
/// there can be two in a slot for a moment; the one that is over is among the `displaced` then.
#[derive(Debug, Default)]
pub(super) struct Directory {
    slots: Vec<Option<(EndpointId, usize)>>,
    displaced: Vec<(EndpointId, usize)>,
}

impl Directory {
    pub(super) fn insert(&mut self, endpoint: EndpointId, index: usize) {
        let slot = endpoint.slot();
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        self.displaced.extend(self.slots[slot].replace((endpoint, index)));
    }

    pub(super) fn remove(&mut self, endpoint: EndpointId) {
        let slot = self.slots.get_mut(endpoint.slot());
        if slot.and_then(|slot| slot.take_if(|(there, _)| *there == endpoint)).is_none() {
            self.displaced.retain(|(there, _)| *there != endpoint);
        }
    }

    #[inline]
    pub(super) fn find(&self, endpoint: EndpointId) -> Option<usize> {
        match self.slots.get(endpoint.slot()) {
            Some(Some((there, index))) if *there == endpoint => Some(*index),
            _ => self.find_displaced(endpoint),
        }
    }

    #[cold]
    fn find_displaced(&self, endpoint: EndpointId) -> Option<usize> {
        self.displaced.iter().find(|(there, _)| *there == endpoint).map(|(_, index)| *index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_verbs::{Address, Choice, Close, QueueConfig, memory};

    /// Endpoints that a queue has given the same slot, one after the other.
    fn of_one_slot() -> [EndpointId; 2] {
        let backend = Choice::Memory(memory::Network::new(0));
        let mut queue = greenwave_verbs::open(&QueueConfig { backend, ..QueueConfig::default() }).unwrap();
        let address: Address = "memory://there".parse().unwrap();
        queue.listen(&address).unwrap();
        [(); 2].map(|()| {
            let endpoint = queue.connect(&address).unwrap();
            queue.close(endpoint, Close::Abort);
            endpoint
        })
    }

    #[test]
    fn who_was_in_a_slot_before_is_found_until_removed() {
        let [old, new] = of_one_slot();
        assert!(old != new && old.slot() == new.slot());
        let mut directory = Directory::default();
        directory.insert(old, 7);
        directory.insert(new, 8);
        assert_eq!([old, new].map(|endpoint| directory.find(endpoint)), [Some(7), Some(8)]);
        directory.remove(old);
        directory.remove(old);
        assert_eq!([old, new].map(|endpoint| directory.find(endpoint)), [None, Some(8)]);
        directory.remove(new);
        assert_eq!(directory.find(new), None);
        assert!(directory.displaced.is_empty());
    }
}
