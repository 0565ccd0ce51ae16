//! A running group, as `group` and `tune` are told where it is.

use std::time::Duration;

use clap::Args;
use greenwave::{Address, ChannelConfig, Context};
use greenwave_services::proto::replicated::InspectReply;
use greenwave_services::replicated::client::{GroupClient, StoreClientError};

use crate::address::{self, Place};
use crate::problem::Problem;
use crate::secured::Secured;

/// Where the replicas of the first group on a machine are, by `greenwave cluster kv`.
pub(crate) const HERE: &str = "tcp://127.0.0.1:7401,tcp://127.0.0.1:7402,tcp://127.0.0.1:7403";

/// How to connect, and how long to try.
#[derive(Args)]
pub(crate) struct Reach {
    /// How soon it has to be done
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::quantity::some_span)]
    pub(crate) deadline: Duration,
    #[command(flatten)]
    pub(crate) secured: Secured,
}

/// A group that is asked: one deadline for all that is asked of it.
pub(crate) struct Group {
    pub(crate) client: GroupClient,
    pub(crate) context: Context,
    named: String,
}

/// Reads a replica: its address, or, as `serve kv --peers` has it, its number and its address.
pub(crate) fn replica(text: &str) -> Result<Place, String> {
    let address = match text.split_once('=') {
        Some((number, address)) if number.trim().parse::<u64>().is_ok_and(|number| number > 0) => address,
        _ => text,
    };
    address::place(address.trim())
}

impl Group {
    /// The group to which these replicas belong.
    pub(crate) fn new(peers: &[Place], reach: &Reach) -> Result<Self, Problem> {
        let first = peers.first();
        let first = first.ok_or_else(|| Problem::wrong_use("--peers names no replica").remedy("see --help"))?;
        let config: ChannelConfig = reach.secured.config("client", first)?;
        let addresses: Vec<Address> = peers.iter().map(|place| place.address.clone()).collect();
        let named = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let client = GroupClient::new(reach.secured.replicas(peers), config).map_err(Problem::wrong_use)?;
        Ok(Self { client, context: Context::with_deadline(reach.deadline), named })
    }

    /// Asks for something.
    pub(crate) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut GroupClient, &Context) -> Result<T, StoreClientError>,
    ) -> Result<T, Problem> {
        ask(&mut self.client, &self.context).map_err(|error| self.problem(&error))
    }

    /// What the leader knows of itself and the group.
    pub(crate) fn leader(&mut self) -> Result<InspectReply, Problem> {
        self.ask(GroupClient::inspect_leader)
    }

    /// What came of nothing, and what to do about it.
    pub(crate) fn problem(&self, error: &StoreClientError) -> Problem {
        match error {
            StoreClientError::Refused(_)
            | StoreClientError::Nobody
            | StoreClientError::Config(_)
            | StoreClientError::Place(_)
            | StoreClientError::Name(_) => Problem::wrong_use(error),
            StoreClientError::Unavailable { .. } => Problem::failure(error)
                .at(&self.named)
                .remedy("see that a majority of the replicas runs, name them with --peers, or give it more --deadline"),
            StoreClientError::Uncertain { .. } => Problem::failure(error)
                .at(&self.named)
                .remedy("see with `greenwave group status`, or give it more --deadline"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_named_with_its_number_or_without() {
        for text in ["tcp://127.0.0.1:7401", "1=tcp://127.0.0.1:7401", "10= 127.0.0.1:7401"] {
            assert_eq!(replica(text).unwrap().address.to_string(), "tcp://127.0.0.1:7401", "{text}");
        }
        for text in ["", "1=", "0=127.0.0.1:1", "a=127.0.0.1:1", "1"] {
            assert!(replica(text).is_err(), "{text}");
        }
    }
}
