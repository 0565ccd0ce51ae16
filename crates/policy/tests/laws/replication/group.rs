//! A replica group in virtual time: one leader, its followers, cores, links and disks that queue. It is written from
//! the description of an environment and shares no equation with the model that it is to judge.

use greenwave_policy::Time;
use greenwave_policy::replication::{Controller, Cpu, Environment, Limit, Load, PeerId, Pulls, Setting};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// Who says how commands are fed.
pub(crate) enum Feed {
    Fixed(Setting, Duration),
    Controlled(Box<Controller>),
}

/// The share of a command's work that is done when it comes; the rest is when it is answered.
const RECEIVING: f64 = 0.3;

/// Batches that a follower may lack without being sent any.
const MOST_BEHIND: u64 = 16;

pub(crate) struct Group {
    environment: Environment,
    feed: Feed,
    load: Load,
    now: Time,
    seed: u64,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    what: Vec<Option<Event>>,
    unused: Vec<usize>,
    order: u64,
    leader: Leader,
    followers: Vec<Follower>,
    /// Interfaces of the leader: out, in.
    interface: [Pipe; 2],
    /// When each command that waits was submitted.
    waiting: VecDeque<Time>,
    /// Batches in the order of their pull that aren't committed. The first is number `committed`.
    batches: VecDeque<Batch>,
    /// Commands of every batch that ever was.
    counts: Vec<u64>,
    committed: u64,
    pulled: u64,
    pulls: Pulls,
    pull_due: Option<Time>,
    pub(crate) done: Done,
    clients: u32,
}

/// What was answered since it was last taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) commands: u64,
    pub(crate) latencies: Vec<Duration>,
    pub(crate) batches: u64,
}

struct Batch {
    commands: Vec<Time>,
    acks: u32,
    durable: bool,
}

enum Event {
    Submit,
    LeaderDone(Job),
    LeaderSynced { up_to: u64, bytes: u64, took: Duration },
    AppendArrives { to: usize, index: u64 },
    FollowerWrites { at: usize, index: u64 },
    FollowerSynced { at: usize, up_to: u64 },
    Pull,
    AckArrives { from: usize, index: u64 },
}

enum Job {
    Receive { submitted: Time },
    Ack { from: usize, index: u64 },
    Send { to: Vec<(usize, u64)> },
    Answer { commands: Vec<Time> },
}

#[derive(Default)]
struct Leader {
    jobs: VecDeque<Job>,
    busy: bool,
    disk: Disk,
}

#[derive(Default)]
struct Follower {
    free: Time,
    disk: Disk,
    links: [Pipe; 2],
    /// Batches up to these were sent to it, and acknowledged by it.
    sent: u64,
    acked: u64,
}

#[derive(Default)]
struct Disk {
    syncing: bool,
    /// The last batch that waits for a sync, and the bytes of all that do.
    waiting: Option<u64>,
    bytes: u64,
}

/// When it is free, and when the last that was sent arrives: what is sent later never arrives earlier.
#[derive(Clone, Copy, Default)]
struct Pipe {
    free: Time,
    last: Time,
}

impl Pipe {
    /// When what is sent now arrives.
    fn send(&mut self, now: Time, environment: &Environment, bytes: f64) -> Time {
        let network = environment.network();
        let rate = network.bandwidth.as_bytes_per_s() as f64;
        self.free = self.free.max(now) + Duration::from_secs_f64(bytes * (1.0 + network.framing) / rate);
        self.last = self.last.max(self.free + network.delay);
        self.last
    }
}

impl Group {
    pub(crate) fn new(environment: Environment, load: Load, feed: Feed) -> Self {
        let followers = (1..environment.replicas()).map(|_| Follower::default()).collect();
        let mut group = Self {
            environment,
            feed,
            load,
            now: Time::ZERO,
            seed: 1,
            events: BinaryHeap::new(),
            what: Vec::new(),
            unused: Vec::new(),
            order: 0,
            leader: Leader::default(),
            followers,
            interface: [Pipe::default(); 2],
            waiting: VecDeque::new(),
            batches: VecDeque::new(),
            counts: Vec::new(),
            committed: 0,
            pulled: 0,
            pulls: Pulls::new(),
            pull_due: None,
            done: Done::default(),
            clients: 0,
        };
        if let Feed::Controlled(controller) = &mut group.feed {
            (1..environment.replicas()).for_each(|peer| controller.add_peer(PeerId(peer.into())));
        }
        group.adjust_load(load);
        group
    }

    /// Another environment with as many replicas, from now on.
    pub(crate) fn change(&mut self, environment: Environment) {
        assert_eq!(environment.replicas(), self.environment.replicas());
        self.environment = environment;
    }

    /// Another load; clients that are too many leave with their next answer.
    pub(crate) fn adjust_load(&mut self, load: Load) {
        self.load = load;
        match load {
            Load::Closed { clients, .. } => {
                for client in self.clients..clients {
                    self.clients += 1;
                    // Not all at the same instant.
                    self.after(Duration::from_nanos(u64::from(client) * 997), Event::Submit);
                }
            }
            Load::Open { .. } => {
                let gap = self.gap();
                self.after(gap, Event::Submit);
            }
            Load::Saturated => panic!("a closed load with many clients is as good"),
        }
    }

    pub(crate) fn controller(&self) -> &Controller {
        match &self.feed {
            Feed::Controlled(controller) => controller,
            Feed::Fixed(..) => panic!("nobody controls this group"),
        }
    }

    /// Goes on for so long, and says what was answered in that time.
    pub(crate) fn run(&mut self, time: Duration) -> Done {
        let end = self.now + time;
        self.done = Done::default();
        while let Some(&Reverse((at, id))) = self.events.peek() {
            if at > end {
                break;
            }
            self.events.pop();
            self.now = at;
            let place = (id & 0xff_ffff) as usize;
            let event = self.what[place].take().expect("each event happens once");
            self.unused.push(place);
            self.happen(event);
            if let Feed::Controlled(controller) = &mut self.feed
                && at >= controller.next_tick()
            {
                controller.tick(at);
            }
        }
        self.now = end;
        std::mem::take(&mut self.done)
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    fn at(&mut self, at: Time, event: Event) {
        let place = self.unused.pop().unwrap_or_else(|| {
            self.what.push(None);
            self.what.len() - 1
        });
        self.what[place] = Some(event);
        self.order += 1;
        self.events.push(Reverse((at, self.order << 24 | place as u64)));
    }

    fn gap(&mut self) -> Duration {
        let Load::Open { per_s } = self.load else { return Duration::ZERO };
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let uniform = ((self.seed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        Duration::from_secs_f64(-uniform.ln() / per_s)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Submit => {
                if matches!(self.load, Load::Open { .. }) {
                    let gap = self.gap();
                    self.after(gap, Event::Submit);
                }
                if self.environment.network().limit == Limit::Interface {
                    let sizes = self.environment.sizes();
                    let bytes = f64::from(sizes.request + sizes.request_head);
                    self.interface[1].send(self.now, &self.environment, bytes);
                }
                self.tell(|controller, now| controller.submitted(now, 1));
                self.work(Job::Receive { submitted: self.now });
            }
            Event::LeaderDone(job) => self.leader_done(job),
            Event::LeaderSynced { up_to, bytes, took } => {
                self.tell(|controller, _| controller.synced(bytes, took));
                let from = self.committed;
                self.batches.iter_mut().take((up_to - from + 1) as usize).for_each(|batch| batch.durable = true);
                self.leader.disk.syncing = false;
                self.leader_sync();
                self.commit();
            }
            Event::AppendArrives { to, index } => {
                let cost = {
                    let commands = self.counts[index as usize] as f64;
                    self.cost(self.environment.follower(), 1, self.append_bytes(index), commands)
                };
                let follower = &mut self.followers[to];
                follower.free = follower.free.max(self.now) + cost;
                let free = follower.free;
                self.at(free, Event::FollowerWrites { at: to, index });
            }
            Event::FollowerWrites { at, index } => {
                let bytes = self.entry_bytes(index);
                let disk = &mut self.followers[at].disk;
                (disk.waiting, disk.bytes) = (disk.waiting.max(Some(index)), disk.bytes + bytes);
                self.follower_sync(at);
            }
            Event::FollowerSynced { at, up_to } => {
                let ack = f64::from(self.environment.sizes().ack);
                let cost = self.cost(self.environment.follower(), 1, ack, 0.0);
                let follower = &mut self.followers[at];
                follower.free = follower.free.max(self.now) + cost;
                let arrives = match self.environment.network().limit {
                    Limit::Pair => follower.links[1].send(follower.free, &self.environment, ack),
                    Limit::Interface => self.interface[1].send(follower.free, &self.environment, ack),
                };
                follower.disk.syncing = false;
                self.at(arrives, Event::AckArrives { from: at, index: up_to });
                self.follower_sync(at);
            }
            Event::Pull => {
                self.pull_due = None;
                self.pull();
            }
            Event::AckArrives { from, index } => self.work(Job::Ack { from, index }),
        }
    }

    fn leader_done(&mut self, job: Job) {
        match job {
            Job::Receive { submitted } => self.waiting.push_back(submitted),
            Job::Ack { from, index } => {
                self.tell(|controller, now| controller.acked(PeerId(from as u64 + 1), now, index));
                let acked = &mut self.followers[from].acked;
                let before = std::mem::replace(acked, (index + 1).max(*acked));
                for index in before..=index {
                    if let Some(batch) =
                        index.checked_sub(self.committed).and_then(|n| self.batches.get_mut(n as usize))
                    {
                        batch.acks += 1;
                    }
                }
                self.commit();
            }
            Job::Send { to } => {
                for (to, index) in to {
                    let bytes = self.append_bytes(index);
                    let arrives = match self.environment.network().limit {
                        Limit::Pair => self.followers[to].links[0].send(self.now, &self.environment, bytes),
                        Limit::Interface => self.interface[0].send(self.now, &self.environment, bytes),
                    };
                    self.at(arrives, Event::AppendArrives { to, index });
                    let sent = self.entry_bytes(index);
                    self.tell(|controller, now| controller.sent(PeerId(to as u64 + 1), now, index, sent));
                }
                self.leader_sync();
            }
            Job::Answer { commands } => {
                let closed = match self.load {
                    Load::Closed { clients, think } => Some((clients, think)),
                    Load::Open { .. } | Load::Saturated => None,
                };
                if self.environment.network().limit == Limit::Interface {
                    let bytes = f64::from(self.environment.sizes().answer) * commands.len() as f64;
                    self.interface[0].send(self.now, &self.environment, bytes);
                }
                // They were answered one after the other; this is the end of the last one's work.
                let each = self.environment.leader().per_command.mul_f64(1.0 - RECEIVING);
                for (behind, submitted) in commands.iter().rev().enumerate() {
                    let answered = self.now - each * behind as u32;
                    self.done.latencies.push(answered.since(*submitted));
                    match closed {
                        Some((clients, think)) if self.clients <= clients => {
                            self.at(self.now.max(answered + think), Event::Submit);
                        }
                        Some(_) => self.clients -= 1,
                        None => {}
                    }
                }
                self.done.commands += commands.len() as u64;
            }
        }
        self.leader.busy = false;
        self.pull();
        self.next_job();
    }

    /// As long as those that are needed for a quorum have room, what waits is sent; then others get what they lack.
    fn pull(&mut self) {
        if self.leader.busy {
            return;
        }
        let settings: Vec<Setting> = (0..self.followers.len()).map(|peer| self.setting(peer)).collect();
        let room = |group: &Self, peer: usize| {
            group.followers[peer].sent - group.followers[peer].acked < settings[peer].window()
        };
        let ready = (0..self.followers.len()).filter(|peer| room(self, *peer)).count();
        let entry = self.entry();
        let (limit, gap) = match &self.feed {
            Feed::Fixed(setting, gap) => (setting.batch_bytes(), *gap),
            Feed::Controlled(controller) => {
                (controller.batch_limit(self.waiting.len() as u64 * entry), controller.pull_gap())
            }
        };
        let due = self.pulls.due(self.waiting.len() as u64 * entry, !self.batches.is_empty(), limit, gap);
        if let Some(due) = due.filter(|due| *due > self.now && self.pull_due.is_none()) {
            self.pull_due = Some(due);
            self.at(due, Event::Pull);
        }
        // A group that leaves a follower behind for ever would have one less.
        let together = self.followers.iter().all(|follower| self.pulled - follower.sent < MOST_BEHIND);
        let slot = together && ready >= self.environment.quorum_followers() as usize;
        if slot && due.is_some_and(|due| due <= self.now) {
            self.pulls.pulled(self.now);
            let most = ((limit / entry) as usize).max(1);
            let commands: Vec<Time> = self.waiting.drain(..most.min(self.waiting.len())).collect();
            let (count, left) = (commands.len() as u64, !self.waiting.is_empty());
            self.tell(|controller, _| controller.pulled(count, count * entry, left));
            self.counts.push(count);
            self.batches.push_back(Batch { commands, acks: 0, durable: false });
            let disk = &mut self.leader.disk;
            (disk.waiting, disk.bytes) = (Some(self.pulled), disk.bytes + count * entry);
            self.pulled += 1;
        }
        let mut to = Vec::new();
        for peer in 0..self.followers.len() {
            if room(self, peer) && self.followers[peer].sent < self.pulled {
                to.push((peer, self.followers[peer].sent));
                self.followers[peer].sent += 1;
            }
        }
        if !to.is_empty() {
            let bytes: f64 = to.iter().map(|(_, index)| self.append_bytes(*index)).sum();
            let (messages, leader) = (to.len() as u64, self.environment.leader());
            self.start(Job::Send { to }, messages, bytes, self.cost(leader, messages as u32, bytes, 0.0), 0);
        }
    }

    fn commit(&mut self) {
        while let Some(batch) = self.batches.front() {
            if !batch.durable || batch.acks < self.environment.quorum_followers() {
                break;
            }
            let Some(batch) = self.batches.pop_front() else { break };
            self.committed += 1;
            self.done.batches += 1;
            let count = batch.commands.len() as u64;
            let longest = batch.commands.iter().map(|at| self.now.since(*at)).max().unwrap_or_default();
            let answers = count * u64::from(self.environment.sizes().answer);
            self.tell(|controller, now| controller.committed(now, count, answers, longest));
            self.work(Job::Answer { commands: batch.commands });
        }
    }

    fn work(&mut self, job: Job) {
        self.leader.jobs.push_back(job);
        self.next_job();
    }

    fn next_job(&mut self) {
        if self.leader.busy {
            return;
        }
        let Some(job) = self.leader.jobs.pop_front() else { return };
        let leader = self.environment.leader();
        let (messages, bytes, commands, weight) = match &job {
            Job::Receive { .. } => (0, 0.0, 0, RECEIVING),
            Job::Ack { .. } => (1, f64::from(self.environment.sizes().ack), 0, 0.0),
            Job::Send { .. } => (0, 0.0, 0, 0.0),
            Job::Answer { commands } => (0, 0.0, commands.len() as u64, commands.len() as f64 * (1.0 - RECEIVING)),
        };
        let cost = self.cost(leader, messages as u32, bytes, weight);
        // Receiving is told together with what else is a command's.
        self.start(job, messages, bytes, cost, commands);
    }

    fn start(&mut self, job: Job, messages: u64, bytes: f64, cost: Duration, commands: u64) {
        let told = match job {
            Job::Receive { .. } => Duration::ZERO,
            Job::Answer { .. } => self.environment.leader().per_command * commands as u32,
            _ => cost,
        };
        self.tell(|controller, _| controller.worked(told, messages, bytes as u64, commands));
        self.leader.busy = true;
        self.after(cost, Event::LeaderDone(job));
    }

    fn leader_sync(&mut self) {
        let disk = &mut self.leader.disk;
        if disk.syncing {
            return;
        }
        let Some(up_to) = disk.waiting.take() else { return };
        let bytes = std::mem::take(&mut disk.bytes);
        disk.syncing = true;
        let took = self.sync_time(bytes);
        self.after(took, Event::LeaderSynced { up_to, bytes, took });
    }

    fn follower_sync(&mut self, at: usize) {
        let disk = &mut self.followers[at].disk;
        if disk.syncing {
            return;
        }
        let Some(up_to) = disk.waiting.take() else { return };
        let bytes = std::mem::take(&mut disk.bytes);
        disk.syncing = true;
        let took = self.sync_time(bytes);
        self.after(took, Event::FollowerSynced { at, up_to });
    }

    fn sync_time(&self, bytes: u64) -> Duration {
        let disk = self.environment.disk();
        disk.sync + Duration::from_secs_f64(bytes as f64 / disk.bandwidth.as_bytes_per_s() as f64)
    }

    fn setting(&self, peer: usize) -> Setting {
        match &self.feed {
            Feed::Fixed(setting, _) => *setting,
            Feed::Controlled(controller) => controller.setting(PeerId(peer as u64 + 1)),
        }
    }

    fn tell(&mut self, what: impl FnOnce(&mut Controller, Time)) {
        if let Feed::Controlled(controller) = &mut self.feed {
            what(controller, self.now);
        }
    }

    fn entry(&self) -> u64 {
        u64::from(self.environment.sizes().request + self.environment.sizes().entry_head)
    }

    fn entry_bytes(&self, index: u64) -> u64 {
        self.counts[index as usize] * self.entry()
    }

    fn append_bytes(&self, index: u64) -> f64 {
        self.entry_bytes(index) as f64 + f64::from(self.environment.sizes().append_head)
    }

    fn cost(&self, cpu: Cpu, messages: u32, bytes: f64, commands: f64) -> Duration {
        cpu.per_message * messages
            + Duration::from_secs_f64(cpu.per_byte_ns * 1e-9 * bytes)
            + cpu.per_command.mul_f64(commands)
    }
}
