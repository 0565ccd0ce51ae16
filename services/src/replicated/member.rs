//! A replica of the store in this process: its log, its rows, and the server that the others and clients call.

use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use greenwave::tls::TlsClient;
use greenwave::{Address, AdmissionConfig, Code, Context, Server, ServerConfig, ServerHandle, Status};
use greenwave_replica::core::{CoreConfig, Limits, Refusal, Setting, Sizing, StopCause};
use greenwave_replica::runtime::{FailureMark, ReplicaStartError};
use greenwave_replica::{
    ClientId, Membership, MembershipError, NodeId, Peer, Place, Reach, Replica, ReplicaConfig, ReplicaError,
    ReplicaHandle, Sequence, Session,
};
pub use greenwave_replica::{GroupKey, PeerAccess};
use prost::bytes::Bytes;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::admin::Administration;
use super::elsewhere;
use super::machine::{Store, StoreError};
use super::operators::Operators;
use super::peers::{Peers, PeersError, Spot};
use super::serve::Service;
use crate::proto::replicated as proto;
use crate::serving::ServeError;

/// Calls that may be open at a time: most of them wait for a commit.
const COROUTINES: usize = 8192;

/// How a replica is served.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Its number, from 1 on.
    pub id: u64,
    /// All of the group as it begins, or, for one that joins a group, all that it may belong to, itself included.
    pub peers: Peers,
    /// Whether the group is there already, and this replica waits, with nothing, to be added to it. Not looked at when
    /// it has something on disk.
    pub join: bool,
    /// The group's name: a directory of another one is refused, and so are replicas.
    pub group: String,
    /// Batches and windows of this size; chosen while it runs if this isn't said.
    pub sizing: Option<Setting>,
    /// Bytes of the log after which a snapshot is taken, if not as many as usual.
    pub log_bytes: Option<usize>,
    /// Where its log and its rows are.
    pub directory: PathBuf,
    /// The server that clients call.
    pub server: ServerConfig,
    /// The server that the other replicas call, and nobody else.
    pub peer_server: ServerConfig,
    /// How the other replicas are called, if over TLS: whom this one believes, and what it shows them.
    pub peer_tls: Option<TlsClient>,
    /// Who is taken for another replica.
    pub access: PeerAccess,
    /// Who may run the group.
    pub operators: Operators,
}

/// Why a replica doesn't start.
#[derive(Debug, Error)]
pub enum MemberError {
    /// The peers can't be meant.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// They can't be a group.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// Its rows can't be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its log can't be opened, or makes no sense.
    #[error(transparent)]
    Replica(#[from] ReplicaStartError),
    /// It has no number.
    #[error("a replica's number is 1 or more; say it with --id")]
    Number,
}

/// A replica that runs.
pub struct Member {
    /// The server.
    pub server: ServerHandle,
    peer_server: ServerHandle,
    replica: ReplicaHandle,
}

impl MemberConfig {
    /// Replica `id` of a group that begins with these peers. It listens for clients and for replicas where they say, or, if
    /// that is a name, at all IPv4 addresses of this machine, and who is admitted is the replica's to decide, not the
    /// servers'. From other machines nobody is taken for a replica, and nobody may run the group, unless that is said.
    ///
    /// # Errors
    /// When it is not among them.
    pub fn new(id: u64, peers: Peers, directory: PathBuf) -> Result<Self, PeersError> {
        let listen = |place: &Place| match place {
            Place::Address(address) => address.clone(),
            Place::Host { port, .. } => Address::Tcp((Ipv4Addr::UNSPECIFIED, *port).into()),
        };
        let server = |name: String, at: &Place| {
            let server = ServerConfig::default().name(name).listen([listen(at)]);
            server.admission(AdmissionConfig::default().enabled(false)).coroutines(COROUTINES)
        };
        let spot = peers.spot(id)?;
        let peer_server = server(format!("kv-{id}-peers"), spot.peers()).grpc(None).web(None);
        let server = server(format!("kv-{id}"), spot.clients());
        let (group, sizing, log_bytes, peer_tls) = ("kv".to_owned(), None, None, None);
        let (access, operators, join) = (PeerAccess::default(), Operators::default(), false);
        Ok(Self {
            id,
            peers,
            join,
            group,
            sizing,
            log_bytes,
            directory,
            server,
            peer_server,
            peer_tls,
            access,
            operators,
        })
    }
}

/// Starts a replica, and serves it.
///
/// # Errors
/// When its directory can't be used, or the server can't start.
pub fn serve_member(config: MemberConfig) -> Result<Member, ServeError> {
    let (replica, store) = start(&config)?;
    let MemberConfig { id, server, peer_server, operators, .. } = config;
    let limit = server.coroutine_limit() * 3 / 4;
    let Replica { handle, router } = replica;
    let asked = Asked { id, replica: handle.clone(), waiting: AtomicUsize::new(0), limit };
    let asked = Arc::new(asked);
    let admin = proto::AdminServer::new(Arc::new(Administration { asked: Arc::clone(&asked), operators }));
    let service = Service::new(asked, store);
    let methods = proto::StoreServer::new(Arc::new(service)).into_router().merge(admin.into_router());
    let peer_server = Server::start(peer_server, router).inspect_err(|_| handle.stop(Duration::ZERO))?;
    let server = Server::start(server, methods).inspect_err(|_| handle.stop(Duration::ZERO))?;
    Ok(Member { server, peer_server, replica: handle })
}

fn start(config: &MemberConfig) -> Result<(Replica, super::machine::StoreReader), MemberError> {
    let MemberConfig {
        id, ref peers, join, ref group, sizing, log_bytes, ref directory, ref peer_tls, ref access, ..
    } = *config;
    // Others are called as they are served.
    let features = config.peer_server.offered();
    let node = NodeId::new(id).ok_or(MemberError::Number)?;
    peers.spot(id)?;
    let peer = |(id, spot): (u64, &Spot)| Some(Peer::new(NodeId::new(id)?, spot.to_string()));
    let membership = Membership::of_voters(peers.iter().filter_map(peer))?;
    let seed = RandomState::new().hash_one(id);
    let (bootstrap, contacts) = if join { (None, Some(membership)) } else { (Some(membership), None) };
    let core = CoreConfig { bootstrap, seed, ..CoreConfig::new(node) };
    let limits = Limits { log_bytes: log_bytes.unwrap_or(core.limits.log_bytes), ..core.limits };
    let core = CoreConfig { sizing: sizing.map_or(core.sizing, Sizing::Fixed), limits, ..core };
    let config = ReplicaConfig::new(core, xxh3_64(group.as_bytes()), log_directory(directory));
    let channel = config.channel.clone().tls(peer_tls.clone()).features(features);
    let reach = Reach::new(|address| address.parse::<Spot>().map(|spot| spot.peers().clone()));
    let config = ReplicaConfig { contacts, channel, reach, access: access.clone(), ..config };
    let store = open_rows(directory)?;
    let reader = store.reader();
    Ok((Replica::start(config, store)?, reader))
}

/// Opens the rows of the replica in this directory. If a write or a sync had failed before its last end, or they can't be
/// read, they are empty: it has all of them in its snapshot and its log.
///
/// # Errors
/// When they are open elsewhere, or can't be made.
pub fn open_rows(directory: &Path) -> Result<Store, StoreError> {
    let (rows, mark) = (directory.join("store"), failure_mark(directory));
    if mark.is_set() {
        tracing::warn!("a write or a sync had failed: the rows are made again from the snapshot and the log");
        Store::remove(&rows)?;
    }
    let store = Store::open_or_begin(&rows).inspect_err(|error| {
        // The disk failed while they were opened, which writes and syncs.
        if matches!(error, StoreError::Engine { .. } | StoreError::Io { .. }) {
            mark.set();
        }
    })?;
    // Until there is a new one the old one is not to be trusted, however often that takes.
    mark.clear().map_err(|source| StoreError::Io { path: rows, source })?;
    Ok(store)
}

/// What the replica in this directory leaves for its next start when a write or a sync has failed.
#[must_use]
pub fn failure_mark(directory: &Path) -> FailureMark {
    FailureMark::of(&log_directory(directory))
}

fn log_directory(directory: &Path) -> PathBuf {
    directory.join("log")
}

impl Member {
    /// Why the replica has stopped by itself, if it has: its process has to start again.
    pub fn failure(&self) -> Option<StopCause> {
        self.replica.report().stopped
    }

    /// Hands over the lead and finishes what was accepted, for `limit` at most each.
    pub fn drain(self, limit: Duration) {
        self.replica.stop(limit);
        self.server.drain(limit);
        self.peer_server.drain(limit);
    }

    /// Where the other replicas call it.
    pub fn peer_addresses(&self) -> &[Address] {
        self.peer_server.addresses()
    }
}

/// What the methods ask.
pub(super) struct Asked {
    pub(super) id: u64,
    replica: ReplicaHandle,
    /// Handlers that wait. Some coroutines have to be left for the other replicas' messages, without which nobody who
    /// waits would ever go on.
    waiting: AtomicUsize,
    limit: usize,
}

impl Asked {
    /// Asks the replica, in a handler that may wait for it.
    pub(super) fn wait<T>(&self, ask: impl FnOnce(&ReplicaHandle) -> Result<T, ReplicaError>) -> Result<T, Status> {
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.limit {
            drop(waiting);
            return Err(Status::new(Code::ResourceExhausted, "too many wait at this replica; send less, or later"));
        }
        let asked = ask(&self.replica);
        drop(waiting);
        asked.map_err(|error| self.status(error))
    }

    /// Says where the leader is, too.
    fn status(&self, error: ReplicaError) -> Status {
        let report = self.replica.report();
        let named = |leader: Option<NodeId>| {
            let leader = leader?;
            Some((leader.number(), for_clients(report.membership.address(leader)?)))
        };
        match error {
            ReplicaError::Refused(Refusal::NotLeader { leader }) => {
                elsewhere::not_leader(self.id, hint(&named(leader)))
            }
            ReplicaError::Refused(Refusal::Uncertain { leader }) => elsewhere::uncertain(hint(&named(leader))),
            error => error.into(),
        }
    }
}

/// Where clients reach a replica of this address in the membership.
pub(super) fn for_clients(address: &str) -> String {
    address.parse::<Spot>().map_or_else(|_| address.to_owned(), |spot| spot.clients().to_string())
}

/// A leader as a status names it.
pub(super) fn hint(leader: &Option<(u64, String)>) -> Option<(u64, &str)> {
    leader.as_ref().map(|(number, address)| (*number, address.as_str()))
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl super::serve::Replica for Asked {
    fn submit(&self, context: &Context, session: proto::Session, command: Bytes) -> Result<Bytes, Status> {
        let session = Session { client: ClientId(session.client), sequence: Sequence(session.sequence) };
        self.wait(|replica| replica.submit(context, session, command))
    }

    fn read(&self, context: &Context) -> Result<(), Status> {
        self.wait(|replica| replica.read(context)).map(|_| ())
    }

    fn describe(&self) -> proto::DescribeReply {
        let report = self.replica.report();
        let standing = report.figures.status;
        let address = standing.leader.and_then(|leader| report.membership.address(leader));
        proto::DescribeReply {
            replica: self.id,
            leader: standing.leader.map_or(0, NodeId::number),
            leader_address: address.map(for_clients).unwrap_or_default(),
            term: standing.term.0,
            applied: report.figures.applied.0,
        }
    }
}
