//! A replica that belongs to no group yet: what it does until it founds one with the others, or is taken in.

use super::Driver;
use crate::core::{Core, CoreConfig, Input, Recovered};
use crate::founding::{Founding, Obstacle};
use crate::log::{IdentityFile, LogError, RealDisk};
use crate::{GroupId, Membership, Peer, Roster, Standing};
use greenwave_policy::Time;
use std::sync::PoisonError;
use std::time::Duration;

/// How often the others are greeted.
const EVERY: Duration = Duration::from_millis(100);

/// How soon others are missed.
const GRACE: Duration = Duration::from_secs(3);

/// How often it is said what keeps a replica from a group.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// A replica that belongs to no group yet. Its core has nothing, and is told nothing.
pub(in crate::runtime) struct Beginning {
    founding: Founding,
    file: IdentityFile<RealDisk>,
    core: CoreConfig,
    /// Where the others are.
    contacts: Membership,
    next: Time,
    said: (Option<Obstacle>, Time),
}

impl Beginning {
    /// `core` is what a core of the group that it founds is set up with, `contacts` are all that may belong to it.
    pub(in crate::runtime) fn new(
        founding: Founding,
        file: IdentityFile<RealDisk>,
        core: CoreConfig,
        contacts: Membership,
        now: Time,
    ) -> Self {
        Self { founding, file, core, contacts, next: now, said: (None, now + GRACE) }
    }
}

/// The founders of a group as its first members, each where it is reached and with its incarnation.
pub(in crate::runtime) fn first_members(roster: &Roster, addresses: &Membership) -> Option<Membership> {
    let peer = |node| {
        let address = addresses.address(node)?.to_owned();
        Some(Peer { node, address, incarnation: roster.incarnation(node) })
    };
    let peers: Option<Vec<Peer>> = roster.nodes().map(peer).collect();
    Membership::of_voters(peers?).ok()
}

impl Driver {
    /// Greets the others, if it is time.
    pub(super) fn greet(&mut self, now: Time) {
        let heard = self.links.greetings();
        let Some(beginning) = &mut self.beginning else { return };
        heard.into_iter().for_each(|greeting| beginning.founding.hear(greeting));
        self.go_on_beginning(now);
        let Some(beginning) = self.beginning.as_mut().filter(|beginning| now >= beginning.next) else { return };
        beginning.next = now + EVERY;
        self.links.greet();
        let obstacle = beginning.founding.obstacle();
        let said = (obstacle.clone(), now + SAY_EVERY);
        if let Some(why) = obstacle.filter(|why| {
            let another = beginning.said.0.as_ref() != Some(why);
            now >= beginning.said.1 || another && !matches!(why, Obstacle::Missing(_))
        }) {
            tracing::warn!(%why, "this replica belongs to no group yet");
            beginning.said = said;
        }
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.obstacle = beginning.founding.obstacle();
    }

    /// Somebody has greeted this one.
    pub(super) fn greeted(&mut self, now: Time, greeting: crate::founding::Greeting) {
        if let Some(beginning) = &mut self.beginning {
            beginning.founding.hear(greeting);
            self.go_on_beginning(now);
        }
    }

    /// Those who know this one's incarnation say something: they have taken it in.
    pub(super) fn taken_in(&mut self, now: Time, group: GroupId) {
        let Some(beginning) = &self.beginning else { return };
        let founders = match &beginning.founding.identity().standing {
            Standing::Agreed(roster) if roster.group(beginning.founding.identity().number) == group => roster.clone(),
            _ => Roster::default(),
        };
        self.stand(now, Standing::Member { group, founders });
    }

    fn go_on_beginning(&mut self, now: Time) {
        while let Some(standing) = self.beginning.as_ref().and_then(|beginning| beginning.founding.next()) {
            self.stand(now, standing);
        }
    }

    /// Is that from now on, once it is durable.
    fn stand(&mut self, now: Time, standing: Standing) {
        let Some(beginning) = &mut self.beginning else { return };
        let kept = beginning.file.keep(beginning.founding.kept(standing.clone()));
        if let Err(error) = kept {
            tracing::error!(%error, "this replica's identity can't be written; it stops");
            self.beginning = None;
            return self.core.handle(now, Input::PersistFailed);
        }
        self.entrance.set_standing(standing.clone());
        let Standing::Member { group, founders } = standing else {
            // The others are to hear of it.
            beginning.next = now;
            return;
        };
        tracing::info!(%group, founded = !founders.is_empty(), "this replica belongs to its group now");
        self.report.lock().unwrap_or_else(PoisonError::into_inner).obstacle = None;
        // Those who wait hear of it at once.
        self.links.greet();
        let Some(beginning) = self.beginning.take() else { return };
        let bootstrap = first_members(&founders, &beginning.contacts).filter(|_| !founders.is_empty());
        if bootstrap.is_none() {
            // The others tell it who belongs to the group. Until then it knows where they may be.
            self.links.set(&beginning.contacts);
        }
        if founders.is_empty() {
            return;
        }
        let begun = Core::new(CoreConfig { bootstrap, ..beginning.core }, Recovered::default(), now);
        match begun {
            Ok(core) => self.core = core,
            // It was started with the same settings before.
            Err(error) => {
                tracing::error!(%error, "the core of a new group can't begin; this replica stops");
                self.core.handle(now, Input::PersistFailed);
            }
        }
    }
}

/// A log without an identity: of a group that is older than identities.
pub(in crate::runtime) fn adopted(number: u64, core: &CoreConfig) -> std::io::Result<crate::Identity> {
    let group = GroupId::adopted(number);
    let standing = Standing::Member { group, founders: Roster::default() };
    Ok(crate::Identity { number, node: core.node, incarnation: crate::Incarnation::random()?, standing })
}

/// Says what a directory of an older version is from now on.
pub(in crate::runtime) fn keep_adopted(
    file: &IdentityFile<RealDisk>,
    identity: &crate::Identity,
) -> Result<(), LogError> {
    file.keep(identity)?;
    let group = identity.group().map(|group| group.to_string()).unwrap_or_default();
    tracing::warn!(
        group,
        "this directory is of a version without identities of groups: it is adopted, and belongs to the group of that \
         identity from now on, as all directories of older versions with this group's name do"
    );
    Ok(())
}
