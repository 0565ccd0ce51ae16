//! Who belongs to the simulated group: how it is founded, whom its replicas let in, and what becomes of one that loses its
//! disk.

use super::group::{Group, GroupEvent, Packet, id, peer, place};
use super::kept::Kept;
use super::node::StartError;
use super::reallog::RealLog;
use super::store::Store;
use crate::event::Event;
use greenwave_replica::core::{Core, CoreConfig, Recovered};
use greenwave_replica::door::Header;
use greenwave_replica::founding::{Founding, Greeting};
use greenwave_replica::{Identity, Incarnation, Membership, NodeId, Peer, Roster, Standing, StateMachine};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The number of the group's name.
const NUMBER: u64 = 1;

/// How often who belongs to no group greets the others.
const EVERY: Duration = Duration::from_millis(100);

impl<M: StateMachine + Default, D: Event> Group<M, D> {
    /// All have founded their group already.
    pub(super) fn be_founded(&mut self) {
        let founders: BTreeMap<NodeId, Incarnation> =
            (0..self.rule.replicas).map(|node| (id(node), self.fresh(node))).collect();
        let Some(founders) = Roster::new(founders) else { return };
        for node in 0..self.rule.replicas {
            let Some(incarnation) = founders.incarnation(id(node)) else { continue };
            let standing = Standing::Member { group: founders.group(NUMBER), founders: founders.clone() };
            self.nodes[node].identity = Some(Identity { number: NUMBER, node: id(node), incarnation, standing });
        }
    }

    fn fresh(&self, node: usize) -> Incarnation {
        let life = u64::from(self.nodes[node].life);
        let mut stream = self.seed.stream("incarnation", (node as u64) << 32 | life);
        Incarnation::of_bits(u128::from(stream.number()) << 64 | 1).expect("not zero")
    }

    /// Starts a replica's process on what is on its disk; nothing if it runs.
    pub(super) fn start(&mut self, node: usize) -> Result<(), StartError> {
        if self.nodes[node].running.is_some() {
            return Ok(());
        }
        let incarnation = self.fresh(node);
        let apart = || Identity { number: NUMBER, node: id(node), incarnation, standing: Standing::Apart };
        let identity = self.nodes[node].identity.get_or_insert_with(apart).clone();
        let mut config = self.core_config(node);
        let founding = match &identity.standing {
            Standing::Member { founders, .. } => {
                config.bootstrap = first_members(founders)?;
                None
            }
            _ => Some(Founding::new(identity.clone(), self.founders())),
        };
        let greets = founding.is_some();
        let now = self.simulation.now();
        self.nodes[node].start(now, config, &identity, founding)?;
        if greets {
            let life = self.nodes[node].life;
            self.simulation.at(now, GroupEvent::Greets { node, life });
        }
        self.pump(node);
        Ok(())
    }

    fn core_config(&self, node: usize) -> CoreConfig {
        let life = u64::from(self.nodes[node].life);
        let seed = self.seed.stream("core", (node as u64) << 32 | life).number();
        CoreConfig { node: id(node), bootstrap: None, seed, ..self.rule.core.clone() }
    }

    fn founders(&self) -> BTreeSet<NodeId> {
        (0..self.rule.replicas).map(id).collect()
    }

    /// What goes before a message.
    pub(super) fn header(&self, node: usize, to: NodeId) -> Option<Header> {
        self.nodes[node].running.as_ref()?.door.header(to)
    }

    /// Whether a replica takes what comes with this header; it may belong to the group by that.
    pub(super) fn admit(&mut self, node: usize, header: &Header) -> bool {
        let Some(running) = &self.nodes[node].running else { return false };
        if running.door.admit(header).is_err() {
            self.unwelcome += 1;
            return false;
        }
        if let Some(founding) = &running.founding {
            let founders = match &founding.identity().standing {
                Standing::Agreed(roster) if roster.group(NUMBER) == header.group => roster.clone(),
                _ => Roster::default(),
            };
            self.stand(node, Standing::Member { group: header.group, founders });
        }
        true
    }

    /// It greets the others, and again after a while.
    pub(super) fn greet(&mut self, node: usize) {
        let Some(greeting) = self.founding(node).map(|founding| founding.greeting()) else { return };
        self.go_on_founding(node);
        for other in (0..self.rule.replicas).filter(|other| *other != node) {
            self.send(node, other, Packet::Greeting(greeting.clone(), true));
        }
        let life = self.nodes[node].life;
        self.simulation.after(EVERY, GroupEvent::Greets { node, life });
    }

    /// Somebody greets it, or answers.
    pub(super) fn greeted(&mut self, from: usize, node: usize, greeting: Greeting, asks: bool) {
        let Some(identity) = self.nodes[node].identity.clone() else { return };
        if self.nodes[node].running.is_none() {
            return;
        }
        if let Some(founding) = self.founding(node) {
            founding.hear(greeting);
            self.go_on_founding(node);
        }
        if asks {
            self.send(node, from, Packet::Greeting(Greeting::of(&identity, &self.founders()), false));
        }
    }

    fn founding(&mut self, node: usize) -> Option<&mut Founding> {
        self.nodes[node].running.as_mut()?.founding.as_mut()
    }

    fn go_on_founding(&mut self, node: usize) {
        while let Some(standing) = self.founding(node).and_then(|founding| founding.next()) {
            self.stand(node, standing);
        }
    }

    fn stand(&mut self, node: usize, standing: Standing) {
        let (config, now) = (self.core_config(node), self.simulation.now());
        let node_ = &mut self.nodes[node];
        let Some(running) = &mut node_.running else { return };
        let Some(founding) = &mut running.founding else { return };
        node_.identity = Some(founding.kept(standing.clone()).clone());
        running.door.standing = standing.clone();
        let Standing::Member { founders, .. } = standing else { return };
        running.founding = None;
        let begun = first_members(&founders).and_then(|bootstrap| match bootstrap {
            None => Ok(None),
            bootstrap => {
                let local = node_.clock.shows(now);
                Ok(Some(Core::new(CoreConfig { bootstrap, ..config }, Recovered::default(), local)?))
            }
        });
        match begun {
            Ok(Some(core)) => running.core = core,
            Ok(None) => {}
            Err(error) => self.watch.unable(node, error.to_string()),
        }
    }

    /// A replica's process ends, and its disk is lost with all that is on it. With a defect it comes back as if it had
    /// never been there, and says that it is the one that it was.
    pub fn wipe(&mut self, node: usize, keeps_identity: bool) {
        self.kill(node);
        let life = u64::from(self.nodes[node].life);
        let mut stream = self.seed.stream("wiped", (node as u64) << 32 | life);
        self.nodes[node].store = match &self.nodes[node].store {
            Kept::Model(_) => Kept::Model(Store::default()),
            Kept::Real(_) => Kept::Real(Box::new(RealLog::new(node as u64 + 1, &mut stream))),
        };
        if !keeps_identity {
            self.nodes[node].identity = None;
        }
    }

    /// Whether all others belong to a group, as their disks say.
    #[must_use]
    pub fn are_members_beside(&self, node: usize) -> bool {
        let member = |other: usize| self.nodes[other].identity.as_ref().is_some_and(|own| own.group().is_some());
        (0..self.rule.replicas).filter(|other| *other != node).all(member)
    }

    /// A replica as the group is to take it in: with the incarnation that it has now.
    #[must_use]
    pub fn joining(&self, node: usize) -> Option<Peer> {
        let incarnation = self.nodes[node].identity.as_ref()?.incarnation;
        Some(Peer { incarnation: Some(incarnation), ..peer(node) })
    }

    /// What members didn't take, as it wasn't its sender's to say.
    #[must_use]
    pub fn unwelcome(&self) -> u64 {
        self.unwelcome
    }
}

fn first_members(founders: &Roster) -> Result<Option<Membership>, StartError> {
    if founders.is_empty() {
        return Ok(None);
    }
    let founder = |node: NodeId| Peer { incarnation: founders.incarnation(node), ..peer(place(node)) };
    Membership::of_voters(founders.nodes().map(founder)).map(Some).map_err(StartError::Membership)
}
