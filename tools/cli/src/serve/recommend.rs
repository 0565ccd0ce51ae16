//! `greenwave serve recommend`: stores, and a process for each stage of the chain.
//!
//! The stages start from the last to the first, since each has to know the next, and end from the first to the last,
//! since each needs the next to finish what it accepted. When one dies, the chain can't answer any more and ends.

use std::path::PathBuf;
use std::time::Instant;

use greenwave::Address;
use greenwave_services::recommend::store::{self, Stage, StoreError};
use greenwave_services::recommend::{StageConfig, StageRole};

use super::children::{Children, Listening};
use super::events;
use super::here::{Facts, tell};
use super::indexing::described;
use super::server::{here, usual};
use super::settings::{RecommendSettings, StageSettings};
use super::values::{List, Word};
use super::{Service, needed};
use crate::problem::Problem;
use crate::{data, samples};

impl StageSettings {
    /// How the stage is served.
    pub(super) fn config(&self) -> Result<StageConfig, Problem> {
        let Word(stage) = needed(self.stage, "stage", "profile, history or recommendation")?;
        let next = || {
            let next = needed(self.next.clone(), "next", "the next stage's address, such as tcp://127.0.0.1:7002");
            next.map(|Word(next)| next)
        };
        let role = match stage {
            Stage::Profile => StageRole::Profile { next: next()? },
            Stage::History => StageRole::History { next: next()? },
            Stage::Recommendation => StageRole::Recommendation,
        };
        let store = needed(self.store.clone(), "store", "the directory of the stores")?;
        let server = self.server.config(usual(stage.name(), 0))?;
        Ok(StageConfig { store, stage: role, adapt: self.adapt.is_on(), server })
    }
}

/// Serves until it is told to end.
pub(super) fn run(said: &RecommendSettings) -> Result<(), Problem> {
    let crates = samples::corpus(said.dir.as_ref())?;
    let stores = said.data.clone().map_or_else(|| data::folder("recommend", &crates), Ok)?;
    let plan = Plan { said, crates, stores };
    Facts::of(&plan.stage(Stage::Profile, Some(here(1))).config()?.server)?;
    plan.ensure_stores()?;
    plan.serve()
}

/// What is to be served.
struct Plan<'a> {
    said: &'a RecommendSettings,
    crates: PathBuf,
    stores: PathBuf,
}

impl Plan<'_> {
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
        let ending = self.said.server.ending(false);
        let (sender, events) = events::listen(ending)?;
        let mut children = Children::new(sender)?;
        let mut next = None;
        for stage in Stage::ALL.into_iter().rev() {
            let service = Service::RecommendStage(Box::new(self.stage(stage, next.take())));
            children.start(stage.name(), &service)?;
            let Some(listening) = children.await_listening(1, &events)? else { return Ok(()) };
            for Listening { address, line, .. } in listening {
                match stage {
                    Stage::Profile => tell(&line),
                    Stage::History | Stage::Recommendation => tell!("{line}"),
                }
                next = Some(address);
            }
        }
        if children.watch(&events, |problem| Err(problem.remedy("start the service again")))? {
            // They were started from the last to the first.
            (0..Stage::ALL.len()).rev().for_each(|stage| children.drain(stage..stage + 1, ending.limit, &events));
        }
        Ok(())
    }

    fn stage(&self, stage: Stage, next: Option<Address>) -> StageSettings {
        let RecommendSettings { adapt, mut server, .. } = self.said.clone();
        match stage {
            Stage::Profile => drop(server.listen.get_or_insert_with(|| List(vec![here(7200)]))),
            Stage::History => server = server.behind(1),
            Stage::Recommendation => server = server.behind(2),
        }
        let (store, stage, next) = (Some(self.stores.clone()), Some(Word(stage)), next.map(Word));
        StageSettings { stage, store, next, adapt, server }
    }
}
