//! Users to ask for, drawn from those that the stores know.
//!
//! As with questions, few are asked for often and many rarely (Zipf's law); which ones those are is decided by the
//! seed.

use std::path::Path;

use crate::draw::{Draw, Zipf};
use crate::proto::recommend::ProfileRequest;

use super::registry::{Manifests, RegistryError};
use super::users;

/// An endless source of users.
#[derive(Clone, Debug)]
pub struct Sampler {
    users: Vec<String>,
    popularity: Zipf,
    draw: Draw,
}

impl Sampler {
    /// The exponent of Zipf's law.
    const SKEW: f64 = 0.6;

    /// Draws from the users that the crates below `root` make.
    ///
    /// # Errors
    /// When there are no crates.
    pub fn read(root: &Path, seed: u64) -> Result<Self, RegistryError> {
        let registry = Manifests::find(root)?.read()?;
        let users = registry.crates.iter().flat_map(users::of).map(|user| user.id);
        Ok(Self::new(users.collect(), seed))
    }

    /// Draws from these users.
    pub fn new(mut users: Vec<String>, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        users.sort_unstable();
        for last in (1..users.len()).rev() {
            users.swap(last, draw.below(last + 1));
        }
        let popularity = Zipf::new(users.len(), Self::SKEW);
        Self { users, popularity, draw }
    }

    /// The next user; `None` if there are none at all.
    pub fn user(&mut self) -> Option<&str> {
        let rank = self.popularity.rank(&mut self.draw);
        self.users.get(rank).map(String::as_str)
    }

    /// The next user's request for `limit` crates; `None` if there are no users at all.
    pub fn request(&mut self, limit: u32) -> Option<ProfileRequest> {
        self.user().map(|user| ProfileRequest { user: user.to_owned(), limit })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn draw(seed: u64) -> Vec<String> {
        let mut sampler = Sampler::new((0..100).map(|i| format!("user{i}")).collect(), seed);
        (0..1000).map(|_| sampler.user().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn most_users_come_up_some_more_than_others() {
        let drawn = draw(3);
        let different: HashSet<_> = drawn.iter().collect();
        assert!(different.len() > 90);
        let first = drawn.iter().filter(|user| **user == drawn[0]).count();
        assert!(first < 200);
    }

    #[test]
    fn nobody_is_drawn_from_nobody() {
        assert_eq!(Sampler::new(Vec::new(), 1).user(), None);
    }
}
