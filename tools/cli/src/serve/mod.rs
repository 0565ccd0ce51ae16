//! `greenwave serve`: the three services, as one command each or process by process.
//!
//! `serve search` and `serve recommend` derive what they need from a directory and start the processes of the service.
//! `serve search-shard`, `serve search-aggregator` and `serve recommend-stage` are those processes, for when they are
//! to run on machines of their own. `serve kv` is one process, with a store of its own or as a replica of a group;
//! `cluster kv` runs all replicas of one.
//!
//! Every process prints a line when it listens, and ends on SIGTERM and SIGINT once it has finished what it accepted.

mod access;
mod bounds;
mod children;
mod cluster;
mod events;
mod file;
mod grpc;
mod here;
mod indexing;
mod instance;
mod kv;
mod recommend;
mod search;
mod server;
mod settings;
mod shares;
mod values;

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use greenwave_services::recommend::serve_stage;
use greenwave_services::search::{serve_aggregator, serve_shard};
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
pub(crate) use cluster::Cluster;
pub(crate) use file::{variable_of, with_variables};
pub(crate) use indexing::Indexing;
use settings::{AggregatorSettings, KvSettings, RecommendSettings, SearchSettings, ShardSettings, StageSettings};

/// Serve full-text search, recommendations, or a store of keys and values
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// A TOML file of settings: the options' names are its keys, with underscores for hyphens. Each option can be a
    /// variable too, such as GREENWAVE_MAX_QUEUE
    #[arg(long, value_name = "FILE", global = true, help_heading = "Process")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    service: Service,
}

/// A process that serves, with all that it was told. A process that starts another hands it over in this form.
#[derive(Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Service {
    Search(Box<SearchSettings>),
    Recommend(Box<RecommendSettings>),
    Kv(Box<KvSettings>),
    SearchShard(Box<ShardSettings>),
    SearchAggregator(Box<AggregatorSettings>),
    RecommendStage(Box<StageSettings>),
    /// Serve what standard input says, for the process at its other end
    #[command(hide = true)]
    #[serde(skip)]
    Child,
}

const EXAMPLES: &str = "\
Each option can also be a variable of the environment or a key of the file that --config names:
  --max-queue 100, or GREENWAVE_MAX_QUEUE=100, or max_queue = 100
An option counts more than a variable, and a variable more than the file.

Examples:
  greenwave serve search --dir ~/notes
  greenwave serve recommend --listen tcp://127.0.0.1:0 --order edf
  GREENWAVE_ORDER=edf greenwave serve kv --config kv.toml
  greenwave serve kv --listen tcp://0.0.0.0:7400 --tls-cert server.pem --tls-key server.key --tls-client-ca ca.pem \
      --allow who-may-call.txt";

impl Serve {
    /// Serves until it is told to end.
    pub(crate) fn run(self) -> Result<(), Problem> {
        match (self.service, self.config) {
            (Service::Child, _) => {
                let mut said = String::new();
                io::stdin().read_line(&mut said).map_err(|error| Problem::failure(error).at("standard input"))?;
                let service: Service = serde_json::from_str(&said).map_err(Problem::wrong_use)?;
                service.run(true)
            }
            (service, Some(file)) => file::add(&file, &service)?.run(false),
            (service, None) => service.run(false),
        }
    }
}

impl Service {
    /// Serves until it is told to end, by its standard input too if that is another process's.
    fn run(self, follow_stdin: bool) -> Result<(), Problem> {
        match self {
            Self::Search(said) => search::run(&said),
            Self::Recommend(said) => recommend::run(&said),
            Self::Kv(said) => kv::run(&said, follow_stdin),
            Self::SearchShard(said) => {
                let config = said.config()?;
                here::serve(&config.server.clone(), said.server.ending(follow_stdin), || serve_shard(config))
            }
            Self::SearchAggregator(said) => {
                let config = said.config()?;
                here::serve(&config.server.clone(), said.server.ending(follow_stdin), || serve_aggregator(config))
            }
            Self::RecommendStage(said) => {
                let config = said.config()?;
                here::serve(&config.server.clone(), said.server.ending(follow_stdin), || serve_stage(config))
            }
            Self::Child => Err(Problem::wrong_use("no process hands over to another what it was handed")),
        }
    }
}

/// What has to be said by somebody.
fn needed<T>(said: Option<T>, key: &str, allowed: &str) -> Result<T, Problem> {
    said.ok_or_else(|| {
        Problem::wrong_use(format!("setting `{key}` is missing; allowed: {allowed}")).remedy("see --help")
    })
}
