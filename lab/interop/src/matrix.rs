//! All clients and all features, one after another, and then our client at all servers.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use greenwave::{Address, ServerConfig, WebSettings};

use crate::Wanted;
use crate::at::At;
use crate::calling;
use crate::certificates::Certificates;
use crate::clients::{self, CLIENTS, Client};
use crate::features::{self, expected};
use crate::record::{Column, Entry, Outcome, Record};
use crate::servers::{SERVERS, Server, identity};
use crate::service;
use crate::tools::{Found, Missing, Tool};

/// Runs what is wanted, prints it, writes it, and fails if something failed that isn't known to.
pub(crate) fn run(wanted: &Wanted) -> anyhow::Result<()> {
    check_names(wanted)?;
    let certificates = Certificates::write()?;
    let mut record = Record::new();
    for client in CLIENTS.iter().filter(|client| is_wanted(&wanted.clients, client.name)) {
        let column = if client.is_secured { Column::ClientSecured } else { Column::Client };
        if let Some(found) = found(client.name, column, client.tool, wanted, &mut record) {
            let secured = client.is_secured.then_some(&certificates);
            try_all(client, &found, secured, wanted, &mut record)?;
        }
    }
    for server in SERVERS.iter().filter(|server| is_wanted(&wanted.clients, server.name)) {
        let column = if server.is_secured { Column::ServerSecured } else { Column::Server };
        if let Some(found) = found(server.name, column, server.tool, wanted, &mut record) {
            let secured = server.is_secured.then_some(&certificates);
            call_all(server, &found, secured, wanted, &mut record)?;
        }
    }
    record.tables().iter().for_each(|table| println!("{table}"));
    record.remarks().iter().for_each(|line| println!("{line}"));
    println!("wrote {}", record.write()?.display());
    let wrong: Vec<&Entry> = record.unexpected().collect();
    ensure!(wrong.is_empty(), "{} of {} tries ended otherwise than expected", wrong.len(), record.entries.len());
    Ok(())
}

fn is_wanted(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|it| it == name)
}

fn check_names(wanted: &Wanted) -> anyhow::Result<()> {
    let names: Vec<&str> =
        CLIENTS.iter().map(|client| client.name).chain(SERVERS.iter().map(|server| server.name)).collect();
    if let Some(name) = wanted.clients.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("no client is called `{name}`, nor a server; there are {}", names.join(", "));
    }
    if let Some(name) = wanted.features.iter().find(|name| features::names().all(|feature| feature != *name)) {
        bail!("no feature is called `{name}`; there are {}", features::names().collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

/// What a column is run by, if it can be had; the record says which version, or why not.
fn found(name: &str, column: Column, tool: Result<Tool, &str>, wanted: &Wanted, record: &mut Record) -> Option<Found> {
    eprintln!("runs: {name}");
    let found: Result<Found, Missing> = match tool {
        Ok(tool) => tool.find(wanted.offline),
        Err(version) => Ok(Found { path: PathBuf::new(), version: version.to_owned() }),
    };
    match found {
        Ok(found) => {
            record.version(name, column, &found.version);
            Some(found)
        }
        Err(why) => {
            record.missing(name, column, &why);
            None
        }
    }
}

/// Those of the features that are wanted.
fn chosen(features: &[&'static str], wanted: &Wanted) -> Vec<&'static str> {
    features.iter().copied().filter(|feature| is_wanted(&wanted.features, feature)).collect()
}

/// Has a client try what it can against a server of its own: what one does to it is not another's trouble.
fn try_all(
    client: &Client,
    found: &Found,
    secured: Option<&Certificates>,
    wanted: &Wanted,
    record: &mut Record,
) -> anyhow::Result<()> {
    let features = chosen(client.features, wanted);
    if features.is_empty() && !(client.features.is_empty() && wanted.features.is_empty()) {
        return Ok(());
    }
    // Any page may call: a browser's has no origin here.
    let config = ServerConfig::default().web(WebSettings::new().origins(["*"])).tls(secured.map(identity).transpose()?);
    let server = service::start(config.listen(["tcp://127.0.0.1:0".parse()?]))?;
    let Some(Address::Tcp(socket)) = server.addresses().first().cloned() else { bail!("the server has no socket") };
    let at = At { socket, authority: secured.map(|it| it.authority.clone()) };
    note(client.name, (client.run)(found, &at, &features), record);
    let counters = server.counters();
    ensure!(counters.accepted > 0, "{} has never connected", client.name);
    server.shutdown();
    Ok(())
}

/// Has our client try what it can at a server.
fn call_all(
    server: &Server,
    found: &Found,
    secured: Option<&Certificates>,
    wanted: &Wanted,
    record: &mut Record,
) -> anyhow::Result<()> {
    let features = chosen(server.features, wanted);
    if features.is_empty() {
        return Ok(());
    }
    let running = (server.start)(found, secured)?;
    let at = At { socket: running.socket, authority: secured.map(|it| it.authority.clone()) };
    note(server.name, calling::run(&at, &features)?, record);
    Ok(())
}

fn note(name: &str, outcomes: Vec<clients::Outcome>, record: &mut Record) {
    for (feature, outcome) in outcomes {
        let outcome = match (outcome, expected(name, &feature)) {
            (Ok(()), None) => Outcome::Ok,
            (Ok(()), Some(_)) => Outcome::WorksAgain,
            (Err(why), Some(known)) => Outcome::Known { why, known: known.to_owned() },
            (Err(why), None) => Outcome::Fails { why },
        };
        record.add(name, &feature, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What needs no program of others is tried with each run of the tests.
    #[test]
    fn our_client_can_do_all_at_servers_in_this_process() {
        let certificates = Certificates::write().unwrap();
        let here = SERVERS.iter().filter(|server| server.tool.is_err());
        let mut record = Record::new();
        for server in here {
            let secured = server.is_secured.then_some(&certificates);
            let found = Found { path: PathBuf::new(), version: String::new() };
            call_all(server, &found, secured, &Wanted::default(), &mut record).unwrap();
        }
        assert!(record.entries.len() >= 3 * 20, "{} tries", record.entries.len());
        assert_eq!(record.unexpected().collect::<Vec<_>>(), Vec::<&Entry>::new());
    }
}
