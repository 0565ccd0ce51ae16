//! The stores of the three stages, each in a directory of its own, so that each stage can be a process of its own.
//!
//! | stage | keyspace | key | value |
//! |---|---|---|---|
//! | profile | `users` | user | its traits |
//! | | `latest` | crate | the user that is its latest version, as it is by default |
//! | | `rarity` | trait | how rare it is, `f32` |
//! | history | `holders` | trait, a zero byte, user | its weight for that user, `f32`, of all weights together 1 |
//! | recommendation | `users` | user | its traits |
//! | | `crates` | crate | what it is about: keywords and categories |
//!
//! Numbers are little-endian, lists of traits are Protobuf messages. A store is written once and only read from then
//! on; fjall locks it against a second process.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs, io};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use prost::Message;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::kept::{self, Files, KeptError, Outcome};
use crate::proto::recommend::Trait;

use super::registry::{Manifests, Registry, RegistryError};
use super::users::{self, User};

/// Raised whenever what is written changes, so that older directories are built again.
const FORMAT: u32 = 2;

/// The list of users, beside the first stage's store.
const USERS: &str = "users.txt";

/// Blocks that a stage keeps in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// A stage of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Says what a user is like.
    Profile,
    /// Finds users like it.
    History,
    /// Ranks what those have.
    Recommendation,
}

impl Stage {
    /// The stages in the order of the chain.
    pub const ALL: [Self; 3] = [Self::Profile, Self::History, Self::Recommendation];

    /// Its name, which is also that of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::History => "history",
            Self::Recommendation => "recommendation",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Stage {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|stage| stage.name() == name);
        named.ok_or("allowed: profile, history or recommendation")
    }
}

/// What the stores hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Crates, each version counted.
    pub crates: usize,
    /// Users.
    pub users: usize,
    /// Different traits.
    pub traits: usize,
    /// Traits of all users together.
    pub holdings: usize,
    /// Manifests that were of no use, with the reasons.
    pub skipped: Vec<(String, String)>,
}

/// Makes sure that the three stores in `directory` are made from the crates below `root`.
///
/// # Errors
/// When there are no crates, or a store can't be written.
pub fn ensure(root: &Path, directory: &Path) -> Result<(Contents, [Outcome; 3]), StoreError> {
    let manifests = Manifests::find(root)?;
    let fingerprint = format!("{FORMAT}-{:016x}", manifests.fingerprint());
    let mut graph = None;
    let mut outcomes = [Outcome::Reused; 3];
    let mut contents = Contents::default();
    for (stage, outcome) in Stage::ALL.into_iter().zip(&mut outcomes) {
        let build = |path: &Path| {
            let graph = match &mut graph {
                Some(graph) => graph,
                none => none.insert(Graph::new(manifests.read()?)),
            };
            graph.write(stage, path)?;
            Ok::<_, StoreError>(graph.contents.clone())
        };
        (contents, *outcome) = kept::ensure(&directory.join(stage.name()), &fingerprint, Files::Living, build)?;
    }
    Ok((contents, outcomes))
}

/// The users that the stores in `directory` were built with, in the order of their names.
///
/// They lie beside the first stage's store, where they can be read while it is served.
///
/// # Errors
/// When the stores weren't built.
pub fn users(directory: &Path) -> Result<Vec<String>, StoreError> {
    let kept = kept::open::<Contents>(&directory.join(Stage::Profile.name()))?;
    let path = kept.path.join(USERS);
    let text = fs::read_to_string(&path).map_err(|source| StoreError::Users { path, source })?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// A stage's store, opened.
pub(crate) struct Store {
    database: Database,
    path: PathBuf,
    /// What the stores hold.
    pub(crate) contents: Contents,
}

impl Store {
    /// Opens the store of a stage below `directory`.
    pub(crate) fn open(directory: &Path, stage: Stage) -> Result<Self, StoreError> {
        let kept = kept::open(&directory.join(stage.name()))?;
        let path = kept.path.join("store");
        kept::read_ahead(&path);
        let database = open(&path)?;
        Ok(Self { database, path, contents: kept.about })
    }

    /// One of its keyspaces.
    pub(crate) fn keyspace(&self, name: &str) -> Result<Keyspace, StoreError> {
        self.database.keyspace(name, KeyspaceCreateOptions::default).map_err(failed(&self.path))
    }
}

/// Why the stores can't be made or used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// No crates to make them from.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The directory can't be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// Another process has it open.
    #[error("{} is open in another process; stop that one, or give this one a directory of its own", path.display())]
    Locked {
        /// Which store.
        path: PathBuf,
    },
    /// The list of users can't be written or read.
    #[error("{}: {source}; build the stores again", path.display())]
    Users {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store engine failed.
    #[error("store {}: {source}", path.display())]
    Engine {
        /// Which store.
        path: PathBuf,
        /// What it said.
        source: fjall::Error,
    },
}

/// A list of traits, as it is stored.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredTraits {
    #[prost(string, repeated, tag = "1")]
    pub(crate) names: Vec<String>,
    #[prost(float, repeated, tag = "2")]
    pub(crate) weights: Vec<f32>,
}

impl StoredTraits {
    fn of<'a>(traits: impl IntoIterator<Item = &'a Trait>) -> Self {
        let (names, weights) = traits.into_iter().map(|it| (it.name.clone(), it.weight)).unzip();
        Self { names, weights }
    }

    /// The traits again.
    pub(crate) fn into_traits(self) -> Vec<Trait> {
        self.names.into_iter().zip(self.weights).map(|(name, weight)| Trait { name, weight }).collect()
    }
}

/// A number, as it is stored.
pub(crate) fn number(bytes: &[u8]) -> Option<f32> {
    bytes.try_into().ok().map(f32::from_le_bytes)
}

/// The first bytes of the keys under which the holders of a trait are found.
pub(crate) fn holders_of(name: &str) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(name.len() + 48);
    prefix.extend_from_slice(name.as_bytes());
    prefix.push(0);
    prefix
}

fn open(path: &Path) -> Result<Database, StoreError> {
    Database::builder(path).worker_threads(1).cache_size(CACHE_BYTES).open().map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(fjall::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| match source {
        fjall::Error::Locked => StoreError::Locked { path },
        source => StoreError::Engine { path, source },
    }
}

/// Everything that goes into the stores.
struct Graph {
    users: Vec<User>,
    latest: BTreeMap<String, String>,
    about: BTreeMap<String, Vec<Trait>>,
    rarity: BTreeMap<String, f32>,
    contents: Contents,
}

impl Graph {
    fn new(registry: Registry) -> Self {
        let Registry { crates, skipped } = registry;
        let mut users = Vec::new();
        let (mut latest, mut about) = (BTreeMap::new(), BTreeMap::new());
        for found in &crates {
            let first = users.len();
            users.extend(users::of(found));
            let plain: &User = &users[first];
            let subject = plain.traits.iter().filter(|it| it.name.starts_with("k:") || it.name.starts_with("c:"));
            about.insert(found.name.clone(), subject.cloned().collect());
            latest.insert(found.name.clone(), plain.id.clone());
        }
        users.sort_by(|a, b| a.id.cmp(&b.id));
        let rarity = rarity(&users);
        let contents = Contents {
            crates: crates.len(),
            users: users.len(),
            traits: rarity.len(),
            holdings: users.iter().map(|user| user.traits.len()).sum(),
            skipped: skipped.iter().map(|(path, why)| (path.display().to_string(), why.to_string())).collect(),
        };
        Self { users, latest, about, rarity, contents }
    }

    fn write(&self, stage: Stage, directory: &Path) -> Result<(), StoreError> {
        let path = directory.join("store");
        let written = match stage {
            Stage::Profile => vec![self.users(), self.latest(), self.rarity()],
            Stage::History => vec![self.holders()],
            Stage::Recommendation => vec![self.users(), self.about()],
        };
        let database = open(&path)?;
        for (name, pairs) in written {
            let keyspace = database.keyspace(name, KeyspaceCreateOptions::default).map_err(failed(&path))?;
            fill(&keyspace, pairs).map_err(failed(&path))?;
        }
        database.persist(PersistMode::SyncAll).map_err(failed(&path))?;
        if stage == Stage::Profile { self.write_users(directory) } else { Ok(()) }
    }

    fn write_users(&self, directory: &Path) -> Result<(), StoreError> {
        let path = directory.join(USERS);
        let lines: String = self.users.iter().flat_map(|user| [user.id.as_str(), "\n"]).collect();
        fs::write(&path, lines).map_err(|source| StoreError::Users { path, source })
    }

    fn users(&self) -> (&'static str, Pairs) {
        let pairs =
            self.users.iter().map(|user| (user.id.clone().into(), StoredTraits::of(&user.traits).encode_to_vec()));
        ("users", pairs.collect())
    }

    fn latest(&self) -> (&'static str, Pairs) {
        ("latest", self.latest.iter().map(|(name, user)| (name.clone().into(), user.clone().into())).collect())
    }

    fn rarity(&self) -> (&'static str, Pairs) {
        ("rarity", self.rarity.iter().map(|(name, it)| (name.clone().into(), it.to_le_bytes().to_vec())).collect())
    }

    fn holders(&self) -> (&'static str, Pairs) {
        let mut pairs = Vec::new();
        for user in &self.users {
            let weighted = || user.traits.iter().map(|it| (it, it.weight * self.rarity[&it.name]));
            let length = weighted().map(|(_, weight)| weight * weight).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            for (it, weight) in weighted() {
                let mut key = holders_of(&it.name);
                key.extend_from_slice(user.id.as_bytes());
                pairs.push((key, (weight / length).to_le_bytes().to_vec()));
            }
        }
        pairs.sort();
        ("holders", pairs)
    }

    fn about(&self) -> (&'static str, Pairs) {
        let pairs = self.about.iter().map(|(name, it)| (name.clone().into(), StoredTraits::of(it).encode_to_vec()));
        ("crates", pairs.collect())
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes pairs that are in the order of their keys.
fn fill(keyspace: &Keyspace, pairs: Pairs) -> fjall::Result<()> {
    let mut ingestion = keyspace.start_ingestion()?;
    for (key, value) in pairs {
        ingestion.write(key, value)?;
    }
    ingestion.finish()
}

/// The logarithm of how few users have a trait: next to 0 for one that all have.
fn rarity(users: &[User]) -> BTreeMap<String, f32> {
    let mut holders: HashMap<&str, usize> = HashMap::new();
    for it in users.iter().flat_map(|user| &user.traits) {
        *holders.entry(&it.name).or_default() += 1;
    }
    let all = users.len() as f32 + 1.0;
    holders.into_iter().map(|(name, count)| (name.to_owned(), (all / count as f32).ln())).collect()
}
