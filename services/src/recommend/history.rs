//! Second stage: who else has these traits.
//!
//! For each trait of a profile all its holders are scanned, the weightiest trait first, and their similarities to the
//! profile add up: the cosine of two users' traits. A short budget leaves the lighter traits out.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use fjall::Keyspace;

use crate::checkpoint::{Effort, Pass, Precision, Steps};
use crate::proto::recommend::{Neighbour, Trait};

use super::profile::ReadError;
use super::store::{Stage, Store, StoreError, holders_of, number};

/// Traits scanned between two checkpoints.
const STEP: usize = 1;

/// What scanning the holders of a trait costs before anything is known of it.
const FIRST_GUESS: Duration = Duration::from_micros(20);

/// Holders of one trait that are looked at. A trait that more have tells next to nothing.
const HOLDERS: usize = 2000;

/// The history stage with its store.
pub struct Histories {
    holders: Keyspace,
    effort: Effort,
    _store: Store,
}

/// Those who are like the user.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The most similar users, the most similar first.
    pub neighbours: Vec<Neighbour>,
    /// Traits scanned of those in the profile.
    pub precision: Precision,
    /// Whether the work was called off before its end.
    pub stopped: bool,
}

impl History {
    /// More neighbours than this aren't kept.
    pub const NEIGHBOURS: usize = 128;
}

impl Histories {
    /// Opens the stage's store below `directory`.
    ///
    /// # Errors
    /// When it wasn't built, or is open in another process.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let store = Store::open(directory, Stage::History)?;
        Ok(Self { holders: store.keyspace("holders")?, effort: Effort::guess(FIRST_GUESS), _store: store })
    }

    /// Finds users with these traits other than those of the crate `of`, passing a checkpoint before every few traits.
    ///
    /// # Errors
    /// When there are more traits than a profile has, or the store can't be read.
    pub fn like(&self, traits: &[Trait], of: &str, pass: Pass<'_>) -> Result<History, ReadError> {
        if traits.len() > MOST_TRAITS {
            return Err(ReadError::TooMany { what: "traits", given: traits.len(), most: MOST_TRAITS });
        }
        let own = format!("{of}@");
        let mut similarities = HashMap::new();
        let mut steps = Steps::new(traits.len(), STEP, &self.effort, pass);
        while let Some(range) = steps.step() {
            for it in &traits[range] {
                self.scan(it, own.as_bytes(), &mut similarities)?;
            }
        }
        let closed = steps.close();
        let neighbours = nearest(similarities);
        Ok(History { neighbours, precision: closed.precision, stopped: closed.stopped })
    }

    fn scan(&self, it: &Trait, own: &[u8], similarities: &mut HashMap<Vec<u8>, f32>) -> Result<(), ReadError> {
        let prefix = holders_of(&it.name);
        for holder in self.holders.prefix(&prefix).take(HOLDERS) {
            let (key, weight) = holder.into_inner()?;
            let user = &key[prefix.len()..];
            if user.starts_with(own) {
                continue;
            }
            let similarity = it.weight * number(&weight).unwrap_or(0.0);
            match similarities.get_mut(user) {
                Some(sum) => *sum += similarity,
                None => {
                    similarities.insert(user.to_vec(), similarity);
                }
            }
        }
        Ok(())
    }
}

/// More traits than this are refused.
const MOST_TRAITS: usize = 1024;

fn nearest(similarities: HashMap<Vec<u8>, f32>) -> Vec<Neighbour> {
    let mut nearest: Vec<_> = similarities.into_iter().collect();
    let order = |a: &(Vec<u8>, f32), b: &(Vec<u8>, f32)| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0));
    if nearest.len() > History::NEIGHBOURS {
        nearest.select_nth_unstable_by(History::NEIGHBOURS, order);
        nearest.truncate(History::NEIGHBOURS);
    }
    nearest.sort_by(order);
    let named = nearest.into_iter();
    named
        .map(|(user, similarity)| Neighbour { user: String::from_utf8_lossy(&user).into_owned(), similarity })
        .collect()
}
