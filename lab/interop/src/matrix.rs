//! All clients and all features, one after another.

use anyhow::{bail, ensure};
use greenwave::{Address, ServerConfig, WebSettings};

use crate::Wanted;
use crate::clients::{CLIENTS, Client};
use crate::features::{self, expected};
use crate::record::{Entry, Outcome, Record};
use crate::service;
use crate::tools::Found;

/// Runs what is wanted, prints it, writes it, and fails if something failed that isn't known to.
pub(crate) fn run(wanted: &Wanted) -> anyhow::Result<()> {
    let clients = choose(wanted)?;
    let mut record = Record::new();
    for client in clients {
        eprintln!("runs: {}", client.name);
        match client.tool.map_err(str::to_owned).map(|tool| tool.find(wanted.offline)) {
            Ok(Ok(found)) => {
                record.version(client.name, &found.version);
                try_all(client, &found, wanted, &mut record)?;
            }
            Ok(Err(why)) => record.missing(client.name, &why),
            Err(version) => {
                record.version(client.name, &version);
                let found = Found { path: std::path::PathBuf::new(), version };
                try_all(client, &found, wanted, &mut record)?;
            }
        }
    }
    println!("{}", record.table());
    record.remarks().iter().for_each(|line| println!("{line}"));
    println!("wrote {}", record.write()?.display());
    let wrong: Vec<&Entry> = record.unexpected().collect();
    ensure!(wrong.is_empty(), "{} of {} tries ended otherwise than expected", wrong.len(), record.entries.len());
    Ok(())
}

fn choose(wanted: &Wanted) -> anyhow::Result<Vec<&'static Client>> {
    static ALL: &[Client] = &CLIENTS;
    if let Some(name) = wanted.clients.iter().find(|name| ALL.iter().all(|client| client.name != *name)) {
        let names: Vec<&str> = ALL.iter().map(|client| client.name).collect();
        bail!("no client is called `{name}`; there are {}", names.join(", "));
    }
    if let Some(name) = wanted.features.iter().find(|name| features::names().all(|feature| feature != *name)) {
        bail!("no feature is called `{name}`; there are {}", features::names().collect::<Vec<_>>().join(", "));
    }
    let is_wanted = |client: &&Client| wanted.clients.is_empty() || wanted.clients.iter().any(|it| it == client.name);
    Ok(ALL.iter().filter(is_wanted).collect())
}

/// Has a client try what it can against a server of its own: what one does to it is not another's trouble.
fn try_all(client: &Client, found: &Found, wanted: &Wanted, record: &mut Record) -> anyhow::Result<()> {
    let is_wanted = |feature: &&str| wanted.features.is_empty() || wanted.features.iter().any(|it| it == feature);
    let features: Vec<&'static str> = client.features.iter().copied().filter(|feature| is_wanted(feature)).collect();
    if features.is_empty() && !(client.features.is_empty() && wanted.features.is_empty()) {
        return Ok(());
    }
    // Any page may call: a browser's has no origin here.
    let config = ServerConfig::default().web(WebSettings::new().origins(["*"]));
    let server = service::start(config.listen(["tcp://127.0.0.1:0".parse()?]))?;
    let Some(Address::Tcp(socket)) = server.addresses().first().cloned() else { bail!("the server has no socket") };
    let outcomes = (client.run)(found, socket, &features);
    for (feature, outcome) in outcomes {
        let outcome = match (outcome, expected(client.name, &feature)) {
            (Ok(()), None) => Outcome::Ok,
            (Ok(()), Some(_)) => Outcome::WorksAgain,
            (Err(why), Some(known)) => Outcome::Known { why, known: known.to_owned() },
            (Err(why), None) => Outcome::Fails { why },
        };
        record.add(client.name, &feature, outcome);
    }
    let counters = server.counters();
    ensure!(counters.accepted > 0, "{} has never connected", client.name);
    server.shutdown();
    Ok(())
}
