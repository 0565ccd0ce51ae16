//! A table whose keys never mean something else later.

use crate::{VerbsError, fetch};

/// Values in numbered slots, each under a key of slot and generation.
///
/// Invariants:
/// 1. A slot's generation grows by one each time its value is removed, so that a key names one value for ever.
/// 2. A slot whose generations are used up is never filled again.
/// 3. A slot index fits in 24 bits, so that a completion has room for its kind beside the key.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) const LIMIT: usize = 1 << 24;

    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The key is 24 bits of slot below 32 bits of generation, and 8 bits of 0 on top once shifted by the caller.
    pub(crate) fn insert(&mut self, value: T) -> Result<u64, VerbsError> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() == Self::LIMIT => return Err(VerbsError::Full(Self::LIMIT)),
            None => {
                self.slots.push(Slot { generation: 0, value: None });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        self.len += 1;
        Ok(u64::from(slot.generation) << 32 | u64::from(index))
    }

    #[inline]
    pub(crate) fn at(&self, key: u64) -> Option<&T> {
        let slot = self.slots.get(key as u32 as usize)?;
        if slot.generation == (key >> 32) as u32 { slot.value.as_ref() } else { None }
    }

    /// Has the processor fetch what is in the slot.
    #[inline]
    pub(crate) fn fetch(&self, key: u64) {
        if let Some(slot) = self.slots.get(key as u32 as usize) {
            fetch(slot, size_of::<Slot<T>>());
        }
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, key: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        if slot.generation == (key >> 32) as u32 { slot.value.as_mut() } else { None }
    }

    /// The value in a slot, whatever its generation, with its key.
    #[cfg(feature = "fabric")]
    #[inline]
    pub(crate) fn in_slot(&mut self, index: u32) -> Option<(u64, &mut T)> {
        let slot = self.slots.get_mut(index as usize)?;
        let key = u64::from(slot.generation) << 32 | u64::from(index);
        slot.value.as_mut().map(|value| (key, value))
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        self.at(key)?;
        let index = key as u32;
        let slot = &mut self.slots[index as usize];
        let value = slot.value.take();
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(index);
        }
        self.len -= 1;
        value
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        let key = |(index, slot): (usize, &Slot<T>)| {
            slot.value.as_ref().map(|_| u64::from(slot.generation) << 32 | index as u64)
        };
        self.slots.iter().enumerate().filter_map(key)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        let keys: Vec<u64> = self.keys().collect();
        keys.into_iter().filter_map(|key| self.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_value_for_ever() {
        let mut slots = Slots::new();
        let first = slots.insert('a').unwrap();
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b').unwrap();
        assert_eq!(first as u32, second as u32, "the slot is used again");
        assert_eq!((slots.at(first), slots.at(second)), (None, Some(&'b')));
        assert_eq!((slots.remove(first), slots.len()), (None, 1));
    }

    #[test]
    fn a_slot_retires_when_its_generations_are_used_up() {
        let mut slots = Slots::new();
        let key = slots.insert('a').unwrap();
        slots.slots[0].generation = u32::MAX;
        assert_eq!(slots.remove(u64::from(u32::MAX) << 32 | key), Some('a'));
        let next = slots.insert('b').unwrap();
        assert_eq!(next, 1, "another slot");
    }

    #[test]
    fn a_key_from_elsewhere_is_refused() {
        let slots = Slots::<char>::new();
        assert_eq!(slots.at(0), None);
        assert_eq!(slots.at(u64::MAX), None);
    }
}
