//! `greenwave group`: who belongs to a running group, and who leads it.
//!
//! What is asked for is done by the leader, which is found; and it is read back before anything is said to be done.

mod membership;
mod status;

use clap::{Args, Subcommand};

use crate::address::Place;
use crate::problem::Problem;
use crate::replicas::{self, HERE, Reach};

/// Look into a running group of replicas, add and remove some, hand over the lead
#[derive(Args)]
#[command(after_help = "\
Examples:
  greenwave group status
  greenwave serve kv --join --id 4 --data /var/lib/kv --peers 1=tcp://10.0.0.1:7400,4=tcp://10.0.0.4:7400
  greenwave group add 4=tcp://10.0.0.4:7400 --peers 1=tcp://10.0.0.1:7400,2=tcp://10.0.0.2:7400
  greenwave group transfer 4 --peers tcp://10.0.0.1:7400
  greenwave group remove 1 --peers tcp://10.0.0.1:7400")]
pub(crate) struct Group {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Status(Status),
    Add(Add),
    Remove(Remove),
    Transfer(Transfer),
}

/// Say who belongs to the group, who leads, and how far each is
#[derive(Args)]
struct Status {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: At,
}

/// Add a replica: it catches up first, and votes once it has
#[derive(Args)]
#[command(after_help = "\
The new replica is one that runs already, started with `greenwave serve kv --join` and an empty directory: it is asked who it
is, and the group takes that one in and no other. One that has lost its disk is removed first. Until it has caught up, by a snapshot and what came since, it follows and doesn't vote, so that the group never waits for it. If that takes longer
than --deadline, the same command goes on where it was.

Examples:
  greenwave group add 4=tcp://10.0.0.4:7400 --peers tcp://10.0.0.1:7400,tcp://10.0.0.2:7400 --deadline 10m")]
struct Add {
    /// Its number, which no replica of the group has, and where the others reach it
    #[arg(value_name = "N=ADDRESS")]
    replica: String,
    /// Leave it at following: it has everything, and doesn't vote
    #[arg(long)]
    learner: bool,
    #[command(flatten)]
    at: At,
}

/// Remove a replica, dead or alive; a leader hands over its lead first
#[derive(Args)]
#[command(after_help = "\
Its process doesn't end by that: stop it afterwards. What is in its directory counts for nothing any more: empty it before the
replica is added again. One that lost its disk is told so by a message, and may go on running until it is added.

Examples:
  greenwave group remove 2 --peers tcp://10.0.0.1:7400,tcp://10.0.0.3:7400")]
struct Remove {
    /// Its number
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    replica: u64,
    #[command(flatten)]
    at: At,
}

/// Hand over the lead, to the voter that has most of the log unless another one is named
#[derive(Args)]
#[command(after_help = "\
Examples:
  greenwave group transfer
  greenwave group transfer 2 --peers tcp://10.0.0.1:7400,tcp://10.0.0.3:7400")]
struct Transfer {
    /// Its number
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    #[command(flatten)]
    at: At,
}

/// Where the group is.
#[derive(Args)]
struct At {
    /// Replicas of the group, best all of them, with commas between: addresses, or as in `serve kv --peers`
    #[arg(long, value_name = "PEERS", value_delimiter = ',', default_value = HERE, value_parser = replicas::replica)]
    peers: Vec<Place>,
    #[command(flatten)]
    reach: Reach,
}

impl Group {
    /// Does what was asked for.
    pub(crate) fn run(self) -> Result<(), Problem> {
        match self.command {
            Command::Status(status) => status::show(&mut status.at.group()?, status.json),
            Command::Add(add) => membership::add(&mut add.at.group()?, &add.replica, add.learner),
            Command::Remove(remove) => membership::remove(&mut remove.at.group()?, remove.replica),
            Command::Transfer(transfer) => membership::transfer(&mut transfer.at.group()?, transfer.to),
        }
    }
}

impl At {
    fn group(&self) -> Result<replicas::Group, Problem> {
        replicas::Group::new(&self.peers, &self.reach)
    }
}
