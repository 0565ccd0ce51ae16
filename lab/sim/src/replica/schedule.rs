//! A run by seed: a group, clients that get into each other's way, and all that can go wrong. Then everything is
//! mended, and what was answered is judged.

use super::client::{Ask, ClientRule, Clients, Next, Reply, Request};
use super::fault::{Fault, PlanRule, plan};
use super::group::{Group, GroupRule, Step, Told, Work, id, peer, place};
use super::history::{CallId, NotLinearizable};
use super::kv::Kv;
use super::node::StartError;
use super::watch::Violation;
use crate::disk::DiskRule;
use crate::event::Event;
use crate::link::{Bandwidth, LinkRule};
use crate::seed::{Seed, Stream};
use crate::trace::Trace;
use greenwave_policy::{Budget, Deadline, Time};
use greenwave_replica::core::{Aim, CoreConfig, Input, Outcome, Reads, Refusal, Setting, Sizing};
use greenwave_replica::{Answer, Change, ClientId, Sequence, Session, Ticket};
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

/// What a schedule came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// A hash over all that happened: the same seed gives the same.
    pub hash: u64,
    /// Calls that clients made.
    pub calls: usize,
    /// Calls that were answered.
    pub answered: usize,
    /// Faults that were carried out.
    pub faults: usize,
    /// Terms that had a leader.
    pub terms: usize,
    /// Snapshots that were taken or came from another replica.
    pub snapshots: u64,
    /// Whether the history was checked to its end; with many unanswered calls that can take too long.
    pub decided: bool,
    /// Damages of real logs that were noticed at a start.
    pub damages: u64,
    /// Torn tails that real logs cut off.
    pub torn: u64,
    /// Disks that were lost.
    pub wiped: u64,
    /// Messages that weren't taken, as they weren't their sender's to say, or not meant for who got them.
    pub unwelcome: u64,
}

/// What a schedule found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// Something that must never be.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// Answers that no single machine could have given: a write that was acknowledged is lost, or was done twice, or a
    /// read was stale.
    #[error(transparent)]
    NotLinearizable(#[from] NotLinearizable),
    /// A replica panicked.
    #[error("a panic: {0}")]
    Panicked(String),
    /// After everything was mended, the group doesn't answer.
    #[error("{waited:?} after everything was mended, {open}")]
    Stuck {
        /// How long it had.
        waited: Duration,
        /// What is open.
        open: String,
    },
    /// Replicas that have applied the same entries have different states.
    #[error("replicas {one} and {other} have applied up to {index} and have different states")]
    Diverged {
        /// One replica.
        one: usize,
        /// The other.
        other: usize,
        /// Up to which entry.
        index: u64,
    },
}

/// A seed that found something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {finding}")]
pub struct Failure {
    /// The seed: it finds the same again.
    pub seed: Seed,
    /// What it found.
    pub finding: Finding,
}

/// A defect that is put in on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// None.
    None,
    /// Cores are told that a write is durable when it is given to the disk.
    EarlyPersisted,
    /// Disks forget their last synced writes in a crash.
    ForgetfulDisk,
    /// Clients' retries come under a new number.
    NoSessions,
    /// Whoever is asked reads from its own state at once.
    StaleReads,
    /// Who loses its disk comes back as who it was, and votes.
    WipedVotes,
}

/// Runs the schedule of a seed.
///
/// # Errors
/// What it found.
pub fn run(seed: Seed) -> Result<Report, Failure> {
    run_with(seed, Defect::None)
}

/// The same with a defect.
///
/// # Errors
/// What it found.
pub fn run_with(seed: Seed, defect: Defect) -> Result<Report, Failure> {
    let run = || {
        Schedule::new(seed, defect)
            .map_err(|error| Finding::from(Violation::Start { node: 0, cause: error.to_string() }))
            .and_then(Schedule::run)
    };
    // What it ran on is dropped with it, so nothing broken is seen afterwards.
    let finding = match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(finding)) => finding,
        Err(panicked) => {
            let text = panicked.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Finding::Panicked(text.unwrap_or_else(|| "without a text".to_owned()))
        }
    };
    Err(Failure { seed, finding })
}

const MS: Duration = Duration::from_millis(1);

/// Steps of the checker for a key: a second or two.
const STEPS: u64 = 2_000_000;

/// How long the group has to answer everything once all is mended.
const CALM: Duration = Duration::from_secs(60);

struct Schedule {
    group: Group<Kv, Do>,
    clients: Clients,
    chance: Stream,
    /// When everything is mended.
    calm: Time,
    looks: Vec<Look>,
    slow: DiskRule,
    defect: Defect,
    faults: usize,
    wiped: u64,
    /// Who has lost its disk and hasn't been taken in anew.
    lost: Option<usize>,
}

/// A key that is read at the end.
struct Look {
    key: u64,
    call: CallId,
    done: bool,
}

#[derive(Debug)]
pub(super) enum Do {
    Wake { client: usize, attempt: u32 },
    Arrives(Request),
    Replied { client: usize, attempt: u32, reply: Reply },
    Fault(Fault),
    Look(usize),
    Rejoin(usize),
}

impl Schedule {
    fn new(seed: Seed, defect: Defect) -> Result<Self, StartError> {
        let mut chance = seed.stream("schedule", 0);
        let replicas = if chance.chance(0.8) { 3 } else { 5 };
        let lease = chance.chance(0.3);
        let real = chance.chance(0.5) && !matches!(defect, Defect::ForgetfulDisk | Defect::EarlyPersisted);
        let drift = chance.pick(&[20, 100, 499]).copied().unwrap_or(100);
        let mut core = CoreConfig::new(id(0));
        let setting = Setting::with_window(1 << chance.below(13), 1 << chance.below(7));
        core.sizing = if chance.chance(0.5) { Sizing::Auto(Aim::Throughput) } else { Sizing::Fixed(setting) };
        if lease {
            core.reads = Reads::Lease { drift };
        }
        if chance.chance(0.6) {
            core.limits.log_bytes = 1 << (9 + chance.below(5));
        }
        let delay = chance.span_between(MS / 20, 5 * MS);
        let slow = DiskRule::sync(chance.span_between(MS / 10, 8 * MS));
        let jitter = if chance.chance(0.5) { delay } else { Duration::ZERO };
        let rule = GroupRule {
            replicas,
            core,
            link: LinkRule { jitter, ..LinkRule::delay(delay) },
            interface: Bandwidth::UNLIMITED,
            framing: 0.0,
            disk: slow,
            leader: Work::FREE,
            follower: Work::FREE,
            command_bytes: 64,
            watched: true,
        };
        let mut group = if chance.chance(0.5) {
            Group::on_logs(rule, seed, real)?
        } else {
            Group::apart_on_logs(rule, seed, real)?
        };
        for node in (0..replicas).filter(|_| lease) {
            // No two rates differ by more than the drift, as a share of the faster one.
            let slower = [0, drift, chance.below(u64::from(drift)) as u32];
            let rate = 1000 - chance.pick(&slower).copied().unwrap_or(0);
            group.go(node, rate);
        }
        group.set_early_persisted(defect == Defect::EarlyPersisted);
        // What clients say and hear may be lost, so that they ask again.
        let loss = if chance.chance(0.5) { 0.03 } else { 0.0 };
        for node in 0..replicas {
            let rule = LinkRule { loss, ordered: false, ..LinkRule::delay(delay) };
            group.network.change(node, replicas, rule);
            group.network.change(replicas, node, rule);
        }
        let calm = Time::ZERO + chance.span_between(2_000 * MS, 5_000 * MS);
        let rule = PlanRule {
            replicas,
            until: calm,
            every: chance.span_between(100 * MS, 1_000 * MS),
            membership: chance.chance(0.5),
        };
        for (at, fault) in plan(&rule, &mut seed.stream("plan", 0)) {
            // Leases rest on clocks that don't jump, and have rates that are known.
            let jump = matches!(fault, Fault::Forward(..) | Fault::Back(..) | Fault::Rate(..));
            if !(lease && jump) {
                group.at(at, Do::Fault(fault));
            }
        }
        let rule = ClientRule {
            clients: 3 + chance.below(4) as usize,
            replicas,
            keys: 1 + chance.below(4),
            pause: chance.span_between(5 * MS, 60 * MS),
            patience: chance.span_between(100 * MS, 800 * MS),
            attempts: 2 + chance.below(8) as u32,
        };
        let clients = Clients::new(rule, seed);
        for client in 0..rule.clients {
            group.at(Time::ZERO + chance.span(50 * MS), Do::Wake { client, attempt: 0 });
        }
        Ok(Self { group, clients, chance, calm, looks: Vec::new(), slow, defect, faults: 0, wiped: 0, lost: None })
    }

    fn run(mut self) -> Result<Report, Finding> {
        self.go_on(self.calm, |_| false)?;
        self.mend();
        let end = self.calm + CALM;
        self.go_on(end, |schedule| !schedule.clients.busy() && schedule.lost.is_none())?;
        for key in 0..self.clients.rule().keys {
            let call = self.clients.look(key);
            self.looks.push(Look { key, call, done: false });
            self.group.after(Duration::ZERO, Do::Look(key as usize));
        }
        self.go_on(end, |schedule| schedule.looks.iter().all(|look| look.done))?;
        self.judge()
    }

    /// Until `end`, or until it is done.
    fn go_on(&mut self, end: Time, done: impl Fn(&Self) -> bool) -> Result<(), Finding> {
        while !done(self) {
            match self.group.step(end) {
                Step::End => break,
                Step::Internal => {}
                Step::Driver(event) => self.happen(event),
            }
            while let Some(told) = self.group.told() {
                self.hear(told);
            }
            if let Some(violation) = self.group.violation() {
                return Err(violation.clone().into());
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Do) {
        match event {
            Do::Wake { client, attempt } => {
                let more = self.group.now() < self.calm;
                let next = self.clients.wake(client, attempt, more);
                self.follow(client, next);
            }
            Do::Arrives(request) => self.ask(request),
            Do::Replied { client, attempt, reply } => {
                let next = self.clients.reply(client, attempt, reply);
                self.follow(client, next);
            }
            Do::Fault(fault) => self.fault(fault),
            Do::Look(look) => self.look(look),
            Do::Rejoin(node) => self.rejoin(node),
        }
    }

    fn follow(&mut self, client: usize, next: Next) {
        match next {
            Next::Send(request) => {
                let patience = self.clients.rule().patience;
                self.group.after(patience, Do::Wake { client, attempt: request.attempt });
                let (now, clients) = (self.group.now(), self.group.rule().replicas);
                if let Some(arrival) = self.group.network.send(now, clients, request.to, 64).arrival() {
                    self.group.at(arrival, Do::Arrives(request));
                }
            }
            Next::Wait(pause) => {
                let attempt = self.clients.attempt(client);
                self.group.after(pause, Do::Wake { client, attempt });
            }
            Next::Nothing => {}
        }
    }

    /// A request is at its replica.
    fn ask(&mut self, Request { client, attempt, to, ask }: Request) {
        let ticket = Ticket((client as u64) << 32 | u64::from(attempt));
        let budget = Budget::expected(self.clients.rule().patience);
        let deadline = Deadline::at(self.group.shows(to), budget);
        let input = match ask {
            Ask::Read { .. } if self.defect == Defect::StaleReads => {
                self.group.tell(Told { node: to, ticket, outcome: None });
                return;
            }
            Ask::Read { .. } => Input::Read { ticket, deadline },
            Ask::Command { session, sequence, command } => {
                let nobody = self.defect == Defect::NoSessions && sequence > 0;
                let session = Session { client: ClientId(session), sequence: Sequence(sequence) };
                let session = if nobody || session.client == ClientId::NONE { Session::NONE } else { session };
                Input::Submit { ticket, session, command: command.into(), deadline }
            }
        };
        self.group.give(to, Duration::ZERO, input);
    }

    /// A replica answers.
    fn hear(&mut self, Told { node, ticket, outcome }: Told) {
        let client = (ticket.0 >> 32) as usize;
        if client == LOOKS {
            let look = &mut self.looks[(ticket.0 & 0xFFFF_FFFF) as usize];
            if outcome.is_none() && !look.done {
                look.done = true;
                let value = self.group.machine(node).and_then(|machine| machine.value(look.key));
                self.clients.looked(look.call, value);
            }
            return;
        }
        if client == NOBODY {
            return;
        }
        let reply = match outcome {
            None => match self.group.machine(node) {
                None => return,
                Some(machine) => Reply::Value(machine.values().clone()),
            },
            Some(Outcome::Applied(Answer::Done(answer))) => Reply::Answered(answer.to_vec()),
            Some(Outcome::Applied(Answer::NoSession)) => Reply::NoSession,
            Some(Outcome::Applied(Answer::Forgotten)) => Reply::Unknown,
            Some(Outcome::Refused(Refusal::Uncertain { .. } | Refusal::Stopped)) => Reply::Unknown,
            Some(Outcome::Refused(Refusal::NotLeader { leader })) => Reply::Refused(leader.map(place)),
            Some(Outcome::Refused(_) | Outcome::Changed | Outcome::Transferred) => Reply::Refused(None),
        };
        let attempt = ticket.0 as u32;
        let (now, clients) = (self.group.now(), self.group.rule().replicas);
        if let Some(arrival) = self.group.network.send(now, node, clients, 64).arrival() {
            self.group.at(arrival, Do::Replied { client, attempt, reply });
        }
    }

    fn look(&mut self, look: usize) {
        if self.looks[look].done {
            return;
        }
        if let Some(leader) = self.group.leader() {
            let ticket = Ticket((LOOKS as u64) << 32 | look as u64);
            self.group.give(leader, Duration::ZERO, Input::Read { ticket, deadline: Deadline::NEVER });
        }
        self.group.after(200 * MS, Do::Look(look));
    }

    fn fault(&mut self, fault: Fault) {
        self.faults += 1;
        match fault {
            Fault::Kill(node) => self.group.kill_with(node, self.defect == Defect::ForgetfulDisk),
            Fault::Restart(node) => {
                if self.chance.chance(0.5) {
                    self.group.make_room(node);
                }
                self.group.restart(node);
            }
            Fault::Partition(side) => self.group.network.partition(&side),
            Fault::Cut(from, to) => self.group.network.cut(from, to),
            Fault::Heal => self.group.network.heal(),
            Fault::Forward(node, by) => self.group.jump(node, |clock| clock.forward(by)),
            Fault::Back(node, by) => self.group.jump(node, |clock| clock.back(by)),
            Fault::Rate(node, rate) => self.group.go(node, rate),
            Fault::Slow(node, times) => {
                let rule = DiskRule { sync: self.slow.sync * times, ..self.slow };
                self.group.disk(node).change(rule);
            }
            Fault::Disk(node, fault) => self.group.disk(node).fail_next(fault),
            Fault::Pause(node, span) => self.group.pause(node, span),
            Fault::Transfer(node) => self.lead(|_, ticket| Input::Transfer { ticket, to: id(node) }),
            Fault::Toggle(node) => self.lead(|group, ticket| {
                let leader = group.leader().unwrap_or_default();
                let inside = group.core(leader).is_some_and(|core| core.membership().nodes().any(|it| it == id(node)));
                let change = if inside { Change::Remove(id(node)) } else { Change::AddVoter(peer(node)) };
                Input::Change { ticket, changes: vec![change] }
            }),
            Fault::Snapshot(node) => self.group.take_snapshot_now(node),
            Fault::Wipe(node) => {
                if self.lost.is_none() && self.group.are_members_beside(node) {
                    let defect = self.defect == Defect::WipedVotes;
                    self.lost = Some(node).filter(|_| !defect);
                    self.wiped += 1;
                    self.group.wipe(node, defect);
                    self.group.restart(node);
                }
            }
            Fault::Rejoin(node) => self.rejoin(node),
        }
    }

    /// Has one that has lost its disk taken out, then taken in anew, as often as it takes.
    fn rejoin(&mut self, node: usize) {
        if self.lost != Some(node) {
            return;
        }
        if let (Some(leader), Some(joining)) = (self.group.leader(), self.group.joining(node))
            && let Some(membership) = self.group.core(leader).map(|core| core.membership().clone())
        {
            let there = membership.nodes().any(|it| it == id(node));
            let known = membership.enrolment(id(node)).map(|known| known.incarnation);
            if there && known == joining.incarnation && !membership.is_joint() {
                self.lost = None;
                return;
            }
            let change = if there { Change::Remove(id(node)) } else { Change::AddVoter(joining) };
            self.lead(|_, ticket| Input::Change { ticket, changes: vec![change] });
        }
        self.group.after(100 * MS, Do::Rejoin(node));
    }

    /// Asks the leader, if there is one.
    fn lead(&mut self, input: impl FnOnce(&mut Group<Kv, Do>, Ticket) -> Input) {
        let ticket = Ticket((NOBODY as u64) << 32 | self.chance.below(1 << 32));
        if let Some(leader) = self.group.leader() {
            let input = input(&mut self.group, ticket);
            self.group.give(leader, Duration::ZERO, input);
        }
    }

    fn mend(&mut self) {
        self.group.network.heal();
        let lease = matches!(self.group.rule().core.reads, Reads::Lease { .. });
        for node in 0..self.group.rule().replicas {
            self.group.disk(node).change(self.slow);
            self.group.disk(node).mend();
            if !lease {
                self.group.go(node, 1000);
            }
            self.group.make_room(node);
            self.group.restart(node);
        }
        if let Some(node) = self.lost {
            self.rejoin(node);
        }
    }

    fn judge(mut self) -> Result<Report, Finding> {
        let open = self.looks.iter().filter(|look| !look.done).count();
        if open > 0 || self.clients.busy() || self.lost.is_some() {
            let what = if let Some(node) = self.lost {
                format!("replica {node} isn't taken in anew")
            } else if self.clients.busy() {
                "a client still waits".to_owned()
            } else {
                format!("{open} keys can't be read")
            };
            let cores: Vec<_> =
                (0..self.group.rule().replicas).map(|node| format!("{:?}", self.group.core(node))).collect();
            let open = format!("{what}; the leader is {:?}; cores: {}", self.group.leader(), cores.join("; "));
            return Err(Finding::Stuck { waited: CALM, open });
        }
        let judged = self.clients.history.check_within(STEPS);
        judged.clone().unwrap_or(Ok(()))?;
        let (replicas, mut seen) = (self.group.rule().replicas, Vec::new());
        for node in 0..replicas {
            let Some(machine) = self.group.machine(node) else { continue };
            seen.push((greenwave_replica::StateMachine::applied(machine).0, node, machine.values().clone()));
        }
        for (at, (index, one, values)) in seen.iter().enumerate() {
            for (other_index, other, other_values) in &seen[at + 1..] {
                if index == other_index && values != other_values {
                    return Err(Finding::Diverged { one: *one, other: *other, index: *index });
                }
            }
        }
        let (damages, torn) = self.group.recoveries();
        Ok(Report {
            decided: judged.is_some(),
            damages,
            torn,
            wiped: self.wiped,
            unwelcome: self.group.unwelcome(),
            hash: self.group.hash(),
            calls: self.clients.history.len(),
            answered: self.clients.history.answered(),
            faults: self.faults,
            terms: self.group.terms(),
            snapshots: self.group.snapshots(),
        })
    }
}

/// In the place of a client's number: reads at the end, and what nobody waits for.
const LOOKS: usize = 0xFFFF_FFFE;
const NOBODY: usize = 0xFFFF_FFFF;

impl Event for Do {
    fn trace(&self, trace: &mut Trace) {
        match self {
            Self::Wake { client, attempt } => trace.number(1).number(*client as u64).number((*attempt).into()),
            Self::Arrives(Request { client, attempt, to, .. }) => {
                trace.number(2).number(*client as u64).number((*attempt).into()).number(*to as u64)
            }
            Self::Replied { client, attempt, reply } => {
                trace.number(3).number(*client as u64).number((*attempt).into()).bytes(format!("{reply:?}").as_bytes())
            }
            Self::Fault(fault) => {
                fault.trace(trace.number(4));
                trace
            }
            Self::Look(look) => trace.number(5).number(*look as u64),
            Self::Rejoin(node) => trace.number(6).number(*node as u64),
        };
    }
}
