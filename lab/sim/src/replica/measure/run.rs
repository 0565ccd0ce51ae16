//! One group under one load, in virtual time.

use super::aimd::Aimd;
use super::{Change, Cut, Measured, Outcome as Counted, SILENCE, STATIC_BATCH, Scene};
use crate::cores::Histogram;
use crate::cpu::CpuCost;
use crate::disk::DiskRule;
use crate::event::Event;
use crate::link::{Bandwidth, LinkRule};
use crate::replica::group::{Group, GroupRule, Step, Work, id};
use crate::replica::node::StartError;
use crate::seed::{Seed, Stream};
use crate::trace::Trace;
use bytes::Bytes;
use greenwave_policy::replication::{self, Cpu, Environment, Limit, Load, Setting};
use greenwave_policy::{Deadline, Time};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use greenwave_replica::core::{CoreConfig, Input, Outcome, Sizing};
use greenwave_replica::machine::MachineView;
use greenwave_replica::sessions::SessionChange;
use greenwave_replica::{Index, MachineError, Session, StateMachine, Ticket};
use std::io::{Read, Write};
use std::time::Duration;

/// A client takes up to so long to come back, beside its think time: without any chance, clients would go round in step for
/// ever, and it would be luck which steps they fell into at first.
const JITTER: Duration = Duration::from_micros(100);

/// A sync takes up to so much more or less than usual.
const VARIATION: f64 = 0.2;

/// The longest that is waited for answers.
const LONGEST: Duration = Duration::from_secs(100);

/// How long it goes on before a change and after it, in [`span`]s.
const BEFORE: u32 = 20;
const AFTER: u32 = 60;

/// A group, who calls it, and what came of it so far.
pub(super) struct Run {
    group: Group<Nothing, Arrival>,
    load: Load,
    chance: Stream,
    command: Bytes,
    leader: usize,
    arrived: Vec<Time>,
    free: Vec<usize>,
    /// Instants of answers, and how long each took.
    answers: Vec<(Time, Duration)>,
    /// Whether a command came back without one since somebody looked.
    refused: bool,
    /// Instants of those that came while it settled.
    settling: Vec<Time>,
    /// When the first of them could come.
    began: Time,
    /// When it had settled, and what the leader's processor had done by then.
    worked: (Time, Duration),
    environment: Environment,
    aimd: Option<Aimd>,
}

/// A command is sent, or has come to the leader, or it is time to look at the window.
#[derive(Debug)]
enum Arrival {
    Sent(usize),
    Command(usize),
    Next,
    Look,
}

impl Run {
    /// A group with a leader, to which commands come from now on.
    pub(super) fn start(scene: &Scene<'_>, sizing: Sizing, seed: Seed, aimd: Option<Aimd>) -> Result<Self, StartError> {
        let &Scene { environment, load, distances, change } = scene;
        let mut group = Group::new(rule(environment, sizing), seed)?;
        let leader = elect(&mut group);
        set_apart(&mut group, leader, distances);
        let load = if load == Load::Saturated { Load::Closed { clients: 4096, think: Duration::ZERO } } else { load };
        let now = group.now();
        let mut run = Self {
            group,
            load,
            chance: seed.stream("load", 0),
            command: Bytes::from(vec![7; environment.sizes().request as usize]),
            leader,
            arrived: Vec::new(),
            free: Vec::new(),
            answers: Vec::new(),
            refused: false,
            settling: Vec::new(),
            began: now,
            worked: (now, Duration::ZERO),
            environment: *environment,
            aimd,
        };
        run.begin(match change {
            Some(Change::MoreClients(times)) => times.max(1) as usize,
            _ => 1,
        });
        Ok(run)
    }

    /// Goes on until everybody was answered a few times, and for so long at least; what was answered until then isn't measured.
    pub(super) fn settle(&mut self, least: Duration) {
        self.go_on((3 * self.clients()).max(1_000), least);
        self.settling = self.answers.drain(..).map(|(at, _)| at).collect();
        self.worked = (self.group.now(), self.busy());
    }

    /// Clients there are so far; of an open load, commands that have waited at a time.
    pub(super) fn clients(&self) -> usize {
        self.arrived.len()
    }

    /// What the leader's processor has done until now.
    fn busy(&self) -> Duration {
        self.group.nodes[self.leader].cpu.busy()
    }

    /// What each answer took, the shortest first.
    pub(super) fn took(&self) -> Vec<Duration> {
        let mut took: Vec<Duration> = self.answers.iter().map(|&(_, took)| took).collect();
        took.sort_unstable();
        took
    }

    /// Begins with one of so many clients.
    fn begin(&mut self, of: usize) {
        match self.load {
            Load::Closed { clients, .. } => self.come((clients as usize / of).max(1)),
            Load::Open { .. } | Load::Saturated => self.group.after(Duration::ZERO, Arrival::Next),
        }
        if let Some(aimd) = &self.aimd {
            self.group.after(aimd.every, Arrival::Look);
        }
    }

    /// Further clients come, until there are so many.
    fn come(&mut self, clients: usize) {
        let there = self.arrived.len();
        self.arrived.resize(clients.max(there), Time::ZERO);
        for client in there..clients {
            let soon = self.chance.span(Duration::from_millis(1));
            self.group.after(soon, Arrival::Command(client));
        }
    }

    /// Something changes.
    fn change(&mut self, change: Change) {
        let (leader, replicas) = (self.leader, self.environment.replicas() as usize);
        match (change, self.load) {
            (Change::MoreClients(_), Load::Closed { clients, .. }) => self.come(clients as usize),
            (Change::MoreClients(_), _) => {}
            (Change::SlowerPath(times), _) => {
                let times = times.max(1);
                for (from, to) in (0..replicas).flat_map(|from| (0..replicas).map(move |to| (from, to))) {
                    let rule = self.group.network.link(from, to).rule();
                    let bandwidth = match rule.bandwidth {
                        Bandwidth::UNLIMITED => Bandwidth::UNLIMITED,
                        limit => Bandwidth::bytes_per_s(limit.as_bytes_per_s() / u64::from(times)),
                    };
                    if from != to {
                        self.group.network.change(from, to, LinkRule { delay: rule.delay * times, bandwidth, ..rule });
                    }
                }
            }
            (Change::DeadFollower, _) => {
                if let Some(nearest) = (0..replicas).find(|node| *node != leader) {
                    self.group.kill(nearest);
                }
            }
        }
    }

    /// What is answered from before a change to long after it.
    pub(super) fn measured_through(&mut self, change: Change) -> Measured {
        let (from, span) = (self.group.now(), span(&self.environment));
        self.go_on(0, span * BEFORE);
        self.change(change);
        self.go_on(0, span * AFTER);
        let took = self.group.now().since(from).as_secs_f64();
        let ops_per_s = self.answers.len() as f64 / took.max(1e-9);
        Measured { ops_per_s, ..self.measured() }
    }

    /// Until so many commands are answered and so much time has passed, or for the longest that is waited.
    pub(super) fn go_on(&mut self, answers: usize, least: Duration) {
        let (least, end) = (self.group.now() + least, self.group.now() + LONGEST);
        while self.answers.len() < answers || self.group.now() < least {
            if !self.happen(end) {
                return;
            }
        }
    }

    /// Lets the next thing happen, if there is one until `end`.
    fn happen(&mut self, end: Time) -> bool {
        match self.group.step(end) {
            Step::End => return false,
            Step::Internal => {}
            Step::Driver(Arrival::Sent(place)) => self.sent(place),
            Step::Driver(Arrival::Command(place)) => self.submit(place),
            Step::Driver(Arrival::Next) => self.next(),
            Step::Driver(Arrival::Look) => self.look(),
        }
        if let (Some(aimd), Some(core)) = (&mut self.aimd, self.group.core(self.leader)) {
            let figures = core.figures();
            aimd.see(self.group.now(), figures.last, figures.committed);
        }
        while let Some(told) = self.group.told() {
            self.answered(told.ticket.0 as usize, told.outcome.as_ref());
        }
        true
    }

    /// Until so many commands are answered, the first tenth of which isn't counted, nor what comes within `settling` of the start,
    /// though no more than as many again; or until more than `most_unfinished` are under way. Cut before anything counts, it is
    /// what was done by then.
    pub(super) fn counted(&mut self, commands: u64, settling: Duration, most_unfinished: usize) -> Counted {
        let (warm, settled) = (commands / 10, self.group.now() + settling);
        let mut took = Histogram::new();
        let (mut first, mut last) = ((self.group.now(), self.committed()), self.group.now());
        let (mut done, mut is_warm, mut events) = (0, false, 0);
        let cut = loop {
            if is_warm && took.count() >= commands - warm {
                break None;
            }
            if !self.happen(last + SILENCE) {
                break Some(Cut::Silence);
            }
            events += 1;
            if self.arrived.len() - self.free.len() > most_unfinished {
                break Some(Cut::Unfinished(most_unfinished));
            }
            if std::mem::take(&mut self.refused) && self.group.leader() != Some(self.leader) {
                break Some(Cut::Leader);
            }
            for (at, span) in std::mem::take(&mut self.answers) {
                (done, last) = (done + 1, at);
                if !is_warm && done > warm && (at >= settled || done > commands) {
                    is_warm = true;
                    (took, first) = (Histogram::new(), (at, self.committed()));
                }
                // Answers come in bursts, a batch at a time: from the first burst, which isn't counted, to the last.
                if at > first.0 {
                    took.add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
                }
            }
        };
        let seconds = last.since(first.0).as_secs_f64().max(1e-9);
        let batches = self.committed().saturating_sub(first.1);
        let (setting, behind) = self.at_end();
        Counted {
            ops_per_s: took.count() as f64 / seconds,
            commands_per_batch: took.count() as f64 / (batches as f64).max(1.0),
            batches_per_s: batches as f64 / seconds,
            took,
            setting,
            behind,
            cut,
            events,
            hash: self.group.hash(),
        }
    }

    /// Batches that the leader knows to be committed.
    fn committed(&mut self) -> u64 {
        self.group.core(self.leader).map_or(0, |core| core.figures().committed.0)
    }

    /// The setting now, and by how many batches the slowest follower is behind.
    fn at_end(&mut self) -> (Setting, u64) {
        let peer = (self.leader + 1) % self.environment.replicas() as usize;
        let Some(core) = self.group.core(self.leader) else { return (Setting::FIRST, 0) };
        let (last, others) = (core.figures().last, core.inspect().others);
        let behind = others.iter().map(|other| last.0.saturating_sub(other.matched.0)).max().unwrap_or(0);
        (core.sizing(id(peer)), behind)
    }

    fn submit(&mut self, place: usize) {
        self.arrived[place] = self.group.now();
        let cost = self.environment.leader().per_command;
        let (ticket, command) = (Ticket(place as u64), self.command.clone());
        let submit = Input::Submit { ticket, session: Session::NONE, command, deadline: Deadline::NEVER };
        self.group.give(self.leader, cost, submit);
    }

    /// An open load's next command.
    fn next(&mut self) {
        let Load::Open { per_s } = self.load else { return };
        let place = self.free.pop().unwrap_or_else(|| {
            self.arrived.push(Time::ZERO);
            self.arrived.len() - 1
        });
        self.sent(place);
        let after = self.chance.exponential(Duration::from_secs_f64(1.0 / per_s.max(1e-3)));
        self.group.after(after, Arrival::Next);
    }

    /// A command leaves its client; where interfaces are limited, it passes the leader's.
    fn sent(&mut self, place: usize) {
        let sizes = self.environment.sizes();
        let bytes = u64::from(sizes.request) + u64::from(sizes.request_head);
        let at = self.group.comes_in(self.leader, bytes);
        if at > self.group.now() {
            self.group.at(at, Arrival::Command(place));
        } else {
            self.submit(place);
        }
    }

    fn answered(&mut self, place: usize, outcome: Option<&Outcome>) {
        let now = self.group.now();
        match outcome {
            Some(Outcome::Applied(_)) => self.answers.push((now, now.since(self.arrived[place]))),
            // Too many wait: it comes again.
            _ => {
                self.refused = true;
                return self.group.after(Duration::from_millis(10), Arrival::Command(place));
            }
        }
        let leaves = self.group.goes_out(self.leader, u64::from(self.environment.sizes().answer));
        match self.load {
            Load::Closed { think, .. } => {
                let back = leaves.since(now) + think + self.chance.span(JITTER);
                self.group.after(back, Arrival::Sent(place));
            }
            Load::Open { .. } | Load::Saturated => self.free.push(place),
        }
    }

    fn look(&mut self) {
        let Some(aimd) = &mut self.aimd else { return };
        let window = aimd.look();
        self.group.after(aimd.every, Arrival::Look);
        let setting = Setting::with_window(STATIC_BATCH, window);
        if let Some(core) = self.group.core(self.leader) {
            (0..self.environment.replicas() as usize).for_each(|peer| core.set_sizing(id(peer), setting));
        }
        self.group.pump(self.leader);
    }

    pub(super) fn measured(&mut self) -> Measured {
        let took = self.took();
        let quantile = |share: f64| {
            let at = (took.len() as f64 * share) as usize;
            took.get(at.min(took.len().saturating_sub(1))).copied().unwrap_or(LONGEST)
        };
        // Answers come in bursts, a batch at a time: from the first burst, which isn't counted, to the last.
        let first = self.answers.first().map_or(Time::ZERO, |&(at, _)| at);
        let last = self.answers.last().map_or(Time::ZERO, |&(at, _)| at);
        let counted = self.answers.iter().filter(|&&(at, _)| at > first).count();
        let (setting, behind) = self.at_end();
        let ops_per_s = counted as f64 / last.since(first).as_secs_f64().max(1e-9);
        let settled = self.settled(ops_per_s);
        let (since, before) = self.worked;
        let passed = self.group.now().since(since).as_secs_f64().max(1e-9);
        // What was given to it shortly before the end is done after that.
        let leader_busy = (self.busy().saturating_sub(before).as_secs_f64() / passed).min(1.0);
        let (p50, p99, hash) = (quantile(0.5), quantile(0.99), self.group.hash());
        Measured { ops_per_s, p50, p99, setting, behind, settled, leader_busy, hash }
    }

    /// After what time the rate was within a tenth of what it is in the end, over two [`span`]s in a row.
    fn settled(&self, ops_per_s: f64) -> Duration {
        let span = span(&self.environment).max(Duration::from_millis(1));
        let last = self.settling.last().map_or(Duration::ZERO, |at| at.since(self.began));
        let mut counts = vec![0_u32; (last.as_nanos() / span.as_nanos()) as usize + 1];
        for at in &self.settling {
            counts[(at.since(self.began).as_nanos() / span.as_nanos()) as usize] += 1;
        }
        let enough = 0.9 * ops_per_s * span.as_secs_f64();
        let is_enough = |pair: &[u32]| pair.iter().all(|&count| f64::from(count) >= enough);
        let at = counts.windows(2).position(is_enough);
        at.map_or(last, |at| span * u32::try_from(at + 1).unwrap_or(u32::MAX))
    }
}

/// About what the controller takes stock over: see [`replication::Controller::SHORTEST`].
pub(super) fn span(environment: &Environment) -> Duration {
    let round = 2 * environment.network().delay + environment.disk().sync;
    (16 * round).clamp(replication::Controller::SHORTEST, replication::Controller::LONGEST)
}

/// Gives each follower its distance from the leader.
fn set_apart(group: &mut Group<Nothing, Arrival>, leader: usize, distances: &[f64]) {
    let followers = (0..group.rule().replicas).filter(|node| *node != leader);
    for (follower, &distance) in followers.zip(distances) {
        let rule = group.network.link(leader, follower).rule();
        let rule = LinkRule { delay: rule.delay.mul_f64(distance), ..rule };
        group.network.change(leader, follower, rule);
        group.network.change(follower, leader, rule);
    }
}

fn rule(environment: &Environment, sizing: Sizing) -> GroupRule {
    let network = environment.network();
    let limit = bandwidth(network.bandwidth);
    let (pair, interface) = match network.limit {
        Limit::Pair => (limit, Bandwidth::UNLIMITED),
        Limit::Interface => (Bandwidth::UNLIMITED, limit),
    };
    let work = |cpu: Cpu| Work {
        message: CpuCost { per_message: cpu.per_message, per_byte_ns: cpu.per_byte_ns },
        command: cpu.per_command,
    };
    let mut core = CoreConfig::new(id(0));
    core.sizing = sizing;
    // What is measured is batches and windows. Signs of life that stand behind a queue of bytes aren't to end a
    // leadership in the middle of it.
    core.tick = Duration::from_millis(100);
    core.heartbeat_ticks = 1;
    core.election_ticks = 600;
    core.limits.queue_commands = 1 << 20;
    core.limits.queue_bytes = 1 << 30;
    GroupRule {
        replicas: environment.replicas() as usize,
        core,
        link: LinkRule { bandwidth: pair, loss: network.loss, ..LinkRule::delay(network.delay) },
        interface,
        framing: network.framing,
        disk: DiskRule {
            sync: environment.disk().sync,
            bandwidth: bandwidth(environment.disk().bandwidth),
            variation: VARIATION,
            ..DiskRule::PERFECT
        },
        leader: work(environment.leader()),
        follower: work(environment.follower()),
        command_bytes: u64::from(environment.sizes().request) + COMMAND_OVERHEAD as u64,
        watched: false,
    }
}

fn bandwidth(bandwidth: replication::Bandwidth) -> Bandwidth {
    if bandwidth == replication::Bandwidth::UNLIMITED {
        Bandwidth::UNLIMITED
    } else {
        Bandwidth::bytes_per_s(bandwidth.as_bytes_per_s())
    }
}

/// Runs until somebody leads and what it began its term with is committed.
fn elect(group: &mut Group<Nothing, Arrival>) -> usize {
    loop {
        let _ = group.step(Time::MAX);
        if let Some(leader) = group.leader()
            && group.machine(leader).is_some_and(|machine| machine.0 > greenwave_replica::core::BOOTSTRAP)
        {
            return leader;
        }
    }
}

/// A machine that does nothing: what work costs is the environment's.
#[derive(Debug, Default)]
struct Nothing(Index);

impl StateMachine for Nothing {
    fn applied(&self) -> Index {
        self.0
    }

    fn apply(&mut self, _: Index, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn commit(&mut self, applied: Index, _: &[SessionChange]) -> Result<(), MachineError> {
        self.0 = applied;
        Ok(())
    }

    fn view(&mut self) -> Result<Box<dyn MachineView>, MachineError> {
        Ok(Box::new(Empty))
    }

    fn restore(&mut self, applied: Index, _: &[SessionChange], _: &mut dyn Read) -> Result<(), MachineError> {
        self.0 = applied;
        Ok(())
    }
}

struct Empty;

impl MachineView for Empty {
    fn write(&mut self, _: &mut dyn Write) -> Result<(), MachineError> {
        Ok(())
    }
}

impl Event for Arrival {
    fn trace(&self, trace: &mut Trace) {
        match self {
            Self::Command(place) => trace.number(*place as u64),
            Self::Sent(place) => trace.number(1 << 32 | *place as u64),
            Self::Next => trace.number(u64::MAX),
            Self::Look => trace.number(u64::MAX - 1),
        };
    }
}
