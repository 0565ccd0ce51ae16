//! What faults do to the group, and how they are mended.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use crate::disk::Kept;
use crate::group::Group;
use crate::load::Shared;
use crate::network::{Link, address};
use crate::plan::{Fault, Kind, Target};
use crate::replica::{self, Limit, PORT};

/// How long a replica may take to end in good order.
const ENDING: Duration = Duration::from_secs(30);

/// How long a replica that was restarted or added may take to be as far as the others.
const BACK: Duration = Duration::from_secs(60);

/// Connections of a client that doesn't read.
const UNREAD: usize = 16;

/// Faults of which a replica ends by itself, as it says.
const BY_ITSELF: [Kind; 4] = [Kind::DiskFull, Kind::SyncFails, Kind::Descriptors, Kind::Memory];

/// A fault under way.
pub(crate) struct Active {
    fault: Fault,
    targets: Vec<usize>,
    unread: Option<Unread>,
}

/// A client that asks and doesn't read, until it is dropped.
struct Unread {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Active {
    /// Begins a fault. Says who is hit.
    ///
    /// # Errors
    /// When it can't be made, which is no fault of the group's.
    pub(crate) fn begin(fault: &Fault, group: &mut Group, shared: &Shared) -> anyhow::Result<Self> {
        let targets = targets(fault.target, group);
        let mut active = Self { fault: fault.clone(), targets, unread: None };
        for &node in &active.targets.clone() {
            active.hit(node, group, shared)?;
        }
        Ok(active)
    }

    /// Its nodes.
    pub(crate) fn targets(&self) -> &[usize] {
        &self.targets
    }

    /// When it ends, after the round has begun.
    pub(crate) fn ends(&self) -> Duration {
        self.fault.after + self.fault.lasts
    }

    /// As the plan has it.
    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Mends it, while others go on.
    ///
    /// # Errors
    /// When a replica can't be started.
    pub(crate) fn end(self, group: &mut Group, others: &[Self], shared: &Shared) -> anyhow::Result<()> {
        for &node in &self.targets {
            match self.fault.kind {
                Kind::Pause => group.replicas[node].signal(Signal::CONT),
                Kind::DiskFull => group.disks[node].set(|ills| ills.full = false),
                Kind::DiskSlow => group.disks[node].set(|ills| ills.sync_takes = Duration::ZERO),
                Kind::SyncFails => group.disks[node].set(|ills| ills.sync_fails = false),
                Kind::Descriptors | Kind::Memory => group.replicas[node].unlimit(),
                Kind::Wipe => add_anew(node, group, shared),
                _ => {}
            }
            if BY_ITSELF.contains(&self.fault.kind) {
                group.may_end.insert(node);
            }
            let stays_down = others.iter().any(|other| other.keeps_down() && other.targets.contains(&node));
            if self.ends_process() && !stays_down {
                // One that has ended is started again, as whoever runs it would do.
                let _ = group.replicas[node].ended();
                let ahead = if self.fault.kind == Kind::ClockShift { clock_ahead(self.fault.draw) } else { 0 };
                group.replicas[node].start(ahead)?;
            }
        }
        Ok(())
    }

    /// Whether a process may end of it.
    fn ends_process(&self) -> bool {
        self.keeps_down() || BY_ITSELF.contains(&self.fault.kind)
    }

    fn keeps_down(&self) -> bool {
        matches!(self.fault.kind, Kind::Kill | Kind::PowerCut | Kind::PowerTorn | Kind::ClockShift)
    }

    fn hit(&mut self, node: usize, group: &mut Group, shared: &Shared) -> anyhow::Result<()> {
        let draw = self.fault.draw;
        match self.fault.kind {
            Kind::Kill | Kind::ClockShift => group.replicas[node].kill(),
            Kind::Pause => group.replicas[node].signal(Signal::STOP),
            Kind::DiskFull => group.disks[node].set(|ills| ills.full = true),
            Kind::DiskSlow => {
                let takes = Duration::from_millis(5 + draw % 300);
                group.disks[node].set(|ills| ills.sync_takes = takes);
            }
            Kind::SyncFails => group.disks[node].set(|ills| ills.sync_fails = true),
            Kind::PowerCut => {
                group.replicas[node].kill();
                group.disks[node].cut(Kept::Nothing)?;
            }
            Kind::PowerTorn => {
                group.replicas[node].kill();
                group.disks[node].cut(Kept::Some(draw.wrapping_add(node as u64)))?;
            }
            Kind::Descriptors => group.replicas[node].limit(Limit::Descriptors(draw % 3)),
            Kind::Memory => group.replicas[node].limit(Limit::Memory(draw % (16 << 20))),
            Kind::SlowReader => self.unread = Some(Unread::start(node)),
            Kind::Wipe => {
                group.replicas[node].kill();
                group.disks[node].wipe()?;
                group.replicas[node].start(0)?;
            }
            Kind::Rolling => roll(group, shared)?,
            // Of the network: see `apply`.
            _ => {}
        }
        Ok(())
    }

    /// What it does to the links between nodes.
    fn spoil(&self, group: &Group) {
        let (clients, draw) = (group.clients(), self.fault.draw);
        let share = |from: u64, to: u64| (from + draw % (to - from)) as u32;
        for &node in &self.targets {
            for other in (0..=clients).filter(|other| *other != node) {
                let to_replica = other != clients;
                let set = |out: bool, back: bool, change: &dyn Fn(&mut Link)| {
                    if out {
                        group.network.set(node, other, change);
                    }
                    if back {
                        group.network.set(other, node, change);
                    }
                };
                match self.fault.kind {
                    Kind::Partition => set(to_replica, to_replica, &|link| link.cut = true),
                    Kind::Isolate => set(true, true, &|link| link.cut = true),
                    Kind::Mute => set(to_replica, false, &|link| link.cut = true),
                    Kind::Deaf => set(false, to_replica, &|link| link.cut = true),
                    Kind::Delay => set(true, true, &|link| {
                        link.delay = Duration::from_millis(draw % 120);
                        link.jitter = Duration::from_millis(draw % 50);
                    }),
                    Kind::Loss => set(true, true, &|link| link.loss = share(10, 250)),
                    Kind::Duplicate => set(true, true, &|link| link.duplicate = share(50, 500)),
                    Kind::Reorder => set(true, true, &|link| link.reorder = share(50, 400)),
                    Kind::Corrupt => set(true, true, &|link| link.corrupt = share(10, 200)),
                    Kind::Forge => set(to_replica, to_replica, &|link| link.forge = share(2, 60)),
                    _ => {}
                }
            }
        }
    }
}

/// Has the links be as the faults under way want them.
pub(crate) fn apply<'a>(active: impl Iterator<Item = &'a Active>, group: &Group) {
    group.network.mend();
    active.for_each(|fault| fault.spoil(group));
}

fn targets(target: Target, group: &mut Group) -> Vec<usize> {
    let all = 0..group.replicas.len();
    match target {
        Target::All => all.collect(),
        Target::Leader => vec![group.leader()],
        Target::Follower(place) => {
            let leader = group.leader();
            all.filter(|node| *node != leader).skip(place).take(1).collect()
        }
    }
}

/// Seconds: up to some days ahead, or some hours behind, as far as a clock of this machine can be.
fn clock_ahead(draw: u64) -> i64 {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_sec;
    if draw.is_multiple_of(2) {
        1 + (draw / 2 % 1_000_000) as i64
    } else {
        -((draw / 2) as i64 % (up / 2).max(1)).abs()
    }
}

/// Ends all replicas in good order and starts them again, one after the other.
fn roll(group: &mut Group, shared: &Shared) -> anyhow::Result<()> {
    for node in 0..group.replicas.len() {
        let replica = &mut group.replicas[node];
        if !replica.terminate(ENDING) {
            shared.find(format!("replica {} didn't end in good order within {ENDING:?}", replica.id()));
        }
        let programs = &group.programs;
        let other = if replica.program == programs[0] { &programs[1] } else { &programs[0] };
        replica.program.clone_from(other);
        replica.start(0)?;
        let begun = std::time::Instant::now();
        loop {
            let told = group.standings();
            let most = told.iter().map(|standing| standing.applied).max().unwrap_or(0);
            let own = told.iter().find(|standing| standing.node == node);
            // What is written all the while is always a little ahead.
            if own.is_some_and(|own| own.leader.is_some() && own.applied + 500 > most) {
                break;
            }
            if begun.elapsed() > BACK {
                shared.find(format!("replica {} wasn't back {BACK:?} after a restart: {told:?}", node + 1));
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Removes a replica that has lost its disk, and adds it.
fn add_anew(node: usize, group: &mut Group, shared: &Shared) {
    let peers = replica::peers(group.replicas.len());
    let (id, joining) = (group.replicas[node].id().to_string(), format!("{}={}", node + 1, replica::place(node)));
    let told = group.standings();
    if let Some(own) = told.iter().find(|standing| standing.node == node && standing.applied > 0) {
        shared.find(format!("replica {id} lost its disk and has applied {} all the same", own.applied));
    }
    for words in [["group", "remove", &id, "--peers", &peers], ["group", "add", &joining, "--peers", &peers]] {
        let mut command = Command::new(&group.programs[0].path);
        let output = command.args(words).args(["--deadline", "60s"]).process_group(0).stdin(Stdio::null()).output();
        match output.context("can't run the command") {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                shared.find(format!("`greenwave {}` failed ({}): {said}", words.join(" "), output.status));
            }
            Err(error) => shared.find(format!("{error:#}")),
        }
    }
}

impl Unread {
    fn start(node: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        // Whether it comes to something doesn't matter: the replica may be down.
        let thread = thread::spawn(move || drop(ask_and_ignore(node, &told)));
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Asks for all rows over and over, over HTTP, and reads nothing.
fn ask_and_ignore(node: usize, over: &AtomicBool) -> anyhow::Result<()> {
    let to: std::net::SocketAddr = format!("{}:{PORT}", address(node)).parse()?;
    let body = r#"{"limit":10000,"stale":true}"#;
    let ask = format!(
        "POST /greenwave.replicated.Store/Range HTTP/1.1\r\nHost: kv\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut streams = Vec::new();
    for _ in 0..UNREAD {
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(1))?;
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    ensure!(!streams.is_empty());
    while !over.load(Ordering::Relaxed) {
        for stream in &mut streams {
            match stream.write(ask.as_bytes()) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Ok(()),
                _ => {}
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
