//! What a way of choosing batches and windows is worth in an environment: throughput and latency of the real core on
//! simulated links, processors and disks.

use super::group::{Group, GroupRule, Step, Work, id};
use super::node::StartError;
use crate::cpu::CpuCost;
use crate::disk::DiskRule;
use crate::event::Event;
use crate::link::{Bandwidth, LinkRule};
use crate::seed::{Seed, Stream};
use crate::trace::Trace;
use bytes::Bytes;
use greenwave_policy::replication::{self, Aim, Cpu, Environment, Limit, Load, Setting, recommend};
use greenwave_policy::{Deadline, Time};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use greenwave_replica::core::{CoreConfig, Input, Outcome, Sizing};
use greenwave_replica::machine::MachineView;
use greenwave_replica::sessions::SessionChange;
use greenwave_replica::{Index, MachineError, Session, StateMachine, Ticket};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::time::Duration;

/// A way of choosing batches and windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The best of all settings of [`grid`], found by trying each: what can be had at most.
    BestOfGrid,
    /// What the model recommends for the environment as it is ([`recommend`]), fixed.
    Model,
    /// A window of so many batches, of at most 1 MiB each as etcd has it, fixed.
    Static(u64),
    /// The controller, from nothing, once it has settled.
    Controller,
    /// The controller, with so much latency as its limit.
    Within(Duration),
    /// Batches of at most 1 MiB, and a window that grows by one in every round that used it up, and is halved when batches
    /// take twice as long from the log to their commit as they did at best lately: additive increase, multiplicative
    /// decrease.
    Aimd,
    /// This setting, fixed.
    Fixed(Setting),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Commands answered a second.
    pub ops_per_s: f64,
    /// What half of the commands stayed within, from their arrival at the leader to their answer.
    pub p50: Duration,
    /// What 99 of 100 stayed within.
    pub p99: Duration,
    /// The setting at the end.
    pub setting: Setting,
    /// Batches that the slowest follower was behind the leader's log then, those on their way to it included.
    pub behind: u64,
    /// After what time as much was answered as in the end, but for a tenth.
    pub settled: Duration,
}

/// Where and under what a group is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What it runs on.
    pub environment: &'a Environment,
    /// [`Load::Saturated`] is taken as 4096 clients.
    pub load: Load,
    /// How far each follower is from the leader, in multiples of the environment's delay, the nearest first; 1 if nothing is
    /// said of it. The environment's delay is that of the follower that completes the quorum.
    pub distances: &'a [f64],
    /// What changes in the middle of it.
    pub change: Option<Change>,
}

/// What changes while a group is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many times as many clients as there were; in the end, those of the load.
    MoreClients(u32),
    /// All ways are so many times as long, and carry so many times less in a second.
    SlowerPath(u32),
    /// A follower dies, the nearest to the leader.
    DeadFollower,
}

/// Runs a group in `environment` under `load`, and measures it once it has settled. [`Load::Saturated`] is taken as
/// 4096 clients.
///
/// # Errors
/// If no such group can be started.
pub fn measure(environment: &Environment, system: System, load: Load, seed: Seed) -> Result<Measured, StartError> {
    measure_in(&Scene { environment, load, distances: &[], change: None }, system, seed)
}

/// The same, with followers at several distances, or with something that changes: then what is answered from before the
/// change to long after it counts, by the time that passed.
///
/// # Errors
/// If no such group can be started.
pub fn measure_in(scene: &Scene<'_>, system: System, seed: Seed) -> Result<Measured, StartError> {
    let &Scene { environment, load, .. } = scene;
    let fixed = |setting| run(scene, Sizing::Fixed(setting), seed, None);
    match system {
        System::Fixed(setting) => fixed(setting),
        System::Static(window) => fixed(Setting::with_window(STATIC_BATCH, window)),
        System::Model => fixed(recommend(environment, load, Aim::Throughput)),
        System::Within(limit) => run(scene, Sizing::Auto(Aim::Latency(limit)), seed, None),
        System::Controller => run(scene, Sizing::Auto(Aim::Throughput), seed, None),
        System::Aimd => {
            let first = Sizing::Fixed(Setting::with_window(STATIC_BATCH, 1));
            run(scene, first, seed, Some(Aimd::new(environment)))
        }
        System::BestOfGrid => {
            let mut best: Option<Measured> = None;
            for setting in grid(environment) {
                let measured = fixed(setting)?;
                if best.is_none_or(|best| measured.ops_per_s > best.ops_per_s) {
                    best = Some(measured);
                }
            }
            Ok(best.unwrap_or(fixed(Setting::FIRST)?))
        }
    }
}

/// All settings that are tried for the best: batches of 1, 2, 4, ... 1024 commands (up to 1 MiB, but at least eight of
/// them), times windows of 1, 2, 4, ... 256 batches.
#[must_use]
pub fn grid(environment: &Environment) -> Vec<Setting> {
    let command = u64::from(environment.sizes().request) + COMMAND_OVERHEAD as u64;
    let batches = (0..=10).map(|power| command << power).filter(|&bytes| bytes <= STATIC_BATCH.max(command << 7));
    batches.flat_map(|bytes| (0..=8).map(move |power| Setting::with_window(bytes, 1 << power))).collect()
}

/// A client takes up to so long to come back, beside its think time: without any chance, clients would go round in step for
/// ever, and it would be luck which steps they fell into at first.
const JITTER: Duration = Duration::from_micros(100);

/// A sync takes up to so much more or less than usual.
const VARIATION: f64 = 0.2;

const STATIC_BATCH: u64 = 1 << 20;

/// Commands that are measured, and the longest that is waited for them.
const COMMANDS: usize = 8_000;
const LONGEST: Duration = Duration::from_secs(100);

struct Run {
    group: Group<Nothing, Arrival>,
    load: Load,
    chance: Stream,
    command: Bytes,
    leader: usize,
    arrived: Vec<Time>,
    free: Vec<usize>,
    /// Instants of answers, and how long each took.
    answers: Vec<(Time, Duration)>,
    /// Instants of those that came while it settled.
    settling: Vec<Time>,
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

/// What each of so many commands took by a fixed setting, the shortest first, and how many were answered a second.
///
/// # Errors
/// If no such group can be started.
pub fn latencies(
    scene: &Scene<'_>,
    setting: Setting,
    commands: usize,
    seed: Seed,
) -> Result<(Vec<Duration>, f64), StartError> {
    let mut run = start(scene, Sizing::Fixed(setting), seed, None)?;
    let began = run.group.now();
    run.go_on((3 * run.arrived.len()).max(1_000), Duration::ZERO);
    run.answers.clear();
    run.go_on(commands, Duration::ZERO);
    let ops_per_s = run.measured(began).ops_per_s;
    let mut took: Vec<Duration> = run.answers.into_iter().map(|(_, took)| took).collect();
    took.sort_unstable();
    Ok((took, ops_per_s))
}

fn run(scene: &Scene<'_>, sizing: Sizing, seed: Seed, aimd: Option<Aimd>) -> Result<Measured, StartError> {
    let &Scene { environment, change, .. } = scene;
    let mut run = start(scene, sizing, seed, aimd)?;
    let began = run.group.now();
    // Settling: until everybody was answered a few times, and the window was looked at often enough.
    let clients = run.arrived.len();
    let settled = match (&run.aimd, sizing) {
        (Some(aimd), _) => aimd.every * 200,
        (None, Sizing::Auto(_)) => span(environment) * 60,
        (None, Sizing::Fixed(_)) => Duration::ZERO,
    };
    run.go_on((3 * clients).max(1_000), settled);
    run.settling = run.answers.drain(..).map(|(at, _)| at).collect();
    if let Some(change) = change {
        return Ok(run.measured_through(change, began));
    }
    let least = if matches!(sizing, Sizing::Auto(_)) { span(environment) * 10 } else { Duration::ZERO };
    run.go_on(COMMANDS.max(4 * clients), least);
    Ok(run.measured(began))
}

/// A group with a leader, to which commands come from now on.
fn start(scene: &Scene<'_>, sizing: Sizing, seed: Seed, aimd: Option<Aimd>) -> Result<Run, StartError> {
    let &Scene { environment, load, distances, change } = scene;
    let mut group = Group::new(rule(environment, sizing), seed)?;
    let leader = elect(&mut group);
    set_apart(&mut group, leader, distances);
    let load = if load == Load::Saturated { Load::Closed { clients: 4096, think: Duration::ZERO } } else { load };
    let mut run = Run {
        group,
        load,
        chance: seed.stream("load", 0),
        command: Bytes::from(vec![7; environment.sizes().request as usize]),
        leader,
        arrived: Vec::new(),
        free: Vec::new(),
        answers: Vec::new(),
        settling: Vec::new(),
        environment: *environment,
        aimd,
    };
    run.begin(match change {
        Some(Change::MoreClients(times)) => times.max(1) as usize,
        _ => 1,
    });
    Ok(run)
}

/// How long it goes on before a change and after it, in [`span`]s.
const BEFORE: u32 = 20;
const AFTER: u32 = 60;

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

impl Run {
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
    fn measured_through(&mut self, change: Change, began: Time) -> Measured {
        let (from, span) = (self.group.now(), span(&self.environment));
        self.go_on(0, span * BEFORE);
        self.change(change);
        self.go_on(0, span * AFTER);
        let took = self.group.now().since(from).as_secs_f64();
        let ops_per_s = self.answers.len() as f64 / took.max(1e-9);
        Measured { ops_per_s, ..self.measured(began) }
    }

    /// Until so many commands are answered and so much time has passed, or for the longest that is waited.
    fn go_on(&mut self, answers: usize, least: Duration) {
        let (least, end) = (self.group.now() + least, self.group.now() + LONGEST);
        while self.answers.len() < answers || self.group.now() < least {
            match self.group.step(end) {
                Step::End => return,
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
        }
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
            _ => return self.group.after(Duration::from_millis(10), Arrival::Command(place)),
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

    fn measured(&mut self, began: Time) -> Measured {
        let mut took: Vec<Duration> = self.answers.iter().map(|&(_, took)| took).collect();
        took.sort_unstable();
        let quantile = |share: f64| {
            let at = (took.len() as f64 * share) as usize;
            took.get(at.min(took.len().saturating_sub(1))).copied().unwrap_or(LONGEST)
        };
        // Answers come in bursts, a batch at a time: from the first burst, which isn't counted, to the last.
        let first = self.answers.first().map_or(Time::ZERO, |&(at, _)| at);
        let last = self.answers.last().map_or(Time::ZERO, |&(at, _)| at);
        let counted = self.answers.iter().filter(|&&(at, _)| at > first).count();
        let (leader, peer) = (self.leader, (self.leader + 1) % self.environment.replicas() as usize);
        let setting = self.group.core(leader).map_or(Setting::FIRST, |core| core.sizing(id(peer)));
        let ops_per_s = counted as f64 / last.since(first).as_secs_f64().max(1e-9);
        let behind = self.group.core(leader).map_or(0, |core| {
            let (last, others) = (core.figures().last, core.inspect().others);
            others.iter().map(|other| last.0.saturating_sub(other.matched.0)).max().unwrap_or(0)
        });
        let settled = self.settled(began, ops_per_s);
        Measured { ops_per_s, p50: quantile(0.5), p99: quantile(0.99), setting, behind, settled }
    }

    /// After what time the rate was within a tenth of what it is in the end, over two [`span`]s in a row.
    fn settled(&self, began: Time, ops_per_s: f64) -> Duration {
        let span = span(&self.environment).max(Duration::from_millis(1));
        let last = self.settling.last().map_or(Duration::ZERO, |at| at.since(began));
        let mut counts = vec![0_u32; (last.as_nanos() / span.as_nanos()) as usize + 1];
        for at in &self.settling {
            counts[(at.since(began).as_nanos() / span.as_nanos()) as usize] += 1;
        }
        let enough = 0.9 * ops_per_s * span.as_secs_f64();
        let is_enough = |pair: &[u32]| pair.iter().all(|&count| f64::from(count) >= enough);
        let at = counts.windows(2).position(is_enough);
        at.map_or(last, |at| span * u32::try_from(at + 1).unwrap_or(u32::MAX))
    }
}

/// About what the controller takes stock over: see [`replication::Controller::SHORTEST`].
fn span(environment: &Environment) -> Duration {
    let round = 2 * environment.network().delay + environment.disk().sync;
    (16 * round).clamp(replication::Controller::SHORTEST, replication::Controller::LONGEST)
}

/// A window by additive increase and multiplicative decrease.
struct Aimd {
    window: u64,
    every: Duration,
    /// Batches on their way, with the instant at which each came to the log.
    under_way: VecDeque<(Index, Time)>,
    last: Index,
    /// The most that were under way since it was looked, and how many were committed in how long.
    most: usize,
    committed: (u32, Duration),
    /// How often it was looked since the last [`Aimd::LATELY`], and the least since then and before.
    looks: u32,
    least: [Duration; 2],
}

impl Aimd {
    /// The least latency of so many looks stands, to twice as many: the first batches are small, and never so fast again.
    const LATELY: u32 = 25;

    fn new(environment: &Environment) -> Self {
        let every = (4 * environment.network().delay + 4 * environment.disk().sync).max(Duration::from_millis(5));
        Self {
            window: 1,
            every,
            under_way: VecDeque::new(),
            last: Index::ZERO,
            most: 0,
            committed: (0, Duration::ZERO),
            looks: 0,
            least: [Duration::MAX; 2],
        }
    }

    /// The log's last entry and the last committed one are these now.
    fn see(&mut self, now: Time, last: Index, committed: Index) {
        self.under_way.extend((self.last.0 + 1..=last.0).map(|index| (Index(index), now)));
        self.last = self.last.max(last);
        self.most = self.most.max(self.under_way.len());
        while let Some((_, since)) = self.under_way.pop_front_if(|(index, _)| *index <= committed) {
            self.committed = (self.committed.0 + 1, self.committed.1 + now.since(since));
        }
    }

    fn look(&mut self) -> u64 {
        let ((count, took), most) = (std::mem::take(&mut self.committed), std::mem::take(&mut self.most));
        if count > 0 {
            let mean = took / count;
            self.looks += 1;
            if self.looks.is_multiple_of(Self::LATELY) {
                self.least = [Duration::MAX, self.least[0]];
            }
            self.least[0] = self.least[0].min(mean);
            self.window = match mean > self.least[0].min(self.least[1]).saturating_mul(2) {
                true => (self.window / 2).max(1),
                false if most as u64 >= self.window => (self.window + 1).min(Setting::MOST_WINDOW),
                false => self.window,
            };
        }
        self.window
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
