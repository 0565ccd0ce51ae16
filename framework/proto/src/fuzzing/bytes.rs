//! Arbitrary bytes, read as choices.

/// Choices, one after the other. When there are none left all are 0.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// A number below `end`, which is 1 to 256.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// One of these, of which there are 1 to 256.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Something that is seldom so.
    pub(super) fn seldom(&mut self) -> bool {
        self.byte() >= 252
    }

    /// Any number: most of the time a small one, or one near the ends of the range.
    pub(super) fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..200 => small.into(),
            large => (u64::from(self.byte()) << 56 | u64::from(large)).rotate_right(self.byte().into()),
        }
    }
}
