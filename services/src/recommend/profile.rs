//! First stage: what a user is like.
//!
//! A user's profile is its own traits, and in part those of the crates that it depends on, each weighted by how rare
//! it is. Reading the dependencies is the part that a short budget cuts: the weightiest are read first.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use fjall::Keyspace;
use prost::Message;
use thiserror::Error;

use crate::checkpoint::{Effort, Pass, Precision, Steps};
use crate::proto::recommend::Trait;

use super::store::{Stage, Store, StoreError, StoredTraits, number};

/// Dependencies read between two checkpoints.
const STEP: usize = 1;

/// What reading a dependency costs before anything is known of it.
const FIRST_GUESS: Duration = Duration::from_micros(20);

/// How much of a dependency's traits its dependent has.
const SHARE: f32 = 0.25;

/// The profile stage with its store.
pub struct Profiles {
    users: Keyspace,
    latest: Keyspace,
    rarity: Keyspace,
    effort: Effort,
    store: Store,
}

/// What a user is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The traits that tell most, the weightiest first; the squares of the weights add up to 1.
    pub traits: Vec<Trait>,
    /// The crates that it depends on already.
    pub has: Vec<String>,
    /// Dependencies read of those there are.
    pub precision: Precision,
    /// Whether the work was called off before its end.
    pub stopped: bool,
}

impl Profile {
    /// More traits than this aren't kept.
    pub const TRAITS: usize = 64;
}

impl Profiles {
    /// Opens the stage's store below `directory`.
    ///
    /// # Errors
    /// When it wasn't built, or is open in another process.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let store = Store::open(directory, Stage::Profile)?;
        Ok(Self {
            users: store.keyspace("users")?,
            latest: store.keyspace("latest")?,
            rarity: store.keyspace("rarity")?,
            effort: Effort::guess(FIRST_GUESS),
            store,
        })
    }

    /// How many users are known.
    pub fn users(&self) -> usize {
        self.store.contents.users
    }

    /// Makes the profile of a user, passing a checkpoint before every few dependencies.
    ///
    /// # Errors
    /// When there is no such user, or the store can't be read.
    pub fn of(&self, user: &str, pass: Pass<'_>) -> Result<Profile, ReadError> {
        let own = self.traits_of(user.as_bytes())?.ok_or_else(|| ReadError::NoSuchUser { user: user.to_owned() })?;
        let mut dependencies: Vec<_> = own.iter().filter(|it| it.dependency().is_some()).cloned().collect();
        dependencies.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let mut has: Vec<String> = dependencies.iter().filter_map(Trait::dependency).map(str::to_owned).collect();
        has.extend(user.split_once('@').map(|(name, _)| name.to_owned()));

        let mut mixture = Mixture { rarity: &self.rarity, weights: HashMap::new() };
        mixture.add(own, 1.0)?;
        let mut steps = Steps::new(dependencies.len(), STEP, &self.effort, pass);
        while let Some(range) = steps.step() {
            for dependency in &dependencies[range] {
                let latest = self.latest.get(dependency.dependency().unwrap_or_default())?;
                if let Some(traits) = latest.map(|user| self.traits_of(&user)).transpose()?.flatten() {
                    mixture.add(traits, SHARE * dependency.weight)?;
                }
            }
        }
        let closed = steps.close();
        let traits = mixture.strongest(Profile::TRAITS);
        Ok(Profile { traits, has, precision: closed.precision, stopped: closed.stopped })
    }

    fn traits_of(&self, user: &[u8]) -> Result<Option<Vec<Trait>>, ReadError> {
        let Some(stored) = self.users.get(user)? else { return Ok(None) };
        Ok(Some(StoredTraits::decode(&*stored)?.into_traits()))
    }
}

/// Why a stage can't answer.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Nobody of that name.
    #[error("there is no user {user:?}; users are crates as `name@version` or `name@version+feature`")]
    NoSuchUser {
        /// Who was asked for.
        user: String,
    },
    /// More was asked for than is given.
    #[error("{given} {what}; allowed are 1 to {most}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        given: usize,
        /// How many are allowed.
        most: usize,
    },
    /// A record isn't what was stored.
    #[error("a stored record is broken ({0}); build the store again")]
    Broken(#[from] prost::DecodeError),
    /// The store engine failed.
    #[error("store: {0}")]
    Engine(#[from] fjall::Error),
}

/// Traits added up, each weighted by its rarity.
struct Mixture<'a> {
    rarity: &'a Keyspace,
    weights: HashMap<String, f32>,
}

impl Mixture<'_> {
    fn add(&mut self, traits: Vec<Trait>, share: f32) -> Result<(), ReadError> {
        for Trait { name, weight } in traits {
            let rarity = self.rarity.get(&name)?.and_then(|it| number(&it)).unwrap_or(0.0);
            *self.weights.entry(name).or_default() += share * weight * rarity;
        }
        Ok(())
    }

    fn strongest(self, most: usize) -> Vec<Trait> {
        let mut traits: Vec<_> = self.weights.into_iter().map(|(name, weight)| Trait { name, weight }).collect();
        traits.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        traits.truncate(most);
        let length = traits.iter().map(|it| it.weight * it.weight).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        for it in &mut traits {
            it.weight /= length;
        }
        traits
    }
}
