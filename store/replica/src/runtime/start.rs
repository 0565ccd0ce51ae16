//! How a replica starts.

use super::access::{PeerAccess, Sent};
use super::applying::{Hand as _, Machine};
use super::driver::begin::{Beginning, adopted, first_members, keep_adopted};
use super::driver::{Driver, Wheel};
use super::entrance::Entrance;
use super::failure::FailureMark;
use super::frame::{self, FrameError};
use super::greeter::Greeter;
use super::inbox::{Inbox, now};
use super::links::Reach;
use super::links::{HELLO, Links, MESSAGES};
use super::names::Lookup;
use super::snapshots::{SNAPSHOT, SnapshotJob};
use super::stored::from_log;
use super::writing::Pen;
use super::{Event, Replica, ReplicaHandle, Report, Shared, applying, snapshots};
use crate::applier::{Applier, ApplyError};
use crate::core::{Core, CoreConfig, StartError};
use crate::founding::Founding;
use crate::log::{Claim, LogConfig, LogError, Owner, RealDisk, SnapshotError, Snapshots};
use crate::{Identity, Incarnation, Index, Membership, SessionLimits, Standing, StateMachine};
use greenwave_rpc::{ChannelConfig, Code, Router, Status, Wait, promise};
use slab::Slab;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// How a replica is set up.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// The core's settings, with this replica's number and the voters of a new group. Addresses of the members are
    /// [`Place`](crate::Place)s.
    pub core: CoreConfig,
    /// The number of the group's name. Directories and replicas of groups of other names are refused. The group itself is
    /// told by its [identity](crate::GroupId).
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
    /// How an address in the membership is read; by default as a [`Place`](crate::Place).
    pub reach: Reach,
    /// Who is taken for another replica; by default who calls from this machine.
    pub access: PeerAccess,
}

impl ReplicaConfig {
    /// Settings for a replica whose log is in this directory.
    pub fn new(core: CoreConfig, group: u64, directory: impl Into<PathBuf>) -> Self {
        let name = format!("replica-{}", core.node);
        // A thread that spins takes the processor from the replica itself.
        let channel = ChannelConfig::default().name(name).wait(Wait::Block);
        let (directory, contacts, sessions) = (directory.into(), None, SessionLimits::default());
        let (lookup, reach, access) = (Lookup::default(), Reach::default(), PeerAccess::default());
        Self { core, group, directory, contacts, sessions, channel, lookup, reach, access }
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
    /// The log has entries, and this replica belongs to no group.
    #[error(
        "{} says that this replica belongs to no group, but the log has entries; restore both as they were, or take the \
         replica out of its group and add it as a new one with an empty directory", directory.display()
    )]
    Apart {
        /// Where the identity is.
        directory: PathBuf,
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
    let ReplicaConfig { core, group, directory, contacts, sessions, channel, lookup, reach, access } = config;
    let owner = Owner { group, replica: core.node.number() };
    let patience = core.tick * core.election_ticks;
    let (kept, log, recovered) = open(&core, owner, &directory)?;
    if let Some(torn) = &recovered.torn {
        tracing::warn!(%torn, "the log's end was torn by a crash; what was cut off had never been acknowledged");
    }
    let recovered = from_log(recovered)?;
    let nothing = recovered.snapshot.is_none() && recovered.entries.is_empty();
    if !nothing && kept.identity.group().is_none() {
        return Err(ReplicaStartError::Apart { directory });
    }
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
    let mark = FailureMark::of(&directory);
    if let Err(error) = mark.prepare() {
        tracing::warn!(%error, "a disk that is full will have no room for the mark that a write failed");
    }
    if applier.needs_snapshot() {
        applying::restore_from(&mut applier, &snapshots, begin).inspect_err(|_| mark.set())?;
    }
    let Kept { identity, file } = kept;
    let founders = core.bootstrap.clone().filter(|_| nothing);
    let contacts = founders.clone().or(contacts).unwrap_or_default();
    // A process that ended before the first write of the group that it had founded begins it again.
    let bootstrap = match &identity.standing {
        Standing::Member { founders, .. } if nothing => first_members(founders, &contacts),
        _ => None,
    };
    let settings = CoreConfig { bootstrap, ..core };
    let core = Core::new(settings.clone(), recovered, now())?;
    let founders: BTreeSet<_> = founders.map(|founders| founders.voters().collect()).unwrap_or_default();
    let entrance = Entrance::new(&identity, founders.clone(), Arc::clone(core.membership()), access);
    let greeter = Greeter::new(channel.clone(), lookup.clone(), reach.clone(), Arc::clone(&entrance));
    let mut links = Links::new(settings.node, Arc::clone(&entrance), channel, lookup, reach, patience)
        .map_err(ReplicaStartError::Network)?;
    if **core.membership() == Membership::default() {
        links.set(&contacts);
    }
    let beginning = identity.group().is_none().then(|| {
        let founding = Founding::new(identity, founders);
        Beginning::new(founding, file, settings.clone(), contacts, now())
    });

    let membership = Arc::clone(core.membership());
    let report = Report { figures: core.figures(), membership, stopped: None, obstacle: None, refused: 0 };
    let report = Arc::new(Mutex::new(report));
    let (events, snapshot_writer): (Inbox<Event>, Inbox<SnapshotJob>) = (Inbox::new(), Inbox::new());
    let (pen, machine) = (Arc::new(Pen::new(log, snapshots.clone())), Machine::new(applier));
    let router = router(&entrance, &events, &snapshot_writer);
    let driver = Driver {
        core,
        events: events.clone(),
        pen: Arc::clone(&pen),
        machine: machine.clone(),
        snapshot_writer: snapshot_writer.clone(),
        snapshots: snapshots.clone(),
        links,
        me: settings.node,
        entrance,
        beginning,
        mark,
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
            let handle = ReplicaHandle(Arc::new(Shared { events, report, greeter, threads: Mutex::new(threads) }));
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

/// What is known of a replica before its log is read.
struct Kept {
    identity: Identity,
    file: crate::log::IdentityFile<RealDisk>,
}

/// Opens a directory: who this is comes first, then its log.
fn open(
    core: &CoreConfig,
    owner: Owner,
    directory: &std::path::Path,
) -> Result<(Kept, crate::log::Log<RealDisk>, crate::log::Recovered), ReplicaStartError> {
    let claim = Claim::take(RealDisk, directory)?;
    let (file, has_log) = (claim.identity(), claim.has_log()?);
    let config = LogConfig::new(directory, owner);
    let found = match file.read()? {
        None if has_log => None,
        None => {
            let incarnation = Incarnation::random()?;
            let identity = Identity { number: owner.group, node: core.node, incarnation, standing: Standing::Apart };
            file.keep(&identity)?;
            Some(identity)
        }
        Some(identity) if identity.group().is_some() && !has_log => {
            return Err(LogError::Missing { file: directory.join("0000000000000001.log") }.into());
        }
        found => found,
    };
    if let Some(Identity { number, node, .. }) = &found
        && (*number, *node) != (owner.group, core.node)
    {
        let found = Owner { group: *number, replica: node.number() };
        return Err(LogError::OtherOwner { directory: directory.to_owned(), found, wanted: owner }.into());
    }
    let (log, recovered) = claim.open(&config)?;
    let identity = match found {
        Some(identity) => identity,
        None => {
            let used = recovered.snapshot.index > 0 || recovered.hard_state.term > 0 || !recovered.entries.is_empty();
            let mut membership = recovered.snapshot.membership.clone();
            if Membership::read(&mut membership).is_ok_and(|known| known.enrolment(core.node).is_some()) {
                return Err(LogError::Missing { file: file.path() }.into());
            }
            let adopted = adopted(owner.group, core)?;
            if used {
                keep_adopted(&file, &adopted)?;
                adopted
            } else {
                // Nobody has heard of it yet.
                let identity = Identity { standing: Standing::Apart, ..adopted };
                file.keep(&identity)?;
                identity
            }
        }
    };
    Ok((Kept { identity, file }, log, recovered))
}

/// What the other replicas call.
fn router(entrance: &Arc<Entrance>, events: &Inbox<Event>, snapshot_writer: &Inbox<SnapshotJob>) -> Router {
    let (first, second, third) = (Arc::clone(entrance), Arc::clone(entrance), Arc::clone(entrance));
    let (greeted, events, snapshot_writer) = (events.clone(), events.clone(), snapshot_writer.clone());
    Router::new()
        .method_bytes(HELLO, move |context, request, reply| {
            let (greeting, nonce) = first.greeted(context.peer(), &request)?;
            let answer = first.answer(&greeting, nonce)?;
            // What is sealed may be said again by somebody else: this one asks for itself, and the answer is a fresh one.
            if nonce.is_none() && !first.is_member() {
                greeted.offer(Event::Greeted(greeting), request.len()).map_err(|_| swamped())?;
            }
            reply.extend_from_slice(&answer);
            Ok(())
        })
        .method_bytes(MESSAGES, move |context, request, _| {
            let request = second.open(context.peer(), Sent::Messages, &request)?;
            let bytes = request.len();
            let (header, messages) = frame::read(request).map_err(unreadable)?;
            second.admit(&header)?;
            let (from, group) = (header.from, header.group);
            events.offer(Event::Messages { from, group, messages }, bytes).map_err(|_| swamped())
        })
        .method_bytes(SNAPSHOT, move |context, request, _| {
            let request = third.open(context.peer(), Sent::Piece, &request)?;
            let bytes = request.len();
            let (header, piece) = frame::read_piece(request).map_err(unreadable)?;
            third.admit(&header)?;
            let (from, group) = (header.from, header.group);
            let (done, awaited) = promise();
            let job = SnapshotJob::Piece { from, group, piece, done };
            snapshot_writer.offer(job, bytes).map_err(|_| swamped())?;
            awaited.wait(context)?
        })
}

fn unreadable(error: FrameError) -> Status {
    Status::new(Code::InvalidArgument, error.to_string())
}

fn swamped() -> Status {
    Status::new(Code::ResourceExhausted, "the replica has stopped, or has too much to do")
}
