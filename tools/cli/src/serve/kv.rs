//! `greenwave serve kv`: one process with a store of its own, or one replica of a group.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use greenwave::Address;
use greenwave::tls::{Pem, TlsClient};
use greenwave_kv::{KvConfig, Rows};
use greenwave_policy::replication::Setting;
use greenwave_services::kv::{KvServiceConfig, serve_kv};
use greenwave_services::replicated::member::{MemberConfig, serve_member};
use greenwave_services::replicated::peers::{Peers, Place};

use super::events::{self, Ending, Event};
use super::here::{self, Facts};
use super::needed;
use super::server::{ServerSettings, usual};
use super::settings::{KvSettings, ReplicaSettings, RowsSettings};
use super::values::{Count, Switch, Word};
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
        // Who is admitted is the replica's to decide, unless it is said.
        let server = ServerSettings { admission: self.server.admission.or(Some(Switch::Off)), ..self.server.clone() };
        let usual = MemberConfig::new(id, peers, directory).map_err(Problem::wrong_use)?;
        Ok(MemberConfig {
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

    /// How the other replicas are called: over TLS if this one takes nothing else, for so it is with all of them. It shows
    /// them the certificate that it has as a server.
    fn peer_tls(&self, peers: &Peers) -> Result<Option<TlsClient>, Problem> {
        const AUTHORITY: &str =
            "a PEM file with the authority of the replicas' certificates, as they talk over TLS too";
        let authority = self.replica.tls_peer_ca.as_deref();
        let Some(identity) = self.server.identity(authority.is_some())? else { return Ok(None) };
        let authority = needed(authority, "tls_peer_ca", AUTHORITY)?;
        if let Some((id, _)) = peers.iter().find(|(_, place)| !has_certificate(place)) {
            let problem = Problem::wrong_use(format!(
                "replica {id} has no IP address and no name that a certificate could be for"
            ));
            return Err(problem.remedy("leave TLS out, or use TCP"));
        }
        TlsClient::new(Pem::File(authority), Some(identity), None).map(Some).map_err(Problem::wrong_use)
    }
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
        let own = config.peers.place(config.id).map(ToString::to_string).unwrap_or_default();
        said += &format!("; unless it belongs to the group already, greenwave group add {}={own} adds it", config.id);
    }
    let member = serve_member(config).map_err(|error| here::problem(&error))?;
    tell!("{said}");
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
