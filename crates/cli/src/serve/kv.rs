//! `greenwave serve kv`: one process with a store of its own, or one replica of a group.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use greenwave_services::kv::{KvServiceConfig, serve_kv};
use greenwave_services::replicated::member::{MemberConfig, serve_member};

use super::Keys;
use super::events::{self, Ending, Event};
use super::flags::{KvFlags, gather_all};
use super::here::{self, Facts};
use crate::data;
use crate::problem::Problem;

/// How soon it is noticed that a replica has stopped by itself.
const WATCH: Duration = Duration::from_millis(100);

/// Serves until it is told to end.
pub(super) fn run(flags: &KvFlags) -> Result<(), Problem> {
    let (keys, ending) = gather_all(flags, &flags.run)?;
    if ["peers", "id", "group"].iter().any(|key| keys.has(key)) { member(&keys, ending) } else { alone(keys, ending) }
}

fn alone(mut keys: Keys, ending: Ending) -> Result<(), Problem> {
    keys.put_default("listen", "tcp://127.0.0.1:7400");
    keys.put_default("data", "");
    let mut config = keys.read(KvServiceConfig::from_settings)?;
    let store = &mut config.store;
    if store.directory.as_os_str().is_empty() {
        store.directory = data::store_of(store.rows)?;
    }
    let said = format!("store of {}, and what was put since ({})", store.rows, store.directory.display());
    here::serve(&config.server.clone(), ending, || {
        let server = serve_kv(config)?;
        tell!("{said}");
        Ok(server)
    })
}

fn member(keys: &Keys, ending: Ending) -> Result<(), Problem> {
    let config = keys.read(MemberConfig::from_settings)?;
    let facts = Facts::of(&config.server)?;
    let (_kept_open, events) = events::listen(ending)?;
    let said = format!("replica {} of {} ({})", config.id, config.peers, config.directory.display());
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
