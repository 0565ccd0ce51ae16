//! Replicas in virtual time, with disks in memory and links that can be cut.

use crate::applier::{Applied, Applier};
use crate::core::*;
use crate::machine::MachineView;
use crate::sessions::SessionChange;
use crate::*;
use bytes::Bytes;
use greenwave_policy::{Budget, Deadline, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) const MS: Duration = Duration::from_millis(1);

/// All commands it was given; a command's answer is how many there were.
#[derive(Debug, Default)]
pub(super) struct Journal {
    applied: Index,
    pub(super) commands: Vec<Vec<u8>>,
}

impl StateMachine for Journal {
    fn applied(&self) -> Index {
        self.applied
    }

    fn apply(&mut self, _: Index, command: &[u8]) -> Vec<u8> {
        self.commands.push(command.to_vec());
        self.commands.len().to_string().into_bytes()
    }

    fn commit(&mut self, applied: Index, _: &[SessionChange]) -> Result<(), MachineError> {
        self.applied = applied;
        Ok(())
    }

    fn view(&mut self) -> Result<Box<dyn MachineView>, MachineError> {
        Ok(Box::new(JournalView(self.commands.clone())))
    }

    fn restore(&mut self, at: Index, _: &[SessionChange], from: &mut dyn std::io::Read) -> Result<(), MachineError> {
        let mut text = String::new();
        from.read_to_string(&mut text)?;
        self.commands = text.lines().map(|line| line.as_bytes().to_vec()).collect();
        self.applied = at;
        Ok(())
    }
}

struct JournalView(Vec<Vec<u8>>);

impl MachineView for JournalView {
    fn write(&mut self, to: &mut dyn std::io::Write) -> Result<(), MachineError> {
        for command in &self.0 {
            to.write_all(command)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// What is durable, and the writes that aren't.
#[derive(Debug, Default)]
pub(super) struct Disk {
    durable: Recovered,
    /// The snapshots at hand, by index.
    files: BTreeMap<Index, Vec<u8>>,
    waiting: Vec<Write>,
    syncing: Vec<Write>,
    pub(super) syncs: usize,
}

pub(super) struct Node {
    pub(super) core: Option<Core>,
    pub(super) applier: Applier<Journal>,
    pub(super) disk: Disk,
    /// How long a sync takes, and whether it fails.
    pub(super) sync_time: Duration,
    pub(super) sync_fails: bool,
    pub(super) snapshots_fail: bool,
    pub(super) config: CoreConfig,
    /// Grows with each start: what was on its way for the one before is lost.
    life: u64,
    timer: Time,
    pub(super) stopped: Option<StopCause>,
    pub(super) roles: Vec<Status>,
}

enum Event {
    Message { from: NodeId, to: NodeId, bytes: Vec<u8> },
    Snapshot { from: NodeId, to: NodeId, bytes: Vec<u8>, file: Vec<u8> },
    Synced { node: NodeId, life: u64 },
    SnapshotTaken { node: NodeId, life: u64, meta: SnapshotMeta },
    Timer { node: NodeId, life: u64, at: Time },
}

pub(super) struct Cluster {
    pub(super) now: Time,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    pub(super) delay: Duration,
    /// Links that lose everything, from one to the other.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    pub(super) outcomes: BTreeMap<Ticket, (Outcome, Time)>,
    pub(super) reads: BTreeMap<Ticket, (Vec<Vec<u8>>, Time)>,
    pub(super) sent: Vec<(NodeId, NodeId, Message)>,
    tickets: u64,
}

pub(super) fn id(number: u64) -> NodeId {
    NodeId::new(number).expect("not zero")
}

pub(super) fn peer(number: u64) -> Peer {
    Peer::new(id(number), format!("memory:{number}"))
}

pub(super) fn session(client: u64, sequence: u64) -> Session {
    Session { client: ClientId(client), sequence: Sequence(sequence) }
}

impl Cluster {
    pub(super) fn new(voters: u64, change: impl Fn(&mut CoreConfig)) -> Self {
        let mut cluster = Self {
            now: Time::from_nanos(1_000_000_000),
            nodes: BTreeMap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            delay: MS,
            cut: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            reads: BTreeMap::new(),
            sent: Vec::new(),
            tickets: 0,
        };
        let membership = Membership::of_voters((1..=voters).map(peer)).expect("voters");
        for number in 1..=voters {
            let mut config = CoreConfig::new(id(number));
            config.bootstrap = Some(membership.clone());
            change(&mut config);
            cluster.add(config);
        }
        cluster
    }

    pub(super) fn add(&mut self, config: CoreConfig) {
        let node = Node {
            core: None,
            applier: fresh_applier(SnapshotMeta::default()),
            disk: Disk::default(),
            sync_time: MS,
            sync_fails: false,
            snapshots_fail: false,
            life: 0,
            timer: Time::ZERO,
            stopped: None,
            roles: Vec::new(),
            config,
        };
        let number = node.config.node;
        self.nodes.insert(number, node);
        self.start(number);
    }

    /// Kill -9: what isn't durable is gone.
    pub(super) fn kill(&mut self, number: NodeId) {
        let node = self.node(number);
        node.core = None;
        node.life += 1;
        node.disk.waiting.clear();
        node.disk.syncing.clear();
    }

    pub(super) fn start(&mut self, number: NodeId) {
        let now = self.now;
        let node = self.node(number);
        node.life += 1;
        node.stopped = None;
        let recovered = node.disk.durable.clone();
        let begin = recovered.snapshot.clone().unwrap_or_default();
        node.applier = fresh_applier(begin.clone());
        if node.applier.needs_snapshot() {
            let file = node.disk.files.get(&begin.index).expect("a snapshot for the log's beginning").clone();
            node.applier.restore(begin, &mut file.as_slice()).expect("it was written");
        }
        node.core = Some(Core::new(node.config.clone(), recovered, now).expect("a sound log"));
        self.drain(number);
    }

    pub(super) fn node(&mut self, number: NodeId) -> &mut Node {
        self.nodes.get_mut(&number).expect("a node")
    }

    pub(super) fn core(&mut self, number: NodeId) -> &mut Core {
        self.node(number).core.as_mut().expect("it runs")
    }

    pub(super) fn commands(&self, number: NodeId) -> &[Vec<u8>] {
        &self.nodes[&number].applier.machine().commands
    }

    /// The one who leads in the newest term, if it runs.
    pub(super) fn leader(&self) -> Option<NodeId> {
        let leading = |(number, node): (&NodeId, &Node)| {
            let status = node.core.as_ref()?.status();
            (status.role == Role::Leader).then_some((status.term, *number))
        };
        self.nodes.iter().filter_map(leading).max().map(|(_, number)| number)
    }

    pub(super) fn elect(&mut self) -> NodeId {
        self.until(|cluster| {
            let leader = cluster.leader()?;
            let node = &cluster.nodes[&leader];
            let figures = node.core.as_ref()?.figures();
            // It has committed something of its own.
            (figures.applied == figures.last).then_some(leader)
        })
    }

    /// Runs until something is so; panics after a minute of virtual time.
    pub(super) fn until<T>(&mut self, is: impl Fn(&Self) -> Option<T>) -> T {
        let end = self.now + Duration::from_secs(60);
        loop {
            if let Some(found) = is(self) {
                return found;
            }
            assert!(self.now < end, "it never came to be");
            self.step();
        }
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.events.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.step();
        }
        self.now = end;
    }

    pub(super) fn submit_within(&mut self, to: NodeId, session: Session, command: &str, budget: Duration) -> Ticket {
        let deadline = Deadline::at(self.now, Budget::expected(budget));
        let command = Bytes::copy_from_slice(command.as_bytes());
        self.input(to, |ticket| Input::Submit { ticket, session, command, deadline })
    }

    pub(super) fn submit(&mut self, to: NodeId, session: Session, command: &str) -> Ticket {
        self.submit_within(to, session, command, Duration::MAX)
    }

    pub(super) fn input(&mut self, to: NodeId, input: impl FnOnce(Ticket) -> Input) -> Ticket {
        let ticket = self.queue_input(to, input);
        self.drain(to);
        ticket
    }

    /// Several of these make one turn.
    pub(super) fn queue_input(&mut self, to: NodeId, input: impl FnOnce(Ticket) -> Input) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let now = self.now;
        self.core(to).handle(now, input(ticket));
        ticket
    }

    pub(super) fn outcome(&mut self, ticket: Ticket) -> Outcome {
        self.until(|cluster| cluster.outcomes.get(&ticket).cloned()).0
    }

    /// Finds the leader and gets a command through.
    pub(super) fn put(&mut self, session: Session, command: &str) -> Answer {
        loop {
            let leader = self.elect();
            let ticket = self.submit(leader, session, command);
            if let Outcome::Applied(answer) = self.outcome(ticket) {
                return answer;
            }
        }
    }

    /// Cuts a node off, or joins it again.
    pub(super) fn isolate(&mut self, number: NodeId, cut: bool) {
        let others: Vec<NodeId> = self.nodes.keys().copied().filter(|other| *other != number).collect();
        for other in others {
            for link in [(number, other), (other, number)] {
                if cut {
                    self.cut.insert(link)
                } else {
                    self.cut.remove(&link)
                };
            }
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.events.insert((time, self.sequence), event);
    }

    fn step(&mut self) {
        let ((at, _), event) = self.events.pop_first().expect("timers always tick");
        self.now = self.now.max(at);
        match event {
            Event::Message { from, to, bytes } => {
                let message = Message::decode(bytes.into()).expect("a core's messages can be read");
                self.tell(to, Input::Message { from, message });
            }
            Event::Snapshot { from, to, bytes, file } => {
                let ok = self.nodes[&to].core.is_some() && !self.cut.contains(&(from, to));
                if ok {
                    let message = Message::decode(bytes.into()).expect("a core's messages can be read");
                    let index = message.snapshot.as_ref().expect("a snapshot's message").index;
                    self.node(to).disk.files.insert(index, file);
                    self.tell(to, Input::Message { from, message });
                }
                self.tell(from, Input::SnapshotSent { peer: to, ok });
            }
            Event::Synced { node, life } if self.nodes[&node].life == life => self.synced(node),
            Event::SnapshotTaken { node, life, meta } if self.nodes[&node].life == life => {
                self.tell(node, Input::SnapshotReady(meta));
            }
            Event::Timer { node, life, at } if self.nodes[&node].life == life && self.nodes[&node].timer == at => {
                self.node(node).timer = Time::ZERO;
                self.tell(node, Input::Timer);
            }
            _ => {}
        }
    }

    pub(super) fn tell(&mut self, number: NodeId, input: Input) {
        let now = self.now;
        if let Some(core) = self.nodes.get_mut(&number).and_then(|node| node.core.as_mut()) {
            core.handle(now, input);
            self.drain(number);
        }
    }

    fn synced(&mut self, number: NodeId) {
        let node = self.node(number);
        if node.sync_fails {
            node.disk.waiting.clear();
            node.disk.syncing.clear();
            return self.tell(number, Input::PersistFailed);
        }
        let done = std::mem::take(&mut node.disk.syncing);
        let last = done.last().map(|write| write.number);
        done.into_iter().for_each(|write| node.disk.make_durable(write));
        self.sync(number);
        if let Some(number_done) = last {
            self.tell(number, Input::Persisted { number: number_done });
        }
    }

    /// All writes that wait share the next sync.
    fn sync(&mut self, number: NodeId) {
        let now = self.now;
        let node = self.node(number);
        if node.disk.syncing.is_empty() && !node.disk.waiting.is_empty() {
            node.disk.syncing = std::mem::take(&mut node.disk.waiting);
            node.disk.syncs += 1;
            let (at, life) = (now + node.sync_time, node.life);
            self.at(at, Event::Synced { node: number, life });
        }
    }

    pub(super) fn drain(&mut self, number: NodeId) {
        let now = self.now;
        while let Some(output) = self.node(number).core.as_mut().and_then(Core::poll) {
            self.carry_out(number, output);
        }
        self.sync(number);
        let node = self.node(number);
        let Some(core) = &node.core else { return };
        let (next, life) = (core.next_timer().max(now), node.life);
        if next != Time::MAX && next != node.timer {
            node.timer = next;
            self.at(next, Event::Timer { node: number, life, at: next });
        }
    }

    fn carry_out(&mut self, from: NodeId, output: Output) {
        let (now, arrival) = (self.now, self.now + self.delay);
        match output {
            Output::Send { to, message } => {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                assert_eq!(bytes.len(), if message.snapshot.is_none() { message.encoded_len() } else { bytes.len() });
                self.sent.push((from, to, message));
                if !self.cut.contains(&(from, to)) {
                    self.at(arrival, Event::Message { from, to, bytes });
                }
            }
            Output::SendSnapshot { to, message } => {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                let index = message.snapshot.as_ref().expect("a snapshot").index;
                let file = self.node(from).disk.files[&index].clone();
                self.at(arrival, Event::Snapshot { from, to, bytes, file });
            }
            Output::Persist(write) => self.node(from).disk.waiting.push(write),
            Output::Apply(apply) => {
                let applied: Applied = self.node(from).applier.apply(apply).expect("a sound journal");
                self.core(from).handle(now, Input::Applied(applied));
            }
            Output::Answer { ticket, outcome } => {
                assert!(self.outcomes.insert(ticket, (outcome, now)).is_none(), "{ticket:?} was answered twice");
            }
            Output::ReadReady { ticket, index } => {
                assert!(self.nodes[&from].applier.at().index >= index);
                let seen = self.commands(from).to_vec();
                assert!(self.reads.insert(ticket, (seen, now)).is_none(), "{ticket:?} was answered twice");
            }
            Output::TakeSnapshot => {
                let node = self.node(from);
                if node.snapshots_fail {
                    return self.core(from).handle(now, Input::SnapshotFailed);
                }
                let mut view = node.applier.snapshot().expect("a journal can be viewed");
                let mut file = Vec::new();
                view.write(&mut file).expect("memory takes it");
                node.disk.files.insert(view.meta.index, file);
                let life = node.life;
                self.at(arrival, Event::SnapshotTaken { node: from, life, meta: view.meta });
            }
            Output::Restore(meta) => {
                let node = self.node(from);
                let file = node.disk.files[&meta.index].clone();
                let index = meta.index;
                node.applier.restore(meta, &mut file.as_slice()).expect("it was written");
                self.core(from).handle(now, Input::Restored(index));
            }
            Output::Compact { up_to, snapshot } => {
                let disk = &mut self.node(from).disk;
                disk.durable.entries.retain(|entry| entry.index > up_to);
                disk.durable.snapshot = Some(snapshot);
            }
            Output::Role(status) => self.node(from).roles.push(status),
            Output::Members(_) => {}
            Output::Stop(cause) => self.node(from).stopped = Some(cause),
        }
    }
}

impl Disk {
    fn make_durable(&mut self, write: Write) {
        if let Some(meta) = write.snapshot {
            self.durable.entries.clear();
            self.durable.snapshot = Some(meta);
        }
        if let Some(first) = write.entries.first() {
            self.durable.entries.retain(|entry| entry.index < first.index);
            let next = self.durable.entries.last().map(|entry| entry.index.next());
            assert!(next.is_none_or(|next| next == first.index), "a gap in the log");
            self.durable.entries.extend(write.entries);
        }
        if let Some(hard_state) = write.hard_state {
            self.durable.hard_state = hard_state;
        }
    }
}

fn fresh_applier(start: SnapshotMeta) -> Applier<Journal> {
    Applier::new(Journal::default(), SessionLimits::default(), start).expect("an empty journal")
}
