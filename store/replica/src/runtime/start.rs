//! How a replica starts.

use super::applying::{Hand as _, Machine};
use super::driver::{Driver, Wheel};
use super::frame::{self, FrameError, Sender};
use super::inbox::{Inbox, now};
use super::links::{Links, MESSAGES};
use super::names::Lookup;
use super::snapshots::{SNAPSHOT, SnapshotJob};
use super::stored::from_log;
use super::writing::Pen;
use super::{Event, Replica, ReplicaHandle, Report, Shared, applying, snapshots};
use crate::applier::{Applier, ApplyError};
use crate::core::{Core, CoreConfig, StartError};
use crate::log::{Log, LogConfig, LogError, Owner, RealDisk, SnapshotError, Snapshots};
use crate::{Index, Membership, NodeId, SessionLimits, StateMachine};
use greenwave_rpc::{ChannelConfig, Code, Router, Status, Wait, promise};
use slab::Slab;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// How a replica is set up.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// The core's settings, with this replica's number and the voters of a new group. Addresses of the members are
    /// [`Place`](crate::Place)s.
    pub core: CoreConfig,
    /// The group's number. Messages of other groups are refused.
    pub group: u64,
    /// Where its log and its snapshots are.
    pub directory: PathBuf,
    /// Where the members of the group are, for a replica that is added to one and has nothing on disk yet: the leader
    /// is answered there, until it has said who belongs to the group.
    pub contacts: Option<Membership>,
    /// How much of sessions is remembered. Has to be the same for all replicas, always.
    pub sessions: SessionLimits,
    /// How the others are called.
    pub channel: ChannelConfig,
    /// How the addresses of those with names are found.
    pub lookup: Lookup,
}

impl ReplicaConfig {
    /// Settings for a replica whose log is in this directory.
    pub fn new(core: CoreConfig, group: u64, directory: impl Into<PathBuf>) -> Self {
        let name = format!("replica-{}", core.node);
        // A thread that spins takes the processor from the replica itself.
        let channel = ChannelConfig::default().name(name).wait(Wait::Block);
        let (directory, contacts, sessions) = (directory.into(), None, SessionLimits::default());
        Self { core, group, directory, contacts, sessions, channel, lookup: Lookup::default() }
    }
}

/// A replica can't start.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaStartError {
    /// A setting, or a log that makes no sense.
    #[error(transparent)]
    Core(#[from] StartError),
    /// The log can't be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The snapshots can't be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The state machine can't begin where the log does.
    #[error(transparent)]
    Machine(#[from] ApplyError),
    /// The state machine has entries that the log lost.
    #[error(
        "the state machine has applied entries up to {machine}, but the log ends at {log}: what this replica had promised          is lost; take it out of the group, and add it as a new one with an empty directory"
    )]
    Lost {
        /// Up to where the machine has them.
        machine: Index,
        /// Where the log ends.
        log: Index,
    },
    /// The log has something that this version doesn't know.
    #[error("the log's {what} can't be read; was it written by a later version?")]
    Unknown {
        /// What it is.
        what: &'static str,
    },
    /// The others can't be called.
    #[error("the other replicas can't be called: {0}")]
    Network(Status),
    /// There is no thread to be had.
    #[error("no thread could be started: {0}")]
    Thread(#[from] std::io::Error),
}

pub(super) fn start(config: ReplicaConfig, machine: impl StateMachine + 'static) -> Result<Replica, ReplicaStartError> {
    let ReplicaConfig { core, group, directory, contacts, sessions, channel, lookup } = config;
    let sender = Sender { group, node: core.node };
    let owner = Owner { group, replica: core.node.number() };
    let patience = core.tick * core.election_ticks;
    let (log, recovered) = Log::open(RealDisk, &LogConfig::new(&directory, owner))?;
    if let Some(torn) = &recovered.torn {
        tracing::warn!(%torn, "the log's end was torn by a crash; what was cut off had never been acknowledged");
    }
    let recovered = from_log(recovered)?;
    let snapshots = Snapshots::open(RealDisk, &directory, owner)?;
    let begin = recovered.snapshot.clone().unwrap_or_default();
    snapshots.keep_from(begin.index.0);
    let mut applier = Applier::new(machine, sessions, begin.clone())?;
    // An entry is durable in the log before it is applied.
    let (machine, log_end) =
        (applier.machine().applied(), recovered.entries.last().map_or(begin.index, |last| last.index));
    if machine > log_end {
        return Err(ReplicaStartError::Lost { machine, log: log_end });
    }
    if applier.needs_snapshot() {
        applying::restore_from(&mut applier, &snapshots, begin)?;
    }
    let core = Core::new(core, recovered, now())?;
    let mut links = Links::new(sender, channel, lookup, patience).map_err(ReplicaStartError::Network)?;
    if let Some(contacts) = contacts.filter(|_| **core.membership() == Membership::default()) {
        links.set(&contacts);
    }

    let membership = Arc::clone(core.membership());
    let report = Report { figures: core.figures(), membership, stopped: None };
    let report = Arc::new(Mutex::new(report));
    let (events, snapshot_writer): (Inbox<Event>, Inbox<SnapshotJob>) = (Inbox::new(), Inbox::new());
    let (pen, machine) = (Arc::new(Pen::new(log, snapshots.clone())), Machine::new(applier));
    let router = router(sender, &events, &snapshot_writer);
    let driver = Driver {
        core,
        events: events.clone(),
        pen: Arc::clone(&pen),
        machine: machine.clone(),
        snapshot_writer: snapshot_writer.clone(),
        snapshots: snapshots.clone(),
        links,
        sender,
        report: Arc::clone(&report),
        open: Slab::new(),
        committed: Vec::new(),
        stopping: None,
        stopped: false,
    };

    let wheel = Arc::new(Wheel { driver: Mutex::new(driver), events: events.clone(), pen });
    let close = (machine.clone(), snapshot_writer.clone());
    let begin = || -> std::io::Result<Vec<JoinHandle<()>>> {
        let (to_snap, from_snap, files) = (snapshot_writer.clone(), events.clone(), snapshots.clone());
        let snap = spawn("replica-snap", move || snapshots::run(&files, &to_snap, &from_snap))?;
        let from_apply = events.clone();
        let apply = spawn("replica-apply", move || machine.run(&snapshots, &from_apply, &snapshot_writer))?;
        let other = Arc::clone(&wheel);
        let drive = [spawn("replica", move || wheel.run())?, spawn("replica", move || other.run())?];
        Ok(drive.into_iter().chain([snap, apply]).collect())
    };
    match begin() {
        Ok(threads) => {
            let handle = ReplicaHandle(Arc::new(Shared { events, report, threads: Mutex::new(threads) }));
            Ok(Replica { handle, router })
        }
        Err(error) => {
            // Those that have begun end.
            let (machine, snapshot_writer) = close;
            events.close();
            machine.close();
            snapshot_writer.close();
            Err(error.into())
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}

/// What the other replicas call.
fn router(me: Sender, events: &Inbox<Event>, snapshot_writer: &Inbox<SnapshotJob>) -> Router {
    let (events, snapshot_writer) = (events.clone(), snapshot_writer.clone());
    Router::new()
        .method_bytes(MESSAGES, move |_, request, _| {
            let (sender, messages) = frame::read(request).map_err(unreadable)?;
            let from = welcome(me, sender)?;
            events.offer(Event::Messages { from, messages }).map_err(|_| swamped())
        })
        .method_bytes(SNAPSHOT, move |context, request, _| {
            let (sender, piece) = frame::read_piece(request).map_err(unreadable)?;
            let from = welcome(me, sender)?;
            let (done, awaited) = promise();
            snapshot_writer.offer(SnapshotJob::Piece { from, piece, done }).map_err(|_| swamped())?;
            awaited.wait(context)?
        })
}

fn welcome(me: Sender, sender: Sender) -> Result<NodeId, Status> {
    if sender.group == me.group {
        return Ok(sender.node);
    }
    let text = format!("a replica of group {:x} called one of group {:x}; check the addresses", sender.group, me.group);
    Err(Status::new(Code::FailedPrecondition, text))
}

fn unreadable(error: FrameError) -> Status {
    Status::new(Code::InvalidArgument, error.to_string())
}

fn swamped() -> Status {
    Status::new(Code::ResourceExhausted, "the replica has stopped, or has too much to do")
}
