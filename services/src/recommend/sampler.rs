//! Users to ask for, drawn from those that the stores know.
//!
//! First a crate is drawn, few of them often and many rarely (Zipf's law, in an order that the seed decides), and then
//! one of the users that it makes. So a crate with a thousand features isn't asked for more often than others.

use std::collections::BTreeMap;
use std::path::Path;

use crate::draw::{Draw, Zipf};
use crate::proto::recommend::ProfileRequest;

use super::registry::{Manifests, RegistryError};
use super::store::{self, StoreError};
use super::users;

/// An endless source of users.
#[derive(Clone, Debug)]
pub struct Sampler {
    crates: Vec<Vec<String>>,
    popularity: Zipf,
    draw: Draw,
}

impl Sampler {
    /// The exponent of Zipf's law.
    const SKEW: f64 = 0.6;

    /// Draws from the users that the stores in `directory` were built with, whether or not they are being served.
    ///
    /// # Errors
    /// When they weren't built.
    pub fn stored(directory: &Path, seed: u64) -> Result<Self, StoreError> {
        Ok(Self::new(store::users(directory)?, seed))
    }

    /// Draws from the users that the crates below `root` make. Stores that were built before a crate was added don't
    /// know its users; [`Sampler::stored`] never draws such.
    ///
    /// # Errors
    /// When there are no crates.
    pub fn read(root: &Path, seed: u64) -> Result<Self, RegistryError> {
        let registry = Manifests::find(root)?.read()?;
        Ok(Self::new(registry.crates.iter().flat_map(users::of).map(|user| user.id).collect(), seed))
    }

    /// Draws from these users.
    pub fn new(users: Vec<String>, seed: u64) -> Self {
        let mut crates: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for user in users {
            let name = user.split_once('@').map_or(user.as_str(), |(name, _)| name).to_owned();
            crates.entry(name).or_default().push(user);
        }
        let mut crates: Vec<_> = crates.into_values().collect();
        crates.iter_mut().for_each(|users| users.sort_unstable());
        let mut draw = Draw::new(seed);
        for last in (1..crates.len()).rev() {
            crates.swap(last, draw.below(last + 1));
        }
        let popularity = Zipf::new(crates.len(), Self::SKEW);
        Self { crates, popularity, draw }
    }

    /// The next user; `None` if there are none at all.
    pub fn user(&mut self) -> Option<&str> {
        let rank = self.popularity.rank(&mut self.draw);
        let users = self.crates.get(rank)?;
        users.get(self.draw.below(users.len())).map(String::as_str)
    }

    /// The next user's request for `limit` crates; `None` if there are no users at all.
    pub fn request(&mut self, limit: u32) -> Option<ProfileRequest> {
        self.user().map(|user| ProfileRequest { user: user.to_owned(), limit })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn draw(seed: u64) -> Vec<String> {
        let users = (0..100).flat_map(|i| [format!("crate{i}@1.0.0"), format!("crate{i}@1.0.0+std")]);
        let mut sampler = Sampler::new(users.collect(), seed);
        (0..2000).map(|_| sampler.user().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn most_users_come_up_and_some_crates_more_than_others() {
        let drawn = draw(3);
        assert!(drawn.iter().collect::<HashSet<_>>().len() > 180);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for user in &drawn {
            *counts.entry(user.split('@').next().unwrap()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable();
        assert!(counts[counts.len() - 1] > 3 * counts[counts.len() / 2]);
    }

    #[test]
    fn a_crate_with_many_features_is_not_asked_for_more_often() {
        let mut users: Vec<_> = (0..1000).map(|i| format!("large@1.0.0+feature{i}")).collect();
        users.push("small@1.0.0".to_owned());
        let mut sampler = Sampler::new(users, 1);
        let small = (0..1000).filter(|_| sampler.user() == Some("small@1.0.0")).count();
        assert!((300..700).contains(&small), "{small}");
    }

    #[test]
    fn nobody_is_drawn_from_nobody() {
        assert_eq!(Sampler::new(Vec::new(), 1).user(), None);
    }
}
