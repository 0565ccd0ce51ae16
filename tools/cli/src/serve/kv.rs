//! `greenwave serve kv`: one process with a store of its own, or one replica of a group.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use greenwave::tls::{Pem, TlsClient};
use greenwave::{Address, ServerConfig};
use greenwave_kv::{KvConfig, Rows};
use greenwave_policy::replication::Setting;
use greenwave_services::kv::{KvServiceConfig, serve_kv};
use greenwave_services::replicated::member::{GroupKey, PeerAccess};
use greenwave_services::replicated::member::{MemberConfig, serve_member};
use greenwave_services::replicated::operators::Operators;
use greenwave_services::replicated::peers::{Peers, Place};

use super::access::is_of_network;
use super::events::{self, Ending, Event};
use super::here::{self, Facts};
use super::needed;
use super::server::{ServerSettings, usual, with};
use super::settings::{KvSettings, ReplicaSettings, RowsSettings};
use super::values::{Count, List, Switch, Word};
use crate::data;
use crate::problem::Problem;

/// How soon it is noticed that a replica has stopped by itself.
const WATCH: Duration = Duration::from_millis(100);

/// Serves until it is told to end.
pub(super) fn run(said: &KvSettings, follow_stdin: bool) -> Result<(), Problem> {
    let ending = said.server.ending(follow_stdin);
    if said.replica == ReplicaSettings::default() {
        return alone(said.alone()?, ending);
    }
    member(said.member()?, ending)
}

impl KvSettings {
    /// A store of its own.
    fn alone(&self) -> Result<KvServiceConfig, Problem> {
        let RowsSettings { rows, value_bytes, checkpoint_rows } = self.rows;
        let rows = Rows {
            count: rows.map_or(Rows::DEFAULT.count, Count::u32),
            value_bytes: value_bytes.map_or(Rows::DEFAULT.value_bytes, Count::u32),
        };
        let directory = self.data.clone().map_or_else(|| data::store_of(rows), Ok)?;
        Ok(KvServiceConfig {
            store: KvConfig { directory, rows },
            checkpoint_rows: checkpoint_rows.map_or(KvServiceConfig::CHECKPOINT_ROWS, Count::u32),
            server: self.server.config(usual("kv", 7400))?,
        })
    }

    /// A replica of a group.
    fn member(&self) -> Result<MemberConfig, Problem> {
        const PEERS: &str = "replicas with commas between them, such as 1=tcp://127.0.0.1:7401,2=tcp://127.0.0.1:7402";
        if self.rows != RowsSettings::default() {
            let problem = Problem::wrong_use("a replica has the rows of its group: rows, value_bytes, checkpoint_rows");
            return Err(problem.remedy("leave them out, or serve a store of its own, without peers"));
        }
        if self.server.access.token_file.is_some() {
            let problem =
                Problem::wrong_use("replicas call one another with certificates, and have no tokens: token_file");
            return Err(
                problem.remedy("say who may call with --allow or --require-client-name, the replicas among them")
            );
        }
        let directory = needed(self.data.clone(), "data", "the directory of the replica")?;
        let ReplicaSettings { join, group, log_bytes, .. } = &self.replica;
        let id = needed(self.replica.id, "id", "the number of one of the peers, 1 and more")?;
        let Word(peers) = needed(self.replica.peers.clone(), "peers", PEERS)?;
        let peer_tls = self.peer_tls(&peers)?;
        let operators = self.operators()?;
        // Who is admitted is the replica's to decide, unless it is said.
        let server = ServerSettings { admission: self.server.admission.or(Some(Switch::Off)), ..self.server.clone() };
        let usual = MemberConfig::new(id, peers, directory).map_err(Problem::wrong_use)?;
        let peer_server = usual.peer_server.clone().tls(self.server.tls()?);
        let peer_server = with(peer_server, self.replica.peer_listen.clone(), |it, List(listen)| it.listen(listen));
        let peer_server = with(peer_server, self.server.backend.clone(), |it, Word(backend)| it.backend(backend));
        let peer_server = with(peer_server, self.server.wire_features, |it, Word(features)| it.features(features));
        let access = self.peer_access(&usual.peers, &peer_server)?;
        Ok(MemberConfig {
            peer_server,
            access,
            operators,
            join: join == &Some(Switch::On),
            group: group.clone().unwrap_or(usual.group),
            sizing: self.sizing()?,
            log_bytes: log_bytes.map(Count::usize),
            server: server.config(usual.server)?,
            peer_tls,
            ..usual
        })
    }

    /// Both sizes, or none.
    fn sizing(&self) -> Result<Option<Setting>, Problem> {
        const BYTES: &str = "bytes, 1 and more; batch_bytes and window_bytes are said together";
        let ReplicaSettings { batch_bytes, window_bytes, .. } = self.replica;
        if batch_bytes.is_none() && window_bytes.is_none() {
            return Ok(None);
        }
        let (batch, window) =
            (needed(batch_bytes, "batch_bytes", BYTES)?, needed(window_bytes, "window_bytes", BYTES)?);
        Setting::new(batch, window).map(Some).map_err(Problem::wrong_use)
    }

    /// Who is taken for another replica.
    fn peer_access(&self, peers: &Peers, server: &ServerConfig) -> Result<PeerAccess, Problem> {
        const REMEDY: &str = "give all replicas the same --group-key, or certificates (--tls-client-ca with --peer-names); \
                              or say --insecure if everybody who connects may pass for a replica";
        let key = self.replica.group_key.as_deref().map(group_key).transpose()?;
        let anybody = self.server.access.insecure == Some(Switch::On);
        let has_ca = self.server.tls_client_ca.is_some();
        let names = match &self.replica.peer_names {
            Some(List(names)) => {
                needed(
                    has_ca.then_some(()),
                    "tls_client_ca",
                    "a PEM file, as only a certificate that is checked has a name",
                )?;
                names.clone()
            }
            None if has_ca => peers.iter().filter_map(|(_, spot)| spot.peers().host().map(str::to_owned)).collect(),
            None => Vec::new(),
        };
        let proved = key.is_some() || !names.is_empty();
        if has_ca && !proved && !anybody {
            let problem = Problem::wrong_use("the certificate of any client would pass for a replica's");
            return Err(problem.remedy(REMEDY));
        }
        match server.addresses().find(|address| is_of_network(address)) {
            Some(open) if !proved && !anybody => {
                let problem =
                    Problem::wrong_use("everybody who reaches this address would pass for a replica of the group");
                Err(problem.at(open).remedy(REMEDY))
            }
            _ => Ok(PeerAccess { key, names, anybody }),
        }
    }

    /// Who may run the group.
    fn operators(&self) -> Result<Operators, Problem> {
        let names = match &self.replica.operators {
            Some(List(names)) => {
                const WHY: &str = "a PEM file, as only a certificate that is checked has a name";
                needed(self.server.tls_client_ca.as_ref(), "tls_client_ca", WHY)?;
                names.clone()
            }
            None => Vec::new(),
        };
        let access = &self.server.access;
        Ok(Operators { names, anybody: access.insecure == Some(Switch::On) || access.allow.is_some() })
    }

    /// How the other replicas are called: over TLS if this one takes nothing else, for so it is with all of them. It shows
    /// them the certificate that it has as a server.
    fn peer_tls(&self, peers: &Peers) -> Result<Option<TlsClient>, Problem> {
        const AUTHORITY: &str =
            "a PEM file with the authority of the replicas' certificates, as they talk over TLS too";
        let authority = self.replica.tls_peer_ca.as_deref();
        let Some(identity) = self.server.identity(authority.is_some())? else { return Ok(None) };
        let authority = needed(authority, "tls_peer_ca", AUTHORITY)?;
        if let Some((id, _)) = peers.iter().find(|(_, spot)| !has_certificate(spot.peers())) {
            let problem = Problem::wrong_use(format!(
                "replica {id} has no IP address and no name that a certificate could be for"
            ));
            return Err(problem.remedy("leave TLS out, or use TCP"));
        }
        TlsClient::new(Pem::File(authority), Some(identity), None).map(Some).map_err(Problem::wrong_use)
    }
}

/// The key in a file; what is white at its end doesn't count.
fn group_key(path: &Path) -> Result<GroupKey, Problem> {
    let secret = std::fs::read(path)
        .map_err(|error| Problem::wrong_use(format!("can't read the group's key: {error}")).at(path.display()))?;
    GroupKey::new(secret.trim_ascii_end()).map_err(|error| Problem::wrong_use(error).at(path.display()))
}

/// Whether a certificate can be for what it is reached by.
fn has_certificate(place: &Place) -> bool {
    matches!(place, Place::Address(Address::Tcp(_)) | Place::Host { .. })
}

fn alone(config: KvServiceConfig, ending: Ending) -> Result<(), Problem> {
    let said = format!("store of {}, and what was put since ({})", config.store.rows, config.store.directory.display());
    here::serve(&config.server.clone(), ending, || {
        let server = serve_kv(config)?;
        tell!("{said}");
        Ok(server)
    })
}

fn member(config: MemberConfig, ending: Ending) -> Result<(), Problem> {
    let facts = Facts::of(&config.server)?;
    let (_kept_open, events) = events::listen(ending)?;
    let mut said = format!("replica {} of {} ({})", config.id, config.peers, config.directory.display());
    if config.join {
        let own = config.peers.spot(config.id).map(ToString::to_string).unwrap_or_default();
        said += &format!("; unless it belongs to the group already, greenwave group add {}={own} adds it", config.id);
    }
    let member = serve_member(config).map_err(|error| here::problem(&error))?;
    tell!("{said}");
    let peer_addresses: Vec<_> = member.peer_addresses().iter().map(ToString::to_string).collect();
    tell!("the other replicas call it at {}", peer_addresses.join(","));
    facts.announce(&member.server);
    loop {
        match events.recv_timeout(WATCH) {
            Ok(Event::Drain) => {
                member.drain(ending.limit);
                return Ok(());
            }
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Event::Told { .. } | Event::Said { .. } | Event::Closed { .. }) => {}
            Err(RecvTimeoutError::Timeout) => {
                if let Some(cause) = member.failure() {
                    return Err(Problem::failure(format!("the replica has stopped: {cause}")));
                }
            }
        }
    }
}
