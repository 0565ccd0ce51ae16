//! The simulated group: real cores on simulated links, processors and disks.

use super::kept::Kept;
use super::node::{Node, StartError};
use super::reallog::RealLog;
use super::watch::{Violation, Watch};
use crate::cpu::CpuCost;
use crate::disk::DiskRule;
use crate::event::{Event, Simulation};
use crate::link::{Bandwidth, LinkRule, Pipe};
use crate::network::Network;
use crate::seed::{Seed, Stream};
use crate::trace::Trace;
use greenwave_policy::Time;
use greenwave_replica::core::{CoreConfig, Input, Outcome};
use greenwave_replica::door::Header;
use greenwave_replica::founding::Greeting;
use greenwave_replica::{Message, MessageKind, NodeId, Peer, SnapshotMeta, StateMachine, Ticket};
use std::collections::VecDeque;
use std::time::Duration;

/// What a group runs on.
#[derive(Clone, Debug)]
pub struct GroupRule {
    /// How many replicas, all of them voters at first.
    pub replicas: usize,
    /// The settings of each core; its number, its seed and the first membership are put in.
    pub core: CoreConfig,
    /// Between any two replicas.
    pub link: LinkRule,
    /// Through each replica's interface, in each direction.
    pub interface: Bandwidth,
    /// What the layers below add to every byte, as a share.
    pub framing: f64,
    /// Everybody's disk.
    pub disk: DiskRule,
    /// What work costs a leader.
    pub leader: Work,
    /// What work costs a follower.
    pub follower: Work,
    /// Bytes of a command in an entry, its head included: by that the commands of an entry are counted.
    pub command_bytes: u64,
    /// Whether what is applied is watched: by default, as it costs little beside what it may find.
    pub watched: bool,
}

/// What work costs on one core.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// For each message between replicas, sent or received.
    pub message: CpuCost,
    /// For each command: a leader's when it comes in, a follower's when it is applied.
    pub command: Duration,
}

impl Work {
    /// No time.
    pub const FREE: Self = Self { message: CpuCost::FREE, command: Duration::ZERO };
}

/// A replica group in virtual time. `D` are the events of whoever drives it, which it hands back when their time
/// comes.
///
/// Replicas are numbered from 0 on, and their [`NodeId`]s from 1. The node after the last one of the network stands
/// for all clients.
#[derive(Debug)]
pub struct Group<M, D> {
    pub(super) simulation: Simulation<GroupEvent<D>>,
    /// The links.
    pub network: Network,
    pub(super) nodes: Vec<Node<M>>,
    pub(super) rule: GroupRule,
    pub(super) seed: Seed,
    pub(super) ingress: Vec<Pipe>,
    /// What happens at once, in order, before anything else does.
    pub(super) inbox: VecDeque<Input>,
    pub(super) told: VecDeque<Told>,
    pub(super) chance: Stream,
    pub(super) watch: Watch,
    pub(super) snapshots: u64,
    pub(super) early_persisted: bool,
    /// Messages that weren't taken, as they weren't their sender's to say.
    pub(super) unwelcome: u64,
}

/// What a replica told whoever drives the group.
#[derive(Debug)]
pub struct Told {
    /// Which replica.
    pub node: usize,
    /// What it was asked with.
    pub ticket: Ticket,
    /// What became of it; `None`: the state may be read, now.
    pub outcome: Option<Outcome>,
}

/// What a step came to.
#[derive(Debug)]
pub enum Step<D> {
    /// One of the driver's events.
    Driver(D),
    /// Something between replicas.
    Internal,
    /// The end is reached.
    End,
}

#[derive(Debug)]
pub(super) enum GroupEvent<D> {
    /// A message is there, and queues for the interface.
    Reaches {
        from: usize,
        to: usize,
        bytes: u64,
        packet: Packet,
    },
    /// A message has come in, and queues for the processor.
    Arrives {
        from: usize,
        to: usize,
        packet: Packet,
    },
    /// The processor has done what a turn costs, or what it did before one.
    Turn {
        node: usize,
        life: u32,
    },
    /// Something that costs nothing is heard.
    Heard {
        node: usize,
        life: u32,
        from: usize,
        packet: Packet,
    },
    /// The processor has done what applying the next task costs.
    Applies {
        node: usize,
        life: u32,
    },
    Wakes {
        node: usize,
        life: u32,
    },
    Synced {
        node: usize,
        life: u32,
    },
    /// It greets the others, while it belongs to no group.
    Greets {
        node: usize,
        life: u32,
    },
    /// A snapshot's state is durable; the message that it came with, if it came.
    Kept {
        node: usize,
        life: u32,
        meta: SnapshotMeta,
        state: Vec<u8>,
        came: Option<(usize, Message)>,
    },
    Driver(D),
}

#[derive(Debug)]
pub(super) enum Packet {
    Message(Header, Message),
    Snapshot {
        header: Header,
        message: Message,
        state: Vec<u8>,
    },
    /// One that is answered, or an answer.
    Greeting(Greeting, bool),
    /// Something for the core that took a way or work.
    Input(Input),
}

impl<M: StateMachine + Default, D: Event> Group<M, D> {
    /// Starts a new group.
    ///
    /// # Errors
    /// If the settings of its cores can't be.
    pub fn new(rule: GroupRule, seed: Seed) -> Result<Self, StartError> {
        Self::on_logs(rule, seed, false)
    }

    /// Starts a new group whose replicas have the real log and the real snapshots, or the model of both.
    ///
    /// # Errors
    /// If the settings of its cores can't be.
    pub fn on_logs(rule: GroupRule, seed: Seed, real: bool) -> Result<Self, StartError> {
        let mut group = Self::new_on(rule, seed, real);
        group.be_founded();
        (0..group.rule.replicas).try_for_each(|node| group.start(node))?;
        Ok(group)
    }

    /// Starts replicas that have nothing yet, and found their group by greeting one another.
    ///
    /// # Errors
    /// If the settings of its cores can't be.
    pub fn apart_on_logs(rule: GroupRule, seed: Seed, real: bool) -> Result<Self, StartError> {
        let mut group = Self::new_on(rule, seed, real);
        (0..group.rule.replicas).try_for_each(|node| group.start(node))?;
        Ok(group)
    }

    fn new_on(rule: GroupRule, seed: Seed, real: bool) -> Self {
        let replicas = rule.replicas;
        let mut network = Network::new(replicas + 1, seed, rule.link);
        for node in 0..replicas {
            network.limit(node, rule.interface);
            network.change(node, replicas, LinkRule::PERFECT);
            network.change(replicas, node, LinkRule::PERFECT);
        }
        let mut group = Self {
            simulation: Simulation::new(),
            network,
            nodes: (0..replicas).map(|node| Node::new(rule.disk, seed.stream("disk", node as u64))).collect(),
            rule,
            seed,
            ingress: vec![Pipe::default(); replicas],
            inbox: VecDeque::new(),
            told: VecDeque::new(),
            chance: seed.stream("group", 0),
            watch: Watch::default(),
            snapshots: 0,
            early_persisted: false,
            unwelcome: 0,
        };
        for node in (0..replicas).filter(|_| real) {
            let log = RealLog::new(node as u64 + 1, &mut seed.stream("log", node as u64));
            group.nodes[node].store = Kept::Real(Box::new(log));
        }
        group
    }

    /// What it runs on.
    #[must_use]
    pub fn rule(&self) -> &GroupRule {
        &self.rule
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.simulation.now()
    }

    /// A hash over all that has happened.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.simulation.hash()
    }

    /// Lets one of the driver's events happen.
    pub fn at(&mut self, instant: Time, event: D) {
        self.simulation.at(instant, GroupEvent::Driver(event));
    }

    /// The same, after `span`.
    pub fn after(&mut self, span: Duration, event: D) {
        self.simulation.after(span, GroupEvent::Driver(event));
    }

    /// Goes on to the next thing that happens until `end`.
    pub fn step(&mut self, end: Time) -> Step<D> {
        match self.simulation.next_until(end) {
            None => Step::End,
            Some(GroupEvent::Driver(event)) => Step::Driver(event),
            Some(event) => {
                self.happen(event);
                Step::Internal
            }
        }
    }

    /// What replicas have told since the last call.
    pub fn told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// Gives a replica something to do, which costs its processor `cost`. Lost if it doesn't run.
    pub fn give(&mut self, node: usize, cost: Duration, input: Input) {
        self.work(node, self.rule.replicas, cost, Packet::Input(input));
    }

    /// When bytes that reach a replica's interface now have come in.
    pub fn comes_in(&mut self, node: usize, bytes: u64) -> Time {
        let framed = self.framed(bytes);
        self.ingress[node].send(self.simulation.now(), framed, self.rule.interface)
    }

    /// When bytes that a replica answers now to somebody outside of the group have left through its interface, behind
    /// what its processor is doing.
    pub fn goes_out(&mut self, node: usize, bytes: u64) -> Time {
        let (clients, framed) = (self.rule.replicas, self.framed(bytes));
        let now = self.simulation.now();
        let leaves = self.nodes[node].cpu.work(now, Duration::ZERO);
        self.network.send(leaves, node, clients, framed).arrival().unwrap_or(leaves)
    }

    /// A replica's state machine, if it runs.
    #[must_use]
    pub fn machine(&self, node: usize) -> Option<&M> {
        self.nodes[node].running.as_ref().map(|running| running.applier.machine())
    }

    /// A replica's core, if it runs.
    pub fn core(&mut self, node: usize) -> Option<&mut greenwave_replica::core::Core> {
        self.nodes[node].running.as_mut().map(|running| &mut running.core)
    }

    /// The replica that leads, by its own account, in the newest term.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.watch.leader()
    }

    /// Does what a core wants done, and sets its timer. To be called after anything was done to one from outside.
    pub fn pump(&mut self, node: usize) {
        let now = self.simulation.now();
        loop {
            while let Some(input) = self.inbox.pop_front() {
                self.nodes[node].handle(now, input);
            }
            while let Some(output) = self.nodes[node].running.as_mut().and_then(|running| running.core.poll()) {
                self.carry_out(node, output);
            }
            if self.inbox.is_empty() {
                match self.nodes[node].work_to_tell() {
                    Some(worked) if self.watch.leads(node) => self.inbox.push_back(Input::Worked(worked)),
                    _ => break,
                }
            }
        }
        self.set_timer(node);
    }

    /// The first thing that must never be, if it was.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.watch.violation()
    }

    /// Terms that had a leader.
    #[must_use]
    pub fn terms(&self) -> usize {
        self.watch.terms()
    }

    /// Snapshots that became durable.
    #[must_use]
    pub fn snapshots(&self) -> u64 {
        self.snapshots
    }

    fn happen(&mut self, event: GroupEvent<D>) {
        let now = self.simulation.now();
        let (node, life) = match &event {
            GroupEvent::Reaches { to, .. } | GroupEvent::Arrives { to, .. } => (*to, None),
            GroupEvent::Turn { node, life }
            | GroupEvent::Heard { node, life, .. }
            | GroupEvent::Applies { node, life }
            | GroupEvent::Wakes { node, life }
            | GroupEvent::Synced { node, life }
            | GroupEvent::Greets { node, life }
            | GroupEvent::Kept { node, life, .. } => (*node, Some(*life)),
            GroupEvent::Driver(_) => return,
        };
        if life.is_some_and(|life| life != self.nodes[node].life) {
            // Its sender's transport notices that the process has ended.
            if let GroupEvent::Kept { came: Some((from, _)), .. } = event {
                self.snapshot_sent(from, node, false);
            }
            return;
        }
        if let GroupEvent::Reaches { from, to, bytes, packet } = event {
            let arrival = self.comes_in(to, bytes);
            self.simulation.at(arrival, GroupEvent::Arrives { from, to, packet });
            return;
        }
        if self.nodes[node].paused_until > now {
            self.simulation.at(self.nodes[node].paused_until, event);
            return;
        }
        match event {
            GroupEvent::Arrives { from, packet, .. } => return self.arrive(from, node, packet),
            GroupEvent::Reaches { .. } => {}
            GroupEvent::Turn { .. } => return self.end_turn(node),
            GroupEvent::Heard { from, packet, .. } => self.take_in(from, node, packet),
            GroupEvent::Applies { .. } => self.apply(node),
            GroupEvent::Wakes { .. } => {
                self.nodes[node].timer = None;
                self.inbox.push_back(Input::Timer);
            }
            GroupEvent::Synced { .. } => return self.synced(node),
            GroupEvent::Greets { .. } => self.greet(node),
            GroupEvent::Kept { meta, state, came, .. } => self.kept(node, meta, state, came),
            GroupEvent::Driver(_) => {}
        }
        self.pump(node);
    }

    /// A message is there: it costs the processor something.
    fn arrive(&mut self, from: usize, node: usize, packet: Packet) {
        if self.nodes[node].running.is_none() {
            if let Packet::Snapshot { .. } = packet {
                self.snapshot_sent(from, node, false);
            }
            return;
        }
        let cost = match &packet {
            Packet::Message(_, message) => self.cost_of(node, message),
            Packet::Snapshot { .. } | Packet::Greeting(..) | Packet::Input(_) => Duration::ZERO,
        };
        self.work(node, from, cost, packet);
    }

    /// Something that comes for a replica's thread, and costs its processor so much. A thread works in turns, as the
    /// runtime's does: all that has come while it worked is the next turn's, and what follows from it is carried out at
    /// that turn's end.
    pub(super) fn work(&mut self, node: usize, from: usize, cost: Duration, packet: Packet) {
        self.nodes[node].waiting.push_back((from, cost, packet));
        if !self.nodes[node].at_work {
            self.begin_turn(node);
        }
    }

    /// Begins a turn, and goes on with the next ones as long as they take no time.
    fn begin_turn(&mut self, node: usize) {
        loop {
            let now = self.simulation.now();
            let node_ = &mut self.nodes[node];
            let begins = node_.cpu.begins(now).max(node_.paused_until);
            let at = if begins > now {
                begins
            } else {
                let cost = node_.fill_turn();
                node_.cpu.work(now, cost)
            };
            node_.at_work = true;
            if at > now {
                let life = node_.life;
                self.simulation.at(at, GroupEvent::Turn { node, life });
                return;
            }
            if !self.finish_turn(node) {
                return;
            }
        }
    }

    fn end_turn(&mut self, node: usize) {
        if self.finish_turn(node) {
            self.begin_turn(node);
        }
    }

    /// What has come is handed in, and what follows carried out. Whether there is more.
    fn finish_turn(&mut self, node: usize) -> bool {
        if !self.nodes[node].turn.is_empty() {
            for (from, packet) in std::mem::take(&mut self.nodes[node].turn) {
                self.take_in(from, node, packet);
            }
            self.pump(node);
        }
        self.nodes[node].at_work = false;
        !self.nodes[node].waiting.is_empty()
    }

    fn take_in(&mut self, from: usize, node: usize, packet: Packet) {
        match packet {
            Packet::Message(header, message) => {
                if self.admit(node, &header) {
                    self.inbox.push_back(Input::Message { from: id(from), message });
                }
            }
            Packet::Input(input) => self.inbox.push_back(input),
            Packet::Greeting(greeting, asks) => self.greeted(from, node, greeting, asks),
            Packet::Snapshot { header, message, state } => {
                if !self.admit(node, &header) {
                    return self.snapshot_sent(from, node, false);
                }
                let Some(meta) = message.snapshot.clone() else { return };
                self.keep(node, meta, state, Some((from, message)));
            }
        }
    }

    pub(super) fn set_timer(&mut self, node: usize) {
        let node_ = &mut self.nodes[node];
        let Some(running) = &node_.running else { return };
        let at = node_.clock.when(running.core.next_timer()).max(self.simulation.now());
        if let Some((timer, set)) = node_.timer {
            // One that comes early does no harm, and is cheaper than taking it back.
            if set <= at {
                return;
            }
            self.simulation.cancel(timer);
        }
        let timer = self.simulation.at(at, GroupEvent::Wakes { node, life: node_.life });
        node_.timer = Some((timer, at));
    }

    pub(super) fn cost_of(&self, node: usize, message: &Message) -> Duration {
        match message.kind {
            MessageKind::Append | MessageKind::AppendResponse => {
                let work = if self.watch.leads(node) { &self.rule.leader } else { &self.rule.follower };
                work.message.of(bytes_of(message))
            }
            _ => Duration::ZERO,
        }
    }

    pub(super) fn framed(&self, bytes: u64) -> u64 {
        bytes + (bytes as f64 * self.rule.framing) as u64
    }
}

/// The number of a replica's node.
pub(super) fn id(node: usize) -> NodeId {
    NodeId::new(node as u64 + 1).expect("one more than something isn't zero")
}

pub(super) fn place(node: NodeId) -> usize {
    (node.number() - 1) as usize
}

pub(super) fn peer(node: usize) -> Peer {
    Peer::new(id(node), format!("replica {node}"))
}

/// A message's bytes on the wire.
pub(super) fn bytes_of(message: &Message) -> u64 {
    let entries = message.entries.iter().map(|entry| MESSAGE_ENTRY + entry.data.len() as u64).sum::<u64>();
    MESSAGE_HEAD + entries
}

/// As the messages' format has it.
pub(super) const MESSAGE_HEAD: u64 = 64;
pub(super) const MESSAGE_ENTRY: u64 = 13;

impl<D: Event> Event for GroupEvent<D> {
    fn trace(&self, trace: &mut Trace) {
        match self {
            Self::Reaches { from, to, bytes, .. } => {
                trace.number(9).number(*from as u64).number(*to as u64).number(*bytes);
            }
            Self::Arrives { from, to, packet } => packet.trace(trace.number(1).number(*from as u64).number(*to as u64)),
            Self::Turn { node, .. } => drop(trace.number(2).number(*node as u64)),
            Self::Heard { node, packet, .. } => packet.trace(trace.number(8).number(*node as u64)),
            Self::Applies { node, .. } => drop(trace.number(3).number(*node as u64)),
            Self::Wakes { node, .. } => drop(trace.number(4).number(*node as u64)),
            Self::Synced { node, .. } => drop(trace.number(5).number(*node as u64)),
            Self::Greets { node, .. } => drop(trace.number(10).number(*node as u64)),
            Self::Kept { node, meta, .. } => drop(trace.number(6).number(*node as u64).number(meta.index.0)),
            Self::Driver(event) => event.trace(trace.number(7)),
        }
    }
}

impl Packet {
    fn trace(&self, trace: &mut Trace) {
        match self {
            Self::Message(_, message) | Self::Snapshot { message, .. } => {
                let kind = message.kind as u64 | u64::from(message.reject) << 8;
                trace.number(kind).number(message.term.0).number(message.index.0).number(message.commit.0);
                trace.number(message.entries.len() as u64).number(bytes_of(message));
            }
            Self::Greeting(greeting, asks) => {
                trace.number(greeting.node.number()).bytes(format!("{:?} {asks}", greeting.stands).as_bytes());
            }
            Self::Input(_) => drop(trace.number(u64::MAX)),
        }
    }
}
