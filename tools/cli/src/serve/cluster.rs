//! `greenwave cluster`: all replicas of a group on this machine, a process each.
//!
//! They end when this process does, however that comes about. A replica that dies is reported and not started again:
//! the others go on while they are a majority.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use greenwave::Address;
use greenwave_services::replicated::peers::Peers;

use super::Service;
use super::children::Children;
use super::events::{self, Ending};
use super::here::tell;
use super::server::ServerSettings;
use super::settings::{KvSettings, ReplicaSettings};
use super::values::Word;
use crate::problem::Problem;

/// Run a group of replicas on this machine, a process each
#[derive(Args)]
#[command(after_help = "\
Examples:
  greenwave cluster kv --data /tmp/group
  greenwave call kv put ada lovelace")]
pub(crate) struct Cluster {
    #[command(subcommand)]
    group: Group,
}

#[derive(Subcommand)]
enum Group {
    Kv(KvCluster),
}

/// Run a replicated store of keys and values
#[derive(Args)]
#[command(after_help = "\
Each replica keeps what it has in a directory of its own, DIR/1, DIR/2, ..., and is there again at the next start.

Examples:
  greenwave cluster kv --data /tmp/group
  greenwave cluster kv --nodes 5 --data /tmp/group5 --listen tcp://127.0.0.1:7501
  greenwave call kv put ada lovelace --to tcp://127.0.0.1:7501,tcp://127.0.0.1:7502")]
struct KvCluster {
    /// How many replicas; a majority of them has to run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Where they keep what they have
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where the first one listens; the others do at the ports after it
    #[arg(long, value_name = "ADDRESS", default_value = "tcp://127.0.0.1:7401", value_parser = crate::address::parse)]
    listen: Address,
    /// How long what was accepted may take to be finished at the end
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    drain: Duration,
}

impl Cluster {
    /// Runs the group until the process is told to end.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let Group::Kv(cluster) = self.group;
        cluster.run()
    }
}

impl KvCluster {
    fn run(self) -> Result<(), Problem> {
        let addresses = self.addresses()?;
        let (sender, events) = events::listen(Ending { limit: self.drain, follow_stdin: false })?;
        let mut children = Children::new(sender)?;
        let peers = Peers::new((1..).zip(addresses.iter().cloned())).map_err(Problem::wrong_use)?;
        for id in 1..=addresses.len() {
            let replica =
                ReplicaSettings { id: Some(id as u64), peers: Some(Word(peers.clone())), ..ReplicaSettings::default() };
            let server = ServerSettings { drain: Some(Word(self.drain.into())), ..ServerSettings::default() };
            let data = Some(self.data.join(id.to_string()));
            let said = KvSettings { data, replica, server, ..KvSettings::default() };
            children.start(&format!("replica-{id}"), &Service::Kv(Box::new(said)))?;
        }
        let Some(listening) = children.await_listening(addresses.len(), &events)? else { return Ok(()) };
        listening.iter().for_each(|replica| tell(&replica.line));
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        tell!("{} replicas; try: greenwave call kv put ada lovelace --to {}", addresses.len(), addresses.join(","));
        let mut left = addresses.len();
        let drain = children.watch(&events, |problem| {
            left -= 1;
            if left == 0 {
                return Err(problem.remedy("no replica is left; start the group again"));
            }
            let enough = left > addresses.len() / 2;
            let how = if enough { "a majority, so they go on" } else { "no majority: nothing can be written" };
            tell!("warning: {problem}; {left} of {} are left, {how}", addresses.len());
            Ok(())
        })?;
        if drain {
            children.drain(0..addresses.len(), self.drain * 2, &events);
        }
        Ok(())
    }

    /// Where each of them listens.
    fn addresses(&self) -> Result<Vec<Address>, Problem> {
        let Address::Tcp(first) = &self.listen else {
            let problem = Problem::wrong_use(format!("{} has no port", self.listen));
            return Err(problem.remedy("--listen takes an address such as tcp://127.0.0.1:7401"));
        };
        let port = |at: u16| first.port().checked_add(at).filter(|_| first.port() > 0);
        let address = |at| port(at).map(|port| Address::Tcp((first.ip(), port).into()));
        let addresses: Option<Vec<_>> = (0..self.nodes).map(address).collect();
        addresses.ok_or_else(|| {
            let problem = Problem::wrong_use(format!("there are no {} ports from {} on", self.nodes, first.port()));
            problem.remedy("--listen takes an address such as tcp://127.0.0.1:7401")
        })
    }
}
