//! Calls under way by the names that their makers gave them, so that one can be taken back without a look at all others.

use std::collections::HashMap;
use std::hash::Hash;

/// Names, and the tokens of their calls; of several calls of one name the one made last.
///
/// Kept from the first time that a name is looked for: most makers never take a call back, and theirs cost nothing.
pub(super) struct ByName<N>(Option<HashMap<N, usize>>);

impl<N> Default for ByName<N> {
    fn default() -> Self {
        Self(None)
    }
}

impl<N: Eq + Hash> ByName<N> {
    /// The call of this name. `all`: those under way, in case that names were not kept so far.
    pub(super) fn find(&mut self, name: &N, all: impl Iterator<Item = (N, usize)>) -> Option<usize> {
        self.0.get_or_insert_with(|| all.collect()).get(name).copied()
    }

    /// A call is made.
    #[inline]
    pub(super) fn made(&mut self, name: impl FnOnce() -> N, token: usize) {
        if let Some(tokens) = &mut self.0 {
            tokens.insert(name(), token);
        }
    }

    /// A call is over.
    #[inline]
    pub(super) fn over(&mut self, name: impl FnOnce() -> N, token: usize) {
        if let Some(tokens) = &mut self.0 {
            let name = name();
            if tokens.get(&name) == Some(&token) {
                tokens.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn names_are_collected_once_and_then_kept() {
        let looks = Cell::new(0);
        let all = || [(5, 0), (6, 1)].into_iter().inspect(|_| looks.set(looks.get() + 1));
        let mut names = ByName::default();
        names.made(|| unreachable!("nobody has looked for a name"), 0);
        assert_eq!(names.find(&6, all()), Some(1));
        names.made(|| 7, 2);
        names.made(|| 6, 3);
        names.over(|| 6, 1);
        assert_eq!([5, 6, 7, 8].map(|name| names.find(&name, all())), [Some(0), Some(3), Some(2), None]);
        names.over(|| 6, 3);
        assert_eq!((names.find(&6, all()), looks.get()), (None, 2), "looked at as many as there were at first");
    }
}
