//! `greenwave serve kv`: one process with a store of its own.

use greenwave_services::kv::{KvServiceConfig, serve_kv};

use super::flags::{KvFlags, gather};
use super::here;
use crate::data;
use crate::problem::Problem;

/// Serves until it is told to end.
pub(super) fn run(flags: &KvFlags) -> Result<(), Problem> {
    let (mut keys, ending) = gather(flags, &flags.run, "tcp://127.0.0.1:7400")?;
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
