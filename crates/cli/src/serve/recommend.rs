//! `greenwave serve recommend`: stores, and a process for each stage of the chain.
//!
//! The stages start from the last to the first, since each has to know the next, and end from the first to the last,
//! since each needs the next to finish what it accepted. When one dies, the chain can't answer any more and ends.

use std::path::PathBuf;
use std::time::Instant;

use greenwave_services::recommend::StageConfig;
use greenwave_services::recommend::store::{self, Stage, StoreError};

use super::children::{Children, Listening, News};
use super::events::{self, Ending};
use super::flags::{RecommendFlags, gather};
use super::here::{Facts, tell};
use super::indexing::described;
use super::{FREE_PORT, Keys};
use crate::problem::Problem;
use crate::{data, samples};

/// What the stage that clients call is told alone.
const FIRST: [&str; 6] = ["listen", "instance", "name", "tls_cert", "tls_key", "tls_client_ca"];

/// Serves until it is told to end.
pub(super) fn run(flags: &RecommendFlags) -> Result<(), Problem> {
    let (keys, ending) = gather(flags, &flags.run, "tcp://127.0.0.1:7200")?;
    let plan = Plan::new(keys, ending)?;
    plan.ensure_stores()?;
    plan.serve()
}

/// What is to be served, checked before any work is done.
struct Plan {
    crates: PathBuf,
    stores: PathBuf,
    keys: Keys,
    ending: Ending,
}

impl Plan {
    fn new(mut keys: Keys, ending: Ending) -> Result<Self, Problem> {
        let crates = samples::corpus(keys.take("dir"))?;
        let stores = keys.take("data").map(PathBuf::from).map_or_else(|| data::folder("recommend", &crates), Ok)?;
        let plan = Self { crates, stores, keys, ending };
        Facts::of(&plan.stage(Stage::Profile, Some("tcp://127.0.0.1:1")).read(StageConfig::from_settings)?.server)?;
        Ok(plan)
    }

    fn ensure_stores(&self) -> Result<(), Problem> {
        let began = Instant::now();
        tell!("reading the crates below {}", self.crates.display());
        let made = store::ensure(&self.crates, &self.stores);
        let (contents, [outcome, ..]) = made.map_err(|error| match error {
            StoreError::Registry(_) => Problem::wrong_use(error),
            _ => Problem::failure(error),
        })?;
        let (crates, users, how) = (contents.crates, contents.users, described(outcome, began.elapsed()));
        tell!("stores of {crates} crates, {users} users: {how} ({})", self.stores.display());
        Ok(())
    }

    fn serve(&self) -> Result<(), Problem> {
        let (sender, events) = events::listen(self.ending)?;
        let mut children = Children::new(sender)?;
        let mut next: Option<String> = None;
        for stage in Stage::ALL.into_iter().rev() {
            let mut keys = self.stage(stage, next.as_deref());
            keys.put("drain", format!("{}ms", self.ending.limit.as_millis()));
            children.start(stage.name(), ["recommend-stage".into()].into_iter().chain(keys.options()))?;
            let Some(listening) = children.await_listening(1, &events)? else { return Ok(()) };
            for Listening { address, line, .. } in listening {
                match stage {
                    Stage::Profile => tell(&line),
                    Stage::History | Stage::Recommendation => tell!("{line}"),
                }
                next = Some(address.to_string());
            }
        }
        loop {
            match children.next(&events, None) {
                Some(News::Died(problem)) => return Err(problem.remedy("start the service again")),
                Some(News::Drain) => {
                    // They were started from the last to the first.
                    (0..Stage::ALL.len()).rev().for_each(|stage| children.drain(&[stage], self.ending.limit, &events));
                    return Ok(());
                }
                Some(News::Stop) => return Ok(()),
                // The stage that clients call has several addresses.
                Some(News::Listening(further)) => tell(&further.line),
                Some(News::Ended) | None => {}
            }
        }
    }

    fn stage(&self, stage: Stage, next: Option<&str>) -> Keys {
        let first = stage == Stage::Profile;
        let mut keys = self.keys.only(|key| first || !FIRST.contains(&key));
        keys.put_default("listen", FREE_PORT);
        keys.put("stage", stage.name());
        keys.put("store", self.stores.display().to_string());
        if let Some(next) = next {
            keys.put("next", next);
        }
        keys.turn_cores(Stage::ALL.iter().position(|it| *it == stage).unwrap_or(0));
        keys
    }
}
