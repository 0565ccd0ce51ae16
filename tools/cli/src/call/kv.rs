//! `greenwave call kv`: the replicated store, by a client that finds the leader.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, Subcommand};
use greenwave::Context;
use greenwave_services::replicated::client::{Freshness, GroupClient, StoreClientError, Swapped};

use crate::address::{self, Place};
use crate::problem::Problem;
use crate::secured::Secured;

/// Read and write a replicated store; the leader of its group is found
#[derive(Args)]
#[command(after_help = "\
A write that is sent again, because a replica died or lost the lead, is applied once. A read sees every write that was
acknowledged before it began, unless it is --stale.

Examples:
  greenwave cluster kv --data /tmp/group
  greenwave call kv put ada lovelace
  greenwave call kv get ada
  greenwave call kv cas ada --expect lovelace byron
  greenwave call kv range a c --limit 10
  greenwave call kv delete ada --to tcp://10.0.0.1:7400,tcp://10.0.0.2:7400 --deadline 10s
  greenwave call kv status")]
pub(super) struct Kv {
    #[command(subcommand)]
    request: Request,
}

#[derive(Subcommand)]
enum Request {
    /// Write a row
    Put {
        /// Its key, 1 to 1024 bytes
        key: String,
        /// Its value, up to 1 MiB
        value: String,
        #[command(flatten)]
        group: Group,
    },
    /// Print the value of a key; an error if there is none
    Get {
        /// The key
        key: String,
        /// Take what any replica has, which may be old
        #[arg(long)]
        stale: bool,
        #[command(flatten)]
        group: Group,
    },
    /// Remove a row
    Delete {
        /// Its key
        key: String,
        #[command(flatten)]
        group: Group,
    },
    /// Write a row if its value is as expected; an error if it isn't
    Cas {
        /// Its key
        key: String,
        /// The value that it gets; without, the row is removed
        value: Option<String>,
        /// The value that it has to have; without, there must be no such row
        #[arg(long, value_name = "VALUE")]
        expect: Option<String>,
        #[command(flatten)]
        group: Group,
    },
    /// Print rows in the order of their keys, a key, a tab and a value a line
    Range {
        /// The first key that may be among them
        #[arg(default_value = "", hide_default_value = true)]
        from: String,
        /// The first key that is not among them any more
        before: Option<String>,
        /// How many at most, 1 to 10000
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Take what any replica has, which may be old
        #[arg(long)]
        stale: bool,
        #[command(flatten)]
        group: Group,
    },
    /// Print what each replica knows: who leads, and how far it is
    Status {
        #[command(flatten)]
        group: Group,
    },
}

/// Where the group is, and how long it has.
#[derive(Args)]
struct Group {
    /// Replicas of the group, best all of them, with commas between
    #[arg(
        long,
        value_name = "ADDRESSES",
        value_delimiter = ',',
        default_value = "tcp://127.0.0.1:7401,tcp://127.0.0.1:7402,tcp://127.0.0.1:7403",
        value_parser = address::place
    )]
    to: Vec<Place>,
    /// How soon it has to be done
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    deadline: Duration,
    #[command(flatten)]
    secured: Secured,
}

impl Kv {
    /// Asks, and prints the answer.
    pub(super) fn run(self) -> Result<(), Problem> {
        match self.request {
            Request::Put { key, value, group } => {
                group.ask(|client, context| client.put(context, key.as_bytes(), value.as_bytes()))
            }
            Request::Get { key, stale, group } => {
                match group.ask(|client, context| client.get(context, key.as_bytes(), freshness(stale)))? {
                    Some(value) => print(&[&value, b"\n"]),
                    None => Err(none(&key)),
                }
            }
            Request::Delete { key, group } => {
                let found = group.ask(|client, context| client.delete(context, key.as_bytes()))?;
                if !found {
                    tell!("there was no row with the key {key:?}");
                }
                Ok(())
            }
            Request::Cas { key, value, expect, group } => {
                let (old, new) = (expect.as_deref().map(str::as_bytes), value.as_deref().map(str::as_bytes));
                match group.ask(|client, context| client.compare_and_swap(context, key.as_bytes(), old, new))? {
                    Swapped::Yes => Ok(()),
                    Swapped::No { found: Some(found) } => {
                        let found = String::from_utf8_lossy(&found);
                        let problem = Problem::failure(format!("the row with the key {key:?} is {found:?}"));
                        Err(problem.remedy("nothing was written; say what it is with --expect"))
                    }
                    Swapped::No { found: None } => Err(none(&key)),
                }
            }
            Request::Range { from, before, limit, stale, group } => {
                let (from, to) = (from.as_bytes(), before.as_deref().map(str::as_bytes));
                let range = |client: &mut GroupClient, context: &Context| {
                    client.range(context, from, to, limit, freshness(stale))
                };
                let found = group.ask(range)?;
                found.rows.iter().try_for_each(|(key, value)| print(&[key, b"\t", value, b"\n"]))?;
                if found.more {
                    tell!("there are more; begin after the last key, or raise --limit");
                }
                Ok(())
            }
            Request::Status { group } => group.status(),
        }
    }
}

impl Group {
    fn client(&self) -> Result<GroupClient, Problem> {
        let first = self.to.first().ok_or_else(|| Problem::wrong_use("--to names no replica").remedy("see --help"))?;
        GroupClient::new(self.secured.replicas(&self.to), self.secured.config("client", first)?)
            .map_err(Problem::wrong_use)
    }

    fn ask<T>(
        &self,
        ask: impl FnOnce(&mut GroupClient, &Context) -> Result<T, StoreClientError>,
    ) -> Result<T, Problem> {
        let context = Context::with_deadline(self.deadline);
        ask(&mut self.client()?, &context).map_err(|error| match &error {
            StoreClientError::Refused(_)
            | StoreClientError::Nobody
            | StoreClientError::Config(_)
            | StoreClientError::Place(_)
            | StoreClientError::Name(_) => Problem::wrong_use(error),
            StoreClientError::Unavailable { .. } => {
                let remedy =
                    "see that a majority of the replicas runs, name them with --to, or give it more --deadline";
                Problem::failure(error).at(self.named()).remedy(remedy)
            }
            StoreClientError::Uncertain { .. } => {
                Problem::failure(error).at(self.named()).remedy("read the row to see, or give it more --deadline")
            }
        })
    }

    fn status(&self) -> Result<(), Problem> {
        let told = self.client()?.describe(&Context::with_deadline(self.deadline));
        for (address, told) in told {
            let line = match told {
                Ok(told) => {
                    let leader = match told.leader {
                        0 => "nobody leads".to_owned(),
                        leader if leader == told.replica => "leads".to_owned(),
                        leader => format!("follows replica {leader} ({})", told.leader_address),
                    };
                    format!("replica {} {address} {leader}, term {}, applied {}", told.replica, told.term, told.applied)
                }
                Err(status) => format!("replica ? {address} doesn't answer: {status}"),
            };
            print(&[line.as_bytes(), b"\n"])?;
        }
        Ok(())
    }

    fn named(&self) -> String {
        self.to.iter().map(|place| place.address.to_string()).collect::<Vec<_>>().join(",")
    }
}

fn freshness(stale: bool) -> Freshness {
    if stale { Freshness::Stale } else { Freshness::Linearizable }
}

fn none(key: &str) -> Problem {
    Problem::failure(format!("there is no row with the key {key:?}")).remedy("write it with `greenwave call kv put`")
}

/// Prints bytes as they are; a reader that went away wanted no more.
fn print(parts: &[&[u8]]) -> Result<(), Problem> {
    match io::stdout().lock().write_all(&parts.concat()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Problem::failure(error).at("standard output")),
        _ => Ok(()),
    }
}
