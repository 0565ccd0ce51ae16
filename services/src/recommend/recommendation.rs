//! Third stage: what the user might want, out of what those like it have.
//!
//! Each neighbour is read, compared with the profile once more (by the overlap of their traits, which punishes a
//! neighbour that has a lot of everything), and votes for the crates that it depends on and the user doesn't. The
//! best of those are then chosen one by one, each for its votes and for being about something else than those before
//! it (maximal marginal relevance). A short budget hears fewer neighbours, the nearest first.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use fjall::Keyspace;
use prost::Message;

use crate::checkpoint::{Effort, Pass, Precision, Steps};
use crate::proto::recommend::{Neighbour, Suggestion, Trait};

use super::profile::ReadError;
use super::store::{Stage, Store, StoreError, StoredTraits};

/// Neighbours heard between two checkpoints.
const STEP: usize = 4;

/// What hearing a neighbour costs before anything is known of it.
const FIRST_GUESS: Duration = Duration::from_micros(10);

/// Weight of votes against variety when the best are chosen.
const RELEVANCE: f32 = 0.7;

/// The recommendation stage with its store.
pub struct Recommendations {
    users: Keyspace,
    crates: Keyspace,
    effort: Effort,
    _store: Store,
}

/// What is asked of this stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The profile's traits.
    pub traits: Vec<Trait>,
    /// The crates that the user has already.
    pub has: Vec<String>,
    /// Users like it, the nearest first.
    pub neighbours: Vec<Neighbour>,
    /// How many crates are wanted.
    pub limit: usize,
}

/// Crates for a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommended {
    /// The crates, best first.
    pub crates: Vec<Suggestion>,
    /// Neighbours heard of those there are.
    pub precision: Precision,
    /// Whether the work was called off before its end.
    pub stopped: bool,
}

impl Recommendations {
    /// More crates than this are refused.
    pub const MOST: usize = 100;

    /// More neighbours than this are refused.
    pub const MOST_NEIGHBOURS: usize = 4096;

    /// Opens the stage's store below `directory`.
    ///
    /// # Errors
    /// When it wasn't built, or is open in another process.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let store = Store::open(directory, Stage::Recommendation)?;
        let (users, crates) = (store.keyspace("users")?, store.keyspace("crates")?);
        Ok(Self { users, crates, effort: Effort::guess(FIRST_GUESS), _store: store })
    }

    /// Ranks crates for a user, passing a checkpoint before every few neighbours.
    ///
    /// # Errors
    /// When too much is asked for, or the store can't be read.
    pub fn rank(&self, request: &Request, pass: Pass<'_>) -> Result<Recommended, ReadError> {
        check("crates are wanted", request.limit, 1, Self::MOST)?;
        check("neighbours", request.neighbours.len(), 0, Self::MOST_NEIGHBOURS)?;
        let mut votes = Votes::new(request);
        let mut steps = Steps::new(request.neighbours.len(), STEP, &self.effort, pass);
        while let Some(range) = steps.step() {
            for neighbour in &request.neighbours[range] {
                if let Some(stored) = self.users.get(&neighbour.user)? {
                    votes.hear(neighbour, StoredTraits::decode(&*stored)?);
                }
            }
        }
        let closed = steps.close();
        let crates = if closed.stopped { Vec::new() } else { self.choose(votes.best(request.limit), request.limit)? };
        Ok(Recommended { crates, precision: closed.precision, stopped: closed.stopped })
    }

    /// Chooses `limit` of the candidates, one after the other.
    fn choose(&self, candidates: Vec<Suggestion>, limit: usize) -> Result<Vec<Suggestion>, ReadError> {
        let most = candidates.first().map_or(1.0, |best| best.score).max(f32::MIN_POSITIVE);
        let mut open = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let about = self.crates.get(&candidate.name)?.map(|stored| StoredTraits::decode(&*stored)).transpose()?;
            let about: HashSet<_> = about.unwrap_or_default().names.into_iter().collect();
            open.push(Open { relevance: candidate.score / most, candidate, about, like_chosen: 0.0 });
        }
        let mut chosen = Vec::with_capacity(limit);
        while chosen.len() < limit
            && let Some(best) =
                (0..open.len()).max_by(|a, b| open[*a].worth().total_cmp(&open[*b].worth()).then(b.cmp(a)))
        {
            let Open { candidate, about, .. } = open.remove(best);
            for rest in &mut open {
                rest.like_chosen = rest.like_chosen.max(overlap(&rest.about, &about));
            }
            chosen.push(candidate);
        }
        Ok(chosen)
    }
}

fn check(what: &'static str, given: usize, least: usize, most: usize) -> Result<(), ReadError> {
    if (least..=most).contains(&given) { Ok(()) } else { Err(ReadError::TooMany { what, given, most }) }
}

/// The votes of the neighbours that were heard.
struct Votes<'a> {
    profile: HashMap<&'a str, f32>,
    has: HashSet<&'a str>,
    votes: HashMap<String, Vote>,
}

struct Vote {
    sum: f32,
    strongest: f32,
    because: String,
}

impl<'a> Votes<'a> {
    fn new(request: &'a Request) -> Self {
        Self {
            profile: request.traits.iter().map(|it| (it.name.as_str(), it.weight)).collect(),
            has: request.has.iter().map(String::as_str).collect(),
            votes: HashMap::new(),
        }
    }

    fn hear(&mut self, neighbour: &Neighbour, traits: StoredTraits) {
        let shared: f32 = traits.names.iter().filter_map(|name| self.profile.get(name.as_str())).sum();
        let overlap =
            shared / (self.profile.values().sum::<f32>() + traits.weights.iter().sum::<f32>() - shared).max(1.0);
        for it in traits.into_traits() {
            let Some(name) = it.dependency().filter(|name| !self.has.contains(name)) else { continue };
            let vote = neighbour.similarity * (1.0 + overlap) * it.weight;
            let known = self.votes.entry(name.to_owned()).or_insert_with(|| Vote {
                sum: 0.0,
                strongest: 0.0,
                because: String::new(),
            });
            known.sum += vote;
            if vote > known.strongest {
                known.strongest = vote;
                known.because.clone_from(&neighbour.user);
            }
        }
    }

    /// Four times as many as are wanted, the best first: enough to choose from.
    fn best(self, limit: usize) -> Vec<Suggestion> {
        let votes = self.votes.into_iter();
        let mut best: Vec<_> =
            votes.map(|(name, it)| Suggestion { name, score: it.sum, because: it.because }).collect();
        best.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
        best.truncate(4 * limit);
        best
    }
}

/// A candidate that wasn't chosen yet.
struct Open {
    candidate: Suggestion,
    relevance: f32,
    about: HashSet<String>,
    /// How much it is about the same as the chosen one that is most like it.
    like_chosen: f32,
}

impl Open {
    fn worth(&self) -> f32 {
        RELEVANCE * self.relevance - (1.0 - RELEVANCE) * self.like_chosen
    }
}

fn overlap(a: &HashSet<String>, b: &HashSet<String>) -> f32 {
    let shared = a.intersection(b).count();
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f32 / all as f32 }
}
