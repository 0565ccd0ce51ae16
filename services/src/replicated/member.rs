//! A replica of the store in this process: its log, its rows, and the server that the others and clients call.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use greenwave::verbs::TlsClient;
use greenwave::verbs::tls::{Identity, Pem};
use greenwave::{Address, Code, Context, Server, ServerConfig, ServerHandle, Status};
use greenwave_replica::core::{CoreConfig, Limits, Refusal, Setting, Sizing, StopCause};
use greenwave_replica::runtime::ReplicaStartError;
use greenwave_replica::{
    ClientId, Membership, MembershipError, NodeId, Peer, Replica, ReplicaConfig, ReplicaError, ReplicaHandle, Sequence,
    Session,
};
use prost::bytes::Bytes;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::admin::Administration;
use super::elsewhere;
use super::machine::{Store, StoreError};
use super::peers::{Peers, PeersError};
use super::serve::Service;
use crate::proto::replicated as proto;
use crate::serving::ServeError;
use crate::settings::{SettingError, Settings, switch, value};

/// Calls that may be open at a time, unless it is said otherwise: most of them wait for a commit.
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
    /// The server.
    pub server: ServerConfig,
    /// How the other replicas are called, if over TLS: whom this one believes, and what it shows them.
    pub peer_tls: Option<TlsClient>,
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
    replica: ReplicaHandle,
}

impl MemberConfig {
    /// Understands `data`, `id`, `peers`, `join`, `group`, `batch_bytes` with `window_bytes`, `log_bytes`, `tls_peer_ca`,
    /// and the server's settings. It listens where the peers say, unless `listen` says otherwise. Who is admitted is the
    /// replica's to decide, unless `admission` says otherwise.
    ///
    /// # Errors
    /// The first setting that can't be meant.
    pub fn from_settings(mut settings: Settings) -> Result<Self, SettingError> {
        const ID: &str = "the number of one of the peers, 1 and more";
        const PEERS: &str = "replicas with commas between them, such as 1=tcp://127.0.0.1:7401,2=tcp://127.0.0.1:7402";
        let directory = settings.require("data", "the directory of the replica", value)?;
        let id = settings.require("id", ID, value)?;
        let peers = settings.require("peers", PEERS, |text| Some(text.parse::<Peers>()))?;
        let peers = peers.map_err(|error| SettingError::Group(error.to_string()))?;
        let own = peers.address(id).map_err(|error| SettingError::Group(error.to_string()))?;
        let join = settings.take("join", "on or off", switch)?.unwrap_or(false);
        let sizing = sizing(&mut settings)?;
        let log_bytes = settings.take("log_bytes", "bytes, 1 and more", value)?;
        let group = settings.take("group", "a name", value)?.unwrap_or_else(|| "kv".to_owned());
        let peer_tls = peer_tls(&mut settings, &peers)?;
        let settings = settings.or("listen", own).or("admission", &"off").or("coroutines", &COROUTINES);
        let mut settings = settings;
        let server = settings.server(format!("kv-{id}"))?;
        settings.finish().map(|()| Self { id, peers, join, group, sizing, log_bytes, directory, server, peer_tls })
    }
}

/// Both sizes, or none.
fn sizing(settings: &mut Settings) -> Result<Option<Setting>, SettingError> {
    const BYTES: &str = "bytes, 1 and more; beside batch_bytes there has to be window_bytes";
    match settings.take("batch_bytes", BYTES, value)? {
        None => Ok(None),
        Some(batch_bytes) => {
            let window_bytes = settings.require("window_bytes", BYTES, value)?;
            let setting = Setting::new(batch_bytes, window_bytes);
            setting.map(Some).map_err(|error| SettingError::Group(error.to_string()))
        }
    }
}

/// How the other replicas are called: over TLS if this one takes nothing else, for so it is with all of them. It shows
/// them the certificate that it has as a server.
fn peer_tls(settings: &mut Settings, peers: &Peers) -> Result<Option<TlsClient>, SettingError> {
    const FILE: &str = "a PEM file";
    const AUTHORITY: &str = "a PEM file with the authority of the replicas' certificates, as they talk over TLS too";
    let authority = settings.take("tls_peer_ca", AUTHORITY, value::<PathBuf>)?;
    let missing = |key, allowed| Err(SettingError::Missing { key, allowed });
    let (authority, certificate, key) = match (&authority, settings.said("tls_cert"), settings.said("tls_key")) {
        (Some(authority), Some(certificate), Some(key)) => (authority, certificate, key),
        (Some(_), None, _) => return missing("tls_cert", FILE),
        (Some(_), _, None) => return missing("tls_key", FILE),
        (None, Some(_), _) => return missing("tls_peer_ca", AUTHORITY),
        (None, None, _) => return Ok(None),
    };
    if let Some((id, _)) = peers.iter().find(|(_, address)| !matches!(address, Address::Tcp(_))) {
        let why = "has no IP address that a certificate could be for; leave TLS out, or use TCP";
        return Err(SettingError::Group(format!("replica {id} {why}")));
    }
    let identity = Identity { certificate: Pem::File(certificate.as_ref()), key: Pem::File(key.as_ref()) };
    let tls = TlsClient::new(Pem::File(authority), Some(identity), None);
    tls.map(Some).map_err(|error| SettingError::Tls(error.to_string()))
}

/// Starts a replica, and serves it.
///
/// # Errors
/// When its directory can't be used, or the server can't start.
pub fn serve_member(config: MemberConfig) -> Result<Member, ServeError> {
    let (replica, store) = start(&config)?;
    let MemberConfig { id, server, .. } = config;
    let limit = server.coroutine_limit() * 3 / 4;
    let Replica { handle, router } = replica;
    let asked = Asked { id, replica: handle.clone(), waiting: AtomicUsize::new(0), limit };
    let asked = Arc::new(asked);
    let admin = proto::AdminServer::new(Arc::new(Administration(Arc::clone(&asked))));
    let service = Service::new(asked, store);
    let methods = proto::StoreServer::new(Arc::new(service)).into_router().merge(admin.into_router()).merge(router);
    let server = Server::start(server, methods).inspect_err(|_| handle.stop(Duration::ZERO))?;
    Ok(Member { server, replica: handle })
}

fn start(config: &MemberConfig) -> Result<(Replica, super::machine::StoreReader), MemberError> {
    let MemberConfig { id, ref peers, join, ref group, sizing, log_bytes, ref directory, ref peer_tls, .. } = *config;
    let node = NodeId::new(id).ok_or(MemberError::Number)?;
    peers.address(id)?;
    let peer = |(id, address): (u64, &Address)| Some(Peer { node: NodeId::new(id)?, address: address.to_string() });
    let membership = Membership::of_voters(peers.iter().filter_map(peer))?;
    let seed = RandomState::new().hash_one(id);
    let (bootstrap, contacts) = if join { (None, Some(membership)) } else { (Some(membership), None) };
    let core = CoreConfig { bootstrap, seed, ..CoreConfig::new(node) };
    let limits = Limits { log_bytes: log_bytes.unwrap_or(core.limits.log_bytes), ..core.limits };
    let core = CoreConfig { sizing: sizing.map_or(core.sizing, Sizing::Fixed), limits, ..core };
    let config = ReplicaConfig::new(core, xxh3_64(group.as_bytes()), directory.join("log"));
    let channel = config.channel.clone().tls(peer_tls.clone());
    let config = ReplicaConfig { contacts, channel, ..config };
    let store = Store::open(&directory.join("store"))?;
    let reader = store.reader();
    Ok((Replica::start(config, store)?, reader))
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
            Some((leader.number(), report.membership.address(leader)?))
        };
        match error {
            ReplicaError::Refused(Refusal::NotLeader { leader }) => elsewhere::not_leader(self.id, named(leader)),
            ReplicaError::Refused(Refusal::Uncertain { leader }) => elsewhere::uncertain(named(leader)),
            error => error.into(),
        }
    }
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
            leader_address: address.unwrap_or_default().to_owned(),
            term: standing.term.0,
            applied: report.figures.applied.0,
        }
    }
}
