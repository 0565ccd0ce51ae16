//! Simulations that are told by a file: what there is, what comes, and what varies.
//!
//! A [`Scenario`] is a file of TOML with the cores of a server, a graph of services, a network of switches or a replica group, its
//! load, and lists of values for some of its keys. Each combination of them, under each seed, is a run, and each run a [`Row`] of named
//! values. Keys that nobody knows are refused with those that there are, and what would take too much memory or time before
//! anything runs.
//!
//! ```
//! use greenwave_sim::scenario::Scenario;
//!
//! let scenario: Scenario = r#"
//!     [cores]
//!     workers = 4
//!     order = "guarded"
//!     quantum = "2us"
//!
//!     [load]
//!     workload = "high"
//!     share = 0.5
//!
//!     [run]
//!     jobs = 2000
//!     seeds = 2
//!
//!     [vary]
//!     "load.share" = [0.5, 0.8]
//! "#.parse()?;
//! let mut shares = Vec::new();
//! scenario.run(2, |row| shares.push(row.number("load.share")));
//! assert_eq!(shares, [Some(0.5), Some(0.5), Some(0.8), Some(0.8)]);
//! # Ok::<(), greenwave_sim::scenario::ScenarioError>(())
//! ```

mod file;
mod group;
mod guests;
mod network;
mod quantity;
mod row;
mod runs;
mod vary;

use std::str::FromStr;

pub use row::{Cell, Row};
use runs::Run;

/// All runs that a file asks for.
#[derive(Clone, Debug)]
pub struct Scenario {
    runs: Vec<Run>,
}

impl Scenario {
    /// How many runs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// What `text` asks for, with seeds from elsewhere in place of those that it says.
    ///
    /// # Errors
    /// If the text can't be meant.
    pub fn parse(text: &str, seeds: Seeds) -> Result<Self, ScenarioError> {
        vary::runs(text, seeds).map(|runs| Self { runs })
    }

    /// What the largest of the runs takes of memory if it is as full as it may be, in bytes; up to [`MOST_MEMORY`].
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.runs.iter().map(Run::memory).max().unwrap_or(0)
    }

    /// Whether there are none, which isn't possible: a file without variations is one run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Does all runs on so many threads. Rows are told in the order of the runs, each as soon as those before are there, so
    /// who is interrupted has what was done by then.
    pub fn run(&self, threads: usize, mut each: impl FnMut(Row)) {
        runs::all(&self.runs, threads, &mut each);
    }

    /// The first so many jobs, requests, flows or commands of each run only.
    #[must_use]
    pub fn at_most(mut self, jobs: u64) -> Self {
        self.runs.iter_mut().for_each(|run| run.at_most(jobs));
        self
    }
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        Self::parse(text, Seeds::default())
    }
}

/// Seeds in place of a file's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub first: Option<u64>,
    /// How many, one after the other.
    pub count: Option<u64>,
}

/// A file that can't be meant: what is wrong, where, and what is allowed, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(pub(crate) String);

/// The most runs of a file.
pub const MOST_RUNS: usize = 100_000;

/// The most memory that a run may take, in bytes, if it is as full as it may be.
pub const MOST_MEMORY: u64 = 4 << 30;
